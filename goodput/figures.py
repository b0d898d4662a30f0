"""Show me: one function a figure, `draw_x(frame, ax=None) -> Axes`, with one colour for each category everywhere.

A figure takes a frame as the package makes it. Its title says what it found, made from the frame, so that it stays
true when a parameter changes; `title=` replaces it. Nothing here changes matplotlib's own settings.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from goodput.attribution import CATEGORIES
from goodput.checkpoint import daly_interval, expected_goodput, first_order_goodput, optimal_interval, young_interval
from goodput.drawing import (
    COLOURS,
    HOUR,
    INK,
    SOFT,
    WASTE,
    as_words,
    charged_to,
    cut_into_rows,
    draw_boxes,
    draw_dots,
    draw_dots_in_rows,
    draw_stack,
    log_minutes,
    new_axes,
    present_in,
    row_labels,
    signed_points,
    titled,
    what_pieces_say,
    write_at_end,
    write_behind,
    write_minutes,
)
from goodput.experiment import wide_runs
from goodput.scenario import Scenario
from goodput.text import between, number, percent

# --- one run ---


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
    return titled(ax, title or f"{charged_to(mine)} took {cost:,.0f} GPU-hours, most of it {as_words(name)}")


def draw_ledger(gpu_hours: pd.Series, ax: Axes | None = None, *, title=None):
    """Draw GPU-hours by category, as `ledger(spans)` gives them, with their share of what was held."""
    found = gpu_hours.reindex(CATEGORIES).fillna(0)
    found, held = found[found > 0], found.sum()
    ax = new_axes(ax, height=1.1 + 0.3 * len(found))
    ax.barh(row_labels(found.index), found, 0.75, color=[COLOURS[name] for name in found.index])
    write_behind(ax, found, [f"{hours:,.0f} h  ({percent(hours / held, 1)})" for hours in found])
    ax.set(xlabel="GPU-hours", xlim=(0, found.max() * 1.3))
    rest = found.drop("productive", errors="ignore")
    worst = f"; {as_words(rest.idxmax())} took most of the rest" if len(rest) else ""
    goodput = percent(found.get("productive", 0) / held, 1)
    return titled(ax, title or f"{goodput} of {held:,.0f} GPU-hours trained the model{worst}")


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
    write_behind(ax, cost, [f"{hours:,.0f} h  ({n:,.4g} times)" for hours, n in zip(cost, count)])
    ax.set(xlabel="GPU-hours charged to the cause, and how often it struck", xlim=(0, cost.max() * 1.25))
    finding = f"{cost.index[0]} cost most: {percent(cost.iloc[0] / cost.sum(), 0)} of {cost.sum():,.0f} GPU-hours,"
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
    missed = f"{(windows['burn'] > 1).sum()} of {len(windows)} windows used more than their error budget"
    return titled(ax, title or missed, legend=True)


# --- scenarios ---


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


# --- how often to save ---


def draw_intervals(table: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None):
    """Draw goodput over the save interval: a sweep's points, the exact and the first-order model, three formulas.

    `table` is `sweep(scenario, "checkpoint.interval_minutes", ...)`; the models take the scenario's nominal MTBI.
    """
    job = scenario.nominal_mtbi_hours * 60, scenario.checkpoint.blocking_minutes
    minutes = np.geomspace(table["value"].min(), table["value"].max(), 500)
    exact = expected_goodput(minutes, *job, scenario.overhead_minutes)
    first = first_order_goodput(minutes, *job, scenario.overhead_minutes)
    ax = new_axes(ax, height=4.3)
    ax.plot(minutes, 100 * exact, color=COLOURS["checkpoint"], lw=1.8, label="exact model")
    ax.plot(minutes, 100 * first, color=COLOURS["lost_work"], lw=1.5, ls="--", label="first-order model")
    draw_dots(ax, table, f"simulated, {table['seeds'].iloc[0]} seeds, with 95 % interval")
    ax.set(ylabel="Goodput, % of GPU-hours held", ylim=(100 * min(exact.min(), table["goodput_low"].min()) - 3, None))
    _mark_formulas(ax, *job)
    log_minutes(ax, table["value"])
    ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.37, 0.12))
    near = minutes[exact > exact.max() - 0.01]
    finding = f"From {near.min():.0f} to {near.max():.0f} minutes, the exact model is within one point of its best"
    return titled(ax, title or finding)


def draw_two_sides(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw what each interval of a sweep costs: in saves, in lost work, and in both, in % of the GPU-hours held."""
    value, saves, lost = table["value"], 100 * table["share_checkpoint"], 100 * table["share_lost_work"]
    ax = new_axes(ax, height=3.5)
    for cost, name, colour in (
        (saves + lost, "both", INK),
        (saves, "saves", COLOURS["checkpoint"]),
        (lost, "lost work", COLOURS["lost_work"]),
    ):
        ax.plot(value, cost, "o-", color=colour, ms=4, lw=1.6, label=name)
        write_at_end(ax, value, cost, name, colour, up=5 if name == "both" else -5 if name == "lost work" else 0)
    ax.set(ylabel="Cost, % of GPU-hours held", ylim=(0, None))
    log_minutes(ax, value)
    best = (saves + lost).idxmin()
    finding = f"Saves and lost work together cost least, {saves[best] + lost[best]:.1f} %, at {value[best]:g} minutes"
    return titled(ax, title or finding)


def _mark_formulas(ax: Axes, mtbi: float, save: float) -> None:
    """Mark the three intervals by lines; each line carries its formula's name as its label."""
    found = {
        "Young": young_interval(mtbi, save),
        "Daly": daly_interval(mtbi, save),
        "optimum": optimal_interval(mtbi, save),
    }
    for name, minutes in found.items():
        ax.axvline(minutes, color=SOFT, lw=1, ls=":" if name == "Young" else "-", zorder=0).set_label(f"_{name}")
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 9, "color": SOFT}
    left = f"Daly {found['Daly']:.1f} min\nexact optimum {found['optimum']:.1f} min"
    ax.annotate(left, (found["Daly"], 0), (-5, 5), ha="right", **where)
    ax.annotate(f"Young {found['Young']:.1f} min", (found["Young"], 0), (5, 5), **where)
