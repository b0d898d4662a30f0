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
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from goodput.errors import BadInput, problem_of
from goodput.events import Finding, make_log, order_log
from goodput.logfile import moment, read_lines

SAME_START_SECONDS = 30  # lines of one kind that are closer than this tell of one moment
CAUSE = "not_logged"
_NO_TIME = np.iinfo("int64").min


def _utc(value: str) -> int:
    if isinstance(value, str) and not value.endswith("Z") and "+" not in value:
        value += "Z"
    return moment(value)


class Line(BaseModel):
    """One line of the recorder."""

    model_config = ConfigDict(extra="ignore")

    event_type: Literal["job_started", "job_terminated", "checkpoint_loaded", "checkpoint_saved"]
    timestamp: Annotated[int, BeforeValidator(_utc)]
    job_name: Annotated[str, Field(min_length=1)]
    node_rank: Annotated[float, Field(ge=0, lt=1e7)] | None = None
    step: Annotated[float, Field(ge=0, lt=2**53)] | None = None


def read_resiliency(
    path: str | Path, gpus_per_node: int, nodes: int | None = None
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the event log of a recorder's file, and what it leaves open.

    `nodes` is the size that the job holds throughout; by default its highest node rank + 1, because the ranks that
    report vary and are not sizes. Raises BadInput, naming the line, for a line that is not the recorder's.
    """
    path = Path(path)
    lines = _read(path)
    logs, findings = [], [Finding("note", "no-zone", str(path), None, "times have no zone: read as UTC")]
    for job, of_job in lines.groupby("job_name", sort=False):
        moments = _moments(of_job)
        held = nodes or int(of_job["node_rank"].max(skipna=True) + 1) if of_job["node_rank"].notna().any() else nodes
        if not held:
            raise BadInput(f"{path}: job {job} names no node_rank, so its nodes must be given (--nodes)")
        logs.append(pd.DataFrame(_events(moments), columns=_FIELDS).assign(job=job, nodes=held))
        findings += _open_questions(moments, str(path), job)
    rows = pd.concat(logs, ignore_index=True)
    first = rows["event"].isin(["launch", "start"]).to_numpy()
    columns = {name: rows[name].to_numpy() for name in ("time", "after", "step")}
    columns |= {name: pd.Categorical(rows[name]) for name in ("job", "cause")}
    columns |= {"event": rows["event"], "line": rows["line"], "file": pd.Categorical([str(path)] * len(rows))}
    columns |= {
        "nodes": (rows["nodes"], ~first),
        "gpus_per_node": (np.full(len(rows), gpus_per_node), ~first),
    }
    return order_log(make_log(columns)), findings


def _read(path: Path) -> pd.DataFrame:
    data, numbers = read_lines(path)
    lines = []
    for text, number in zip(data.split(b"\n"), numbers.tolist(), strict=True):
        try:
            lines.append({**Line.model_validate(json.loads(text)).model_dump(), "line": number})
        except ValidationError as error:
            raise BadInput(f"{path}:{number}: {problem_of(error)}") from None
        except ValueError as error:
            raise BadInput(f"{path}:{number}: line must be JSON: {error}") from None
    return pd.DataFrame(lines).astype({"node_rank": float, "step": float})


def _moments(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one row a moment: lines of one kind within 30 s of the one before are one."""
    lines = lines.sort_values(["timestamp", "line"], kind="stable")
    gap = lines.groupby("event_type")["timestamp"].diff()
    fresh = gap.isna() | (gap > SAME_START_SECONDS * 1_000_000) | lines["step"].notna()
    last = lines["timestamp"].max()
    return lines[fresh].assign(last=last)[["event_type", "timestamp", "step", "line", "last"]]


_FIELDS = ["time", "event", "cause", "after", "step", "line"]


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
        (
            "no-fault-time",
            "when a fault struck is not logged: from the last sign of life on time is unattributed",
        ),
        ("no-save-time", "how long saves took is not logged: their time is in productive"),
    ]
    if starts > loaded:
        text = (
            f"{starts - loaded} of {starts} starts loaded no checkpoint: failed restarts, in the recovery before them"
        )
        said.append(("failed-restarts", text))
    return [Finding("note", code, file, None, f"job {job}: {text}") for code, text in said]
