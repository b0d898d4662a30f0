"""Is the promise kept, and who broke it? Burn beside a healthy month, cohorts, evidence by the day, targets, alerts."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from goodput.burn import firing_runs
from goodput.drawing import COLOURS, HOUR, INK, SOFT, new_axes, times_over, titled
from goodput.repeats import rate_ratio, when_known
from goodput.text import between, number, percent

BAD, CALM, GOOD = COLOURS["lost_work"], "#9AA7B2", COLOURS["checkpoint"]
NEAR = {"textcoords": "offset points", "fontsize": 9.5}


def draw_burns(windows: Mapping[str, pd.DataFrame], ax: Axes | None = None, *, title=None):
    """Draw the burn of each window of `slo_windows`, of two runs side by side, with the line of the error budget.

    `windows` names the run under review first, then the one that it is held against.
    """
    ax = new_axes(ax, height=3.6)
    width, top = 0.8 / len(windows), max(1, *(table["burn"].max() for table in windows.values()))
    for place, (name, table), colour in zip(range(len(windows)), windows.items(), (BAD, CALM), strict=False):
        middle = np.arange(len(table)) + place * width
        ax.bar(middle, table["burn"], 0.94 * width, color=colour, label=name)
        _write_burns(ax, middle, table["burn"], 0.14 * top)  # so high on the low axes of a slide
    first = next(iter(windows.values()))
    middle = np.arange(len(first)) + (len(windows) - 1) * width / 2
    ax.set_xticks(middle, [f"{start:%d %b}" for start in first["start"]], fontsize=10)
    ax.set(xlabel="Window from (UTC)", ylabel="Burn (waste / budget)", ylim=(0, 1.12 * top))
    _mark_level(ax, 1, "budget\nused up")
    missed = [(name, (table["burn"] > 1).sum(), _whole(table)) for name, table in windows.items()]
    finding = f"{missed[0][1]} of {len(first)} windows missed (burn {missed[0][2]:.2f})"
    finding += "".join(f"; in {name} {count} (burn {burn:.2f})" for name, count, burn in missed[1:])
    return titled(ax, title or finding, legend=True)


def draw_cohorts(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the node MTBF of each row of `by_cohort` with its exact interval, on a logarithmic axis."""
    table = table.sort_values("mtbf_hours", ignore_index=True)
    shown = table.replace({"mtbf_hours": {np.inf: np.nan}, "high": {np.inf: 20 * table["low"].max()}})
    ax = new_axes(ax, height=1.5 + 0.5 * len(table))
    colours = [BAD] + [GOOD] * (len(table) - 1)
    ax.hlines(shown.index, shown["low"], shown["high"], color=colours, lw=8)
    ax.plot(shown["mtbf_hours"], shown.index, "|", color=INK, ms=17, mew=2)
    for row, (hours, low, high, failures) in table[["mtbf_hours", "low", "high", "failures"]].iterrows():
        text = f"{number(hours, 0)} h ({between(low, high, lambda value: number(value, 0))})\n{failures:,.0f} failures"
        ax.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=10, color=INK)
    ax.set_yticks(shown.index, table["cohort"].astype(str), fontsize=11)
    ax.set(xscale="log", ylim=(len(table) - 0.4, -0.6))
    ax.set_xlabel("Node MTBF, hours (log scale); bar: exact 95 % interval")
    _plain_log(ax.xaxis)
    return titled(ax, title or _worst_cohort(table))


