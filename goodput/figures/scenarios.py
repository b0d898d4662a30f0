"""Which scenario is better, and how sure are we? Waste, goodput, and differences paired by seed."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from goodput.drawing import (
    COLOURS,
    INK,
    SOFT,
    WASTE,
    as_words,
    draw_dots_in_rows,
    draw_stack,
    new_axes,
    signed_points,
    titled,
    write_behind,
)
from goodput.experiment import wide_runs
from goodput.text import between, number, percent


def draw_waste(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the waste of each row of `compare` or `sweep`, stacked by category, in % of the GPU-hours held."""
    parts = 100 * table.set_index(table.columns[0])[[f"share_{name}" for name in WASTE]].set_axis(WASTE, axis=1)
    total = parts.sum(axis=1)
    ax = new_axes(ax, height=1.4 + 0.32 * len(table))
    draw_stack(ax, parts, write_from=0.04 * total.max())
    write_behind(ax, total, [f"{waste:.1f} %" for waste in total])
    ax.set(xlabel="Waste, % of GPU-hours held", xlim=(0, total.max() * 1.1))
    most = f"{total.idxmax()}, most of it {as_words(parts.loc[total.idxmax()].idxmax())}"
    finding = f"Waste runs from {total.min():.1f} % ({total.idxmin()}) to {total.max():.1f} % ({most})"
    return titled(ax, title or finding, legend=True)


def draw_goodput(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the mean goodput of each row of `compare` with its 95 % interval, and p10 to p90 of single runs."""
    ax = new_axes(ax, height=1.2 + 0.3 * len(table))
    ax.hlines(range(len(table)), 100 * table["goodput_p10"], 100 * table["goodput_p90"], color=SOFT, lw=1)
    draw_dots_in_rows(ax, table, "goodput", lambda share: number(100 * share))
    ax.set(xlabel="Goodput, %; thick: 95 % interval of the mean; thin: p10 to p90 of runs")
    mean = table.set_index(table.columns[0])["goodput"]
    low, high = (f"{percent(mean[name], 1)} ({name})" for name in (mean.idxmin(), mean.idxmax()))
    finding = f"Goodput runs from {low} to {high}"
    return titled(ax, title or finding)


def draw_differences(table: pd.DataFrame, ax: Axes | None = None, *, title=None, from_points=None):
    """Draw how far each row of `compare` is from the baseline, paired by seed, with its 95 % interval.

    What does not differ at all (the baseline itself) is left out. With `from_points` the axis begins there, and
    what lies further left is an arrow: so one ruinous change does not flatten the others.
    """
    table = table[table["difference_low"] != table["difference_high"]].reset_index(drop=True)
    ax = new_axes(ax, height=1.2 + 0.3 * len(table))
    if table.empty:
        return titled(ax, title or "Nothing differs from the baseline")
    ax.axvline(0, color=SOFT, lw=1)
    draw_dots_in_rows(ax, table, "difference", signed_points)
    ax.set(xlabel="Difference of goodput, percentage points; bar: 95 % interval, paired by seed")
    if from_points is not None:
        ax.set_xlim(left=from_points)
        out = np.flatnonzero(100 * table["difference"] < from_points)
        ax.plot(np.full(len(out), from_points), out, "<", color=INK, clip_on=False)
    best = table.loc[table["difference"].idxmax()]
    finding = f"{best.iloc[0]} {'gains most' if best['difference'] > 0 else 'loses least'}:"
    interval = between(best["difference_low"], best["difference_high"], signed_points)
    return titled(ax, title or f"{finding} {signed_points(best['difference'])} points ({interval})")


def draw_pairs(runs: pd.DataFrame, other: str, ax: Axes | None = None, *, title=None, baseline=None):
    """Draw each seed of an `experiment` as a point: goodput of one scenario over that of the baseline."""
    goodput = 100 * wide_runs(runs)["goodput"].unstack("scenario")
    base, mine = goodput[baseline or goodput.columns[0]], goodput[other]
    ax = new_axes(ax, width=5.5, height=4)
    shift, ends = (mine - base).mean(), np.array([base.min(), base.max()])
    ax.plot(ends, ends + shift, color=SOFT, lw=1, ls="--", label=f"{base.name} {shift:+.1f} points")
    ax.plot(base, mine, "o", color=COLOURS["checkpoint"], mec="white", label="one seed")
    ax.set(xlabel=f"Goodput of {base.name}, %", ylabel=f"Goodput of {other}, %")
    ax.legend(frameon=False, fontsize=9)
    finding = f"The same luck helps or hurts both: correlation {base.corr(mine):.3f} over {len(base)} seeds"
    return titled(ax, title or finding)
