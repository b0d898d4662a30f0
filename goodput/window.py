"""Which part is asked for? Spans cut at given moments, clipped to a window, and freed of planned stops."""

import csv
import io
import json
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from goodput.attribution import US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import micros
from goodput.line import moment
from goodput.lines import read_blocks


class Pieces(NamedTuple):
    """Spans cut at edges: of each piece the span it comes from, the cell between edges it lies in, start and end."""

    span: np.ndarray
    cell: np.ndarray
    start: np.ndarray
    end: np.ndarray


def cut(spans: pd.DataFrame, edges: np.ndarray) -> Pieces:
    """Return spans cut at sorted edges (microseconds); cell 0 is before the first edge. Cost: spans + pieces."""
    start, end = micros(spans["start"]), micros(spans["end"])
    first, last = np.searchsorted(edges, start, "right"), np.searchsorted(edges, end, "left")
    pieces = last - first + 1
    span = np.repeat(np.arange(len(start)), pieces)
    cell = np.arange(len(span)) - np.repeat(np.cumsum(pieces) - pieces - first, pieces)
    bounds = np.concatenate(([np.iinfo("int64").min], edges, [np.iinfo("int64").max]))
    return Pieces(span, cell, np.maximum(start[span], bounds[cell]), np.minimum(end[span], bounds[cell + 1]))


def _taken(spans: pd.DataFrame, pieces: Pieces, wanted: np.ndarray) -> pd.DataFrame:
    start, end = pieces.start[wanted], pieces.end[wanted]
    out = spans.take(pieces.span[wanted]).reset_index(drop=True)
    hours = (end - start) / US_PER_HOUR * (out["nodes"] * out["gpus_per_node"]).to_numpy()
    times = [pd.DatetimeIndex(each.view("datetime64[us]")).tz_localize("UTC") for each in (start, end)]
    return out.assign(start=times[0], end=times[1], gpu_hours=hours)


def clip(spans: pd.DataFrame, since: int | None, until: int | None) -> pd.DataFrame:
    """Return the part of the spans from `since` to `until` (microseconds; None: open); the rest is left out."""
    if since is None and until is None:
        return spans
    lowest, highest = np.iinfo("int64").min + 1, np.iinfo("int64").max - 1
    edges = np.array([lowest if since is None else since, highest if until is None else until])
    if edges[0] >= edges[1]:
        raise BadInput("--since must be before --until")
    pieces = cut(spans, edges)
    return _taken(spans, pieces, np.flatnonzero((pieces.cell == 1) & (pieces.end > pieces.start)))


def without(spans: pd.DataFrame, excluded: np.ndarray) -> pd.DataFrame:
    """Return the spans outside of excluded windows, given as merged rows of (start, end) in microseconds."""
    if not len(excluded):
        return spans
    pieces = cut(spans, excluded.ravel())
    return _taken(spans, pieces, np.flatnonzero((pieces.cell % 2 == 0) & (pieces.end > pieces.start)))


def covered_hours(spans: pd.DataFrame) -> float:
    """Return the hours for which at least one job has data: overlapping spans count once."""
    if not len(spans):
        return 0.0
    merged = merge_windows(np.column_stack([micros(spans["start"]), micros(spans["end"])]))
    return float((merged[:, 1] - merged[:, 0]).sum()) / US_PER_HOUR


def merge_windows(windows: np.ndarray) -> np.ndarray:
    """Return windows, rows of (start, end), sorted and with those that overlap or touch made one.

    >>> merge_windows(np.array([[5, 9], [0, 2], [1, 3]])).tolist()
    [[0, 3], [5, 9]]
    """
    windows = windows[np.argsort(windows[:, 0], kind="stable")]
    reached = np.maximum.accumulate(windows[:, 1])
    first = np.append(True, windows[1:, 0] > reached[:-1])
    last = np.append(first[1:], True)
    return np.column_stack([windows[first, 0], reached[last]])


def read_exclusions(path: Path, zone: ZoneInfo | None = None) -> np.ndarray:
    """Return the planned windows of a file as merged rows of (start, end), in microseconds.

    The file is CSV with a header that has `start` and `end` (and `reason`, which is for people), or JSON Lines with
    those keys; times as in a log. Raises BadInput, naming the line, for a window that cannot be.
    """
    text = b"".join(block.data for block in read_blocks(path)).decode("utf-8", "replace")
    rows = list(_rows(path, text))
    if not rows:
        raise BadInput(f"{path}: file must hold at least one window (start, end, reason)")
    return merge_windows(np.array([_window(path, number, row, zone) for number, row in rows], "int64").reshape(-1, 2))


def _rows(path: Path, text: str):
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    yield number, json.loads(line)
                except ValueError:
                    raise BadInput(f"{path}:{number}: line must be JSON") from None
        return
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    if not {"start", "end"} <= set(reader.fieldnames or []):
        raise BadInput(f"{path}:1: header must name start and end (and reason), as in start,end,reason")
    for row in reader:
        yield reader.line_num, row


def _window(path: Path, number: int, row: dict, zone: ZoneInfo | None) -> tuple[int, int]:
    try:
        start, end = (moment(_number_or_text(row[key]), zone) for key in ("start", "end"))
    except KeyError as error:
        raise BadInput(f"{path}:{number}: {error.args[0]} must be given") from None
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}:{number}: start and end must each be {error}") from None
    if start >= end:
        raise BadInput(f"{path}:{number}: start={row['start']} must be before end={row['end']}")
    return start, end


def _number_or_text(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
