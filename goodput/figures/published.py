"""Do we agree with what was published? Our laws and runs beside the figures of real clusters.

Filled is what was read in its source or quoted from it; hollow is second hand; a red diamond is ours.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from goodput.checkpoint import mtbi_of_nodes
from goodput.drawing import COLOURS, INK, SOFT, new_axes, titled
from goodput.published import GPUS_PER_NODE

BLUE, RED, GREEN = (COLOURS[name] for name in ("checkpoint", "lost_work", "restart"))
# how well a figure is known, by the status of its row
MARKS = {"read or quoted": ["V", "Q"], "second hand": ["S"], "ours": ["ours"]}
STYLES = {
    "read or quoted": {"marker": "o", "color": INK},
    "second hand": {"marker": "o", "color": INK, "mfc": "white"},
    "ours": {"marker": "D", "color": RED, "mfc": "none", "mew": 2, "ms": 8},
}


def draw_mttf(table: pd.DataFrame, rates: dict[str, float], ax: Axes | None = None, *, title=None):
    """Draw the published MTTF over the size of a job on the laws of one or two rates; a triangle was projected.

    `table` is `mttf_by_size`; `rates` are failures per 1,000 node-days, by the names that their lines carry.
    """
    gpus = np.geomspace(table["gpus"].min(), table["gpus"].max(), 100)
    ax = new_axes(ax, height=4)
    for (name, rate), colour, aside in zip(rates.items(), (BLUE, GREEN), ((-8, -12), (6, 5))):
        hours = mtbi_of_nodes(gpus / GPUS_PER_NODE, rate)
        ax.plot(gpus, hours, color=colour, lw=1.4)
        side = "right" if aside[0] < 0 else "left"
        said = f"{name}: {rate:.2f} per 1,000 node-days"
        where = {"textcoords": "offset points", "fontsize": 9, "ha": side, "color": colour}
        ax.annotate(said, (gpus[40], hours[40]), aside, **where)
    for (kind, status), rows in table.groupby(["kind", "status"]):
        shape, fill = "o" if kind == "measured" else "^", "white" if status == "S" else INK
        said = f"{kind}, second hand" if status == "S" else f"{kind}"
        ax.plot(rows["gpus"], rows["theirs"], shape, color=INK, mfc=fill, ms=7, label=said)
    ax.set(xscale="log", yscale="log", xlabel="GPUs of a job (log scale)", ylabel="Hours between failures (log scale)")
    _log_ticks(ax.xaxis, table["gpus"])
    _log_ticks(ax.yaxis, [0.1, 1, 10, 100, 1000])
    ax.legend(frameon=False, fontsize=9, loc="lower left")
    worst = table.loc[np.log(table["ratio"]).abs().idxmax()]
    finding = f"At {worst['gpus']:,} GPUs the rate gives {worst['ours']:.1f} hours; {worst['kind']} were"
    return titled(ax, title or f"{finding} {worst['theirs']:.1f}, a factor of {worst['ratio']:.1f}")


def draw_forms(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the first-order and the exact form over the size of a job, with the played ones and their 95 % interval.

    `table` is `beside.played`, by size. The title says from where the first order is more than one point off.
    """
    gpus = table["nodes"] * GPUS_PER_NODE
    ends = np.abs(table[["simulated_low", "simulated_high"]].to_numpy().T - table["simulated"].to_numpy())
    ax = new_axes(ax, height=4)
    if table["first_order"].min() < 0:
        ax.axhline(0, color=SOFT, lw=0.8)
    ax.plot(gpus, 100 * table["exact"], color=BLUE, lw=1.8, label="exact")
    ax.plot(gpus, 100 * table["first_order"], color=RED, lw=1.6, ls="--", label="first order, as published")
    dots = {"fmt": "o", "color": INK, "ms": 4.5, "capsize": 3, "lw": 1.2, "label": "simulated, 95 % interval"}
    ax.errorbar(gpus, 100 * table["simulated"], 100 * ends, **dots)
    ax.set(xscale="log", xlabel="GPUs of the job (log scale)", ylabel="Expected ETTR, or goodput, %")
    ax.set_ylim(min(0, 105 * table["first_order"].min()), None)
    _log_ticks(ax.xaxis, gpus)
    ax.legend(frameon=False, fontsize=9, loc="lower left")
    return titled(ax, title or _where_it_holds(table, gpus))


