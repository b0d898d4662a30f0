"""One interruption, minute by minute: a band from the last save to the next, each stretch with its name and its price.

Like a film strip of an accident: what came before, the moment itself, and each scene until traffic flows again.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from goodput.attribution import US_PER_HOUR
from goodput.drawing import DARK, INK, SOFT, as_words, charged_to, draw_boxes, new_axes, titled
from goodput.errors import BadInput
from goodput.events import JOB_EVENTS, make_log

MINUTE = pd.Timedelta(minutes=1)
# Which rule of the accounting (data/README.md) gives a stretch its category.
RULES = {
    "productive": "3, 5: computed, and no later fault lost it",
    "checkpoint": "2: training stands still to save",
    "lost_work": "3: computed since the newest save, then a fault",
    "detection": "4: interrupt to detected",
    "waiting": "4: detected to nodes_ready",
    "restart": "4: nodes_ready to running",
    "unattributed": "8: the log leaves a hole",
}


def draw_minutes(
    spans: pd.DataFrame, interruption: int, ax: Axes | None = None, *, title=None, before_minutes=20, after_minutes=45
):
    """Draw one interruption (a row of `interruptions`) as a band of minutes on the clock, for a projector.

    Above the band stands what was charged to an interruption, below it the rest: each stretch with its minutes and
    GPU-hours. A stretch that the edge of the figure cuts is named with its whole length.
    """
    last = spans["interruption"].max()
    if not 0 <= interruption <= last:
        rule = f"0 to {last}, counted from 0" if last >= 0 else "of a run that was interrupted"
        raise BadInput(f"interruption={interruption} must be {rule}")
    mine = spans[spans["interruption"] == interruption]
    fault = fault_time(mine)
    begin, end = mine["start"].min() - before_minutes * MINUTE, mine["end"].max() + after_minutes * MINUTE
    near = (spans["job"] == mine["job"].iloc[0]) & (spans["end"] > begin) & (spans["start"] < end)
    edges = (begin - fault) / MINUTE, (end - fault) / MINUTE
    shown = minutes_from(spans[near], fault, *edges)
    ax = new_axes(ax, width=10, height=3.8)
    draw_boxes(ax, shown.assign(row=0))
    charged = shown["interruption"] >= 0
    struck = pd.DataFrame({"left": [0.0], "width": [0.0], "said": [f"fault\n{fault:%H:%M:%S}"]})
    write_spread(ax, shown[charged], edges, up=1)
    write_spread(ax, pd.concat([shown[~charged], struck]).sort_values("left"), edges, up=-1)
    ax.plot([0, 0], [-0.42, 0.42], color=INK, lw=2.5)
    ax.set(xlim=edges, ylim=(-2.1, 2.1), yticks=[])
    ax.spines["left"].set_visible(False)
    _clock(ax, fault)
    again, cost = (mine["end"].max() - fault) / MINUTE, mine["gpu_hours"].sum()
    finding = f"{charged_to(mine)}: {again:.0f} minutes until it trains again, {cost:,.0f} GPU-hours gone"
    return titled(ax, title or finding)


def draw_same_fault(spans: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw several jobs as bands below each other, each from its own first fault, with the GPU-hours its faults took.

    Made for one story told with small changes. A stretch that is wide enough carries its minutes.
    """
    jobs = list(spans["job"].cat.categories)
    shown = pd.concat([_from_first_fault(spans[spans["job"] == job]).assign(row=row) for row, job in enumerate(jobs)])
    edges = shown["left"].min(), (shown["left"] + shown["width"]).max()
    ax = new_axes(ax, width=10, height=1.5 + 0.55 * len(jobs))
    draw_boxes(ax, shown)
    _write_inside(ax, shown[shown["width"] > 0.015 * (edges[1] - edges[0])])
    cost = shown.assign(gone=shown["gpu_hours"].where(shown["interruption"] >= 0, 0)).groupby("row")["gone"].sum()
    for row, hours in cost.items():
        at = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 9.5, "color": INK}
        ax.annotate(f"{hours:,.0f} GPU-h gone", (1.01, row), **at)
    ax.axvline(0, color=INK, lw=1.5)
    ax.set(xlim=edges, ylim=(len(jobs) - 0.5, -0.5), xlabel="Minutes from the fault; in the band: minutes of a stretch")
    ax.set_yticks(range(len(jobs)), jobs)
    finding = f"The same fault takes {cost.min():,.0f} GPU-hours ({jobs[cost.idxmin()]})"
    return titled(ax, title or f"{finding} to {cost.max():,.0f} ({jobs[cost.idxmax()]})", legend=True)


def _from_first_fault(spans: pd.DataFrame) -> pd.DataFrame:
    struck = spans.loc[spans["interruption"] >= 0, "interruption"].min()
    return minutes_from(spans, fault_time(spans[spans["interruption"] == struck]))


def _write_inside(ax: Axes, shown: pd.DataFrame) -> None:
    for row, left, width, name in shown[["row", "left", "width", "category"]].itertuples(index=False):
        colour = "white" if name in DARK else INK
        ax.text(left + width / 2, row, f"{width:.0f}", ha="center", va="center", fontsize=9.5, color=colour)


