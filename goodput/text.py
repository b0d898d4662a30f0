"""Results as a person reads them in a terminal, and as JSON with stable keys."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES
from goodput.errors import printable


def aligned(header: Sequence[str], rows: Iterable[Sequence[Any]], style: str = "simple") -> str:
    """Return rows of text as an aligned table: the first column to the left, numbers to the right."""
    from tabulate import tabulate

    rows = [[printable(cell) for cell in row] for row in rows]
    align = ["left"] + ["right"] * (len(header) - 1)
    return tabulate(rows, header, tablefmt=style, colalign=align if rows else None, disable_numparse=True)


def percent(share: float, digits: int = 2) -> str:
    """Return a share as per cent, `-` where it is not known.

    >>> percent(0.80226), percent(float("nan"))
    ('80.23 %', '-')
    """
    return "-" if _unknown(share) else f"{100 * share:.{digits}f} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return "-" if _unknown(difference) else f"{100 * difference:+.2f}"


def number(value: float, digits: int = 1) -> str:
    """Return a number with thousands separated; `-` where it is not known or has no bound."""
    return "-" if _unknown(value) or math.isinf(value) else f"{value:,.{digits}f}"


def whole(value: float) -> str:
    """Return an amount as a whole number, with three digits where it is small.

    >>> whole(91473.7), whole(0.2666)
    ('91,474', '0.267')
    """
    return number(value, 0) if _unknown(value) or abs(value) >= 100 else f"{value:.3g}"


def between(low: float, high: float, show=number) -> str:
    """Return an interval as text, open where it has no upper bound."""
    if _unknown(low):
        return "-"
    return f"at least {show(low)}" if math.isinf(high) else f"{show(low)} to {show(high)}"


def _unknown(value: float) -> bool:
    return value is None or math.isnan(value)


def to_json(result: Any) -> str:
    """Return a result as JSON; what is not known or has no bound is null."""
    return json.dumps(_plain(result), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pd.Timestamp):
        return None if pd.isna(value) else value.isoformat().replace("+00:00", "Z")
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as a list of its rows."""
    return table.astype(object).to_dict("records")


def comparison_json(table: pd.DataFrame, causes: pd.DataFrame | None = None) -> list[dict[str, Any]]:
    """Return rows of `compare` as nested JSON: one entry a scenario, or a value of a sweep."""
    rows = []
    for row in records(table):
        key = "scenario" if "scenario" in row else "value"
        entry = {
            key: row[key],
            "seeds": row["seeds"],
            "goodput": {
                "mean": row["goodput"],
                "ci95": [row["goodput_low"], row["goodput_high"]],
                "p10": row["goodput_p10"],
                "p90": row["goodput_p90"],
            },
            "shares": {category: row[f"share_{category}"] for category in CATEGORIES},
            "interruptions_per_run": row["interruptions_per_run"],
        }
        for name in ("mtbi_hours", "node_mtbf_hours"):
            entry |= {name: row[name], f"{name}_ci95": [row[f"{name}_low"], row[f"{name}_high"]]}
        if causes is not None:
            mine = causes[causes["scenario"] == row[key]]
            entry["by_cause"] = records(mine[["cause", "count", "gpu_hours"]])
        ends = [row["difference_low"], row["difference_high"]]
        rows.append(entry | {"difference": {"mean": row["difference"], "ci95": ends}})
    return rows


MOST_SAVING = 1 / 3  # of the running time, that saves can take unsaid
COMPARISON_HEADER = (
    "goodput, %",
    "95 % interval",
    "p10 to p90",
    "difference, pp",
    "95 % interval",
    "interruptions",
    "MTBI, h",
    "node MTBF, h",
)


def comparison_text(table: pd.DataFrame, style: str = "simple") -> str:
    """Return rows of `compare` as a table for people; differences in percentage points, paired by seed."""
    first = "scenario" if "scenario" in table else "value"
    rows = [
        (
            row[first],
            _hundredths(row["goodput"]),
            between(row["goodput_low"], row["goodput_high"], _hundredths),
            between(row["goodput_p10"], row["goodput_p90"], _hundredths),
            points(row["difference"]),
            between(row["difference_low"], row["difference_high"], points),
            number(row["interruptions_per_run"]),
            number(row["mtbi_hours"]),
            number(row["node_mtbf_hours"], 0),
        )
        for row in records(table)
    ]
    said = [saving_said(row[first], {c: row[f"share_{c}"] for c in CATEGORIES}) for row in records(table)]
    return "\n".join([aligned((first, *COMPARISON_HEADER), rows, style), *filter(None, said)])


def saving_said(who: Any, hours: Mapping[str, float]) -> str:
    """Return what to say where saves take more than a third of the time that a job runs; else nothing.

    Hours or shares of categories. A save as long as the interval takes half, and one that is due again before it has
    ended never lets go: no setting tells that as well as where the time went.

    >>> saving_said("job a", {"productive": 10, "lost_work": 0, "checkpoint": 12})
    'job a: saves took 54.5 % of the time it ran: is a save as long as the interval, or longer?'
    """
    saving = hours["checkpoint"] / max(sum(hours[c] for c in ("productive", "checkpoint", "lost_work")), 1e-12)
    said = f"{who}: saves took {percent(saving, 1)} of the time it ran: is a save as long as the interval, or longer?"
    return said if saving > MOST_SAVING else ""


def _hundredths(share: float) -> str:
    return number(100 * share, 2)


def shares_text(table: pd.DataFrame, style: str = "simple") -> str:
    """Return where the GPU-hours of each scenario went, in per cent of what was held."""
    first = "scenario" if "scenario" in table else "value"
    rows = [(row[first], *[_hundredths(row[f"share_{c}"]) for c in CATEGORIES]) for row in records(table)]
    return aligned((f"{first}, % of GPU-hours", *CATEGORIES), rows, style)
