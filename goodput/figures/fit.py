"""Does a fitted scenario reproduce its log, and what would a change gain? Places in a band, and ranked intervals."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from goodput.drawing import COLOURS, INK, SOFT, as_words, new_axes, titled
from goodput.replay import SHARES, SHOWN
from goodput.text import between, percent, whole

BLUE, RED, GREEN = (COLOURS[name] for name in ("checkpoint", "lost_work", "restart"))
OUT = 0.2  # how far from its band a measure is drawn that lies outside, whatever the distance


def draw_replay(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw where a log stands among simulated runs: each measure of `replay` a dot in the band of 90 % of the runs.

    Bands have one length, as measures have different units; the numbers stand beside them. A measure that is nothing in
    the log and in all runs is left out.
    """
    shown = table[table[["log", "p5", "p95"]].max(axis=1) >= SHOWN].reset_index(drop=True)
    ax = new_axes(ax, height=1.5 + 0.29 * len(shown))
    rows, width = np.arange(len(shown)), (shown["p95"] - shown["p5"]).where(lambda wide: wide > 0)
    ax.hlines(rows, 0, 1, color=COLOURS["productive"], lw=9)
    ax.plot((shown["median"] - shown["p5"]) / width, rows, "|", color=SOFT, ms=9, mew=1.4)
    outside = np.where(shown["log"] > shown["median"], 1 + OUT, -OUT)
    place = ((shown["log"] - shown["p5"]) / width).fillna(0.5).clip(0, 1).where(shown["inside"], outside)
    for its, mark, colour in ((shown["inside"], "o", GREEN), (~shown["inside"], "D", RED)):
        ax.plot(place[its], rows[its], mark, color=colour, ms=8, mec="white")
    _write_measures(ax, shown)
    ax.set(xlim=(-0.3, 1.3), ylim=(len(shown) - 0.5, -0.5))
    ax.set_xticks([0, 1], ["5 % of runs\nare below", "5 % of runs\nare above"])
    ax.set_xlabel("Dot: the log; band: 90 % of the simulated runs, with their median")
    return titled(ax, title or _how_many_inside(shown))


def _write_measures(ax: Axes, shown: pd.DataFrame) -> None:
    names = [as_words(what).removesuffix(" hours") for what in shown["what"]]
    names = [name.upper() if name == "mtbi" else name for name in names]
    ax.set_yticks(range(len(shown)), [f"{n}  {_said(w, v)}" for n, w, v in zip(names, shown["what"], shown["log"])])
    for row, what, low, high in shown[["what", "p5", "p95"]].itertuples():
        _write_aside(ax, row, between(low, high, partial(_said, what)))


def _write_aside(ax: Axes, row: int, text: str) -> None:
    ax.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=INK)


def _said(what: str, value: float) -> str:
    if what in SHARES:
        return percent(value, 1)
    return f"{value:,.3g} h" if what.endswith("_hours") else f"{value:,.0f}"


def _how_many_inside(shown: pd.DataFrame) -> str:
    out = [as_words(what) for what in shown.loc[~shown["inside"], "what"]]
    if not out:
        return f"All {len(shown)} measures of the log lie where 90 % of the simulated runs do"
    named = ", ".join(out) if len(out) <= 3 else f"{', '.join(out[:3])} and {len(out) - 3} more"
    return f"{len(out)} of {len(shown)} measures lie outside the simulated runs: {named}"


def draw_gains(
    table: pd.DataFrame, ax: Axes | None = None, *, title=None, truth: Mapping[str, float] | None = None
) -> Axes:
    """Draw what each change of `rank_what_ifs` gains, with its 90 % interval, in the order of the table.

    Grey are those whose interval holds no gain at all; a star marks those that `worth` says rest on something assumed.
    `truth` has GPU-hours by change, where they are known: diamonds.
    """
    ax = new_axes(ax, width=8, height=1.3 + 0.32 * len(table))
    rows, sure = np.arange(len(table)), (table["low"] > 0) | (table["high"] < 0)
    ax.axvline(0, color=SOFT, lw=1)
    ax.hlines(rows, table["low"], table["high"], color=np.where(sure, BLUE, SOFT), lw=6)
    ax.plot(table["gpu_hours"], rows, "|", color=INK, ms=13, mew=1.6)
    if truth is not None:
        known = table["change"].map(truth)
        ax.plot(known, rows, "D", color=RED, mec="white", ms=7, label="the truth", zorder=3)
        ax.legend(frameon=False, fontsize=9, loc="lower right")
    for row, mean, low, high in table[["gpu_hours", "low", "high"]].itertuples():
        _write_aside(ax, row, f"{whole(mean)}  ({between(low, high, whole)})".replace("-", "−"))
    rests = table["assumed"].astype(bool) if "assumed" in table else table["change"].isna()
    ax.set_yticks(rows, table["change"] + np.where(rests, " *", ""))
    said = "Productive GPU-hours gained in a run; bar: 90 % interval" + "; *: rests on a value assumed" * int(
        rests.any()
    )
    ax.set(ylim=(len(table) - 0.5, -0.5), xlabel=said)
    return titled(ax, title or _what_gains_most(table, truth))


def _what_gains_most(table: pd.DataFrame, truth: Mapping[str, float] | None) -> str:
    if truth is not None:
        known = table["change"].map(truth)
        held = int(known.between(table["low"], table["high"]).sum())
        return f"{held} of {int(known.notna().sum())} intervals hold the true gain"
    best = table.loc[table["gpu_hours"].idxmax()]
    spread = between(best["low"], best["high"], whole)
    return f"{best['change']} gains most: {whole(best['gpu_hours'])} GPU-hours ({spread})"