def _where_it_holds(table: pd.DataFrame, gpus: pd.Series) -> str:
    off = 100 * (table["first_order"] - table["exact"]).abs()
    last = f"at {gpus.iloc[-1]:,} by {off.iloc[-1]:.1f}"
    if (off <= 1).all():
        return f"The first order is within a point of the exact form; off {last}"
    return f"From {gpus[off > 1].min():,} GPUs the first order is more than a point off, {last}"


def draw_clusters(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the time between interruptions of 1,000 nodes, a row a system, with what it counts and what it reports.

    `table` is `clusters`, perhaps with rows of our own (status `ours`). A bar is the 95 % interval of a count. Systems
    that give no such time come last.
    """
    table = table.sort_values("per_1000_hours", na_position="last", ignore_index=True)
    rows = np.arange(len(table))
    ax = new_axes(ax, width=10, height=1 + 0.42 * len(table))
    ax.hlines(rows, table["per_1000_hours_low"], table["per_1000_hours_high"], color=BLUE, lw=5, alpha=0.45)
    for mark, statuses in MARKS.items():
        mine = table["status"].isin(statuses).to_numpy()
        if mine.any():
            ax.plot(table.loc[mine, "per_1000_hours"], rows[mine], ls="", label=mark, **STYLES[mark])
    for row, each in table.iterrows():
        _write_beside(ax, row, each)
    ax.set_yticks(rows, [_sized(*each) for each in zip(table["system"], table["gpus"])])
    ax.set(xscale="log", ylim=(len(table) - 0.5, -0.5), xlabel="Hours between interruptions of 1,000 nodes (log scale)")
    known = table["per_1000_hours"].dropna()
    _log_ticks(ax.xaxis, [hours for hours in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if hours > known.min() / 2])
    ax.set_xlim(known.min() / 1.6, table[["per_1000_hours", "per_1000_hours_high"]].max(axis=None) * 1.3)
    theirs = table.loc[table["status"].isin(MARKS["read or quoted"]), "per_1000_hours"]
    spread = f"{theirs.min():.1f} to {theirs.max():.1f} hours"
    return titled(ax, title or f"1,000 nodes would be interrupted every {spread} (read or quoted)", legend=True)


def _sized(system: str, gpus: float) -> str:
    return system if pd.isna(gpus) or "GPU" in system else f"{system}, {gpus:,.0f} GPUs"


def _write_beside(ax: Axes, row: int, each: pd.Series) -> None:
    """Write at the right of a row what an interruption is there, and below it what share is reported."""
    counted = each["counted"] or "no time between interruptions"
    verb = "has" if each["status"] == "ours" else "reports"
    reported = f"{verb} {each['counts'] or 'no goodput'}"
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 8.5}
    ax.annotate(counted, (1.01, row), (0, 1), va="bottom", color=INK, **where)
    ax.annotate(reported, (1.01, row), (0, 0), va="top", color=SOFT, **where)


def draw_times(table: pd.DataFrame, assumed: pd.Series, ax: Axes | None = None, *, title=None):
    """Draw published times in minutes, a row a group, beside what we assume; hollow is second hand.

    `table` is `in_minutes` of the published times; `assumed` gives our minutes by group, and which groups to draw.
    """
    mine = table[table["group"].isin(assumed.index)]
    row = mine["group"].map({group: at for at, group in enumerate(assumed.index)})
    # so that equal times of a group can be told apart
    row = row + 0.5 * (mine.groupby("group").cumcount() / mine.groupby("group")["minutes"].transform("size") - 0.5)
    ax = new_axes(ax, height=1.2 + 0.45 * len(assumed))
    for mark, statuses in list(MARKS.items())[:2]:
        some = mine["status"].isin(statuses)
        if some.any():
            ax.plot(mine.loc[some, "minutes"], row[some], ls="", label=mark, **STYLES[mark])
    ax.plot(assumed, range(len(assumed)), ls="", label="assumed here", **STYLES["ours"])
    names = [name.replace("ckpt_", "checkpoint ").replace("_", " ") for name in assumed.index]
    ax.set_yticks(range(len(assumed)), names)
    ax.set(xscale="log", ylim=(len(assumed) - 0.5, -0.5), xlabel="Minutes (log scale)")
    _log_ticks(ax.xaxis, [0.01, 0.1, 1, 10, 100, 1000])
    least, most = mine.groupby("group")["minutes"].agg(["min", "max"]).reindex(assumed.index).T.to_numpy()
    inside = int(((least <= assumed) & (assumed <= most)).sum())
    finding = f"{inside} of {len(assumed)} assumptions lie between the least and the most published"
    return titled(ax, title or finding, legend=True)


def _log_ticks(axis, values) -> None:
    axis.set_ticks(list(values))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())
