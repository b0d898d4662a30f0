"""On a cluster: the same table as here, whatever dies on the way, and one line where there is none to be had."""

import os
import pickle
import signal
import socket
import sys
import time

import pandas as pd
import pytest

from goodput import remote
from goodput.errors import BadInput, RunFailed
from goodput.experiment import experiment
from goodput.kept import kept_of_runs
from goodput.scenario import load_scenario
from goodput.store import Store, versions

distributed = pytest.importorskip("distributed", reason="the extra [distributed] is not installed")
WEEK = load_scenario("baseline").but({"days": 7})
PAIR = [WEEK, load_scenario("no-spares").but({"days": 7})]


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two worker processes, each watched by a nanny that starts it again."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def on_the_cluster(cluster):
    """Play on the cluster, as in a notebook."""
    from joblib import parallel_config

    with distributed.Client(cluster) as client, parallel_config("dask"):
        client.wait_for_workers(2, timeout=60)
        yield client


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    return pickle.dumps(one) == pickle.dumps(other)


class Killing(Store):
    """A store that, as the first rows come back, kills a worker; it counts how often each run came."""

    def __init__(self, folder, pid: int):
        super().__init__(folder)
        self.pid, self.came = pid, []

    def write(self, scenario, runs):
        if not self.came:
            os.kill(self.pid, signal.SIGKILL)
        self.came += [(scenario.name, seed) for seed in runs.index]
        super().write(scenario, runs)


# --- the same table ------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_in_the_middle_costs_no_run_and_doubles_none(on_the_cluster, cluster, tmp_path):
    """300 runs in 30 batches, and half of the workers dies with what it holds as the first batch comes back."""
    store = Killing(tmp_path, next(iter(on_the_cluster.run(os.getpid).values())))
    found = experiment(PAIR, 150, store=store)
    assert sorted(store.came) == [(scenario.name, seed) for scenario in PAIR for seed in range(1, 151)]
    assert same(found, experiment(PAIR, 150, jobs=1))
    assert store.pid not in on_the_cluster.run(os.getpid).values()


def test_a_chosen_backend_plays_however_few_the_runs_are(on_the_cluster, monkeypatch):
    """Not one run is played in this process: its own function would fail."""
    monkeypatch.setattr("goodput.workers.kept_of_runs", None)
    assert len(experiment([WEEK], 2)["seed"].unique()) == 2


def test_one_process_that_was_asked_for_stays_here(on_the_cluster, monkeypatch):
    monkeypatch.setattr("goodput.workers.played_there", None)
    assert len(experiment([WEEK], 2, jobs=1)["seed"].unique()) == 2


def test_more_processes_than_one_are_those_of_the_cluster(on_the_cluster, monkeypatch):
    monkeypatch.setattr("joblib.Parallel", None)
    assert len(experiment([WEEK], 2, jobs=2)["seed"].unique()) == 2


def test_a_command_sent_to_a_cluster_prints_the_same_bytes(cluster, run, monkeypatch):
    asked = ("compare", "no-spares", "--set", "days=7", "--seeds", 21, "--format", "json", "--fresh")
    here = run(*asked)
    monkeypatch.setattr("goodput.workers.kept_of_runs", None)
    assert run(*asked, "--cluster", cluster.scheduler_address) == here
    assert here[0] == 0 and here[2] == ""


def test_a_sweep_may_be_sent_as_well_and_is_kept_here(cluster, run, own_store):
    """Two scenarios of five seeds: the one with 4 spares is the baseline as it is."""
    asked = ("sweep", "baseline", "pool.spares", "0,4", "--set", "days=7", "--seeds", 5)
    code, out, errors = run(*asked, "--cluster", cluster.scheduler_address)
    assert (code, errors) == (0, "")
    assert run(*asked) == (0, out, f"goodput: 10 runs were taken from {own_store}; --fresh plays them again\n")


def test_what_is_sent_and_what_comes_back_are_small():
    """A batch of the baseline: less than 4 kB to the worker, less than 300 bytes a run back."""
    seeds = list(range(1, 50))
    assert len(pickle.dumps((versions(), 0, WEEK, seeds))) < 4000
    assert len(pickle.dumps((0, kept_of_runs(WEEK, seeds)))) < 300 * len(seeds)


# --- what can go wrong ---------------------------------------------------------------------------------------------


def test_workers_with_other_versions_are_refused_by_name(on_the_cluster, monkeypatch):
    monkeypatch.setattr(remote, "versions", lambda: versions() | {"numpy": "1.0"})
    with pytest.raises(BadInput, match=r"one has numpy \d[\d.]*, not 1\.0$"):
        experiment([WEEK], 2)


def test_a_worker_that_lacks_the_package_is_told_how_to_get_it():
    with (
        pytest.raises(BadInput, match=r"workers must have the package goodput: pip install 'goodput-workbench"),
        remote._faults_in_one_line(),
    ):
        raise ModuleNotFoundError("No module named 'goodput'", name="goodput")


def test_runs_that_kill_every_worker_end_in_one_line():
    with pytest.raises(RunFailed, match="4 workers died of the same runs"), remote._faults_in_one_line():
        raise distributed.KilledWorker("task", None, 3)


@pytest.mark.parametrize("address", ["nonsense://x", "foo", "", "tcp://127.0.0.1:abc", "tcp://127.0.0.1:1"])
def test_an_address_without_a_scheduler_ends_in_one_line_within_seconds(run, address):
    began = time.monotonic()
    code, out, errors = run("compare", "--seeds", 2, f"--cluster={address}")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert f"--cluster={address} must be the address of a Dask scheduler, as tcp://host:8786: " in errors
    assert time.monotonic() - began < 20


def test_what_answers_but_is_no_scheduler_is_not_waited_for(run, monkeypatch):
    """A socket that takes what is said, and says nothing."""
    monkeypatch.setattr(remote, "SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, _, errors = run("compare", "--seeds", 2, f"--cluster=127.0.0.1:{port}")
    assert code == 2 and "must be the address of a Dask scheduler" in errors and errors.count("\n") == 1


def test_a_scheduler_without_workers_ends_in_one_line(run, monkeypatch):
    monkeypatch.setattr(remote, "SECONDS", 1)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        code, out, errors = run("compare", "--seeds", 2, "--cluster", empty.scheduler_address)
    assert (code, out) == (2, "")
    assert errors == f"goodput: --cluster={empty.scheduler_address} must have workers, and has none\n"


def test_processes_here_and_a_cluster_are_not_asked_for_together(run):
    code, out, errors = run("compare", "--jobs", 2, "--cluster", "tcp://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert errors == "goodput: --jobs=2 must not go with --cluster, whose workers are all used\n"


@pytest.mark.parametrize("package", ["dask", "distributed"])
def test_without_the_package_the_line_says_how_to_get_it(run, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    code, out, errors = run("compare", "--seeds", 2, "--cluster", "tcp://host:8786")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert "must be installed: pip install 'goodput-workbench[distributed]'" in errors
