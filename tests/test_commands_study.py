"""From the shell: a study is played and its table printed; all results are one Parquet file, whole or not there."""

import json
import os
from functools import cache
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from goodput import commands_study
from goodput.sensitivity import run_study, storable, what_moves
from goodput.study import load_study
from goodput.study_text import study_json, study_text

STUDY = """base = "small.toml"
seeds = 2
design = "sobol"
samples = 8

[parameters]
pool.spares = [0, 8]
checkpoint.interval_minutes = [30, "daly"]
"""


@cache
def results():
    """Return the results of the study of `run`, whose folder is the one that a test is in."""
    return run_study(load_study("study.toml"))


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    """Return a function that runs the command line in a folder with a study: (exit code, output, errors)."""
    (tmp_path / "small.toml").write_text('base = "baseline"\nname = "small"\ndays = 4\n')
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return run


def test_study_prints_what_moves_goodput_and_stores_every_scenario(run):
    asked = load_study("study.toml")
    assert run("study", "study.toml", "-o", "out.parquet") == (0, study_text(asked, results()) + "\n", "")
    stored = storable(results()).astype({"moved": "str"})  # Parquet has no column of objects
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), stored, check_dtype=False)
    assert sorted(os.listdir()) == ["out.parquet", "small.toml", "study.toml"]
    assert len(results()) == 5 + 8 * 4


def test_the_table_is_in_the_order_of_what_moves_most_and_says_best_and_worst(run):
    text = run("study", "study.toml")[1]
    order = [line.split()[0] for line in text.splitlines() if line.startswith(("pool.", "checkpoint."))]
    assert order == what_moves(results())["parameter"].tolist()
    spread = results()[results()["role"].isin(["A", "B", "AB"])]["goodput"]
    assert f"Best of 32: goodput {100 * spread.max():.1f} %" in text
    assert f"Worst of 32: goodput {100 * spread.min():.1f} %" in text


def test_json_and_csv_carry_the_same_numbers(run):
    asked = load_study("study.toml")
    _, as_json, _ = run("study", "study.toml", "--format", "json")
    assert as_json == study_json(asked, results()) + "\n"
    data = json.loads(as_json)
    assert (data["design"], data["scenarios"], data["seeds"]) == ("sobol", 37, 2)
    _, as_csv, _ = run("study", "study.toml", "--format", "csv")
    table = pd.read_csv(StringIO(as_csv))
    for name in ("swing", "total", "first_low", "difference_from"):
        assert [row[name] for row in data["parameters"]] == pytest.approx(table[name].tolist())


def test_design_and_seeds_of_the_command_win_over_those_of_the_file(run):
    _, text, _ = run("study", "study.toml", "--design", "tornado", "--seeds", 3)
    assert text.startswith("study.toml: tornado, 2 parameters, 5 scenarios x 3 seeds\nsmall: goodput ")
    assert "first order" not in text and "Best of" not in text


def test_until_ci_says_how_many_seeds_were_needed_or_not_enough(run):
    _, text, _ = run("study", "study.toml", "--design", "tornado", "--seeds", 4, "--until-ci", "99pp")
    assert "4 seeds were needed for every 95 % interval of the difference to the first within ±99 points" in text
    _, text, _ = run("study", "study.toml", "--design", "tornado", "--until-ci", "0.001pp", "--most-seeds", 3)
    assert "3 seeds were not enough" in text and "5 scenarios x 3 seeds" in text


def test_what_breaks_off_leaves_the_file_of_before_and_nothing_aside(run, monkeypatch):
    Path("out.parquet").write_text("what was there")

    def broken_off(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands_study, "played", broken_off)
    code, out, _ = run("study", "study.toml", "-o", "out.parquet")
    assert code != 0 and out == ""
    assert Path("out.parquet").read_text() == "what was there"
    assert sorted(os.listdir()) == ["out.parquet", "small.toml", "study.toml"]


BAD = {
    "study": "Missing argument",
    "study nope.toml": "nope.toml: file must exist",
    "study .": ".: must be a readable TOML file",
    "study small.toml": "small.toml: name must be a known key; known: base, seeds,",
    "study bad.toml": "bad.toml: must be a readable TOML file",
    "study point.toml": "point.toml: pool.spares=-1 must be",
    "study study.toml --design lhs": "study.toml: design='lhs' must be",
    "study study.toml --design grid --seeds 1": "study.toml: seeds=1 must be",
    "study line.toml --design grid": "line.toml: parameters.days.steps must be given where design is grid",
    "study study.toml --until-ci 0.1": "--until-ci='0.1' must be percentage points",
    "study study.toml --jobs 0": "--jobs",
    "study study.toml --format xml": "--format",
    "study study.toml -o out.csv": "--output=out.csv must end in .parquet",
    "study study.toml -o no/such/out.parquet": "file must be writable",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_ends_in_one_line_and_exit_code_2_and_nothing_is_played(run, monkeypatch, command):
    monkeypatch.setattr("goodput.experiment.played", lambda *given: pytest.fail("something was played"))
    Path("bad.toml").write_text("base = ")
    Path("point.toml").write_text(STUDY.replace("[0, 8]", "[-1, 8]"))
    Path("line.toml").write_text(STUDY + "days = { low = 1, high = 2 }\n")
    before = sorted(os.listdir())
    code, out, errors = run(*command.split())
    assert (code, out) == (2, "")
    assert errors.startswith("goodput: ") and errors.count("\n") == 1 and errors.endswith("\n")
    assert BAD[command] in errors
    assert sorted(os.listdir()) == before
