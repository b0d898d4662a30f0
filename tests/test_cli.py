"""From the shell: what each command prints, and how each bad input ends: one line, exit code 2, nothing left behind."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goodput.attribution import CATEGORIES
from goodput.logfile import read_log
from goodput.logtext import log_text
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import simulate

ROOT = Path(__file__).parents[1]
SAMPLE = str(ROOT / "data" / "logs" / "every_event.jsonl")
RECORDER = str(ROOT / "data" / "logs" / "resiliency_sample.jsonl")
TAKEN = re.compile(r"goodput: [\d,]+ runs were taken from .*; --fresh plays them again\n")
START = '{"time": "2025-03-01T00:00:00Z", "job": "a", "event": "start", "nodes": 4, "gpus_per_node": 8}'
END = '{"time": "2025-03-01T02:00:00Z", "job": "a", "event": "end"}'


@pytest.fixture
def output(run):
    """Return a function that runs a command which must succeed, and gives what it printed."""

    def command(*arguments) -> str:
        code, out, errors = run(*arguments)
        assert code == 0 and (not errors or TAKEN.fullmatch(errors))
        return out

    return command


@pytest.fixture
def data(output):
    """Return a function that gives a command's JSON."""
    return lambda *arguments: json.loads(output(*arguments, "--format", "json"))


def process(*arguments, hash_seed: str = "0", cwd: Path = ROOT) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "goodput", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


# --- simulate ------------------------------------------------------------------------------------------------------


def test_simulate_prints_the_log_of_a_run(output):
    assert output("simulate", "baseline", "--seed", 3) == log_text(simulate(load_scenario("baseline"), 3))


def test_simulate_writes_the_same_log_to_a_file_and_prints_nothing(output, tmp_path):
    assert output("simulate", "baseline", "--seed", 3, "-o", tmp_path / "log.jsonl") == ""
    assert (tmp_path / "log.jsonl").read_text() == log_text(simulate(load_scenario("baseline"), 3))
    assert os.listdir(tmp_path) == ["log.jsonl"]


def test_simulate_takes_changes_to_the_scenario(output):
    changed = load_scenario("baseline").but({"days": 1, "pool.spares": 0})
    assert output("simulate", "baseline", "--set", "days=1", "--set", "pool.spares=0") == log_text(simulate(changed, 1))


def test_what_simulate_writes_analyze_reads(output, data, tmp_path):
    path = tmp_path / "log.jsonl.gz"
    output("simulate", "firmware-regression", "-o", path)
    found = data("analyze", path)
    assert found["held_gpu_hours"] == pytest.approx(688_128)
    assert found["findings"] == []


# --- analyze -------------------------------------------------------------------------------------------------------

ANALYZE_KEYS = {
    "goodput",
    "held_gpu_hours",
    "gpu_hours",
    "interruptions",
    "failures",
    "mtbi_hours",
    "job_mtbf_hours",
    "node_mtbf_hours",
    "node_failures",
    "by_cause",
    "by_job",
    "window",
    "unit",
    "slo",
    "findings",
}


def test_analyze_has_its_stable_keys(data):
    found = data("analyze", SAMPLE, "--slo", 0.5, "--window-hours", 4)
    assert set(found) >= ANALYZE_KEYS
    assert list(found["gpu_hours"]) == list(CATEGORIES)
    assert set(found["by_cause"][0]) == {"cause", "count", "gpu_hours"}
    of_job = {"job", "goodput", "held_gpu_hours", "gpu_hours", "interruptions", "node_failures", "incomplete"}
    assert set(found["by_job"][0]) >= of_job | {"mtbi_hours"}
    assert set(found["window"]) == {"start", "end", "hours", "covered_hours", "coverage"}
    assert set(found["slo"]) >= {"target", "windows", "met", "missed", "no_data", "burn", "by_window"}


