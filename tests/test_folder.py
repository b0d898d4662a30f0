"""A folder of logs is one answer: that of all its files read at once, to the byte, whoever reads which part of it."""

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from goodput import many_logs
from goodput.analysis import analysis_of, analyze, as_data, slo_data, step_data
from goodput.digest import Asked, asked_part, digest, merged
from goodput.errors import BadInput, RunFailed
from goodput.folder import find_logs
from goodput.importers import read_any
from goodput.line import moment
from goodput.logtext import log_text
from goodput.many_logs import Reading, digest_logs
from goodput.metrics import reference_steps
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.text import to_json

LOGS = Path(__file__).parents[1] / "data" / "logs"
ALL = Asked()
PLANNED = [[moment("2025-01-01T12:00:00Z"), moment("2025-01-02T06:00:00Z")]]


@pytest.fixture(scope="module")
def clean() -> list[list[str]]:
    """Eight jobs that nothing is wrong with, as lines; each carries its steps."""
    scenario = load_scenario("firmware-regression").but({"days": 2})
    return [with_steps(log_text(simulate(scenario, seed)).splitlines()) for seed in range(1, 9)]


def with_steps(lines: list[str]) -> list[str]:
    events = [json.loads(line) for line in lines]
    return [json.dumps(event | {"step": 10 * at}) for at, event in enumerate(events)]


def fill(folder: Path, parts: dict[str, list[str]]) -> Path:
    """Write lines to files by name, packed where the name says so, and return the folder."""
    for name, lines in parts.items():
        data = "".join(f"{line}\n" for line in lines).encode()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


@pytest.fixture(scope="module")
def untidy(clean, tmp_path_factory) -> Path:
    """A folder of all that happens: jobs alone, split, packed, torn, doubled, without an end; nodes; an empty file."""
    luck = random.Random(1)
    torn = [line if luck.random() > 0.05 else line[: luck.randint(0, len(line))] for line in clean[3]]
    node = '{"time": "2025-01-01T05:00:00Z", "event": "node_down", "node": "node7"}'
    parts = {
        "z/alone.jsonl": clean[0],
        "split-a.jsonl": clean[1][::2] + clean[2][1::2],
        "split-b.jsonl.gz": clean[1][1::2],
        "later/split-c.jsonl": clean[2][::2],
        "torn.jsonl": [*torn, '{"job": "nobody", "eve'],
        "open.jsonl": clean[4][:-1] + clean[4][3:9],
        "lossy.jsonl": [line for line in clean[5] if luck.random() > 0.1],
        "nodes.jsonl": [node, node],
        "with-nodes.jsonl": [*clean[6], node.replace("05:", "06:")],
        "not-yet.jsonl": [],
    }
    return fill(tmp_path_factory.mktemp("untidy"), parts)


def at_once(files, asked: Asked = ALL) -> str:
    """Return the JSON of files that are read as one log, all of it in memory: the slow twin."""
    log, findings = read_any(sorted(files, key=str), "native")
    found = analyze(log, sorted(findings, key=many_logs._place), asked.since, asked.until)
    data = as_data(found)
    if asked.window_hours:
        data["slo"] = slo_data(found, 0.8, asked.window_hours, asked.excluded)
    if asked.steps:
        kept, share = reference_steps(log, found.spans, 8)
        data["reference_step"] = {"step_seconds": 8, "kept_steps": kept, "goodput": share}
    return to_json(data) + found.jobs.to_csv()


def in_parts(paths, asked: Asked = ALL, jobs: int = 1) -> str:
    """Return the same of logs that are never in memory together."""
    found = analysis_of(digest_logs(paths, Reading(), asked, jobs), asked)
    data = as_data(found)
    if asked.window_hours:
        data["slo"] = slo_data(found, 0.8, asked.window_hours, asked.excluded)
    if asked.steps:
        data["reference_step"] = step_data(found, 8)
    return to_json(data) + found.jobs.to_csv()


@pytest.fixture
def apart(monkeypatch):
    """Read no two logs together that share no job, however small."""
    monkeypatch.setattr(many_logs, "PART_BYTES", 1)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def at(time: str) -> int:
    return moment(f"2025-01-{time}Z")


