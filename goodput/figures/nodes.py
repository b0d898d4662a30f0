"""How often do nodes fail, how many spares and how many crews? Measured points beside the laws that foretell them."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, NullLocator

from goodput.checkpoint import expected_goodput
from goodput.drawing import COLOURS, INK, SOFT, draw_dots, new_axes, titled
from goodput.parts import expected
from goodput.queueing import (
    counting_spares,
    crew_wait,
    erlang_b,
    mean_wait,
    monthly_bias,
    poisson_tail,
    repair_load,
    waiting_share,
)
from goodput.scenario import Scenario
from goodput.text import percent

BLUE, RED, GREEN = (COLOURS[name] for name in ("checkpoint", "lost_work", "restart"))


def draw_sizes(table: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None):
    """Draw the MTBI over the nodes of a job, with exact intervals, on the law 1 / (nodes / node MTBF + other failures).

    `table` has a row a size: `nodes`, and `mtbi_hours`, `node_mtbf_hours`, `other_hours` (running time over failures
    that no node is blamed for), each with `_low` and `_high`. Of the nodes it draws the time between any two failures.
    """
    nodes = table["nodes"].to_numpy(float)
    size = np.geomspace(nodes.min(), nodes.max(), 200)
    by_nodes, others = scenario.job.nodes / scenario.node_failures_per_hour / size, scenario.job_failures_per_hour
    ax = new_axes(ax, height=4.3)
    lines = {"all: the MTBI": (1 / (1 / by_nodes + others), _ends(table, "mtbi_hours"), INK, "-")}
    lines["of nodes"] = (by_nodes, _ends(table, "node_mtbf_hours") / nodes, BLUE, "--")
    if others:
        lines["of no node"] = (np.full(len(size), 1 / others), _ends(table, "other_hours"), RED, "--")
    for name, (law, hours, colour, style) in lines.items():
        ax.plot(size, law, color=colour, lw=1.2, ls=style)
        _draw_points(ax, nodes, *hours, colour, ms=5 if colour == INK else 3.5)
        end, up = (0, 9) if colour == BLUE else (-1, 0)  # a falling line is named above its beginning
        _name(ax, (size[end], law[end]), name, colour, up)
    _log_axis(ax.xaxis, nodes)
    _log_axis(ax.yaxis, [hours for hours in (1, 2, 5, 10, 20, 50, 100, 200, 500) if hours < by_nodes.max() * 1.2])
    ax.set(xlabel="Nodes of the job (log scale)", ylabel="Running hours between failures (log scale)")
    first, last = table.loc[table["nodes"].idxmin()], table.loc[table["nodes"].idxmax()]
    longest, shortest = float(first["mtbi_hours"]), float(last["mtbi_hours"])
    times = f"{last['nodes'] / first['nodes']:g} times the nodes, {longest / shortest:.1f} times"
    finding = f"{times} the interruptions: an MTBI of {longest:.1f} and {shortest:.1f} hours"
    return titled(ax, title or finding)


def draw_monthly_means(table: pd.DataFrame, true_hours: float, ax: Axes | None = None, *, title=None):
    """Draw the mean of monthly MTBFs and the pooled MTBF over the failures a month, with the truth and the known bias.

    `table`: `events` a month, and `pooled` and `monthly` in hours, each with `_low` and `_high`.
    """
    events = table["events"].to_numpy(float)
    many = np.geomspace(events.min() / 1.2, events.max() * 1.2, 200)
    ax = new_axes(ax, height=3.8)
    ax.plot(many[[0, -1]], [true_hours] * 2, color=SOFT, lw=1)
    ax.plot(many, true_hours * monthly_bias(many), color=RED, lw=1.2, ls="--", label="expected of a mean of months")
    for name, said, colour, aside in (("monthly", "mean of months", RED, 1.015), ("pooled", "pooled", BLUE, 1 / 1.015)):
        _draw_points(ax, events * aside, *_ends(table, name), colour, label=f"{said}, with 95 % interval")
    _log_axis(ax.xaxis, [count for count in (1, 2, 3, 5, 10, 20, 50, 100, 200) if many[0] <= count <= many[-1]])
    ax.set(xlabel="Failures in a month (log scale)", ylabel="Node MTBF, hours")
    ax.yaxis.set_major_formatter(FuncFormatter(_thousands))
    _name(ax, (many[-1], true_hours), "truth", SOFT)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    worst = table.loc[table["monthly"].idxmax()]
    wrong, right = (percent(abs(worst[name] / true_hours - 1), 0) for name in ("monthly", "pooled"))
    finding = f"With {worst['events']:.1f} failures a month a mean of months is {wrong} off, the pooled MTBF {right}"
    return titled(ax, title or finding)


def draw_spares(table: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None):
    """Draw goodput over spares beside its law, and the goodput that is left if spares count as held.

    `table` is `sweep(scenario, "pool.spares", ...)`. The law is `expected_goodput` less the share of time waited, by
    `waiting_share` for a run of this length.
    """
    spares = np.arange(table["value"].min(), table["value"].max() + 1)
    law = 100 * _goodput_without_waiting(scenario) * (1 - _waiting(scenario, spares))
    counted = 100 * counting_spares(table["goodput"], table["value"], scenario.job.nodes)
    at, best = table["value"].max(), counted.idxmax()
    ax = new_axes(ax, height=4)
    ax.plot(spares, law, color=BLUE, lw=1.6)
    draw_dots(ax, table, f"simulated, {table['seeds'].iloc[0]} seeds, with 95 % interval")
    ax.plot(table["value"], counted, "o-", color=RED, lw=1.4, ms=4)
    ax.plot(table["value"][best], counted[best], "o", mfc="none", mec=RED, ms=11, mew=1.6)
    _name(ax, (at, law[-1]), f"the law\n{law[-1]:.1f} %", BLUE)
    _name(ax, (at, counted.iloc[-1]), f"spares counted\n{counted.iloc[-1]:.1f} %", RED)
    ax.set(xlabel="Spare nodes", ylabel="Goodput, % of GPU-hours held", xticks=table["value"])
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    finding = f"Counting spares as held, goodput is best with {table['value'][best]:g} of them: {counted[best]:.1f} %"
    return titled(ax, title or finding)


def draw_waiting(waits: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None, from_share=1e-5):
    """Draw the share of time waited over spares beside three laws, on a log scale that begins at `from_share`.

    `waits` has a row a number of spares (its index): `mean`, `low`, `high`, as `mean_interval` gives them.
    """
    spares, load = np.arange(waits.index.min(), waits.index.max() + 1), repair_load(scenario)
    fresh = _waiting(scenario, spares)
    ax = new_axes(ax, height=4)
    for name, share, colour, style in (
        ("Poisson: more broken than spares", poisson_tail(spares, load), SOFT, ":"),
        ("Erlang B: no failures while waiting", erlang_b(spares + 1, load), RED, "--"),
        (f"the same, {scenario.days:g} days from a fresh start", fresh, BLUE, "-"),
    ):
        ax.plot(spares, 100 * share, color=colour, ls=style, lw=1.5, label=name)
    seen = waits[waits["mean"] > from_share].clip(lower=from_share)
    _draw_points(ax, seen.index, *(100 * seen[["mean", "low", "high"]].to_numpy().T), INK, "simulated, 95 % interval")
    right = seen.index.max() + 2.5 if len(seen) else spares[-1] + 0.3
    ax.set(xlabel="Spare nodes", xticks=waits.index, xlim=(spares[0] - 0.3, right))
    _log_values(ax, "Time spent waiting, % (log scale)", 100 * from_share, 130)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    at = scenario.pool.spares if scenario.pool.spares in waits.index else waits.index[0]
    said, law = percent(waits.loc[at, "mean"], 1), percent(fresh[spares == at][0], 1)
    return titled(ax, title or f"With {at} spares the job waits {said} of the time; the law for such a run is {law}")


def draw_spare_gains(gains: pd.DataFrame, cost_gpu_hours: float, ax: Axes | None = None, *, title=None):
    """Draw what each spare more gains in productive GPU-hours, on a log scale, against what it costs to hold it idle.

    `gains` has a row a spare (its index counts them): `mean`, `low`, `high`, paired by seed. Green are those that pay
    with their whole interval, red those that do not; the others are open.
    """
    least, pays, fails = cost_gpu_hours / 100, gains["low"] >= cost_gpu_hours, gains["high"] < cost_gpu_hours
    ax = new_axes(ax, height=3.8)
    ax.axhline(cost_gpu_hours, color=INK, lw=1)
    for its, colour in ((pays, GREEN), (~pays & ~fails, INK), (fails, RED)):
        seen = gains[its & (gains["mean"] > least)].clip(lower=least)
        _draw_points(ax, seen.index, seen["mean"], seen["low"], seen["high"], colour)
        for at, mean in seen["mean"].items():
            _name(ax, (at, mean), f"{mean:,.0f}", colour).set_bbox({"facecolor": "white", "linewidth": 0, "pad": 1})
    shown = gains.index[gains["mean"] > least] if (gains["mean"] > least).any() else gains.index
    ax.set(xlabel="Spare nodes, counted one by one", xticks=shown, xlim=(shown.min() - 0.5, shown.max() + 1))
    most = max(gains[["mean", "high"]].max().max(), cost_gpu_hours)
    _log_values(ax, "Productive GPU-hours gained (log scale)", least, 3 * most)
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 9, "color": INK}
    ax.annotate(f"what an idle node holds: {cost_gpu_hours:,.0f}", (1, cost_gpu_hours), (0, 6), ha="right", **where)
    some, still = gains.index[pays], gains.index[~pays & ~fails]
    finding = f"{some.max() if len(some) else 0} spares gain more than the {cost_gpu_hours:,.0f} GPU-hours each holds"
    return titled(ax, title or finding + (f"; number {still[0]} is open" if len(still) else ""))


def draw_crew_waits(waits: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None):
    """Draw how long a broken node waits for a crew, over crews, beside Erlang C and the law for this number of spares.

    `waits` has a row a number of crews (its index): `mean`, `low`, `high` in hours, as `pooled_mean` gives them.
    """
    load, service, spares = repair_load(scenario), expected(scenario.repair.mean_hours), scenario.pool.spares
    crews, run = waits.index.to_numpy(), scenario.days * 24 / service
    endless = mean_wait(crews, load, service)
    law = np.array([crew_wait(spares, load, int(count), service, run) for count in crews])
    ax = new_axes(ax, height=3.8)
    ax.plot(crews, endless, "--", color=RED, lw=1.3, label="Erlang C: spares without end")
    ax.plot(crews, law, color=BLUE, lw=1.6, label=f"{spares} spares, {scenario.days:g} days from a fresh start")
    seen, least = waits[waits["mean"] > 0], 0.5 * min(law[law > 0], default=0.1)
    _draw_points(ax, seen.index, *seen.clip(lower=least)[["mean", "low", "high"]].to_numpy().T, INK, "simulated, 95 %")
    ax.set(xlabel="Repair crews", xticks=crews)
    most = max(4 * waits[["mean", "high"]].max().max(), 10 * least)
    _log_values(ax, "Wait for a crew, hours (log scale)", least, most)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    said = [f"{hours:.0f} hours with {count:g}" for count, hours in waits["mean"].iloc[:3].items()]
    return titled(ax, title or f"A broken node waits for a crew {', '.join(said)}")


def draw_grid(shares: pd.DataFrame, ax: Axes | None = None, *, title=None, what="goodput, spares counted"):
    """Draw shares as a heat map, per cent in its cells: crews down, spares across, the best of each row framed."""
    values = 100 * shares.to_numpy(float)
    ax = new_axes(ax, height=1.3 + 0.4 * len(shares))
    # the cube of the place between worst and best: differences near the best are those that matter
    image = ax.imshow(values, cmap="Blues", aspect="auto", norm=PowerNorm(3, values.min(), values.max()))
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if image.norm(value) > 0.55 else INK
        ax.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=9.5, color=colour)
    best = values.argmax(axis=1)
    for row, column in enumerate(best):
        ax.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, fill=False, edgecolor=RED, lw=2))
    ax.set_xticks(range(shares.shape[1]), [str(name) for name in shares.columns])
    ax.set_yticks(range(shares.shape[0]), [str(name) for name in shares.index])
    ax.set(xlabel=f"Spare nodes; in the cells: {what}, %", ylabel="Repair crews")
    crews, spares = (", ".join(map(str, names)) for names in (shares.index, shares.columns[best]))
    return titled(ax, title or f"Best number of spares with {crews} crews: {spares}")


def _goodput_without_waiting(scenario: Scenario) -> float:
    save, overhead = scenario.checkpoint.blocking_minutes, scenario.overhead_minutes
    return expected_goodput(scenario.interval_minutes, scenario.nominal_mtbi_hours * 60, save, overhead)


def _waiting(scenario: Scenario, spares: np.ndarray) -> np.ndarray:
    """Return by the law the share of time waited with each number of spares, over a run of the scenario's length."""
    run = scenario.days * 24 / expected(scenario.repair.mean_hours)
    return np.array([waiting_share(int(n), repair_load(scenario), scenario.repair.crews, run) for n in spares])