def test_analyze_tells_the_ledger_worked_out_by_hand(data):
    """data/README.md: 111.867 GPU-hours held, 48 productive; four interruptions, three failures, two of nodes."""
    found = data("analyze", SAMPLE)
    hours = {"productive": 48, "checkpoint": 2, "lost_work": 37.333, "detection": 0.933, "waiting": 8.933}
    assert found["gpu_hours"] == pytest.approx(hours | {"restart": 10.667, "unattributed": 4}, abs=0.001)
    assert found["held_gpu_hours"] == pytest.approx(111.867, abs=0.001)
    assert (found["interruptions"], found["failures"], found["node_failures"]) == (4, 3, 2)
    assert found["slo"] is None


def test_analyze_of_a_finding_says_how_bad_where_and_what(data, tmp_path):
    (tmp_path / "log.jsonl").write_text(f"# open\n{START}\n{END.replace('end', 'checkpoint_start')}\n")
    (finding,) = data("analyze", tmp_path / "log.jsonl")["findings"]
    assert (finding["severity"], finding["line"]) == ("note", 3)
    assert "no end event" in finding["message"]


def test_analyze_lists_jobs_by_name_and_says_which_are_incomplete(data, logs):
    found = data("analyze", logs / "torn.jsonl", logs / "other.jsonl")
    assert [(row["job"], row["incomplete"]) for row in found["by_job"]] == [("B", False), ("a", True)]


def test_analyze_says_its_window_and_how_much_of_it_has_data(data, logs):
    asked = ("--since", "2025-03-01T01:00:00Z", "--until", "2025-03-01T05:00:00+00:00")
    found = data("analyze", logs / "good.jsonl", *asked)
    assert found["held_gpu_hours"] == 32
    assert found["window"] == {
        "start": "2025-03-01T01:00:00Z",
        "end": "2025-03-01T05:00:00Z",
        "hours": 4,
        "covered_hours": 1,
        "coverage": 0.25,
    }


def test_analyze_counts_job_hours_where_no_size_is_known(data, logs):
    found = data("analyze", logs / "no-size.jsonl")
    assert (found["unit"], found["held_gpu_hours"]) == ("job-hours", 2)
    found = data("analyze", logs / "no-size.jsonl", "--nodes", 4, "--gpus-per-node", 8, "--strict")
    assert (found["unit"], found["held_gpu_hours"]) == ("GPU-hours", 64)


def test_analyze_closes_an_open_job_as_of_a_time(data, logs):
    found = data("analyze", logs / "start-alone.jsonl", "--as-of", "2025-03-01T03:00:00Z")
    assert found["held_gpu_hours"] == 96


def test_analyze_reads_times_without_a_zone_in_one_that_is_given(data, logs):
    """Five o'clock in Tokyo is eight in the evening before: 4 h from 16:00 UTC on."""
    found = data("analyze", logs / "local.jsonl", "--timezone", "Asia/Tokyo")
    assert (found["window"]["start"], found["window"]["hours"]) == ("2025-02-28T16:00:00Z", 4)


def test_strict_lets_a_clean_log_pass(data, logs):
    assert data("analyze", SAMPLE, "--strict") == data("analyze", SAMPLE)
    assert data("analyze", logs / "no-end.jsonl", "--strict")["held_gpu_hours"] == 32  # a note is no warning


def test_convert_writes_our_format_set_right_and_its_findings_to_standard_error(run, data, logs, tmp_path):
    code, out, errors = run("convert", logs / "order.jsonl", "-o", tmp_path / "mine.jsonl")
    assert (code, out) == (0, "") and errors.count("\n") == 1 and f"{logs / 'order.jsonl'}:2: " in errors
    before, after = data("analyze", logs / "order.jsonl"), data("analyze", tmp_path / "mine.jsonl", "--strict")
    assert {**before, "findings": 0} == {**after, "findings": 0}