ASKED = {
    "all": Asked(),
    "since": Asked(since=at("01T07:00:00"), window_hours=5),
    "until": Asked(until=at("02T03:00:00")),
    "a window": Asked(at("01T07:00:00"), at("02T03:00:00"), window_hours=4),
    "slo": Asked(window_hours=6),
    "slo without planned windows": Asked(window_hours=6, excluded=np.array(PLANNED)),
    "steps": Asked(steps=True),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_folder_is_its_files_read_at_once_to_the_byte(untidy, apart, asked):
    assert in_parts([untidy], asked) == at_once(files_in(untidy), asked)


def test_clean_logs_need_no_second_look(clean, tmp_path, apart, monkeypatch):
    """One reading each, also for SLO windows, whose beginning is known from the first lines."""
    fill(tmp_path, {f"{number}.jsonl": lines for number, lines in enumerate(clean)})
    read = []
    monkeypatch.setattr(many_logs, "read_any", lambda files, *how: read.append(files) or read_any(files, *how))
    assert in_parts([tmp_path], Asked(window_hours=6)) == at_once(files_in(tmp_path), Asked(window_hours=6))
    assert len(read) == len(clean)


def test_windows_begin_with_the_first_event_wherever_it_stands(clean, tmp_path, apart):
    """In each file the last line comes first: what the first lines tell is wrong, and set right."""
    fill(tmp_path, {f"{number}.jsonl": lines[::-1] for number, lines in enumerate(clean)})
    assert in_parts([tmp_path], Asked(window_hours=6)) == at_once(files_in(tmp_path), Asked(window_hours=6))


def test_neither_processes_nor_the_size_of_parts_change_a_byte(untidy, monkeypatch):
    found = set()
    for jobs, size in ((1, 1), (2, 1), (2, 100_000), (1, 1 << 30)):
        monkeypatch.setattr(many_logs, "PART_BYTES", size)
        found.add(in_parts([untidy], Asked(window_hours=6, steps=True), jobs))
    assert len(found) == 1


def test_the_order_of_names_changes_nothing_nor_does_a_name_that_comes_twice(untidy, apart):
    files = files_in(untidy)
    shuffled = random.Random(2).sample(files, len(files))
    assert in_parts([untidy]) == in_parts(files) == in_parts(shuffled) == in_parts([*shuffled, untidy, files[0]])


def test_a_job_is_whole_though_its_files_are_joined_only_through_others(clean, tmp_path, apart, monkeypatch):
    """a and c share no job, but both share one with b; d is by itself."""
    a, b, c, d = clean[:4]
    fill(tmp_path, {"a": a + b[::2], "b": b[1::2] + c[::2], "c": c[1::2], "d": d})
    read = []
    monkeypatch.setattr(many_logs, "read_any", lambda files, *how: read.append(files) or read_any(files, *how))
    in_parts([tmp_path])
    assert [[file.name for file in files] for files in read] == [["a", "b", "c"], ["d"]]


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(k=st.integers(1, 6), seed=st.integers(0, 999))
def test_however_the_lines_of_a_log_are_dealt_to_files_the_answer_is_that_of_the_log(clean, k, seed):
    """Lines in any order in any of k files, in parts as small as they may be."""
    luck = random.Random(seed)
    lines = [line for job in clean[:3] for line in job]
    luck.shuffle(lines)
    hands = [[] for _ in range(k)]
    for line in lines:
        luck.choice(hands).append(line)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_logs, "PART_BYTES", 1)
        folder = fill(Path(name), {f"{at}.jsonl": hand for at, hand in enumerate(hands)})
        whole = fill(Path(name), {".whole": [line for job in clean[:3] for line in job]}) / ".whole"
        assert in_parts([folder], Asked(window_hours=6)) == at_once([whole], Asked(window_hours=6))


def test_a_name_that_no_look_at_the_bytes_can_see_is_seen_when_it_is_read(clean, tmp_path, apart):
    """The key `job` spelt with an escape, in half of a job's lines."""
    hidden = [line.replace('"job"', '"j\\u006fb"') for line in clean[0][1::2]]
    fill(tmp_path, {"a.jsonl": clean[0][::2], "b.jsonl": hidden, "c.jsonl": clean[1]})
    assert in_parts([tmp_path]) == at_once(files_in(tmp_path))


@pytest.mark.parametrize("name", [1234, "1234", 'a "quoted" name', "Größe", "a\\b", "tab\t"])
def test_jobs_of_any_name_are_kept_whole(tmp_path, apart, name):
    """Each file alone would be a job without a start, or without an end."""
    start = {"time": 0, "job": name, "event": "start", "nodes": 1, "gpus_per_node": 8}
    end = {"time": 7200, "job": str(name), "event": "end"}
    fill(tmp_path, {"a": [json.dumps(start, ensure_ascii=False)], "b": [json.dumps(end, separators=(",", ":"))]})
    fill(tmp_path, {"c": [json.dumps(start | {"job": "other"}), json.dumps(end | {"job": "other"})]})
    found = digest_logs([tmp_path])
    assert found.jobs["held_gpu_hours"].to_dict() == {str(name): 16, "other": 16} and found.findings == []


