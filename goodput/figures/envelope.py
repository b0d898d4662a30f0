"""Where does a formula hold? A map of its error, cell by cell, in four classes and in points."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from goodput.drawing import COLOURS, INK, SOFT, new_axes, titled
from goodput.envelope import LEVELS, reach, verdicts
from goodput.text import percent

CLASSES = dict(zip((*LEVELS, np.inf), ("white", COLOURS["productive"], COLOURS["detection"], COLOURS["lost_work"])))
NAMES = ("within 0.1 points", "within 1", "within 5", "further off", "noise may move it to another")


def draw_envelope(table: pd.DataFrame, formula: str, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw the error of a formula for goodput, a table of `bench_goodput`, over interval and overhead in MTBIs."""
    ax = _draw_map(new_axes(ax, 8, 4), table, ("interval", "overhead"), ("ours", "error", formula))
    ax.set(xlabel="Interval between saves / MTBI", ylabel="Overhead of an interruption / MTBI")
    return titled(ax, title or _how_far(table, formula), legend=True)


def draw_shop_envelope(table: pd.DataFrame, law: str, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw the error of a law for the share of time that a job waits, a table of `bench_shops`; law: erlang or chain.

    Over the length of a run and of an outage, both in mean repairs; the other columns should be the same throughout.
    """
    columns = ("job_waits", "job_waits_error", f"job_waits_{law}")
    ax = _draw_map(new_axes(ax, 7, 3.4), table, ("run", "outage"), columns)
    ax.set(xlabel="Length of a run / mean repair", ylabel="Outage / mean repair")
    return titled(ax, title or _how_far_waiting(table, law), legend=True)


def _draw_map(ax: Axes, table: pd.DataFrame, sides: tuple[str, str], columns: tuple[str, str, str]) -> Axes:
    ours, error, theirs = (table[name].to_numpy() for name in columns)
    found = verdicts(theirs - ours, error).assign(difference=theirs - ours, error=error)
    for side, name in zip(sides, "xy"):
        values, found[name] = np.unique(table[side], return_inverse=True)
        ax.set(**{f"{name}ticks": range(len(values)), f"{name}ticklabels": [f"{value:g}" for value in values]})
        ax.set(**{f"{name}lim": (-0.5, len(values) - 0.5)})
    for cell in found.itertuples():
        _draw_cell(ax, cell)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    for colour, name in zip([*CLASSES.values(), "white"], NAMES):  # out of sight, for the row of colours
        hatch = "//" if name == NAMES[-1] else None
        ax.add_patch(Rectangle((-9, -9), 1, 1, fc=colour, ec=SOFT, lw=0.8, hatch=hatch, label=name))
    return ax


def _draw_cell(ax: Axes, cell) -> None:
    hatch = {} if cell.told else {"hatch": "//"}
    ax.add_patch(Rectangle((cell.x - 0.5, cell.y - 0.5), 1, 1, fc=CLASSES[cell.level], ec=SOFT, lw=0.8, **hatch))
    where = {"ha": "center", "va": "center", "color": INK}
    if not cell.told:
        where["bbox"] = {"facecolor": CLASSES[cell.level], "linewidth": 0, "pad": 1.5}
    text = f"{_points(cell.difference, sign='+')}\n± {_points(2 * cell.error)}"
    ax.text(cell.x, cell.y, text, fontsize=8.5, linespacing=1.25, **where)


def _points(share: float, sign: str = "") -> str:
    """Return a share in points, with no digits where it is large, and a true minus but for zero.

    >>> _points(-0.00001, "+"), _points(-0.012, "+"), _points(0.4)
    ('+0.00', '−1.20', '40')
    """
    digits = 2 if abs(share) < 0.0995 else 0
    return f"{round(100 * share, digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


def _how_far(table: pd.DataFrame, formula: str) -> str:
    off, up_to = (table[formula] - table["ours"]).abs().max(), reach(table, formula, LEVELS[1])
    name = formula.capitalize()
    if up_to == (table["overhead"] + table["interval"] / 2).max():
        return f"{name}: within 1 point of the simulation everywhere, or as near as noise tells"
    if np.isnan(up_to):
        return f"{name}: not within 1 point even in the smallest corner; at worst {100 * off:.0f} points off"
    return f"{name}: within 1 point up to overhead + interval / 2 = {up_to:.3g} MTBI"


def _how_far_waiting(table: pd.DataFrame, law: str) -> str:
    off = (table[f"job_waits_{law}"] - table["job_waits"]).abs()
    says, waits = (percent(table.loc[off.idxmax(), name], 1) for name in (f"job_waits_{law}", "job_waits"))
    name = {"erlang": "Erlang B", "chain": "The chain"}[law]
    return f"{name}: up to {100 * off.max():.1f} points off, where it says {says} for {waits}"
