"""Event logs on disk: JSON Lines, one event a line; `#` comments and blank lines are ignored.

Clean blocks of lines take the fast path: pyarrow with an explicit schema. A block that it refuses goes line by line
through a pydantic model, which reads what is legal but rare (a list of nodes, mixed kinds of time) and sets aside,
with a finding, each line that is not legal. `mend` then sets order and gaps right.
"""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from goodput.errors import BadInput, NothingHappened, printable
from goodput.events import COLUMNS, EVENTS, JOB_EVENTS, Finding, Imported, Unreadable, concat_logs, make_log
from goodput.line import LATEST, SIZES, NoZone, UnknownEvent, job_in, moment, read_line, zone_of
from goodput.lines import LINE_BYTES, Block, read_blocks
from goodput.mend import mend

__all__ = ["mended", "moment", "read_log", "zone_of"]

_NO_TIME = np.iinfo("int64").min
_TIMES = ("time", "after")
_FLAGS = ("planned", "async")
_TEXTS = tuple(name for name, dtype in COLUMNS.items() if dtype == "category" and name != "file")


def read_log(
    paths: str | Path | Iterable[str | Path],
    timezone: str | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    as_of: int | None = None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the log of one file or several (parts of one log, or many), ordered, and what in it was not clean.

    What is torn, doubled, out of order or missing is set right as `mend` says, each with a finding. `timezone` (an
    IANA name) is for times without a zone; `nodes` and `gpus_per_node` where the log does not say a job's size;
    `as_of` (microseconds since 1970) closes jobs without an end. Raises BadInput for a file that cannot be opened,
    holds no event at all, or has a time without a zone.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    zone = zone_of(timezone)
    seen = {"time", "job", "event"}
    parts = [_parse(block, Path(path), zone, seen) for path in paths for block in read_blocks(Path(path))]
    return mended(parts, str(paths[0]), nodes, gpus_per_node, as_of)


def mended(
    parts: list[Imported],
    where: str,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    as_of: int | None = None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the parts of a log, of whatever format, as one that is ordered and possible, and all that was found.

    Raises BadInput, naming `where`, for a log without an event.
    """
    logs = [part.log for part in parts if part.log is not None]
    findings = [finding for part in parts for finding in part.findings]
    unreadable = [line for part in parts for line in part.unreadable]
    if not logs:
        said = [f"line {bad.line}: {bad.why}" for bad in unreadable] + [found.message for found in findings]
        why = f": {said[0]}" if said else ", it is empty"
        raise NothingHappened(f"{where}: log must hold at least one event{why}")
    log, more = mend(concat_logs(logs), unreadable, nodes, gpus_per_node, as_of)
    return log, findings + more


def _parse(block: Block, path: Path, zone: ZoneInfo | None, seen: set[str]) -> Imported:
    found = _read_fast(block, path, seen)
    parsed = Imported(found, [], []) if found is not None else _read_slowly(block, path, zone)
    if block.breaks_off:
        said = "the packed file breaks off before its end: read up to there"
        parsed.findings.append(Finding("warning", "cut-file", printable(path), None, said))
    return parsed


def _read_fast(block: Block, path: Path, seen: set[str]) -> pd.DataFrame | None:
    """Return the events of a clean block, or None where it needs the slow path."""
    import pyarrow as pa

    # times are all text or all numbers; a mixture takes the slow path
    numeric = re.search(rb'"time"\s*:\s*[0-9]', block.data[:LINE_BYTES].partition(b"\n")[0]) is not None
    try:
        table = _read_table(block.data, seen, numeric)
        used = [name for name in table.column_names if table[name].null_count < len(table)]
        columns = {name: _column(name, table[name], numeric) for name in used}
    except (pa.ArrowException, _NeedsSlowPath, UnicodeDecodeError):
        return None
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    if len(table) != lines:  # pyarrow skips blank lines without counting them
        return None
    if not {"time", "event"} <= columns.keys():
        return None
    if not _is_clean(columns):
        return None
    return _with_place(columns, path, block.first_line + np.arange(len(columns["time"])))


def _read_table(data: bytes, seen: set[str], numeric: bool):
    """Return lines as a pyarrow table; known columns that turn up are remembered in `seen`, and read as they must be.

    To name all known columns at once would cost three times as much: pyarrow fills each that a line does not have.
    """
    import pyarrow as pa
    from pyarrow import json

    kinds = dict.fromkeys(_TIMES, pa.float64() if numeric else pa.string()) | dict.fromkeys(_TEXTS, pa.string())
    kinds |= dict.fromkeys(SIZES, pa.int32()) | dict.fromkeys(_FLAGS, pa.bool_())
    while True:
        schema = pa.schema([(name, kinds[name]) for name in sorted(seen)])
        options = json.ParseOptions(explicit_schema=schema)
        table = json.read_json(pa.BufferReader(data), json.ReadOptions(block_size=2 * len(data)), options)
        more = kinds.keys() & set(table.column_names) - seen
        if not more:
            return table
        seen |= more


def _column(name: str, column: Any, numeric: bool) -> Any:
    """Return a column as `make_log` takes it; raises ArrowException for a time that cannot be read."""
    import pyarrow as pa

    if name in _TIMES:
        return _micros(column, numeric)
    if name in _TEXTS:
        return column.dictionary_encode().to_pandas().array
    if name in _FLAGS:
        return np.asarray(column.fill_null(False))
    if name in SIZES:
        return np.asarray(column.fill_null(0)), np.asarray(column.is_null())
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
        raise _NeedsSlowPath  # an unknown field is kept as it was: a text that looks like a time is a text
    return pd.Series(column.to_pylist(), dtype=object).array  # whole numbers stay whole beside nulls


class _NeedsSlowPath(Exception):
    pass


def _micros(column: Any, numeric: bool) -> np.ndarray:
    """Return a column of times as microseconds since 1970 UTC; a null is the least int64."""
    import pyarrow as pa

    if numeric:  # NaN and infinity are not JSON; what is out of range is refused later
        micros = np.rint(np.clip(np.asarray(column.fill_null(0.0)), -1, 1e11) * 1e6).astype("int64")
        return np.where(np.asarray(column.is_null()), _NO_TIME, micros)
    # the cast refuses a time without a zone, and a fraction finer than microseconds
    return np.asarray(column.cast(pa.timestamp("us", "UTC")).cast("int64").fill_null(_NO_TIME))


def _with_place(columns: dict[str, Any], path: Path, lines: Any) -> pd.DataFrame:
    columns["file"] = pd.Categorical.from_codes(np.zeros(len(lines), "int8"), [printable(path)])
    columns["line"] = lines
    return make_log(columns)


def _is_clean(columns: dict[str, Any]) -> bool:
    columns["event"] = columns["event"].set_categories(EVENTS)
    event = columns["event"].codes
    job, node = (columns[name].codes if name in columns else np.full(len(event), -1) for name in ("job", "node"))
    named = np.where(event >= len(JOB_EVENTS), node, job) >= 0
    return bool((event >= 0).all() and named.all() and _are_in_range(columns) and not _has_empty_text(columns))


def _are_in_range(columns: dict[str, Any]) -> bool:
    sizes = all(
        ((low <= columns[name][0]) & (columns[name][0] <= high) | columns[name][1]).all()
        for name, (low, high) in SIZES.items()
        if name in columns
    )
    after = columns["after"][columns["after"] != _NO_TIME] if "after" in columns else np.array([], "int64")
    return sizes and all(((time >= 0) & (time < LATEST)).all() for time in (columns["time"], after))


def _has_empty_text(columns: dict[str, Any]) -> bool:
    return any("" in columns[name].categories for name in _TEXTS if name in columns and name != "event")


def _read_slowly(block: Block, path: Path, zone: ZoneInfo | None) -> Imported:
    rows, lines, findings, unreadable = [], [], [], []
    for number, text in enumerate(block.data.split(b"\n"), block.first_line):
        text = text.strip(b"\r \t\0")
        if not text or text[:1] == b"#":
            continue
        said = partial(Finding, file=printable(path), line=number)
        try:
            row, notes = read_line(text, zone)
            rows.append(row)
            lines.append(number)
            findings += [
                said("warning" if code == "absurd-size" else "note", code, message=note) for code, note in notes
            ]
        except NoZone as error:
            raise BadInput(f"{path}:{number}: {error}") from None
        except UnknownEvent as error:
            findings.append(said("warning", "unknown-event", message=f"{error}: line ignored"))
        except ValueError as error:
            unreadable.append(Unreadable(printable(path), number, job_in(text), str(error)))
    return Imported(_columns(rows, lines, path) if rows else None, findings, unreadable)


def _columns(rows: list[dict[str, Any]], lines: list[int], path: Path) -> pd.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    for name in _TIMES:
        columns[name] = [_NO_TIME if value is None else value for value in columns[name]]
    for name in names:
        if name not in COLUMNS:  # unknown fields may hold anything
            columns[name] = pd.Series(columns[name], dtype=object).array
    return _with_place(columns, path, np.array(lines))
