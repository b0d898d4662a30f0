"""What the README shows: the seven scenarios with 20 seeds (a golden CSV file, the table, the figure), and commands.

`python -m goodput.results` writes them all from a fresh run; tests compare them with another.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from goodput.experiment import compare, experiment
from goodput.scenario import SEVEN, load_scenario
from goodput.text import comparison_text

ROOT = Path(__file__).parents[1]
CSV = ROOT / "data" / "results" / "seven_scenarios.csv"
FIGURE = CSV.with_suffix(".png")
README = ROOT / "README.md"
BEGIN, END = "<!-- seven scenarios: begin (made by `make results`) -->", "<!-- seven scenarios: end -->"
CONSOLE = re.compile(r"```console\n\$ goodput (.*?)\n(.*?)```", re.DOTALL)
SEEDS = 20
DIGITS = 6  # what a result keeps: more than its interval, less than the last bits of a machine


def seven_scenarios(seeds: int = SEEDS) -> pd.DataFrame:
    """Return `compare` of the seven scenarios, rounded to six decimal places."""
    return compare(experiment([load_scenario(name) for name in SEVEN], seeds)).round(DIGITS)


def with_table(readme: str, table: pd.DataFrame) -> str:
    """Return the README's text with the table between its two marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{comparison_text(table, style='github')}\n\n{END}{after}"


def output_of(arguments: str) -> str:
    """Return what `goodput ARGUMENTS` prints on either stream, run from the top of the project."""
    command = [sys.executable, "-m", "goodput", *shlex.split(arguments)]
    with TemporaryDirectory() as folder:  # a store of its own: what is shown was played for it
        environment = {**os.environ, "GOODPUT_STORE": folder}
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def with_outputs(readme: str) -> str:
    """Return the README's text with what each `$ goodput ...` in it prints now."""
    return CONSOLE.sub(lambda block: f"```console\n$ goodput {block[1]}\n{output_of(block[1])}\n```", readme)


def write_results() -> None:
    """Write the CSV file, the figure, and the README's table and outputs."""
    from goodput.figures import draw_waste

    table = seven_scenarios()
    table.to_csv(CSV, index=False, lineterminator="\n")
    draw_waste(table).figure.savefig(FIGURE, dpi=110, bbox_inches="tight", metadata={"Software": None})
    README.write_text(with_outputs(with_table(README.read_text("utf-8"), table)), "utf-8")


if __name__ == "__main__":
    write_results()
