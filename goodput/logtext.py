"""Event logs as text: what `goodput simulate` and `goodput convert` write."""

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pandas as pd

from goodput.errors import BadInput

_TIMES = ("time", "after")
_FLAGS = ("planned", "async")


def write_log(log: pd.DataFrame, path: str | Path) -> None:
    """Write a log as JSON Lines (`.gz`: compressed), times in UTC; reading it back gives the same log.

    The file appears whole or not at all.
    """
    with written_whole(Path(path)) as file:
        file.write(log_text(log).encode())


def log_text(log: pd.DataFrame) -> str:
    """Return a log as JSON Lines text, one event a line, null fields left out."""
    used = [name for name in log.columns if name not in ("file", "line") and log[name].notna().any()]
    fields = {name: _json_values(log[name]) for name in used}
    rows = (
        "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, row, strict=True) if value is not None) + "}\n"
        for keys in [[json.dumps(name) for name in fields]]
        for row in zip(*fields.values(), strict=True)
    )
    return "".join(rows)


def _json_values(column: pd.Series) -> list[str | None]:
    """Return each value of a column as JSON text; None where it is null, or false for a flag."""
    if column.name in _FLAGS:
        return ["true" if flag else None for flag in column]
    if column.name in _TIMES:
        return [None if pd.isna(time) else json.dumps(iso(time)) for time in column]
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return [None if null else json.dumps(value, default=str) for value, null in pairs]


def iso(time: pd.Timestamp) -> str:
    """Return a time as ISO 8601 text in UTC, with a fraction only where it carries one."""
    return time.tz_convert("UTC").isoformat().replace("+00:00", "Z")


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that is moved to `path` when the block ends well, and is gone when it does not.

    A link stays one, and so does a device or a pipe as /dev/null: what cannot be replaced is written as it is.
    """
    if not path.name or path.is_dir():
        raise BadInput(f"{path}: file must be writable: Is a directory")
    special = path.exists() and not path.is_file()
    place = path if special else path.resolve()
    aside = path if special else place.with_name(f".{place.name}.{os.getpid()}")
    try:
        # mtime=0: the same log gives the same bytes
        with (
            open(aside, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw as file,
        ):
            yield file
        if not special:
            aside.replace(place)
    except OSError as error:
        raise BadInput(f"{path}: file must be writable: {error.strerror or error}") from None
    finally:
        if not special:
            aside.unlink(missing_ok=True)
