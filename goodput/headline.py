"""Which few numbers of a log matter most? The tiles on top of its page, and the lines above them."""

from typing import Any

import numpy as np

from goodput.analysis import Analysis, goodput_sure
from goodput.errors import BadInput
from goodput.sheet import Tile
from goodput.text import between, number, percent, printable, whole


def check_price(price: float | None, unit: str) -> None:
    """Refuse a price that is none, or that has no GPU-hours to go with."""
    if price is None:
        return
    if not 0 < price < np.inf:
        raise BadInput(f"--price={price} must be above 0 and finite")
    if unit != "GPU-hours":
        raise BadInput("--price must go with a log that knows its sizes: give --nodes and --gpus-per-node")


def title(found: Analysis) -> str:
    """Return what the page is of."""
    jobs = found.jobs.index
    return f"Goodput of {printable(jobs[0])}" if len(jobs) == 1 else f"Goodput of {len(jobs):,} jobs"


def lead(found: Analysis) -> list[str]:
    """Return which time it covers, and how much of it has data."""
    window = found.window
    span = f"{window['start']:%Y-%m-%d %H:%M} to {window['end']:%Y-%m-%d %H:%M} UTC, {number(window['hours'])} h"
    seen = f", of which {percent(window['coverage'], 1)} has data" if window["coverage"] < 1 else ""
    torn = int(found.jobs["incomplete"].sum())
    incomplete = (
        [f"{torn:,} of {len(found.jobs):,} jobs incomplete: the log does not say all that they did."] if torn else []
    )
    return [f"{span}{seen}.", *incomplete]


def tiles(found: Analysis, data: dict[str, Any], price: float | None) -> list[Tile]:
    """Return the headline numbers, each with its unit, and its interval or count; `price` is that of a GPU-hour."""
    unit, hours, held = found.unit, data["gpu_hours"], data["held_gpu_hours"]
    waste = held - hours["productive"]
    kept = f"{whole(hours['productive'])} of {whole(held)} {unit} trained the model; {goodput_sure(data)}"
    tiles = [
        Tile("Goodput", percent(data["goodput"]).removesuffix(" %"), "%", kept, "good"),
        Tile("Held", whole(held), unit, f"by {counted(len(found.jobs), 'job')}"),
        Tile("Wasted", whole(waste), unit, f"{percent(waste / held)} of what was held", "bad"),
        _interruptions(data),
        _mtbi(data),
    ]
    if found.causes["gpu_hours"].sum() > 0:
        tiles.append(_dearest(found, waste))
    if slo := data["slo"]:
        tiles.append(_promise(slo))
    if price is not None:
        tiles.append(
            Tile(
                "Cost of waste",
                whole(waste * price),
                f"at {price:g} a GPU-hour",
                f"{whole(waste)} {unit} wasted",
                "bad",
            )
        )
    return tiles


def _interruptions(data: dict[str, Any]) -> Tile:
    stops, failures = data["interruptions"], data["failures"]
    sure = f"{failures:,} of them {'a failure' if failures == 1 else 'failures'}"
    return Tile("Interruptions", f"{stops:,}", "stop" if stops == 1 else "stops", sure)


def counted(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "job"), counted(2000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _mtbi(data: dict[str, Any]) -> Tile:
    low, high = data["mtbi_hours_ci95"]
    struck = counted(data["interruptions"], "interruption")
    if not data["interruptions"]:
        return Tile("MTBI of a job", f"at least {hours_text(low)}", "h", f"95 % bound, {struck}")
    sure = f"95 % interval {between(low, high, hours_text)} h, {struck}"
    return Tile("MTBI of a job", hours_text(data["mtbi_hours"]), "h", sure)


def hours_text(hours: float) -> str:
    """Return hours as text, finer where they are few."""
    return number(hours, 1 if hours >= 1 else 3)


def _dearest(found: Analysis, waste: float) -> Tile:
    cause, count, cost = found.causes.iloc[0][["cause", "count", "gpu_hours"]]
    share = percent(cost / waste, 1)
    sure = f"{whole(cost)} {found.unit}, {counted(count, 'interruption')}"
    return Tile(f"Dearest cause: {printable(cause)}", share.removesuffix(" %"), "% of the waste", sure)


def _promise(slo: dict[str, Any]) -> Tile:
    sure = f"goodput {percent(slo['target'])} in windows of {slo['window_hours']:g} h, {slo['missed']:,} missed"
    more = f", {slo['no_data']:,} without data" if slo["no_data"] else ""
    tone = "bad" if slo["missed"] else "good"
    return Tile("SLO windows met", f"{slo['met']:,}", f"of {slo['windows']:,}", sure + more, tone)
