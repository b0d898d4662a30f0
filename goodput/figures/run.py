"""What happened in one run? Its timeline, an interruption up close, the ledger, the causes, the burn."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from goodput.attribution import CATEGORIES
from goodput.drawing import (
    COLOURS,
    HOUR,
    INK,
    SOFT,
    as_words,
    charged_to,
    cut_into_rows,
    draw_boxes,
    draw_stack,
    new_axes,
    present_in,
    row_labels,
    times_over,
    titled,
    what_pieces_say,
    write_behind,
    write_minutes,
)
from goodput.text import percent, whole


def draw_timeline(spans: pd.DataFrame, ax: Axes | None = None, *, title=None, start=None, hours=None, row_hours=24):
    """Draw one job's life as a band coloured by category, a row for each `row_hours`.

    `start` (a time) and `hours` show a part of it; with `row_hours` equal to `hours` it fills one row.
    """
    start = spans["start"].min() if start is None else start
    pieces = cut_into_rows(spans, start, hours, row_hours)
    rows = int(pieces["row"].max()) + 1
    ax = new_axes(ax, height=1.3 + 0.17 * rows)
    draw_boxes(ax, pieces)
    begins = [f"{start + row * row_hours * HOUR:%d %b %H:%M}".removesuffix(" 00:00") for row in range(rows)]
    ax.set_yticks(range(rows), begins, fontsize=8)
    step = next((step for step in (0.25, 1, 3, 24, 168) if row_hours / step <= 12), row_hours)
    ax.xaxis.set_major_locator(MultipleLocator(step))
    ax.set(xlim=(0, row_hours), ylim=(rows - 0.5, -0.5), xlabel="Hours from the time at the left (UTC)")
    return titled(ax, title or what_pieces_say(pieces), legend=True)


def draw_interruption(
    spans: pd.DataFrame, interruption: int, ax: Axes | None = None, *, title=None, before_hours=1.5, after_hours=1.5
):
    """Draw the hours around one interruption (a row of `interruptions`), each category on its own row.

    Behind each row stands the time that was charged to this interruption.
    """
    mine = spans[spans["interruption"] == interruption]
    fault = mine.loc[mine["category"] != "lost_work", "start"].min()
    start = mine["start"].min() - before_hours * HOUR
    width = (mine["end"].max() - start) / HOUR + after_hours
    pieces = cut_into_rows(spans, start, width, width)
    names = present_in(pieces["category"])
    row = pd.Index(names).get_indexer(pieces["category"])
    pieces = pieces.assign(row=row, left=pieces["left"] - (fault - start) / HOUR)
    ax = new_axes(ax, height=1.1 + 0.3 * len(names))
    draw_boxes(ax, pieces)
    ax.axvline(0, color=INK, lw=1, zorder=0)
    ax.set(xlim=(pieces["left"].min(), pieces["left"].min() + width), ylim=(len(names) - 0.5, -0.5))
    ax.set(xlabel="Hours from the fault", yticks=range(len(names)), yticklabels=map(as_words, names))
    write_minutes(ax, mine, fault, names)
    cost, name = mine["gpu_hours"].sum(), mine.groupby("category", observed=True)["gpu_hours"].sum().idxmax()
    return titled(ax, title or f"{charged_to(mine)} took {whole(cost)} GPU-hours, most of it {as_words(name)}")


def draw_ledger(gpu_hours: pd.Series, ax: Axes | None = None, *, title=None):
    """Draw GPU-hours by category, as `ledger(spans)` gives them, with their share of what was held."""
    found = gpu_hours.reindex(CATEGORIES).fillna(0)
    found, held = found[found > 0], found.sum()
    ax = new_axes(ax, height=1.1 + 0.3 * len(found))
    ax.barh(row_labels(found.index), found, 0.75, color=[COLOURS[name] for name in found.index])
    write_behind(ax, found, [f"{whole(hours)} h  ({percent(hours / held, 1)})" for hours in found])
    ax.set(xlabel="GPU-hours", xlim=(0, found.max() * 1.3))
    rest = found.drop("productive", errors="ignore")
    worst = f"; {as_words(rest.idxmax())} took most of the rest" if len(rest) else ""
    goodput = percent(found.get("productive", 0) / held, 1)
    return titled(ax, title or f"{goodput} of {whole(held)} GPU-hours trained the model{worst}")


def draw_causes(causes: pd.DataFrame, spans: pd.DataFrame | None = None, ax: Axes | None = None, *, title=None):
    """Draw causes (`by_cause`, or one scenario's `cause_means`), dearest first, with how often each struck.

    With the spans a bar is split by category. A count behind a bar may be a mean of runs.
    """
    causes = causes.sort_values("gpu_hours", ascending=False, kind="stable").set_index("cause")
    ax = new_axes(ax, height=1.3 + 0.3 * len(causes))
    if causes.empty:
        return titled(ax, title or "Nothing interrupted the job")
    cost, count = causes["gpu_hours"], causes["count"]
    if spans is None:
        ax.barh(row_labels(causes.index), cost, 0.75, color=SOFT)
    else:
        draw_stack(ax, spans.pivot_table("gpu_hours", "cause", "category", "sum", observed=False).reindex(causes.index))
    write_behind(ax, cost, [f"{whole(hours)} h  ({times_over(n)})" for hours, n in zip(cost, count)])
    ax.set(xlabel="GPU-hours charged to the cause, and how often it struck", xlim=(0, cost.max() * 1.25))
    for label in ax.get_yticklabels():
        label.set_parse_math(False)  # a name in a log is no formula
    finding = f"{cost.index[0]} cost most: {percent(cost.iloc[0] / cost.sum(), 0)} of {whole(cost.sum())} GPU-hours,"
    finding += f" in {count.iloc[0]:,.4g} of {count.sum():,.4g} interruptions"
    return titled(ax, title or finding, legend=spans is not None)


def draw_burn(windows: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the burn of each window of `slo_windows`, coloured by the category that used most of its error budget."""
    ax = new_axes(ax, height=3.2)
    left = (windows["start"] - windows["start"].iloc[0]) / HOUR / 24
    width = (windows["end"] - windows["start"]) / HOUR / 24
    for name in present_in(windows["worst"]):
        its = windows["worst"] == name
        ax.bar(
            left[its], windows["burn"][its], 0.92 * width[its], align="edge", color=COLOURS[name], label=as_words(name)
        )
    ax.axhline(1, color=INK, lw=1)
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate("budget\njust used up", (1, 1), (4, 0), va="center", fontsize=8.5, color=INK, **where)
    ax.set(xlabel="Days from the first event; colour: what used most of the budget", ylabel="Burn (waste / budget)")
    missed = (windows["burn"] > 1).sum()
    finding = f"{missed} of {len(windows)} windows used more than their error budget"
    return titled(ax, title or (finding if missed else f"{len(windows)} windows, none over its error budget"), True)
