"""A folder of logs against its files: what looking, sharing out and merging add, and what memory they need."""

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from goodput.digest import Asked, asked_part, digest
from goodput.importers import read_any
from goodput.logtext import write_log
from goodput.many_logs import PART_BYTES, Reading, digest_logs
from goodput.scenario import load_scenario
from goodput.simulate import simulate_many

LOGS, ROUNDS = 12, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Twelve logs of 14 MB, ten jobs each, saves every five minutes."""
    path = tmp_path_factory.mktemp("logs")
    often = {"checkpoint.interval_minutes": 5, "checkpoint.blocking_minutes": 0.05}
    for number in range(LOGS):
        seeds = range(10 * number + 1, 10 * number + 11)
        write_log(simulate_many(load_scenario("baseline").but(often), seeds), path / f"{number:02}.jsonl")
    return path


def one_by_one(files) -> None:
    """Read and reduce each file by itself: what no way to read them all can do without."""
    for file in files:
        log, findings = read_any(file, "native")
        digest(log, asked_part(log, Asked()), findings, Asked())


def analyzed(paths, jobs: int) -> tuple[float, float]:
    """Return the processor seconds of `goodput analyze` with its workers, and its largest process in MB."""
    command = [sys.executable, "-m", "goodput", "analyze", *map(str, paths), "--jobs", str(jobs), "--format", "json"]
    code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(done.stdout)


def test_a_folder_costs_at_most_a_fifth_more_than_its_files_one_by_one(bench, folder):
    files = sorted(folder.iterdir())[:4]
    assert sum(file.stat().st_size for file in files) > PART_BYTES
    bench.ratio(
        "a folder of logs / its files one by one",
        lambda: digest_logs(files, Reading(), jobs=1),
        lambda: one_by_one(files),
        at_most=1.2,
        rounds=ROUNDS,
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_memory_is_flat_in_the_number_of_logs(bench, folder, jobs):
    """Three times as many logs in a process each time; of several processes the largest counts."""
    files = sorted(folder.iterdir())
    (_, few), (_, many) = analyzed(files[:4], jobs), analyzed(files, jobs)
    note = f"{many:.0f} and {few:.0f} MiB"
    bench.figure(f"12 logs / 4 logs, --jobs {jobs}: peak memory", many / few, "times", at_most=1.25, note=note)


def test_two_processes_take_as_much_time_together_as_one(bench, folder):
    """But for what starting them costs, about a second each: over twelve logs it is still seen."""
    (two, _), (one, _) = analyzed([folder], 2), analyzed([folder], 1)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    note = f"{size:.0f} MB, {os.cpu_count()} cores"
    bench.figure("12 logs: two processes together / one", two / one, "times", at_most=1.8, note=note)
