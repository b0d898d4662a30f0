"""JSON Lines of the goodput recorder in Google's open `resiliency` library.

Raw columns: `event_type`, `timestamp` (ISO 8601 without a zone, UTC), `job_name`, and `node_rank` (job_started and
job_terminated: one line a node) or `step` (checkpoint_loaded and checkpoint_saved: one line).

| raw | ours |
|---|---|
| first job_started | launch; the `start` is its checkpoint_loaded |
| checkpoint_loaded | running, with `step` |
| checkpoint_saved | checkpoint_start and checkpoint_end at that moment, with `step`: how long it took is not said |
| job_started or job_terminated while training | interrupt, `after` the last sign of life: when it struck is not said |
| the same while down | nothing: a start that loads no checkpoint is a failed restart, part of the recovery |

The job holds as many nodes throughout as its highest rank says: the ranks that report vary, and are not sizes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from goodput.errors import BadInput, printable, problem_of
from goodput.events import Finding, Imported, Unreadable, make_log
from goodput.line import moment, zone_of
from goodput.lines import read_blocks

SAME_START_SECONDS = 30  # lines of one kind that are closer than this tell of one moment
CAUSE = "not_logged"
_NO_TIME = np.iinfo("int64").min
_FIELDS = ["time", "event", "cause", "after", "step", "line"]
UTC = "UTC"


def _moment(value: object, info: ValidationInfo) -> int:
    return moment(value, info.context)


class Line(BaseModel):
    """One line of the recorder."""

    model_config = ConfigDict(extra="ignore")

    event_type: Literal["job_started", "job_terminated", "checkpoint_loaded", "checkpoint_saved"]
    timestamp: Annotated[int, BeforeValidator(_moment)]
    job_name: Annotated[str, Field(min_length=1)]
    node_rank: Annotated[float, Field(ge=0, lt=1e7)] | None = None
    step: Annotated[float, Field(ge=0, lt=2**53)] | None = None


def looks_like_resiliency(head: bytes) -> bool:
    """Return whether the first bytes are surely of a recorder's file."""
    return b'"event_type"' in head and b'"job_name"' in head and b'"job_started"' in head


def read_resiliency(path: str | Path, timezone: str | None = None) -> Imported:
    """Return the events of a recorder's file, what it leaves open, and the lines that could not be read.

    Times without a zone are UTC, as the recorder writes them, or in `timezone`. Raises BadInput for a file without a
    line of the recorder's.
    """
    path = Path(path)
    lines, unreadable = _read(path, timezone)
    if not len(lines):
        why = f"; line {unreadable[0].line}: {unreadable[0].why}" if unreadable else ", it is empty"
        raise BadInput(f"{path}: must hold lines of the resiliency recorder{why}")
    logs, findings = (
        [],
        [Finding("note", "no-zone", printable(path), None, f"times have no zone: read as {timezone or UTC}")],
    )
    for job, of_job in lines.groupby("job_name", sort=True):
        moments = _moments(of_job)
        ranks = of_job["node_rank"].max()
        held = np.nan if np.isnan(ranks) else ranks + 1
        logs.append(pd.DataFrame(_events(moments), columns=_FIELDS).assign(job=job, nodes=held))
        findings += _open_questions(moments, printable(path), job)
    return Imported(_log(pd.concat(logs, ignore_index=True), path), findings, unreadable)


def _log(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    # the first event of a job carries its size
    sized = ~rows["job"].duplicated().to_numpy() & rows["nodes"].notna().to_numpy()
    columns = {name: rows[name].to_numpy() for name in ("time", "after", "step", "line")}
    columns |= {name: rows[name] for name in ("job", "event", "cause")}
    columns |= {"file": [printable(path)] * len(rows), "nodes": (rows["nodes"].fillna(0).to_numpy(), ~sized)}
    return make_log(columns)


def _read(path: Path, timezone: str | None) -> tuple[pd.DataFrame, list[Unreadable]]:
    lines, unreadable, zone = [], [], zone_of(timezone or UTC)
    for block in read_blocks(path):
        for number, text in enumerate(block.data.split(b"\n"), block.first_line):
            if not text.strip(b"\r \t\0"):
                continue
            try:
                lines.append({**Line.model_validate(json.loads(text), context=zone).model_dump(), "line": number})
            except ValidationError as error:
                unreadable.append(Unreadable(printable(path), number, None, problem_of(error)))
            except (ValueError, RecursionError):
                unreadable.append(Unreadable(printable(path), number, None, "line is not whole JSON"))
    return pd.DataFrame(lines, columns=[*Line.model_fields, "line"]), unreadable


def _moments(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one row a moment: lines of one kind within 30 s of the one before are one."""
    lines = lines.sort_values(["timestamp", "line"], kind="stable")
    gap = lines.groupby("event_type")["timestamp"].diff()
    fresh = gap.isna() | (gap > SAME_START_SECONDS * 1_000_000) | lines["step"].notna()
    fresh &= ~lines.duplicated(["event_type", "timestamp", "step"])
    last = lines["timestamp"].max()
    return lines[fresh].assign(last=last)[["event_type", "timestamp", "step", "line", "last"]]


def _events(moments: pd.DataFrame) -> Iterator[tuple]:
    """Yield our events, in order, of one job."""
    state, alive = "new", None
    for kind, time, step, line, _ in moments.itertuples(index=False):
        if state == "new":
            yield time, "launch", None, _NO_TIME, np.nan, line
            state = "launched"
        if kind == "checkpoint_loaded" and state != "training":
            yield time, "start" if state == "launched" else "running", None, _NO_TIME, step, line
            state = "training"
        elif kind == "checkpoint_saved" and state == "training":
            yield time, "checkpoint_start", None, _NO_TIME, step, line
            yield time, "checkpoint_end", None, _NO_TIME, step, line
        elif kind in ("job_started", "job_terminated") and state == "training":
            yield time, "interrupt", CAUSE, alive, np.nan, line
            yield time, "detected", None, _NO_TIME, np.nan, line
            state = "down"
        if kind == "job_started" and state == "down":
            yield time, "nodes_ready", None, _NO_TIME, np.nan, line
            state = "restarting"
        alive = time
    yield int(moments["last"].iloc[-1]), "end", None, _NO_TIME, np.nan, int(moments["line"].iloc[-1])


def _open_questions(moments: pd.DataFrame, file: str, job: str) -> list[Finding]:
    count = moments["event_type"].value_counts()
    starts, loaded = int(count.get("job_started", 0)), int(count.get("checkpoint_loaded", 0))
    said = [
        ("no-fault-time", "when a fault struck is not logged: from the last sign of life on time is unattributed"),
        ("no-save-time", "how long saves took is not logged: their time is in productive"),
    ]
    if starts > loaded:
        text = (
            f"{starts - loaded} of {starts} starts loaded no checkpoint: failed restarts, in the recovery before them"
        )
        said.append(("failed-restarts", text))
    return [Finding("note", code, file, None, f"job {job}: {text}") for code, text in said]