def tell_lines(log: pd.DataFrame, spans: pd.DataFrame, interruption: int, after: int = 3) -> pd.DataFrame:
    """Return the lines of a log around one interruption, each with the stretch that it opens and the rule behind it.

    Columns: `event`, `minutes`, `gpu_hours`, `category`, `rule`; the index is the time. From the stretch before the
    first that is charged to it, to `after` stretches behind the last.
    """
    mine = spans.index[spans["interruption"] == interruption]
    near = spans.loc[mine[0] - 1 : mine[-1] + after]
    its_job = (log["job"] == spans.loc[mine[0], "job"]) & log["event"].isin(JOB_EVENTS)
    lines = log.loc[its_job, ["time", "event"]].merge(near, left_on="time", right_on="start").set_index("time")
    lines["minutes"] = (lines["end"] - lines["start"]) / MINUTE
    lines["rule"] = lines["category"].astype(str).map(RULES)
    return lines[["event", "minutes", "gpu_hours", "category", "rule"]]


def log_of_stories(stories: Mapping[str, pd.DataFrame], nodes: int, gpus_per_node: int) -> pd.DataFrame:
    """Return stories as a log, a job each: rows of `event` and of the `minutes` until the next one, by their index.

    A fault's cause is `told`. Rows are taken in the order of the index, so that 2.5 goes between 2 and 3.

    >>> story = pd.DataFrame({"event": ["start", "end", "interrupt"], "minutes": [50, 0, 10]}, index=[0, 1, 0.5])
    >>> log_of_stories({"mine": story}, nodes=2, gpus_per_node=8)["event"].tolist()
    ['start', 'interrupt', 'end']
    """
    told = pd.concat({job: story.sort_index() for job, story in stories.items()}, names=["job"]).reset_index("job")
    begins = told.groupby("job", sort=False)["minutes"].cumsum() - told["minutes"]
    return make_log(
        {
            "time": (begins * (US_PER_HOUR / 60)).round().astype("int64"),
            "job": pd.Categorical(told["job"], list(stories)),
            "event": told["event"],
            "cause": told["event"].map({"interrupt": "told"}),
            "nodes": [nodes] * len(told),
            "gpus_per_node": [gpus_per_node] * len(told),
        }
    )


def fault_time(mine: pd.DataFrame) -> pd.Timestamp:
    """Return when a fault struck, from the spans that are charged to it: where lost work ends and the job is down."""
    down = mine.loc[mine["category"] != "lost_work", "start"]
    return down.min() if len(down) else mine["end"].max()


def minutes_from(spans: pd.DataFrame, fault: pd.Timestamp, low: float = -np.inf, high: float = np.inf) -> pd.DataFrame:
    """Return spans with `left` and `width` in minutes from a fault, cut at `low` and `high`, and what is `said`."""
    left, right = ((spans[side] - fault) / MINUTE for side in ("start", "end"))
    said = [
        f"{as_words(name)}\n{_short(length)} min\n{_short(hours)} GPU-h"
        for name, length, hours in zip(spans["category"], right - left, spans["gpu_hours"], strict=True)
    ]
    seen = left.clip(low, high)
    return spans.assign(left=seen, width=right.clip(low, high) - seen, said=said)


def _short(value: float) -> str:
    """Return a number without decimals from 100 on, else with one where that is not zero."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")


def write_spread(ax: Axes, stretches: pd.DataFrame, edges: tuple[float, float], up: int) -> None:
    """Write what is said of stretches above (`up` 1) or below (-1) the band, moved aside where they would overlap."""
    middles = (stretches["left"] + stretches["width"] / 2).to_numpy()
    for at, middle, text in zip(spread(middles, *edges, gap=0.088), middles, stretches["said"], strict=True):
        line = {"arrowstyle": "-", "color": SOFT, "lw": 0.8, "shrinkA": 1, "shrinkB": 0}
        where = {"ha": "center", "va": "bottom" if up > 0 else "top", "fontsize": 10, "color": INK}
        ax.annotate(text, (middle, 0.42 * up), (at, 0.85 * up), arrowprops=line, **where)


def spread(middles: Sequence[float], low: float, high: float, gap: float) -> np.ndarray:
    """Return places near `middles` (ascending) that are at least `gap` apart, a share of the way from low to high.

    The least squares of moves: isotonic regression of the middles less the gaps before them.

    >>> spread([0, 1, 50, 99], 0, 100, gap=0.1).round(1).tolist()
    [5.0, 15.0, 50.0, 95.0]
    """
    from scipy.optimize import isotonic_regression  # imported here: it costs more time than all else in this module

    steps = gap * (high - low) * np.arange(len(middles))
    room = high - low - gap * (high - low) - (steps[-1] if len(steps) else 0)
    first = low + gap * (high - low) / 2
    if not len(middles):
        return steps
    return np.clip(isotonic_regression(np.asarray(middles) - steps).x, first, first + max(room, 0)) + steps


def _clock(ax: Axes, fault: pd.Timestamp) -> None:
    """Label an axis of minutes with minutes from the fault, and below them the clock."""
    left, right = ax.get_xlim()
    step = next((step for step in (5, 10, 15, 30, 60, 120, 240) if (right - left) / step <= 13), 480)
    ax.xaxis.set_major_locator(MultipleLocator(step))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{_signed(at)}\n{fault + at * MINUTE:%H:%M}"))
    ax.set_xlabel("Minutes from the fault, and the clock (UTC)")


def _signed(minutes: float) -> str:
    return f"{minutes:+.0f}".replace("-", "−") if minutes else "0"
