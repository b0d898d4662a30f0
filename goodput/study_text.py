"""What did a study find? Its table as a person reads it, and as JSON."""

from typing import Any

import numpy as np
import pandas as pd

from goodput.sensitivity import what_moves
from goodput.study import Study
from goodput.text import aligned, between, number, percent, points, records, to_json

_SAYS = """At each end of a range: the difference to the base in points of goodput, paired by seed, with all other
parameters as they are in the base. The swing spans both ends and the base."""
_INDICES = """First order: the share of the variance over all ranges at once that a parameter answers for alone; total:
also together with others. Their 95 % intervals are what {n} points leave open."""


def study_text(study: Study, results: pd.DataFrame, needed: str = "") -> str:
    """Return what a study found: the base, what moves goodput most, and the best and worst of its points.

    `needed` is what `goodput.adaptive.what_was_needed` says of the seeds, where an interval was asked for.
    """
    base = results.iloc[0]
    spread = between(100 * base["goodput_low"], 100 * base["goodput_high"])
    head = (
        f"{study.name}: {study.design}, {len(study.parameters)} parameters, {len(results):,} scenarios x "
        f"{base['seeds']:,} seeds\n{study.base.name}: goodput {percent(base['goodput'], 1)} ({spread})"
    )
    table = what_moves(results)
    said = [head, "", _table(table), "", _SAYS]
    if "total" in table:
        said.append(_INDICES.format(n=study.samples))
    said += _extremes(study, results)
    return "\n".join([*said, "", needed] if needed else said)


def _table(table: pd.DataFrame) -> str:
    ends = ["at from, pp", "at to, pp"]
    more = ["first order", "95 % interval", "total", "95 % interval"]
    if "total" not in table:
        ends, more = [ends[0], "95 % interval", ends[1], "95 % interval"], []
    header = ["parameter", "from", "to", *ends, "swing, pp", *more]
    return aligned(header, [_row(row) for row in records(table)])


def _row(row: dict[str, Any]) -> list[str]:
    swing = number(100 * row["swing"], 2)
    cells = [row["parameter"], value_said(row["from"]), value_said(row["to"])]
    if "total" not in row:
        return [
            *cells,
            *_with_interval(row, "difference_from", points),
            *_with_interval(row, "difference_to", points),
            swing,
        ]
    cells += [points(row["difference_from"]), points(row["difference_to"]), swing]
    return [*cells, *_with_interval(row, "first", _hundredth), *_with_interval(row, "total", _hundredth)]


def _with_interval(row: dict[str, Any], name: str, show) -> list[str]:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return [show(row[name]), "-" if low == high == 0 else between(low, high, show)]


def _hundredth(value: float) -> str:
    return number(round(value, 2) + 0.0, 2)  # no minus before a zero


def value_said(value: Any) -> str:
    """Return a value of a parameter as it is read: four digits of a number, flags as in TOML.

    >>> value_said(10_000.0), value_said(0.17), value_said(True), value_said("daly")
    ('10,000', '0.17', 'true', 'daly')
    """
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def _extremes(study: Study, results: pd.DataFrame) -> list[str]:
    """Return the best and the worst of a design's own points, where it has any."""
    spread = results[results["role"].isin(["point", "A", "B", "AB"])]
    if spread.empty:
        return []
    ends = {"Best": spread["goodput"].idxmax(), "Worst": spread["goodput"].idxmin()}
    return ["", *(f"{said} of {len(spread):,}: {_point(study, results.loc[at])}" for said, at in ends.items())]


def _point(study: Study, row: pd.Series) -> str:
    where = ", ".join(f"{name}={value_said(row[name])}" for name in study.parameters)
    return f"goodput {percent(row['goodput'], 1)} at {where}"


def study_json(study: Study, results: pd.DataFrame) -> str:
    """Return what a study found as JSON: `base`, and a row a parameter as `what_moves` has them."""
    base = results.iloc[0]
    goodput = {"mean": base["goodput"], "ci95": [base["goodput_low"], base["goodput_high"]]}
    about = {"study": study.name, "design": study.design, "scenarios": len(results), "seeds": base["seeds"]}
    return to_json(
        {**about, "base": {"scenario": study.base.name, "goodput": goodput}, "parameters": records(what_moves(results))}
    )
