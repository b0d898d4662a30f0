"""A fit as a scenario file: each value with a comment that says how sure it is, or why it is assumed."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goodput.calibrate import Fit
from goodput.errors import BadInput, printable
from goodput.fitted import Fitted, four
from goodput.text import aligned

COMMENT_AT = 30  # column where comments begin


def fit_toml(fit: Fit) -> str:
    """Return a scenario file that `load_scenario` reads as the scenario of the fit.

    Each value has a comment on its line: how it was found, its 90 % interval, the events behind it, and what else is
    to be known. A value that the scenario leaves out, as crews that are unlimited, is a comment alone.
    """
    lines = ["# Fitted to an event log by `goodput calibrate`. Intervals hold the true value 9 times in 10."]
    lines += [f"# {printable(note)}" for note in fit.notes]
    lines.append(f"name = {json.dumps(printable(fit.scenario.name))}")
    tables: dict[str, list[Fitted]] = {}
    for row in fit.rows:
        tables.setdefault(row.path.rpartition(".")[0], []).append(row)
    for table, rows in tables.items():
        lines += [_line(row) for row in rows] if not table else ["", f"[{table}]", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(row: Fitted) -> str:
    key = row.path.rpartition(".")[2]
    if row.value is None:
        return f"# {key}: {comment(row)}"
    return f"{key} = {toml_value(row.value)}".ljust(COMMENT_AT) + f" # {comment(row)}"


def comment(row: Fitted) -> str:
    """Return how a value was found, its interval and events, and what else is to be known, in one line."""
    events = f"{row.events:,} event{'s' * (row.events != 1)}" if row.events else ""
    said = [interval(row, "90 % interval "), events, printable(row.note)]
    return f"{row.how}: {'; '.join(part for part in said if part)}".removesuffix(": ")


def interval(row: Fitted, before: str = "") -> str:
    """Return the interval of a value as text, open where it has no upper end, empty where there is none."""
    if math.isnan(row.low) or row.how == "counted":
        return ""
    if math.isinf(row.high):
        return f"at least {four(row.low)}"
    return f"{before}{four(row.low)} to {four(row.high)}"


def toml_value(value: Any) -> str:
    """Return a value as TOML without spaces, so that a file can be read line by line.

    >>> toml_value({"distribution": "exponential", "mean": 3.0})
    '{distribution="exponential",mean=3.0}'
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(toml_value, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


def fit_text(fit: Fit) -> str:
    """Return a fit as a table for people, a row a value, and what is to be known besides."""
    rows = [(row.path, _shown(row), interval(row) or "-", row.events or "-", row.how) for row in fit.rows]
    table = aligned(("value of the scenario", "fitted", "90 % interval", "events", "how"), rows)
    said: dict[str, list[str]] = {}
    for row in fit.rows:
        if row.how in ("assumed", "pooled") or row.note.startswith("at least"):
            said.setdefault(f"{row.how}: {row.note}", []).append(row.path)
    why = [f"{', '.join(paths)} {note}" for note, paths in said.items()]
    return "\n".join([table, *([""] if why or fit.notes else []), *fit.notes, *why])


def _shown(row: Fitted) -> str:
    if isinstance(row.value, dict):
        rest = [f"{key} {four(value)}" for key, value in row.value.items() if isinstance(value, float)]
        return " ".join([row.value["distribution"], *rest])
    if row.value is None:
        return row.note.partition(":")[0] if row.note.startswith("unlimited") else "none"
    return f"{row.value:,.6g}" if isinstance(row.value, float) else toml_value(row.value).strip('"')


def read_cohorts(path: Path) -> dict[str, str]:
    """Return nodes, or folded names of several, with their cohort: a CSV file with the columns `node` and `cohort`.

    A folded name with a comma in it stands in quotes. Raises BadInput, naming file and line.
    """
    try:
        lines = list(csv.reader(path.read_text("utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: file must be readable CSV: {getattr(error, 'strerror', None) or error}") from None
    if not lines or [cell.strip() for cell in lines[0]] != ["node", "cohort"]:
        raise BadInput(f"{path}:1: line must be node,cohort")
    return dict(_pairs(path, lines[1:]))


def _pairs(path: Path, lines: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    pairs = []
    for number, cells in enumerate(lines, 2):
        if not cells:
            continue
        if len(cells) != 2 or not all(cell.strip() for cell in cells):
            raise BadInput(f'{path}:{number}: line must be a node and its cohort, as "node[0-31]",batch_b')
        pairs.append((cells[0].strip(), cells[1].strip()))
        if cells[0].strip() in dict(pairs[:-1]):
            raise BadInput(f"{path}:{number}: node {cells[0].strip()} must have one line only")
    if not pairs:
        raise BadInput(f"{path}: file must name at least one node")
    return pairs
