"""Event logs on disk: JSON Lines, one event a line, plain or `.gz`; `#` comments and blank lines are ignored.

Clean files take the fast path: pyarrow with an explicit schema. Whatever it refuses goes line by line through a
pydantic model, which reads what is legal but rare (a list of nodes, mixed kinds of time) and names the line that is
not legal.
"""

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from goodput.errors import BadInput, nearest, problem_of
from goodput.events import (
    COLUMNS,
    EVENTS,
    JOB_EVENTS,
    NODE_EVENTS,
    Finding,
    check_order,
    check_sizes,
    codes,
    concat_logs,
    make_log,
    order_log,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = np.iinfo("int64").min
_TIMES = ("time", "after")
_NUMBERS = ("nodes", "gpus_per_node")
_FLAGS = ("planned", "async")
_TEXTS = tuple(name for name, dtype in COLUMNS.items() if dtype == "category" and name != "file")


def read_log(paths: str | Path | Iterable[str | Path]) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the log of one file or several, ordered, and what was found in it that is not clean.

    Raises BadInput, naming the file and the line, for what cannot be read and for an impossible order of events.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    log = order_log(concat_logs([_read_one(Path(path)) for path in paths]))
    check_order(log)
    check_sizes(log)
    log, findings = name_causes(log)
    return log, findings + find_open_jobs(log)


def name_causes(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the log with `unknown` as the cause of interrupts that give none, and a warning for each."""
    nameless = (log["event"] == "interrupt") & log["cause"].isna()
    if not nameless.any():
        return log, []
    cause = log["cause"].cat.add_categories(["unknown"] if "unknown" not in log["cause"].cat.categories else [])
    said = "interrupt has no cause: charged to unknown"
    rows = log[nameless].itertuples()
    findings = [Finding("warning", "no-cause", row.file, int(row.line), f"job {row.job}: {said}") for row in rows]
    return log.assign(cause=cause.mask(nameless, "unknown")), findings


def find_open_jobs(log: pd.DataFrame) -> list[Finding]:
    """Return a note for each job without an `end`: it is closed at its last event."""
    rows = np.flatnonzero(codes(log["job"]) >= 0)
    last = log.iloc[rows].drop_duplicates("job", keep="last")
    last = last[last["event"] != "end"]
    said = "has no end event: closed at its last event,"
    return [
        Finding("note", "no-end", row.file, int(row.line), f"job {row.job} {said} {row.time:%Y-%m-%dT%H:%M:%SZ}")
        for row in last.itertuples()
    ]


def read_lines(path: Path) -> tuple[bytes, np.ndarray]:
    """Return a file's bytes without blank lines and `#` comments, and the line number of each line left.

    Raises BadInput for a file that is missing, is not what its name says, or holds no line.
    """
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except FileNotFoundError:
        raise BadInput(f"{path}: file must exist") from None
    except (OSError, EOFError) as error:
        raise BadInput(f"{path}: file must be readable: {error}") from None
    lines = data.removeprefix(b"\xef\xbb\xbf").splitlines()
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and line.lstrip()[:1] != b"#"]
    if not kept:
        raise BadInput(f"{path}: log must hold at least one event, it is empty")
    return b"\n".join(line for _, line in kept), np.array([number for number, _ in kept])


def _read_one(path: Path) -> pd.DataFrame:
    data, numbers = read_lines(path)
    columns = _read_fast(data)
    if columns is None:
        columns = _read_slowly(data, numbers, path)
    columns["file"] = pd.Categorical.from_codes(np.zeros(len(numbers), "int8"), [str(path)])
    columns["line"] = numbers
    return make_log(columns)


def _read_fast(data: bytes) -> dict[str, Any] | None:
    """Return the columns of a clean file, or None where it needs the slow path."""
    import pyarrow as pa
    from pyarrow import json

    fields = [(name, pa.string()) for name in (*_TIMES, *_TEXTS)]
    fields += [(name, pa.int32()) for name in _NUMBERS] + [(name, pa.bool_()) for name in _FLAGS]
    try:
        table = json.read_json(
            io.BytesIO(data),
            json.ReadOptions(block_size=1 << 24),
            json.ParseOptions(explicit_schema=pa.schema(fields)),
        )
        # the cast refuses a time without a zone, and a fraction finer than microseconds
        times = {name: table[name].cast(pa.timestamp("us", "UTC")).cast("int64") for name in _TIMES}
    except pa.ArrowException:
        return None
    columns: dict[str, Any] = {name: np.asarray(column.fill_null(_NO_TIME)) for name, column in times.items()}
    columns |= {name: table[name].dictionary_encode().to_pandas().array for name in _TEXTS}
    columns |= {name: np.asarray(table[name].fill_null(False)) for name in _FLAGS}
    columns |= {name: (np.asarray(table[name].fill_null(0)), np.asarray(table[name].is_null())) for name in _NUMBERS}
    columns |= {name: table[name].to_pandas().array for name in table.column_names if name not in COLUMNS}
    return columns if _is_clean(columns) else None


def _is_clean(columns: dict[str, Any]) -> bool:
    columns["event"] = columns["event"].set_categories(EVENTS)
    event, job, node = (columns[name].codes for name in ("event", "job", "node"))
    of_node = event >= len(JOB_EVENTS)
    named = np.where(of_node, node, job) >= 0
    sizes = all((columns[name][0] >= 0).all() for name in _NUMBERS)
    empty = any("" in columns[name].categories for name in ("job", "node"))
    return bool((columns["time"] != _NO_TIME).all() and (event >= 0).all() and named.all() and sizes and not empty)


def moment(value: Any) -> int:
    """Return a time of a log as microseconds since 1970 UTC."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(value * 1e6)
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("an ISO 8601 time with a zone, or seconds since 1970 UTC") from None
    if moment.tzinfo is None:
        raise ValueError("a time with a zone: end it with Z or an offset such as +09:00")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _folded(value: Any) -> Any:
    """Return a list of node names as one folded name, `gpu[1-3]`; anything else as it is."""
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        return value
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(value))


def _known_event(value: Any) -> str:
    if value not in EVENTS:
        raise ValueError(f"a known event; {nearest(str(value), EVENTS)}")
    return value


Moment = Annotated[int, BeforeValidator(moment)]
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[Text, BeforeValidator(_folded)]
Size = Annotated[int, Field(ge=0, lt=1 << 31)]


class Line(BaseModel):
    """One line of a log file; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", strict=True)

    time: Moment
    job: Text | None = None
    event: Annotated[str, BeforeValidator(_known_event)]
    cause: Text | None = None
    node: Names | None = None
    nodes: Size | None = None
    gpus_per_node: Size | None = None
    node_names: Names | None = None
    joined: Names | None = None
    left: Names | None = None
    planned: bool = False
    async_: bool = Field(False, alias="async")
    after: Moment | None = None
    id: str | int | None = None
    resumed_from: str | int | None = None
    outcome: Text | None = None

    @model_validator(mode="after")
    def _is_named(self):
        key = "node" if self.event in NODE_EVENTS else "job"
        if not getattr(self, key):
            raise ValueError(f"{key} must be given")
        return self


def _read_slowly(data: bytes, numbers: np.ndarray, path: Path) -> dict[str, Any]:
    lines = [
        _read_line(line, f"{path}:{number}") for line, number in zip(data.split(b"\n"), numbers.tolist(), strict=True)
    ]
    names = dict.fromkeys(name for line in lines for name in line)
    columns: dict[str, Any] = {name: [line.get(name) for line in lines] for name in names}
    for name in _TIMES:
        columns[name] = [_NO_TIME if value is None else value for value in columns[name]]
    return columns


def _read_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where}: line must be JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadInput(f"{where}: line must be a JSON object, {{...}}")
    try:
        return Line.model_validate(fields).model_dump(by_alias=True)
    except ValidationError as error:
        raise BadInput(f"{where}: {problem_of(error)}") from None


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
    """Yield a file that is moved to `path` when the block ends well, and is gone when it does not."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # mtime=0: the same log gives the same bytes
        with (
            open(aside, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw as file,
        ):
            yield file
        aside.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: file must be writable: {error.strerror or error}") from None
    finally:
        aside.unlink(missing_ok=True)