def draw_evidence(found: pd.DataFrame, ax: Axes | None = None, *, title=None, assumed=None):
    """Draw the ratio of `evidence` of one job over the days, with its interval, and from which day it stays above 1.

    `assumed` is the true ratio, where it is known.
    """
    ax = new_axes(ax, height=3.8)
    known = found[(found["low"] > 0) & np.isfinite(found["high"])]
    ax.fill_between(known["days"], known["low"], known["high"], color=GOOD, alpha=0.22, lw=0)
    ax.plot(known["days"], known["ratio"], color=GOOD, lw=2.2)
    ax.set(yscale="log", xlabel="Days since the job began; band: exact 95 % interval", ylabel="Ratio of failure rates")
    _plain_log(ax.yaxis)
    _mark_level(ax, 1, "equally\noften")
    if assumed is not None:
        ax.axhline(assumed, color=SOFT, lw=1, ls="--")
        ax.annotate(
            f"assumed\n{assumed:g}", (1, assumed), (5, 0), xycoords=("axes fraction", "data"), va="center", **NEAR
        )
    day = when_known(found)["stays_from"].iloc[0]
    ax.set(xlim=(0, found["days"].max()), ylim=(max(known["low"].min(), 0.09), min(known["high"].max() * 1.2, 60)))
    if np.isnan(day):
        return titled(ax, title or f"In {found['days'].max():g} days the interval never came to stay above 1")
    ax.axvline(day, color=BAD, lw=1.6)
    ax.annotate(f"day {day:g}", (day, 1), (5, -3), xycoords=("data", "axes fraction"), va="top", color=BAD, **NEAR)
    now = found[found["days"] == day].iloc[0]
    finding = f"From day {day:g} on the interval stays above 1 ({now['failures']:.0f} failures against"
    return titled(ax, title or f"{finding} {now['other_failures']:.0f} by then)")