def test_analyze_cuts_the_slo_into_windows(data):
    """To 04:00 exactly half was kept; to 08:00 only 50 min; the last ten minutes all."""
    slo = data("analyze", SAMPLE, "--slo", 0.5, "--window-hours", 4)["slo"]
    assert [window["met"] for window in slo["by_window"]] == [True, False, True]
    assert slo["windows"] == 3 and slo["window_hours"] == 4
    assert slo["by_window"][0]["start"] == "2025-03-01T00:00:00Z"


def test_what_is_not_known_is_null_and_not_a_number_that_json_lacks(output, tmp_path):
    (tmp_path / "log.jsonl").write_text(f"{START}\n{END}\n")
    text = output("analyze", tmp_path / "log.jsonl", "--format", "json")
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["mtbi_hours"] is None


def test_analyze_of_several_files_is_one_answer_by_job(data, tmp_path):
    """A trainer's file, and a scheduler's that tells of a fault at half time."""
    (tmp_path / "trainer.jsonl").write_text(f"{START}\n{END}\n")
    fault = '{"time": "2025-03-01T01:00:00Z", "job": "a", "event": "interrupt", "cause": "host", "node": "n1"}'
    (tmp_path / "scheduler.jsonl").write_text(f"{fault}\n")
    found = data("analyze", tmp_path / "trainer.jsonl", tmp_path / "scheduler.jsonl")
    assert found["gpu_hours"]["lost_work"] == 32 and found["gpu_hours"]["detection"] == 32
    assert found["by_cause"] == [{"cause": "host", "count": 1, "gpu_hours": 64}]


def test_analyze_reads_a_recorders_file(data):
    found = data("analyze", RECORDER, "--from", "resiliency", "--gpus-per-node", 8, "--step-seconds", 10)
    assert found["held_gpu_hours"] == pytest.approx(2 * 8 * 3000 / 3600)
    assert found["reference_step"] == {"step_seconds": 10, "kept_steps": 180, "goodput": pytest.approx(0.6)}
    assert "no-zone" in {finding["code"] for finding in found["findings"]}


def test_analyze_as_text_says_what_its_json_says(output, data):
    text, found = output("analyze", SAMPLE, "--slo", 0.5, "--window-hours", 4), data("analyze", SAMPLE)
    assert f"goodput {100 * found['goodput']:.2f} %" in text
    for category, hours in found["gpu_hours"].items():
        assert any(line.split()[:2] == [category, f"{hours:,.1f}"] for line in text.splitlines())
    assert "2 met, 1 missed, 0 without data" in text


def test_analyze_as_csv_is_one_row_a_job(output):
    (row,) = csv.DictReader(io.StringIO(output("analyze", SAMPLE, "--format", "csv")))
    assert row["job"] == "demo" and float(row["productive"]) == pytest.approx(48)


def test_names_in_a_log_cannot_steer_the_terminal(run, tmp_path):
    (tmp_path / "log.jsonl").write_text(f"{START}\n{END}\n".replace('"a"', '"\\u001b[31mred"'))
    code, out, _ = run("analyze", tmp_path / "log.jsonl")
    assert code == 0 and "\x1b" not in out
    (tmp_path / "bad.jsonl").write_text(f"{END}\n".replace('"a"', '"\\u001b[31mred\\nnext"'))
    code, _, errors = run("analyze", tmp_path / "bad.jsonl", "--strict")
    assert code == 2 and "\x1b" not in errors and errors.count("\n") == 1


# --- compare, sweep, checkpoint ------------------------------------------------------------------------------------

COMPARE_KEYS = {
    "seeds",
    "goodput",
    "shares",
    "interruptions_per_run",
    "mtbi_hours",
    "node_mtbf_hours",
    "difference",
}


