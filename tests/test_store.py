"""Played once: what the store gives is what was played, to the bit, and only that; whatever happens to its files."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from goodput import experiment as module
from goodput import store as stores
from goodput import workers
from goodput.adaptive import runs_until
from goodput.errors import BadInput
from goodput.experiment import experiment
from goodput.kept import batch_size, columns_of, kept_of_runs
from goodput.scenario import SEVEN, Scenario, load_scenario
from goodput.store import Store, content, sources, store_of, version, versions

ROOT = Path(__file__).parents[1]
WEEK = load_scenario("baseline").but({"days": 7})
PAIR = [WEEK, load_scenario("firmware-regression").but({"days": 7})]


@pytest.fixture
def played(monkeypatch):
    """The (scenario's name, seed) of each run that is really played, in order."""
    runs = []

    def noted(scenario, seeds):
        runs.extend((scenario.name, seed) for seed in seeds)
        return kept_of_runs(scenario, seeds)

    monkeypatch.setattr(workers, "kept_of_runs", noted)
    return runs


def files(folder: Path) -> list[Path]:
    return sorted(Path(folder).rglob("*.parquet"))


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return whether two frames are equal to the bit, types included."""
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    return np.array_equal(one["value"].to_numpy().view("int64"), other["value"].to_numpy().view("int64"))


# --- the same, and not twice ---------------------------------------------------------------------------------------


def test_what_was_played_is_taken_and_equal_to_the_bit(tmp_path, played):
    computed = experiment(PAIR, 25)
    assert same(experiment(PAIR, 25, store=tmp_path), computed)
    del played[:]
    assert same(experiment(PAIR, 25, store=tmp_path), computed)
    assert played == []


def test_every_one_of_the_seven_comes_back_to_the_bit(tmp_path):
    scenarios = [load_scenario(name) for name in SEVEN]
    assert same(experiment(scenarios, 2, store=tmp_path), experiment(scenarios, 2, store=tmp_path))


def test_only_the_runs_that_are_missing_are_played(tmp_path, played):
    experiment([WEEK], [1, 2, 9], store=tmp_path)
    del played[:]
    assert same(experiment(PAIR, 4, store=tmp_path), experiment(PAIR, 4))
    assert sorted(played[:6]) == [("baseline", 3), ("baseline", 4), *(("firmware-regression", n) for n in (1, 2, 3, 4))]


def test_the_order_of_seeds_is_that_asked_for_and_not_that_of_the_store(tmp_path):
    experiment([WEEK], 5, store=tmp_path)
    assert same(experiment([WEEK], [7, 3, 5, 1], store=tmp_path), experiment([WEEK], [7, 3, 5, 1]))


def test_fresh_plays_again_and_what_it_played_counts_from_then_on(tmp_path, played, monkeypatch):
    """A file with another value stands for a run that somebody no longer trusts."""
    store = Store(tmp_path)
    wrong = kept_of_runs(WEEK, [1, 2, 3]) + 1
    store.write(WEEK, wrong)
    assert not experiment([WEEK], 2, store=store).equals(experiment([WEEK], 2))
    del played[:]
    time.sleep(0.02)  # the clock of a file system may be that coarse
    assert same(experiment([WEEK], 2, store=store, fresh=True), experiment([WEEK], 2))
    assert played == [("baseline", 1), ("baseline", 2)] * 2
    assert same(experiment([WEEK], 2, store=store), experiment([WEEK], 2))
    assert store.read(WEEK, [3]).equals(wrong.loc[[3]])


def test_seeds_until_an_interval_is_narrow_are_kept_as_others_are(tmp_path, played):
    first = runs_until(PAIR, 0.02, least=4, most=12, store=tmp_path)
    del played[:]
    assert same(runs_until(PAIR, 0.02, least=4, most=12, store=tmp_path), first)
    assert played == []


def test_a_scenario_under_two_names_is_played_once_even_without_a_store(played):
    again = WEEK.but({}, name="again")
    runs = experiment([WEEK, again], 3)
    assert [seed for _, seed in played] == [1, 2, 3]
    assert same(runs, pd.concat([runs.iloc[: len(runs) // 2]] * 2, ignore_index=True).assign(scenario=runs["scenario"]))


def test_a_store_that_holds_far_more_seeds_reads_only_the_files_that_can_hold_these(tmp_path, monkeypatch):
    store, opened = Store(tmp_path), []
    for first in range(1, 41, 10):
        store.write(WEEK, kept_of_runs(WEEK, list(range(first, first + 10))))
    read = stores._frame
    monkeypatch.setattr(stores, "_frame", lambda path, schema: opened.append(path.name) or read(path, schema))
    assert store.read(WEEK, [12, 15]).index.tolist() == [12, 15]
    assert [name.split("-")[:2] for name in opened] == [["11", "20"]]


# --- what a run depends on -----------------------------------------------------------------------------------------


def test_a_name_decides_nothing_and_every_value_of_a_scenario_does(tmp_path, played):
    experiment([WEEK], 1, store=tmp_path)
    del played[:]
    experiment([WEEK.but({}, name="other")], 1, store=tmp_path)
    assert played == []
    changes = [{"days": 7.5}, {"pool.spares": 5}, {"repair.mean_hours": 47.0}, {"failures.strike": "always"}]
    for change in changes:
        experiment([WEEK.but(change)], 1, store=tmp_path)
    assert len(played) == len(changes)


def test_the_order_of_cohorts_counts_since_nodes_are_numbered_in_it():
    old, new = {"mtbf_hours": 3000.0}, {"mtbf_hours": 300.0, "nodes": 64}
    data = WEEK.model_dump(exclude_none=True)
    one, other = (
        Scenario.model_validate(data | {"cohorts": each}) for each in ({"a": old, "b": new}, {"b": new, "a": old})
    )
    assert content(one) != content(other)
    assert not kept_of_runs(one, [1]).equals(kept_of_runs(other, [1]))


@pytest.mark.parametrize("name", ["numpy", "sources", "python", "machine"])
def test_another_version_of_what_decides_a_run_takes_nothing(tmp_path, played, monkeypatch, name):
    experiment([WEEK], 1, store=tmp_path)
    other = versions() | {name: "other"}
    monkeypatch.setattr(stores, "versions", lambda: other)
    del played[:]
    experiment([WEEK], 1, store=tmp_path)
    assert played == [("baseline", 1)]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_sources_that_decide_a_run_are_all_that_its_module_imports():
    """A slow twin: the imports of each file as Python parses them, followed to the end."""
    found, new = set(), {"kept"}
    while new:
        found |= new
        new = {name for each in new for name in _imported(each)} - found
    assert sources() == found
    assert {"scenario", "parts", "checkpoint", "streams", "cluster", "training", "simulate", "attribution"} < found


def _imported(name: str) -> set[str]:
    place, names = ROOT / "goodput", set()
    for path in [*place.glob(f"{name}.py"), *place.glob(f"{name}/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "goodput":
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("goodput."):
                names.add(node.module.split(".")[1])
            elif isinstance(node, ast.Import):
                names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("goodput.")}
    return {name for name in names if (place / f"{name}.py").exists() or (place / name).is_dir()}


def test_one_letter_of_a_source_makes_another_version(monkeypatch, tmp_path):
    before = versions.__wrapped__()
    files_of = stores._files
    changed = tmp_path / "streams.py"
    changed.write_text((ROOT / "goodput" / "streams.py").read_text("utf-8") + "#")
    monkeypatch.setattr(stores, "_files", lambda name: [changed] if name == "streams" else files_of(name))
    after = versions.__wrapped__()
    assert {name for name in before if before[name] != after[name]} == {"sources"}


# --- files that are not what they should be ------------------------------------------------------------------------


@pytest.fixture
def one_file(tmp_path):
    """A store with one file of three runs, and that file."""
    experiment([WEEK], 3, store=tmp_path)
    (path,) = files(tmp_path)
    return tmp_path, path


def test_a_torn_file_is_as_if_it_were_not_there(one_file, played):
    folder, path = one_file
    whole, wanted = path.read_bytes(), experiment([WEEK], 3)
    for length in [0, 1, 4, *range(100, len(whole), len(whole) // 12), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert len(Store(folder).read(WEEK, [1, 2, 3])) == 0
    del played[:]
    assert same(experiment([WEEK], 3, store=folder), wanted)
    assert len(played) == 3 and path.read_bytes() == whole  # and it is mended


def test_a_byte_that_flipped_never_changes_a_result(one_file):
    """Each page carries its checksum, and what a file says of itself must be just what is asked for."""
    folder, path = one_file
    whole, wanted = path.read_bytes(), kept_of_runs(WEEK, [1, 2, 3])
    found = 0
    for at in range(4, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        rows = Store(folder).read(WEEK, [1, 2, 3])
        found += len(rows)
        assert rows.equals(wanted.loc[rows.index])
    path.write_bytes(whole)
    assert Store(folder).read(WEEK, [1, 2, 3]).equals(wanted)


def test_foreign_files_are_as_if_they_were_not_there(one_file):
    folder, path = one_file
    (path.parent / "notes.parquet").write_text("not ours")
    (path.parent / "1-9-x.parquet").write_text("not ours either")
    (path.parent / "1-3-y.parquet").mkdir()
    parquet.write_table(pa.table({"seed": [1], "goodput": [2.0]}), path.parent / "1-1-z.parquet")
    (path.parent / "1-3-abc.123.tmp").write_bytes(path.read_bytes())
    assert Store(folder).read(WEEK, [1, 2, 3]).equals(kept_of_runs(WEEK, [1, 2, 3]))


def test_a_file_that_was_moved_to_another_scenario_is_not_believed(one_file):
    folder, path = one_file
    other = Store(folder)._of(PAIR[1])
    shutil.copytree(path.parent, other)
    assert len(Store(folder).read(PAIR[1], [1, 2, 3])) == 0


def test_a_store_can_be_read_by_anybody_who_reads_parquet(one_file):
    table = pd.read_parquet(one_file[1])
    assert list(table.columns) == ["seed", *columns_of(WEEK)]
    assert table["goodput"].tolist() == kept_of_runs(WEEK, [1, 2, 3])["goodput"].tolist()


# --- broken off ----------------------------------------------------------------------------------------------------


def test_whoever_breaks_off_keeps_what_was_played_and_goes_on_from_there(tmp_path, played, monkeypatch):
    """Ctrl-C as the third batch of two runs comes back: four runs are kept, and the other six are played then."""
    monkeypatch.setattr(workers, "batch_size", lambda scenario: 2)
    monkeypatch.setattr(workers, "FEWEST", 2)
    store = Store(tmp_path)
    write = store.write

    def broken(scenario, runs):
        if store.added == 4:
            raise KeyboardInterrupt
        write(scenario, runs)

    store.write = broken
    with pytest.raises(KeyboardInterrupt):
        experiment([WEEK], 10, store=store)
    del played[:]
    runs = experiment([WEEK], 10, store=tmp_path)
    assert [seed for _, seed in played] == [5, 6, 7, 8, 9, 10]
    assert same(runs, experiment([WEEK], 10))


def test_breaking_off_in_the_middle_of_a_file_leaves_none(tmp_path, monkeypatch):
    write = parquet.write_table

    def half(table, path, **options):
        write(table, path, **options)
        Path(path).write_bytes(Path(path).read_bytes()[:500])
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "write_table", half)
    with pytest.raises(KeyboardInterrupt):
        experiment([WEEK], 3, store=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def command(store, *arguments, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GOODPUT_STORE": str(store)}
    line = [sys.executable, "-m", "goodput", *map(str, arguments)]
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_in_one_line_and_the_same_command_goes_on(tmp_path, jobs):
    """The whole group of processes gets the signal, as from a terminal."""
    asked = ("compare", "baseline", "--seeds", 400, "--set", "days=20", "--jobs", jobs, "--format", "csv")
    running = command(tmp_path, *asked, start_new_session=True)
    while not files(tmp_path) and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    told = re.fullmatch(r"goodput: broken off; (\d+) runs are kept in (.*), and the same command goes on .*\n", errors)
    assert told and told[2] == str(tmp_path) and 0 < int(told[1]) < 400
    assert int(told[1]) == sum(parquet.read_metadata(path).num_rows for path in files(tmp_path))
    again = command(tmp_path, *asked)
    out, errors = again.communicate(timeout=120)
    assert errors == f"goodput: {told[1]} runs were taken from {tmp_path}; --fresh plays them again\n"
    assert out == command(tmp_path / "other", *asked).communicate(timeout=120)[0]


def test_processes_that_share_a_store_do_not_hurt_each_other(tmp_path):
    """Three at once, of the same runs and of others; each prints what it prints alone."""
    asked = ["compare", "no-spares", "--set", "days=3", "--format", "csv", "--seeds"]
    running = [command(tmp_path, *asked, seeds) for seeds in (60, 60, 90)]
    outputs = [each.communicate(timeout=120)[0] for each in running]
    assert outputs[0] == outputs[1] == command(tmp_path / "alone", *asked, 60).communicate(timeout=120)[0]
    kept = experiment([load_scenario("no-spares").but({"days": 3})], 90, store=(store := Store(tmp_path)))
    assert store.taken == 90 and store.added == 0
    assert same(kept, experiment([load_scenario("no-spares").but({"days": 3})], 90))
    assert list(tmp_path.rglob("*.tmp")) == []


# --- doors ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file: store must be a folder that can be written"):
        experiment([WEEK], 1, store=tmp_path / "file")


def test_the_store_is_the_one_named_else_that_of_the_environment_else_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("GOODPUT_STORE", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store_of(tmp_path / "named").folder == tmp_path / "named"
    assert store_of(None).folder == tmp_path / "env"
    monkeypatch.delenv("GOODPUT_STORE")
    assert store_of(None).folder == tmp_path / "cache" / "goodput"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store_of(None).folder == tmp_path / "home" / ".cache" / "goodput"


def test_without_a_folder_that_can_be_written_a_command_goes_on_and_one_that_was_named_is_refused(tmp_path):
    asked = ("compare", "baseline", "--seeds", 1, "--set", "days=1")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": "/dev/null"}
    environment.pop("GOODPUT_STORE")
    line = [sys.executable, "-m", "goodput", *map(str, asked)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "baseline" in done.stdout
    done = subprocess.run([*line, "--store", "/dev/null"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("goodput: /dev/null: store must be a folder that can be written")


@pytest.mark.parametrize("asked", [True, False])
def test_a_disk_that_fills_up_ends_a_run_only_where_the_store_was_asked_for(tmp_path, monkeypatch, asked):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    store = Store(tmp_path, asked=asked)
    if asked:
        with pytest.raises(BadInput, match="No space left on device"):
            experiment([WEEK], 2, store=store)
    else:
        assert same(experiment([WEEK], 2, store=store), experiment([WEEK], 2)) and store.added == 0


def test_the_version_is_a_name_of_a_folder():
    assert re.fullmatch(r"[\w.]+-[0-9a-f]{16}", version())


# --- batches and progress ------------------------------------------------------------------------------------------


def test_long_runs_are_played_few_at_a_time_and_short_ones_many():
    sizes = [batch_size(WEEK.but({"days": days})) for days in (1, 28, 280, 2800, 28000)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 40 and sizes[-1] == 1
    big = WEEK.but({"days": 256, "job.nodes": 16_384, "checkpoint.interval_minutes": 5})
    assert batch_size(big) == 1


@pytest.mark.parametrize("jobs", [1, 2, 16])
def test_batches_hold_each_run_once_in_order(jobs):
    work = [(PAIR[0], list(range(1, 302))), (PAIR[1], [5, 9]), (WEEK, [])]
    batches = list(workers._batches(work, jobs))
    assert [(number, seed) for number, _, seeds in batches for seed in seeds] == [
        (number, seed) for number, (_, seeds) in enumerate(work) for seed in seeds
    ]
    assert max(len(seeds) for _, _, seeds in batches) <= batch_size(WEEK)


def test_progress_counts_runs_and_those_of_the_store_at_once(tmp_path, monkeypatch):
    experiment([WEEK], 3, store=tmp_path)
    bars = []

    class Bar:
        def __init__(self, total, initial, unit, **_):
            bars.append([unit, total, initial])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, count):
            bars[-1].append(count)

    monkeypatch.setattr("tqdm.tqdm", Bar)
    experiment(PAIR, 5, store=tmp_path)
    unit, total, initial, *steps = bars[0]
    assert (unit, total, initial, sum(steps)) == ("run", 10, 3, 7)


def test_rows_stand_in_blocks_of_seeds_whatever_the_batches(monkeypatch):
    """A slow twin: for each scenario, block of seeds and column, the seeds of the block."""
    runs = experiment(PAIR, 45)
    rows = []
    for scenario in PAIR:
        kept = kept_of_runs(scenario, list(range(1, 46)))
        for first in range(0, 45, module.CHUNK):
            for name in kept:
                metric, _, cause = name.partition(".")
                block = kept[name].iloc[first : first + module.CHUNK]
                rows += [(seed, metric, cause or None, value, scenario.name) for seed, value in block.items()]
    twin = pd.DataFrame(rows, columns=list(runs.columns))
    for name in runs:
        assert runs[name].astype(object).fillna("none").tolist() == twin[name].fillna("none").tolist()