def draw_known(days: Mapping[str, pd.Series], ax: Axes | None = None, *, title=None):
    """Draw in what share of the months it was known by which day; `days` names columns of `when_known`, NaN: never.

    The title tells the median of the first and what the last one reached: put false alarms last.
    """
    ax = new_axes(ax, height=3.6)
    last = 28.0
    for (name, column), colour in zip(days.items(), (BAD, GOOD, SOFT, COLOURS["restart"]), strict=False):
        when = np.sort(column.dropna())
        last = max(last, *when) if len(when) else last
        x, y = np.concatenate([[0], when, [last]]), np.concatenate([np.arange(len(when) + 1), [len(when)]])
        ax.step(x, 100 * y / len(column), where="post", color=colour, lw=2.2, label=name)
    ax.set(xlabel="Days since the job began", ylabel="Known by then, % of months", xlim=(0, last), ylim=(0, 103))
    ax.legend(frameon=False, fontsize=9.5, loc="center right", bbox_to_anchor=(1, 0.38))
    first, (other, final) = next(iter(days.values())), list(days.items())[-1]
    half = first.fillna(np.inf).sort_values().iloc[(len(first) - 1) // 2]
    finding = f"Half of the months knew by day {half:g}; {other}: {percent(final.notna().mean(), 1)}"
    return titled(ax, title or finding)


def draw_budget(use: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw the share of the error budget used over time, of each job of `budget_use`, against the straight line.

    The first job is the one looked at; others are thin.
    """
    ax = new_axes(ax, height=3.8)
    jobs = list(use["job"].unique())
    for job in reversed(jobs):
        mine = use[use["job"] == job]
        style = {"color": BAD, "lw": 2.2, "zorder": 3} if job == jobs[0] else {"color": CALM, "lw": 0.8}
        ax.plot(mine["days"], 100 * mine["used_share"], **style)
    mine = use[use["job"] == jobs[0]]
    ax.plot(mine["days"], 100 * mine["even_share"], color=INK, lw=1, ls="--", zorder=4)
    _mark_level(ax, 100, "budget\nused up")
    ax.set(xlabel="Days since the job began; dashed: evenly used", ylabel="Budget used, %")
    ax.set(xlim=(0, mine["days"].max()), ylim=(0, None))
    gone = mine.loc[mine["used_share"] > 1, "days"].min()
    told = f"used up on day {gone:.1f}" if gone == gone else "never used up"
    finding = f"Budget of {mine['days'].max() / mine['even_share'].max():g} days {told}"
    if len(jobs) > 1:
        over = use[use["job"] != jobs[0]].groupby("job", observed=True)["used_share"].max() > 1
        finding += f"; {over.sum()} of {len(over)} other months overdrew"
    return titled(ax, title or finding)


def draw_targets(
    tables: Mapping[str, pd.DataFrame], ax: Axes | None = None, *, title=None, marked: Sequence[float] = ()
):
    """Draw how many windows would meet each target, of `targets_met` by name, with intervals.

    Each target of `marked` gets a line, and its number stands in the title.
    """
    ax = new_axes(ax, height=3.8)
    for (name, table), colour in zip(tables.items(), (GOOD, BAD, COLOURS["restart"]), strict=False):
        target = 100 * table["target"]
        ax.fill_between(target, 100 * table["low"], 100 * table["high"], color=colour, alpha=0.2, lw=0)
        ax.plot(target, 100 * table["met_share"], "o-", color=colour, ms=3.5, lw=2, label=name)
    for target in marked:
        ax.axvline(100 * target, color=SOFT, lw=1, ls=":", zorder=0)
    ax.set(
        xlabel="Target: goodput of a window, %; band: 95 % interval", ylabel="Windows that meet it, %", ylim=(0, 103)
    )
    first = next(iter(tables.values()))
    asked = first[np.isclose(first["target"].to_numpy()[:, None], marked or [first["target"].iloc[0]]).any(axis=1)]
    said = [f"{percent(row.target, 0)} is met in {percent(row.met_share, 0)}" for row in asked.itertuples()]
    finding = f"{next(iter(tables))}: {', '.join(said)} of {first['windows'].iloc[0]} windows"
    return titled(ax, title or finding, legend=True)


def draw_alerts(alerts: pd.DataFrame, threshold: float, ax: Axes | None = None, *, title=None):
    """Draw long and short burn of `burn_alerts` over time, the threshold, and a band where the alert was firing."""
    ax = new_axes(ax, height=3.6)
    days = (alerts["time"] - alerts["time"].iloc[0]) / HOUR / 24
    ax.plot(days, alerts["short_burn"], color=CALM, lw=0.6, label="short window")
    ax.plot(days, alerts["long_burn"], color=GOOD, lw=2, label="long window")
    top = 1.15 * max(threshold, alerts["short_burn"].max())
    ax.fill_between(days, 0, top, where=alerts["firing"], color=BAD, alpha=0.35, lw=1.5, ec=BAD, label="firing")
    ax.set(xlabel="Days since the log began", ylabel="Burn (waste / budget)", xlim=(0, days.max()), ylim=(0, top))
    _mark_level(ax, threshold, f"threshold\n{threshold:.2f}")
    hours = alerts["firing"].sum() * (days.iloc[1] - days.iloc[0]) * 24
    finding = f"Fired {times_over(len(firing_runs(alerts)))} in {days.max():.0f} days, for {hours:.1f} hours in all"
    return titled(ax, title or finding, legend=True)


def _write_burns(ax: Axes, middle: np.ndarray, burns: pd.Series, letter: float) -> None:
    """Write each burn on its bar; where the line of the budget would cross it (a `letter` is that high), above that."""
    crossed = (burns < 1) & (burns + letter > 1)
    for x, burn, height in zip(middle, burns, burns.mask(crossed, 1), strict=True):
        ax.annotate(f"{burn:.2f}", (x, height), (0, 3), ha="center", va="bottom", color=INK, **NEAR)


def _whole(windows: pd.DataFrame) -> float:
    return windows["used_gpu_hours"].sum() / windows["budget_gpu_hours"].sum()


def _worst_cohort(table: pd.DataFrame) -> str:
    """Return how much more often the worst cohort (the first row) fails than all the others together."""
    worst, others = table.iloc[0], table.iloc[1:]
    if others.empty:
        return f"{worst['cohort']}: a failure in {number(worst['mtbf_hours'], 0)} node-hours"
    found = rate_ratio(worst["failures"], worst["node_hours"], others["failures"].sum(), others["node_hours"].sum())
    interval = between(found.low, found.high, lambda value: number(float(value), 1))
    return f"A node of {worst['cohort']} fails {number(float(found.ratio), 1)} times as often as others ({interval})"


def _mark_level(ax: Axes, level: float, text: str) -> None:
    ax.axhline(level, color=INK, lw=1.2)
    ax.annotate(text, (1, level), (5, 0), xycoords=("axes fraction", "data"), va="center", color=INK, **NEAR)


def _plain_log(axis) -> None:
    """Give a logarithmic axis plain numbers, 1,000 and not a power of ten; few enough to be read."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())
