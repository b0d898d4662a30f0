"""Who else can play? A Dask cluster gets batches of runs and sends back their rows, whatever dies on the way.

Like a marker who hands out exam papers: one that a helper took home and lost is handed out again.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pandas as pd

from goodput.errors import BadInput, RunFailed
from goodput.kept import kept_of_runs
from goodput.scenario import Scenario
from goodput.store import versions

HOW = "pip install 'goodput-workbench[distributed]'"
SECONDS = 5  # until an address is given up
AHEAD = 1000  # batches that a scheduler holds at a time: enough for some hundred workers


def played_there(client: Any, batches: Iterable[tuple[int, Scenario, list[int]]]) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the number of each batch and its rows, as they come from a cluster; each exactly once.

    A batch is a scenario and seeds, some two kB; back come some 265 bytes a run of the baseline. What a worker had that
    died is played by another. Raises BadInput where a worker has other versions, for its runs would be others.
    """
    from distributed import CancelledError, as_completed

    batches, here = iter(batches), versions()

    def sent(count: int) -> list:
        return [client.submit(_play, here, *batch, pure=False) for batch in islice(batches, count)]

    done = as_completed(sent(AHEAD), loop=client.loop, with_results=True)
    try:
        with _faults_in_one_line():
            for future, result in done:
                if future.cancelled():
                    raise CancelledError
                yield result
                done.update(sent(1))
    finally:
        client.cancel(list(done.futures))


@contextmanager
def _faults_in_one_line() -> Iterator[None]:
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except ModuleNotFoundError as error:
        raise BadInput(f"cluster: workers must have the package {error.name}: {HOW}") from None
    except KilledWorker as error:
        raise RunFailed(f"cluster: {error.allowed_failures + 1} workers died of the same runs") from None
    except CancelledError:
        raise RunFailed("cluster: the scheduler is gone, or has let go of the runs") from None


def _play(wanted: dict[str, str], number: int, scenario: Scenario, seeds: list[int]) -> tuple[int, pd.DataFrame]:
    """Play a batch on a worker, if it is the same there."""
    here = versions()
    if other := [f"{name} {here[name]}, not {wanted[name]}" for name in wanted if here[name] != wanted[name]]:
        raise BadInput(f"cluster: workers must have the versions that are here, but one has {'; '.join(other)}")
    return number, kept_of_runs(scenario, seeds)


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Play all experiments of a block on the Dask cluster whose scheduler has this address; here, where it is None.

    Raises BadInput where there is no scheduler, or none with workers.
    """
    if address is None:
        yield
        return
    with _client(address) as client:
        from joblib import parallel_config

        with parallel_config("dask", client=client):
            yield


async def _greeted(address: str) -> None:
    """Raise OSError or ValueError where no scheduler answers: a client would go on waiting for some that do not."""
    from distributed.comm import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=SECONDS, **arguments), SECONDS + 1)
    await comm.close()


def _client(address: str) -> Any:
    try:
        import dask

        # it would tell of each try to connect, and of a scheduler that is gone
        dask.config.set({"logging": {"distributed": "critical", "distributed.client": "critical"}})
        from distributed import Client
    except ImportError as error:
        raise BadInput(f"--cluster: package {error.name} must be installed: {HOW}") from None
    try:
        asyncio.run(_greeted(address))
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        rule = "must be the address of a Dask scheduler, as tcp://host:8786"
        raise BadInput(f"--cluster={address} {rule}: {reason}") from None
    try:
        client.wait_for_workers(1, timeout=SECONDS)
    except TimeoutError:
        client.close()
        raise BadInput(f"--cluster={address} must have workers, and has none") from None
    return client