def test_files_without_a_job_are_read_with_those_that_have_one(clean, tmp_path, apart):
    node = '{"time": "2025-01-01T05:00:00Z", "event": "node_down", "node": "node7"}'
    fill(tmp_path, {"1": [node], "2": clean[0], "3": [], "4": ["# nothing yet"], "5": [node], "6": clean[1]})
    torn = fill(tmp_path, {"7": [clean[2][0], '{"job": "never", "event": "start"']})
    assert in_parts([torn]) == at_once(files_in(torn))
    fill(tmp_path, {"7": ['{"job": "never", "event": "start"}', '{"job": "read", "event": "start"}']})
    assert in_parts([tmp_path]) == at_once(files_in(tmp_path))


def test_digests_in_any_order_are_one(clean, tmp_path):
    parts = []
    for number, lines in enumerate(clean):
        log, findings = read_any(fill(tmp_path, {f"{number}.jsonl": lines}) / f"{number}.jsonl")
        parts.append(digest(log, asked_part(log, Asked()), findings, Asked()))
    first, again = (as_data(analysis_of(merged(each), Asked())) for each in (parts, parts[::-1]))
    assert to_json(first) == to_json(again)


# --- which files are logs ---------------------------------------------------------------------------------------------


def test_what_is_hidden_or_no_log_is_left_out_and_what_is_no_log_is_said(clean, tmp_path):
    fill(tmp_path, {"a/b/log.jsonl": clean[0], ".git/log.jsonl": clean[1], ".b.swp": clean[2]})
    fill(tmp_path, {"README.md": ["# Logs", "", 'An event is `{"event": "start"}`.'], "notes.txt.gz": ["no event"]})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    found = find_logs([tmp_path])
    assert found.files == [tmp_path / "a/b/log.jsonl"] and found.format == "native"
    assert [Path(said.file).name for said in found.left_out] == ["README.md", "notes.txt.gz", "picture.png"]
    assert {said.severity for said in found.left_out} == {"note"}


def test_a_file_that_is_named_is_read_whatever_it_looks_like(tmp_path):
    fill(tmp_path, {"README.md": ["# Logs", "no event"]})
    assert find_logs([tmp_path / "README.md"]).files == [tmp_path / "README.md"]


def test_a_folder_of_a_foreign_format_is_recognised_file_by_file(clean, tmp_path):
    for name in ("sacct_sample.txt", "two_jobs.jsonl.gz"):
        (tmp_path / name).write_bytes((LOGS / name).read_bytes())
    with pytest.raises(BadInput, match=r"one format \(.*sacct_sample.txt is sacct, .*two_jobs.jsonl.gz is native\)"):
        find_logs([tmp_path])
    found = find_logs([tmp_path], "sacct")
    assert [file.name for file in found.files] == ["sacct_sample.txt"]
    assert [said.message for said in found.left_out] == ["is a log of another format, native: left out"]
    (tmp_path / "two_jobs.jsonl.gz").unlink()
    fill(tmp_path, {"README": ["of the cluster"]})
    assert find_logs([tmp_path]).format == "sacct"
    assert digest_logs([tmp_path]).jobs.equals(digest_logs([LOGS / "sacct_sample.txt"]).jobs)


# --- from the shell ---------------------------------------------------------------------------------------------------


OPTIONS = ["--format=json", "--format=csv", "--format=text", "--slo=0.8 --window-hours=6 --format=json"]
OPTIONS += ["--since=2025-01-01T07:00Z --until=2025-01-02T03:00Z --format=json", "--step-seconds=8 --format=json"]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_command_prints_the_same_for_a_folder_as_for_its_files(run, untidy, apart, options):
    code, out, errors = run("analyze", untidy, "--jobs", 1, *options.split())
    assert (code, errors) == (0, "") and len(out) > 200
    assert run("analyze", *files_in(untidy), *options.split()) == (0, out, "")


@pytest.mark.parametrize("command", ["convert", "report -o {out}.html", "calibrate -o {out}.toml"])
def test_other_commands_take_a_folder_too(run, clean, tmp_path, command):
    (tmp_path / "logs").mkdir()
    fill(tmp_path / "logs", {"a.jsonl": clean[0], "README.md": ["no log"]})
    name, *more = command.format(out=tmp_path / "out").split()
    assert run(name, tmp_path / "logs", *more)[0] == 0


def test_a_page_never_replaces_a_log_of_its_folder(run, clean, tmp_path):
    fill(tmp_path, {"a.jsonl": clean[0]})
    code, _, errors = run("report", tmp_path, "-o", tmp_path / "a.jsonl")
    assert code == 2 and "must not be a log that is read" in errors


