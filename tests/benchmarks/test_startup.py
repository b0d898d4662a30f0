"""How long until a command begins? Each as a process, against Python alone and against the import of pandas."""

import subprocess
import sys

import pytest
import typer

from goodput.cli import app
from goodput.logtext import write_log
from goodput.scenario import load_scenario
from goodput.simulate import simulate

COMMANDS = sorted(typer.main.get_command(app).commands)
# The least that can be asked of a command; LOG is a log of a simulated month. One that is not here: help alone.
LEAST = {
    "analyze": ["LOG"],
    "calibrate": ["LOG", "-o", "FITTED"],
    "checkpoint": ["--mtbi-hours", "24", "--write-minutes", "5"],
    "compare": ["baseline", "--seeds", "1", "--fresh"],
    "convert": ["LOG"],
    "replay": ["baseline", "LOG", "--seeds", "2"],
    "report": ["LOG", "-o", "PAGE"],
    "simulate": ["baseline"],
    "study": ["data/studies/what_moves_goodput.toml", "--design", "tornado", "--seeds", "2", "--fresh"],
    "sweep": ["baseline", "pool.spares", "6", "--seeds", "1", "--fresh"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    write_log(simulate(load_scenario("baseline"), 1), folder / "log.jsonl")
    names = {"LOG": "log.jsonl", "PAGE": "page.html", "FITTED": "fitted.toml"}
    return {word: str(folder / name) for word, name in names.items()}


def python(*arguments: str):
    """Return the work of starting Python with these arguments."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_start_up(bench, command, files):
    asked = python("-m", "goodput", command, "--help")
    bench.ratio(f"goodput {command} --help / python -c pass", asked, python("-c", "pass"), at_most=12, rounds=5)
    if command in LEAST:
        least = python("-m", "goodput", command, *(files.get(word, word) for word in LEAST[command]))
        bench.ratio(f"goodput {command}, least use / import pandas", least, python("-c", "import pandas"), rounds=3)


def test_compare_as_a_whole_process(bench):
    whole = python("-m", "goodput", "compare", "--seeds", "20", "--fresh")
    bench.ratio(
        "goodput compare --seeds 20, whole process / import pandas", whole, python("-c", "import pandas"), rounds=3
    )
