"""Many runs: what playing 10,000 of the baseline costs beside the runs themselves, in processor time and in memory.

Each experiment is a process of its own, `python test_many.py RUNS JOBS [STORE]`, so that its memory is its own.
$GOODPUT_BENCH_RUNS plays fewer.
"""

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

RUNS = int(os.environ.get("GOODPUT_BENCH_RUNS", 10_000))


def digest(runs) -> str:
    return hashlib.sha256(pickle.dumps(runs)).hexdigest()[:16]


def peak_mb(pid: int | str) -> float:
    """Return the peak resident memory of a process so far, in MB; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0)


def workers_of(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "LokyProcess" in line]


def play(runs: int, jobs: int, store: str | None = None) -> dict:
    """Play runs of the baseline in this process, and return what it took."""
    from resource import RUSAGE_CHILDREN, getrusage

    from goodput.experiment import experiment
    from goodput.scenario import load_scenario

    peaks, over = {}, threading.Event()

    def watch():
        while not over.wait(0.5):
            peaks.update({pid: peak_mb(pid) for pid in workers_of(os.getpid())})

    if jobs > 1:
        threading.Thread(target=watch, daemon=True).start()
    began = time.process_time()
    found = experiment([load_scenario("baseline")], runs, jobs=jobs, store=store)
    cpu = time.process_time() - began
    over.set()
    if jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
        used = getrusage(RUSAGE_CHILDREN)
        cpu += used.ru_utime + used.ru_stime
    taken = {"cpu": cpu, "peak": peak_mb("self"), "workers": max(peaks.values(), default=0), "table": digest(found)}
    return taken | {"result_mb": float(found.memory_usage().sum() / 1e6)}


def started(*arguments) -> subprocess.Popen:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def measured(*arguments) -> dict:
    out, errors = (process := started(*arguments)).communicate()
    assert process.returncode == 0, errors
    return json.loads(out)


@pytest.fixture(scope="module")
def alone() -> dict:
    """All runs, one after the other, in one process."""
    return measured(RUNS, 1)


@pytest.mark.parametrize("kept", [False, True], ids=["without a store", "with a store"])
def test_all_that_is_beside_the_runs_costs_less_than_a_tenth_of_them(bench, kept):
    """Against the same batches played bare: reduced to their ledger and dropped."""
    from goodput.experiment import experiment
    from goodput.kept import batch_size, kept_of_runs
    from goodput.scenario import load_scenario

    scenario = load_scenario("baseline")
    size = batch_size(scenario)
    seeds = range(1, 2 * size + 1)

    def bare():
        for first in range(0, len(seeds), size):
            kept_of_runs(scenario, list(seeds[first : first + size]))

    def ours():
        with tempfile.TemporaryDirectory() as folder:
            experiment([scenario], seeds, jobs=1, store=folder if kept else None)

    how = "with" if kept else "without"
    bench.ratio(f"experiment {how} a store / its batches played bare", ours, bare, at_most=1.1)


def test_memory_is_flat_in_runs(bench, alone):
    """Apart from the result itself, which holds some 0.5 kB a run."""
    fewer = max(RUNS // 10, 500)
    few = measured(fewer, 1)
    more = alone["peak"] - few["peak"]
    note = f"of {fewer:,} runs {few['peak']:.0f}; the result itself {alone['result_mb']:.1f} and {few['result_mb']:.1f}"
    bench.figure(f"{RUNS:,} baseline runs: peak memory", alone["peak"], "MiB", note=note)
    assert more <= 15 + 4 * alone["result_mb"]


def test_two_workers_give_the_same_table_and_stay_as_small(bench, alone):
    two = measured(RUNS, 2)
    each = [1000 * found["cpu"] / RUNS for found in (alone, two)]
    for workers, cpu in enumerate(each, 1):
        bench.figure(f"{RUNS:,} baseline runs, workers {workers}: CPU a run", cpu, "ms")
    bench.figure(f"{RUNS:,} baseline runs, workers 2: peak memory of a worker", two["workers"], "MiB")
    assert two["table"] == alone["table"]
    assert two["workers"] <= 1.3 * alone["peak"]


def test_broken_off_twice_and_resumed_the_table_is_the_same(bench, alone, tmp_path):
    kept = []
    for share in (0.2, 0.5):
        process = started(RUNS, 2, tmp_path)
        while (done := len(list(tmp_path.rglob("*.parquet")))) * 49 < share * RUNS and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
        kept.append(done)
    resumed = measured(RUNS, 1, tmp_path)
    again = measured(RUNS, 1, tmp_path)
    note = f"broken off with {kept[0]} and {kept[1]} batches kept, {resumed['cpu']:.1f} s for the rest"
    bench.figure(f"{RUNS:,} baseline runs from the store: CPU a run", 1e6 * again["cpu"] / RUNS, "us", note=note)
    assert resumed["table"] == again["table"] == alone["table"]


def test_on_a_cluster_whose_worker_is_killed_the_table_is_the_same(bench, alone):
    distributed = pytest.importorskip("distributed")
    from joblib import parallel_config

    from goodput.experiment import experiment
    from goodput.scenario import load_scenario

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
        parallel_config("dask"),
    ):
        victim = next(iter(client.run(os.getpid).values()))
        timer = threading.Timer(RUNS / 1000, os.kill, (victim, signal.SIGKILL))
        timer.start()
        began = time.monotonic()
        found = experiment([load_scenario("baseline")], RUNS)
        took = time.monotonic() - began
        bench.figure(f"{RUNS:,} baseline runs on a cluster, one of two workers killed", took, "s", note="wall clock")
        timer.join()
        assert victim not in client.run(os.getpid).values()
    assert digest(found) == alone["table"]


if __name__ == "__main__":
    try:
        print(json.dumps(play(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
    except KeyboardInterrupt:
        sys.exit(130)
