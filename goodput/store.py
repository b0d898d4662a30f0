"""Was this run played before? Finished runs are kept as Parquet files, by what was assumed, seed and version.

FOLDER/<version>/<scenario>/<first seed>-<last seed>-<seeds>.parquet holds one row a seed, as `kept_of_runs` gives it,
and in its metadata the scenario. A file appears whole or not at all, so whoever stops at any moment, or shares the
folder, leaves nothing that harms. What cannot be read, or is of something else, is as if it were not there.
"""

import hashlib
import json
import os
import platform
import re
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from goodput import __version__
from goodput.errors import BadInput
from goodput.kept import columns_of
from goodput.scenario import Scenario

_IMPORT = re.compile(r"^\s*(?:from goodput\.|import goodput\.|from goodput import )(\w+)", re.MULTILINE)


def content(scenario: Scenario) -> str:
    """Return all that a run depends on but its seed, as JSON: two scenarios that differ in name alone have the same.

    The order of cohorts and causes stays: nodes are numbered in it.
    """
    return json.dumps(scenario.model_dump(exclude={"name"}))


def sources(name: str = "kept") -> set[str]:
    """Return the modules of this package that a module needs, itself included: what decides a run.

    >>> {"cluster", "training", "attribution"} < sources(), "figures" in sources()
    (True, False)
    """
    found, new = set(), {name}
    while new:
        found |= new
        new = {each for name in new for path in _files(name) for each in _IMPORT.findall(path.read_text("utf-8"))}
        new = {each for each in new - found if _files(each)}
    return found


def _files(name: str) -> list[Path]:
    place = Path(__file__).parent
    return sorted([*place.glob(f"{name}.py"), *place.glob(f"{name}/*.py")])


@cache
def versions() -> dict[str, str]:
    """Return what must be equal for two runs to be equal to the last bit, by name."""
    from importlib.metadata import version as version_of

    import scipy

    texts = b"".join(path.read_bytes() for name in sorted(sources()) for path in _files(name))
    return {
        "goodput": __version__,
        "sources": hashlib.sha256(texts).hexdigest()[:12],
        "python": ".".join(platform.python_version_tuple()[:2]),  # sum() of floats is another since 3.12
        "machine": platform.machine(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "simpy": version_of("simpy"),
    }


def version() -> str:
    """Return a name for all of `versions()`: the package's version and a hash."""
    return f"{__version__}-{_hash(json.dumps(versions()))}"


def _hash(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


class Store:
    """A folder of finished runs. `taken` and `added` count the runs read from it and written to it.

    Raises BadInput, naming the folder, where it cannot be written; a store that nobody `asked` for, and that fails
    later, as on a full disk, is given up in silence.
    """

    def __init__(self, folder: str | Path, asked: bool = True):
        self.folder = Path(folder).expanduser()
        self.asked = asked
        self.taken = self.added = 0
        self._place = self.folder / version()
        try:
            self._place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refused(error.strerror) from None
        if not os.access(self._place, os.W_OK):
            raise self._refused("Permission denied")

    def read(self, scenario: Scenario, seeds: Sequence[int]) -> pd.DataFrame:
        """Return the rows, of these seeds, that are there; the newest, where a run was written twice."""
        wanted, schema = np.sort(seeds), _schema(scenario)
        files = [path for path in self._of(scenario).glob("*.parquet") if _may_hold(path.stem, wanted)]
        found = [_frame(path, schema) for path in sorted(files, key=_written)]
        nothing = pd.DataFrame(
            columns=columns_of(scenario), index=pd.Index([], dtype="int64", name="seed"), dtype=float
        )
        runs = pd.concat([nothing, *found])  # one that could not be read is None, and left out
        runs = runs[~runs.index.duplicated(keep="last") & runs.index.isin(wanted)]
        self.taken += len(runs)
        return runs

    def write(self, scenario: Scenario, runs: pd.DataFrame) -> None:
        """Keep these runs: one row a seed, with the columns of `columns_of`."""
        from pyarrow import parquet

        seeds = runs.index.to_numpy("int64")
        path = self._of(scenario) / f"{seeds.min()}-{seeds.max()}-{_hash(seeds.tobytes())}.parquet"
        aside = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # as they are: numbers of runs hardly repeat, and a batch is written in a few milliseconds
            parquet.write_table(
                _table(runs, _schema(scenario)),
                aside,
                compression="none",
                use_dictionary=False,
                write_statistics=False,
                write_page_checksum=True,
            )
            aside.replace(path)
            self.added += len(runs)
        except OSError as error:
            if self.asked:
                raise self._refused(error.strerror or error) from None
        finally:
            if aside.exists():
                aside.unlink()

    def _of(self, scenario: Scenario) -> Path:
        return self._place / _hash(content(scenario))

    def _refused(self, reason) -> BadInput:
        return BadInput(f"{self.folder}: store must be a folder that can be written: {reason}")


def _schema(scenario: Scenario) -> pa.Schema:
    """Return what a file is and says of itself: it is believed only by who asks for just this."""
    columns = [("seed", pa.int64()), *((name, pa.float64()) for name in columns_of(scenario))]
    return pa.schema(columns, {"scenario": content(scenario), "versions": json.dumps(versions())})


def _table(runs: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    columns = [runs.index.to_numpy("int64"), *np.ascontiguousarray(runs.to_numpy(float).T)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema)


def _may_hold(name: str, wanted: np.ndarray) -> bool:
    """Return whether a file of this name can hold one of these seeds (in order); a foreign name cannot."""
    found = re.fullmatch(r"(\d+)-(\d+)-\w+", name)
    return bool(found) and np.diff(np.searchsorted(wanted, [int(found[1]), int(found[2]) + 1]))[0] > 0


def _written(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:  # somebody took it away
        return 0, path.name


def _frame(path: Path, schema: pa.Schema) -> pd.DataFrame | None:
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
    except (OSError, pa.ArrowException):
        return None
    if not table.schema.equals(schema, check_metadata=True):
        return None
    return table.replace_schema_metadata().to_pandas().set_index("seed")


def store_of(folder: Path | None) -> Store | None:
    """Return the store of a folder; else that of $GOODPUT_STORE, or the user's own: None if that cannot be written."""
    named = folder or os.environ.get("GOODPUT_STORE")
    if named:
        return Store(named)
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Store(Path(cache_home).expanduser() / "goodput", asked=False)
    except (BadInput, RuntimeError):  # a read-only home, as in a container, or none at all
        return None
