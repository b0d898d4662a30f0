"""Who plays? This process, the cores of this machine, or a cluster: the same batches of runs, the same rows."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd

from goodput.kept import batch_size, events_of_a_run, kept_of_runs
from goodput.remote import played_there
from goodput.scenario import Scenario

SMALL = 1_000_000  # events of runs that take less time than starting workers: of 400 runs of the baseline
SHARES = 8  # batches for each of several workers, at least: so that none is left alone at the end
FEWEST = 10  # runs of a batch, where they are short: below it the calls of pandas would outweigh them


def played(work: Sequence[tuple[Scenario, list[int]]], jobs: int | None = None) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield rows of runs as they come, with the number of the scenario in `work`; each run exactly once.

    By `jobs` processes; None for as many as help, or for those of a backend of joblib that was chosen. Where that is
    Dask all its workers play, whatever `jobs`, but 1, which stays here.
    """
    events = sum(events_of_a_run(scenario) * len(seeds) for scenario, seeds in work)
    backend, workers = chosen_backend() if jobs != 1 else (None, 1)
    workers = jobs or workers or (1 if events <= SMALL else os.cpu_count() or 1)
    batches = _batches(work, workers)
    if hasattr(backend, "client"):
        with backend.retrieval_context():  # gives back the thread, where this is itself the work of a cluster
            yield from played_there(backend.client, batches)
    elif workers > 1:
        from joblib import Parallel, delayed

        with _interrupts_held():
            parallel = Parallel(workers, return_as="generator_unordered", batch_size=1)
            results = parallel(delayed(_play)(*batch) for batch in batches)
        yield from results
    else:
        yield from (_play(*batch) for batch in batches)


def chosen_backend() -> tuple[Any, int | None]:
    """Return joblib's backend and its workers, where somebody chose another than its own: `parallel_config("dask")`."""
    if "joblib" not in sys.modules:  # then nobody can have chosen
        return None, None
    from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

    backend, workers = get_active_backend()
    return (None, None) if type(backend) is BACKENDS[DEFAULT_BACKEND] else (backend, backend.effective_n_jobs(workers))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back, for processes that start meanwhile for good: it is this process alone that answers it."""
    if not hasattr(signal, "pthread_sigmask"):  # as on Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # where it starts later it lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _batches(work, workers: int) -> Iterator[tuple[int, Scenario, list[int]]]:
    runs = sum(len(seeds) for _, seeds in work)
    share = -(-runs // (SHARES * workers)) if workers > 1 else runs
    for number, (scenario, seeds) in enumerate(work):
        size = min(batch_size(scenario), max(share, FEWEST))
        yield from ((number, scenario, seeds[at : at + size]) for at in range(0, len(seeds), size))


def _play(number: int, scenario: Scenario, seeds: list[int]) -> tuple[int, pd.DataFrame]:
    return number, kept_of_runs(scenario, seeds)