def test_compare_has_its_stable_keys_and_the_seven_in_order(data):
    rows = data("compare", "--seeds", 2)["scenarios"]
    assert [row["scenario"] for row in rows] == list(SEVEN)
    for row in rows:
        assert set(row) >= COMPARE_KEYS | {"scenario", "by_cause"}
        assert set(row["goodput"]) == {"mean", "ci95", "p10", "p90"} and len(row["goodput"]["ci95"]) == 2
        assert list(row["shares"]) == list(CATEGORIES)
        assert sum(row["shares"].values()) == pytest.approx(1)
        assert set(row["by_cause"][0]) == {"cause", "count", "gpu_hours"}
        assert set(row["difference"]) == {"mean", "ci95"}


def test_compare_puts_the_baseline_first_and_others_beside_it(data):
    rows = data("compare", "no-spares", "combined", "--seeds", 2)["scenarios"]
    assert [row["scenario"] for row in rows] == ["baseline", "no-spares", "combined"]
    assert rows[0]["difference"] == {"mean": 0, "ci95": [0, 0]}
    assert rows[1]["difference"]["mean"] == pytest.approx(rows[1]["goodput"]["mean"] - rows[0]["goodput"]["mean"])


def test_compare_applies_changes_to_every_scenario(data):
    """With a save that takes no time to speak of and hardly any failures all are near 1."""
    changes = ["--set", "checkpoint.blocking_minutes=0.001", "--set", "cohorts.default.mtbf_hours=1e9"]
    rows = data("compare", "daly-interval", "--seeds", 2, *changes, "--set", "job_failures.mtbi_hours=1e9")["scenarios"]
    assert all(row["goodput"]["mean"] > 0.999 for row in rows)


def test_compare_gives_the_same_numbers_as_text_and_csv(output, data):
    rows = data("compare", "no-spares", "--seeds", 3)["scenarios"]
    table = list(csv.DictReader(io.StringIO(output("compare", "no-spares", "--seeds", 3, "--format", "csv"))))
    assert [float(row["goodput"]) for row in table] == [row["goodput"]["mean"] for row in rows]
    text = output("compare", "no-spares", "--seeds", 3)
    for row in rows:
        assert any(
            line.split()[:2] == [row["scenario"], f"{100 * row['goodput']['mean']:.2f}"] for line in text.splitlines()
        )


def test_sweep_has_a_row_for_each_value(data):
    found = data("sweep", "baseline", "checkpoint.interval_minutes", "30,daly,300", "--seeds", 2)
    assert (found["scenario"], found["path"]) == ("baseline", "checkpoint.interval_minutes")
    assert [row["value"] for row in found["values"]] == [30, "daly", 300]
    assert all(set(row) >= COMPARE_KEYS for row in found["values"])
    assert found["values"][0]["difference"]["mean"] == 0  # the baseline's own interval


def test_sweep_as_csv_is_a_row_for_each_value(output):
    rows = list(
        csv.DictReader(io.StringIO(output("sweep", "baseline", "pool.spares", "0,4", "--seeds", 2, "--format", "csv")))
    )
    assert [row["value"] for row in rows] == ["0", "4"]


def test_checkpoint_gives_three_formulas_in_minutes(data):
    """Node MTBF 8,760 h over 64 nodes, saves of 2 min: Young 10,874.7 s."""
    found = data("checkpoint", "--mtbi-hours", 136.875, "--write-minutes", 2)
    minutes = {row["formula"]: row["interval_minutes"] for row in found["intervals"]}
    assert list(minutes) == ["young", "daly", "optimal"]
    assert minutes["young"] == pytest.approx(10_874.7 / 60, abs=0.001)
    goodput = {row["formula"]: row["goodput"] for row in found["intervals"]}
    assert goodput["optimal"] >= max(goodput.values()) - 1e-12 and goodput["young"] < goodput["optimal"]


def test_checkpoint_gives_the_same_numbers_as_text_and_csv(output):
    arguments = ("checkpoint", "--mtbi-hours", 14.778, "--write-minutes", 5, "--overhead-minutes", 34.3)
    rows = list(csv.DictReader(io.StringIO(output(*arguments, "--format", "csv"))))
    text = output(*arguments)
    for row in rows:
        shown = [row["formula"], f"{float(row['interval_minutes']):,.1f}", f"{100 * float(row['goodput']):.2f}"]
        assert any(line.split()[:3] == shown for line in text.splitlines())