def spoil(folder: Path, how: str, lines: list[str]) -> None:
    (folder / "good.jsonl").write_text("\n".join(lines))
    if how == "no gzip":
        (folder / "bad.jsonl.gz").write_text("no gzip")
    elif how == "broken gzip":
        data = bytearray(gzip.compress(os.urandom(200_000)))
        data[100:] = b"\0" * (len(data) - 100)
        (folder / "bad.jsonl.gz").write_bytes(data)
    elif how == "gone":
        (folder / "bad.jsonl").symlink_to(folder / "nowhere")
    elif how == "no zone":
        (folder / "bad.jsonl").write_text("\n".join(lines).replace("Z", "").replace("seed-1", "seed-0"))
    elif how == "line without end":
        (folder / "bad.jsonl").write_text("{" + '"event": "end", ' * 200_000)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("how", ["no gzip", "broken gzip", "gone", "no zone", "line without end"])
def test_a_file_that_cannot_be_read_ends_in_one_line_that_names_it(run, clean, tmp_path, apart, how, jobs):
    spoil(tmp_path, how, clean[0])
    code, out, errors = run("analyze", tmp_path, "--jobs", jobs)
    assert (code, out) == (2, "") and errors.count("\n") == 1
    assert errors.startswith("goodput: ") and str(tmp_path / "bad.jsonl") in errors


def test_a_file_that_vanishes_while_it_is_read_is_named(run, clean, tmp_path, apart, monkeypatch):
    fill(tmp_path, {"a.jsonl": clean[0], "b.jsonl": clean[1]})

    def find_and_lose(*arguments):
        found = find_logs(*arguments)
        (tmp_path / "b.jsonl").unlink()
        return found

    monkeypatch.setattr(many_logs, "find_logs", find_and_lose)
    code, out, errors = run("analyze", tmp_path)
    assert (code, out, errors) == (2, "", f"goodput: {tmp_path / 'b.jsonl'}: file must exist\n")


def test_a_process_that_is_killed_is_said_in_one_line():
    with pytest.raises(RunFailed, match="was killed, most likely for want of memory"):
        many_logs._values(many_logs._each(os._exit, [(1,), (1,)], 2))


@pytest.mark.parametrize("content", [{}, {"README.md": ["no log"]}, {".hidden": ['{"event": "start"}']}])
def test_a_folder_without_a_log_is_refused_by_name(run, tmp_path, content):
    code, out, errors = run("analyze", fill(tmp_path, content))
    assert (code, out, errors.count("\n")) == (2, "", 1) and f"{tmp_path}: folder must hold at least one log" in errors


def test_a_folder_of_logs_in_which_nothing_happened_is_refused(run, tmp_path, apart):
    code, out, errors = run("analyze", fill(tmp_path, {"a.jsonl": [], "b.jsonl": ["# soon"]}))
    assert (code, out, errors.count("\n")) == (2, "", 1) and "log must hold at least one event" in errors


def test_a_pipe_is_read_once_beside_other_logs(run, clean, tmp_path, apart):
    """As `<(zcat log.jsonl.gz)` gives one."""
    fill(tmp_path, {"a.jsonl": clean[0], "b.jsonl": clean[1]})
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", tmp_path / "b.jsonl", tmp_path / "pipe"]):
        piped = run("analyze", tmp_path / "a.jsonl", tmp_path / "pipe")
    assert piped == run("analyze", tmp_path)


def test_a_window_without_data_is_refused_with_an_slo_as_without(run, clean, tmp_path, apart):
    fill(tmp_path, {"a.jsonl": clean[0], "b.jsonl": clean[1]})
    for options in ([], ["--slo", 0.8]):
        code, _, errors = run("analyze", tmp_path, "--since", "2026-01-01T00:00Z", *options)
        assert code == 2 and "log: must hold GPUs for some time" in errors


def test_strict_refuses_the_first_warning_by_file_and_line_but_no_file_that_is_left_out(run, untidy, clean, tmp_path):
    assert "lossy.jsonl:" in run("analyze", untidy, "--strict")[2]
    fill(tmp_path, {"a.jsonl": clean[0], "README.md": ["no log"]})
    assert run("analyze", tmp_path, "--strict")[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_of_files_that_are_no_text_are_read_and_shown_with_question_marks(clean, tmp_path):
    (tmp_path / os.fsdecode(b"\xff\xfe.jsonl")).write_text("\n".join(clean[0][:-1]))
    (tmp_path / "a\nb.jsonl").write_text("\n".join(clean[1]))
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("no log")
    found = digest_logs([tmp_path])
    assert len(found.jobs) == 2
    named = {os.path.basename(finding.file) for finding in found.findings if finding.file}
    assert "?.txt" in named and all(name.isprintable() for name in named)
