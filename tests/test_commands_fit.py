"""From the shell: a log becomes a scenario file, whole or not at all, and the file is held against the log."""

import json
import os
from pathlib import Path

import pytest

from goodput.calibrate import calibrate
from goodput.fitted_file import fit_text, fit_toml
from goodput.importers import read_any
from goodput.logtext import write_log
from goodput.replay import replay, replay_text
from goodput.scenario import load_scenario
from goodput.simulate import simulate

ROOT = Path(__file__).parents[1]
RECORDER = ROOT / "data" / "logs" / "resiliency_sample.jsonl"
MONTH = simulate(load_scenario("baseline"), 1)


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    """Return a function that runs the command line in a folder with a log: (exit code, output, errors)."""
    write_log(MONTH, tmp_path / "log.jsonl")
    monkeypatch.chdir(tmp_path)
    return run


def test_calibrate_writes_the_fit_and_prints_its_table(run):
    fit = calibrate(MONTH)
    assert run("calibrate", "log.jsonl", "-o", "mine.toml") == (0, fit_text(fit) + "\n", "")
    assert Path("mine.toml").read_text() == fit_toml(fit)
    assert sorted(os.listdir()) == ["log.jsonl", "mine.toml"]


def test_what_calibrate_writes_replay_reads_and_simulate_plays(run):
    run("calibrate", "log.jsonl", "-o", "mine.toml")
    table = replay(load_scenario("mine.toml"), MONTH, 5)
    assert run("replay", "mine.toml", "log.jsonl", "--seeds", 5) == (0, replay_text(table, 5) + "\n", "")
    assert run("simulate", "mine.toml", "--set", "days=1", "-o", "again.jsonl")[0] == 0


def test_what_the_reader_knows_is_given(run):
    Path("cohorts.csv").write_text('node,cohort\n"node[0000-0099]",old\n"node[0100-0139]",new\n')
    options = ["--spares", 12, "--crews", 3, "--cohorts", "cohorts.csv", "--prior", "rsc-1", "--name", "ours"]
    assert run("calibrate", "log.jsonl", "-o", "mine.toml", *options)[0] == 0
    mine = load_scenario("mine.toml")
    assert (mine.name, mine.pool.spares, mine.repair.crews) == ("ours", 12, 3)
    assert mine.cohort_sizes == {"old": 100, "new": 40}
    assert "pooled" in Path("mine.toml").read_text()


def test_results_as_json_and_as_csv(run):
    fit = calibrate(MONTH)
    found = json.loads(run("calibrate", "log.jsonl", "-o", "mine.toml", "--format", "json")[1])
    assert [value["path"] for value in found["values"]] == [row.path for row in fit.rows]
    assert (found["scenario"], found["notes"]) == ("mine.toml", fit.notes)
    measures = json.loads(run("replay", "mine.toml", "log.jsonl", "--seeds", 4, "--format", "json")[1])
    assert measures["seeds"] == 4 and {row["what"] for row in measures["measures"]} >= {"goodput", "waiting"}
    lines = run("replay", "mine.toml", "log.jsonl", "--seeds", 4, "--format", "csv")[1].splitlines()
    assert lines[0] == "what,log,p5,median,p95,inside" and len(lines) == 10


def test_a_foreign_log_tells_of_restarts_that_failed(run):
    """One of three starts of the recorder's sample loaded no checkpoint, which only the importer sees."""
    run("calibrate", RECORDER, "--gpus-per-node", 8, "-o", "theirs.toml")
    mine = load_scenario("theirs.toml")
    assert mine.job.gpus_per_node == 8 and mine.restart.failure_share == pytest.approx(1 / 3, abs=1e-5)
    log, findings = read_any(RECORDER, gpus_per_node=8)
    assert calibrate(log, findings=findings, name="theirs").scenario == mine


BAD = {
    "calibrate nope.jsonl -o mine.toml": "nope.jsonl: file must exist",
    "calibrate log.jsonl": "Missing option '-o'",
    "calibrate -o mine.toml": "Missing argument",
    "calibrate log.jsonl -o mine.txt": "--output=mine.txt must end in .toml",
    "calibrate log.toml -o ./log.toml": "and not be a log that is read",
    "calibrate log.jsonl -o no/such/mine.toml": "file must be writable",
    "calibrate log.jsonl -o mine.toml --cohorts nope.csv": "nope.csv: file must be readable CSV",
    "calibrate log.jsonl -o mine.toml --cohorts log.jsonl": "log.jsonl:1: line must be node,cohort",
    "calibrate log.jsonl -o mine.toml --cohorts twice.csv": "each node must be under one label only",
    "calibrate log.jsonl -o mine.toml --cohorts folded.csv": "names must be folded node names",
    "calibrate log.jsonl -o mine.toml --cohorts other.csv": "no label must be other",
    "calibrate log.jsonl -o mine.toml --spares -1": "--spares",
    "calibrate log.jsonl -o mine.toml --spares 99999999": "pool.spares=99999999 must be",
    "calibrate log.jsonl -o mine.toml --crews 0": "--crews",
    "calibrate log.jsonl -o mine.toml --prior rsc": "--prior=rsc must be a known rate",
    "calibrate log.jsonl -o mine.toml --prior rsc-1 --prior-events 0": "--prior-events",
    "calibrate log.jsonl -o mine.toml --from slurm": "--from=slurm must be a known format",
    "calibrate idle.jsonl -o mine.toml": "log: must hold a job that trained for some time",
    "replay nope.toml log.jsonl": "nope.toml' must be a file or known",
    "replay baseline nope.jsonl": "nope.jsonl: file must exist",
    "replay baseline log.jsonl --seeds 1": "--seeds",
    "replay baseline small.jsonl": "baseline: job.nodes=128 must be the log's, 4",
    "replay baseline": "Missing argument",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_ends_in_one_line_and_exit_code_2(run, command):
    start = '{"time": 0, "job": "a", "event": "start", "nodes": 4, "gpus_per_node": 8}\n'
    end = '{"time": 7200, "job": "a", "event": "end"}\n'
    texts = {
        "idle.jsonl": start.replace("start", "launch") + end,
        "small.jsonl": start + end,
        "twice.csv": "node,cohort\nnode0001,a\nnode[0000-0002],b\n",
        "folded.csv": "node,cohort\nnode[0001,a\n",
        "other.csv": "node,cohort\nnode0001,other\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    before = sorted(os.listdir())
    code, out, errors = run(*command.split())
    assert (code, out) == (2, "")
    assert errors.startswith("goodput: ") and errors.count("\n") == 1 and errors.endswith("\n")
    assert BAD[command] in errors
    assert sorted(os.listdir()) == before