def test_help_names_every_command(output):
    for arguments in ((), ("--help",)):
        text = output(*arguments)
        assert all(
            name in text for name in ("simulate", "analyze", "report", "convert", "compare", "sweep", "checkpoint")
        )


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path):
    """A folder of logs, good and bad, and the working folder of the command."""
    fault = '{"time": "2025-03-01T01:00:00Z", "job": "a", "event": "detected"}'
    files = {
        "good": f"{START}\n{END}\n",
        "empty": "",
        "other": f"{START}\n{END}\n".replace('"a"', '"B"'),
        "torn": f"{START}\n{END[:20]}\n{END}\n",
        "garbage": f"{START[:20]}\nend\n",
        "twice": f"{START}\n{END} {END}\n{END}\n",
        "no-size": f"{START}\n{END}\n".replace(', "nodes": 4, "gpus_per_node": 8', ""),
        "no-cause": f"{START}\n{fault.replace('detected', 'interrupt')}\n{END}\n",
        "no-end": f"{START}\n{fault.replace('detected', 'checkpoint_start')}\n",
        "local": f"{START}\n{END}\n".replace("00Z", "00").replace("T00", "T01").replace("T02", "T05"),
        "no-zone": f"{START}\n{END.replace('00Z', '00')}\n",
        "order": f"{START}\n{fault}\n{END}\n",
        "event": f"{START}\n{END.replace('end', 'ende')}\n",
        "start-alone": f"{START}\n",
        "instant": f"{START}\n{END.replace('02:00', '00:00')}\n",
        "nodes-only": '{"time": "2025-03-01T01:00:00Z", "event": "node_down", "node": "n1"}\n',
        "far-future": f'{START}\n{{"time": 1e300, "job": "a", "event": "end"}}\n{END}\n',
    }
    for name, text in files.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "mine.toml").write_text('base = "baseline"\n[pool]\nsparse = 3\n')
    (tmp_path / "syntax.toml").write_text("days = = 3\n")
    return tmp_path