def _ends(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[[name, f"{name}_low", f"{name}_high"]].to_numpy(float).T


def _draw_points(ax: Axes, x, y, low, high, colour: str, label: str | None = None, ms: float = 4.5) -> None:
    y, low, high = (np.where(np.isfinite(each), each, np.nan) for each in (y, low, high))
    ax.errorbar(x, y, [y - low, high - y], fmt="o", color=colour, ms=ms, capsize=3, lw=1.2, label=label, zorder=3)


def _log_axis(axis, ticks) -> None:
    """Give an axis its log scale with a tick at each value, and no other."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_ticks(list(ticks), [f"{tick:,.0f}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _log_values(ax: Axes, label: str, low: float, high: float) -> None:
    """Give the axis of values its log scale, with powers of ten written out."""
    ax.set(yscale="log", ylim=(low, high), ylabel=label)
    ax.yaxis.set_major_formatter(FuncFormatter(_thousands))
    ax.yaxis.set_minor_locator(NullLocator())


def _thousands(value: float, _place=None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _name(ax: Axes, at: tuple, text: str, colour: str, up: float = 0) -> Annotation:
    """Name a point at its right, `up` points higher than that."""
    return ax.annotate(text, at, (8, up), textcoords="offset points", va="center", fontsize=9, color=colour)