BAD = {
    "simulate basline": "did you mean 'baseline'?",
    "simulate baseline --seed -1": "--seed",
    "simulate baseline --seed one": "--seed",
    "simulate baseline --set pool.sparse=3": "pool.sparse must be a known key; did you mean 'spares'?",
    "simulate baseline --set pool.spares": "must be path=value",
    "simulate baseline --set days=0 -o out.jsonl": "days=0 must be greater than 0",
    "simulate baseline --set days=-1 -o out.jsonl": "days=-1 must be greater than 0",
    "simulate baseline --set causes.host.share=0.2": "shares of causes with scope node must add up to 1, not 1.1",
    "simulate baseline --set checkpoint.interval_minutes=0": "checkpoint.interval_minutes=0 must be a number above 0",
    "simulate baseline --set checkpoint.interval_minutes=dally": "one of young, daly, optimal",
    "simulate baseline --set repair.mean_hours=-48": "repair.mean_hours=-48 must be a number above 0",
    "simulate baseline -o no/such/folder/out.jsonl": "file must be writable",
    "simulate mine.toml": "mine.toml: pool.sparse must be a known key; did you mean 'spares'?",
    "simulate syntax.toml": "syntax.toml: must be a readable TOML file",
    "simulate nope.toml": "nope",
    "simulate": "Missing argument",
    "analyze": "Missing argument",
    "analyze nope.jsonl": "nope.jsonl: file must exist",
    "analyze good.jsonl nope.jsonl": "nope.jsonl: file must exist",
    "analyze empty.jsonl": "empty.jsonl: log must hold at least one event, it is empty",
    "analyze garbage.jsonl": "garbage.jsonl: log must hold at least one event: line 1: line is not whole JSON",
    "analyze torn.jsonl --strict": "torn.jsonl:2: line could not be read (line is not whole JSON)",
    "analyze other.jsonl torn.jsonl --strict": "torn.jsonl:2: line could not be read (line is not whole JSON)",
    "analyze twice.jsonl --strict": "twice.jsonl:2: line could not be read (line is not whole JSON)",
    "analyze no-size.jsonl --strict": "no-size.jsonl:1: job a: nodes is not known",
    "analyze no-size.jsonl --strict --nodes 4": "no-size.jsonl:1: job a: gpus_per_node is not known",
    "analyze no-cause.jsonl --strict": "no-cause.jsonl:2: job a: interrupt has no cause",
    "convert no-cause.jsonl --strict -o out.jsonl": "no-cause.jsonl:2: job a: interrupt has no cause",
    "analyze no-zone.jsonl": "no-zone.jsonl:2: time='2025-03-01T02:00:00' must be a time with a zone",
    "analyze order.jsonl --strict": "order.jsonl:2: job a: detected without an interrupt",
    "analyze event.jsonl --strict": "event.jsonl:2: event='ende' must be a known event; did you mean 'end'?",
    "analyze start-alone.jsonl": "log: must hold GPUs for some time",
    "analyze instant.jsonl": "log: must hold GPUs for some time",
    "analyze nodes-only.jsonl": "log: must hold at least one event of a job, not only of nodes",
    "analyze far-future.jsonl --strict": "far-future.jsonl:2: line could not be read (time=1e+300 must be",
    "analyze good.jsonl --timezone Mars": "--timezone=Mars must be an IANA name",
    "analyze good.jsonl --since noon": "--since=noon must be an ISO 8601 time with a zone",
    "analyze good.jsonl --until 2025-03-01T01:00": "--until=2025-03-01T01:00 must be a time with a zone",
    "analyze good.jsonl --since 9 --until 8": "--since must be before --until",
    "analyze good.jsonl --since 2025-03-02T00:00Z": "log: must hold GPUs for some time",
    "analyze good.jsonl --as-of now": "--as-of=now must be an ISO 8601 time",
    "analyze good.jsonl --window-hours 0": "--window-hours=0.0 must be above 0",
    "analyze good.jsonl --slo 0.9 --window-hours 0": "--window-hours=0.0 must be above 0",
    "analyze good.jsonl --slo 0.9 --window-hours -3": "--window-hours=-3.0 must be above 0",
    "analyze good.jsonl --slo 0.9 --window-hours nan": "--window-hours=nan must be above 0",
    "analyze good.jsonl --slo 0": "target=0.0 must be above 0 and below 1",
    "analyze good.jsonl --slo 85": "target=85.0 must be above 0 and below 1",
    "analyze good.jsonl --slo nan": "target=nan must be above 0 and below 1",
    "analyze good.jsonl --step-seconds 8": "events must carry a step",
    "analyze good.jsonl --step-seconds 0": "must be above 0",
    "analyze good.jsonl --from slurm": "--from=slurm must be a known format; known: native, resiliency, sacct",
    "analyze good.jsonl --from resiliency": "must hold lines of the resiliency recorder; line 1: event_type",
    "report nope.jsonl": "nope.jsonl: file must exist",
    "report empty.jsonl -o out.html": "empty.jsonl: log must hold at least one event, it is empty",
    "report torn.jsonl --strict -o out.html": "torn.jsonl:2: line could not be read (line is not whole JSON)",
    "report good.jsonl -o no/such/folder/out.html": "file must be writable",
    "report good.jsonl -o good.jsonl": "--output=good.jsonl must not be a log that is read",
    "report good.jsonl other.jsonl -o ./other.jsonl": "must not be a log that is read",
    "report good.jsonl --slo 85 -o out.html": "target=85.0 must be above 0 and below 1",
    "report good.jsonl --slo 0.9 --window-hours 0": "--window-hours=0.0 must be above 0",
    "report good.jsonl --since 9 --until 8 -o out.html": "--since must be before --until",
    "report good.jsonl --price 0 -o out.html": "--price=0.0 must be above 0 and finite",
    "report good.jsonl --price nan -o out.html": "--price=nan must be above 0 and finite",
    "report no-size.jsonl --price 2 -o out.html": "--price must go with a log that knows its sizes",
    "report": "Missing argument",
    "convert nope.jsonl": "nope.jsonl: file must exist",
    "compare --seeds 0": "seeds=0 must be 1 or more",
    "compare --seeds -2": "seeds=-2 must be 1 or more",
    "compare --seeds many": "--seeds",
    "compare no-spare": "did you mean 'no-spares'?",
    "compare --jobs 0": "--jobs",
    "compare --format xml": "--format",
    "sweep baseline": "Missing argument",
    "sweep baseline pool.sparse 1,2": "pool.sparse must be a known key; did you mean 'spares'?",
    "sweep baseline pool.spares 1,,2": "pool.spares='' must be a whole number",
    "sweep baseline pool.spares 4 --seeds 0": "seeds=0 must be 1 or more",
    "sweep baseline days 1,-1": "days=-1 must be greater than 0",
    "checkpoint --mtbi-hours 0 --write-minutes 5": "must be above 0",
    "checkpoint --mtbi-hours 5 --write-minutes -5": "must be above 0",
    "checkpoint --mtbi-hours nan --write-minutes 5": "must be above 0",
    "checkpoint --mtbi-hours 5 --write-minutes 5 --overhead-minutes -400": "overhead",
    "checkpoint --mtbi-hours 5": "Missing option '--write-minutes'",
    "simulat baseline": "simulat",
    "--sead 3": "--sead",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_ends_in_one_line_and_exit_code_2(run, logs, monkeypatch, command):
    monkeypatch.chdir(logs)
    before = sorted(os.listdir(logs))
    code, out, errors = run(*command.split())
    assert (code, out) == (2, "")
    assert errors.startswith("goodput: ") and errors.count("\n") == 1 and errors.endswith("\n")
    assert BAD[command] in errors
    assert sorted(os.listdir(logs)) == before


# --- real processes ------------------------------------------------------------------------------------------------


def test_python_dash_m_is_the_command(tmp_path):
    done = process("simulate", "baseline", "--set", "days=1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == log_text(simulate(load_scenario("baseline").but({"days": 1}), 1))


def test_a_process_that_fails_says_so_without_a_traceback(logs):
    done = process("analyze", "torn.jsonl", "--strict", cwd=logs)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in done.stderr


def test_processes_that_hash_and_share_out_otherwise_print_the_same_bytes():
    arguments = ("compare", "no-spares", "firmware-regression", "--seeds", 21, "--set", "days=3", "--format", "json")
    one = process(*arguments, "--jobs", 1, hash_seed="1")
    other = process(*arguments, "--jobs", 2, "--fresh", hash_seed="4242")
    assert (one.returncode, one.stderr, other.stderr) == (0, "", "")
    assert one.stdout == other.stdout


def test_a_reader_that_stops_reading_is_no_error():
    """As in `goodput simulate baseline | head -1`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "goodput", "simulate", "baseline"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as running:
        assert running.stdout.readline().startswith('{"time"')
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()


def test_the_log_that_a_process_wrote_is_read_by_another(tmp_path):
    process("simulate", "no-spares", "--seed", 2, "-o", tmp_path / "log.jsonl")
    log, findings = read_log(tmp_path / "log.jsonl")
    assert len(log) > 100 and findings == []
    found = json.loads(process("analyze", tmp_path / "log.jsonl", "--format", "json").stdout)
    assert found["goodput"] == pytest.approx(found["gpu_hours"]["productive"] / 688_128)
