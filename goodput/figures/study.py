"""Which assumption moves goodput most? A tornado, one parameter at a time, and Sobol indices, all of them at once."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from goodput.drawing import COLOURS, INK, SOFT, new_axes, titled
from goodput.study_text import value_said
from goodput.text import between, percent

# Of each end and of each index: its colour, and which half of the row it has.
ENDS = {"from": (COLOURS["lost_work"], -0.2), "to": (COLOURS["checkpoint"], 0.2)}
INDICES = {"first": (COLOURS["checkpoint"], -0.16), "total": (INK, 0.16)}
AXIS = "Goodput, %; orange: low end, blue: high end; thin line: 95 % interval of the change"
MARKS = {"first": ("o", "first order: alone"), "total": ("D", "total: also together with others")}


def draw_tornado(table: pd.DataFrame, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw goodput at both ends of each parameter's range, from `tornado` or `what_moves`, widest swing on top.

    Each bar is one end, with its value and the 95 % interval of the difference to the base, paired by seed. The line is
    the base, and what a parameter is there stands behind its name. An end that is as the base has no bar.
    """
    table = table.sort_values("swing", ascending=False, kind="stable", ignore_index=True)
    ax = new_axes(ax, width=10, height=1.2 + 0.36 * len(table))
    base = 100 * (table["goodput_from"] - table["difference_from"]).iloc[0]
    ax.hlines(np.arange(1, len(table)) - 0.5, 0, 1, COLOURS["productive"], lw=0.8, transform=ax.get_yaxis_transform())
    for side in ENDS:
        _draw_end(ax, table, side, base)
    ax.axvline(base, color=INK, lw=1)
    ax.set_yticks(range(len(table)), [_named(row) for row in table.itertuples()])
    ax.set(ylim=(len(table) - 0.5, -0.5), xlabel=AXIS)
    ax.margins(x=0.1)
    return titled(ax, title or _widest(table.iloc[0]))


def _draw_end(ax: Axes, table: pd.DataFrame, side: str, base: float) -> None:
    colour, up = ENDS[side]
    length, low, high = (100 * table[f"difference_{side}{end}"].fillna(0) for end in ("", "_low", "_high"))
    shared = (table["difference_from"] != 0) & (table["difference_to"] != 0)
    rows = np.arange(len(table)) + np.where(shared, up, 0)  # a bar that is alone lies in the middle
    ax.barh(rows, length, 0.36, base, color=colour, alpha=0.85)
    ax.hlines(rows, base + low, base + high, color=INK, lw=1)
    ends = np.where(length > 0, np.maximum(length, high), np.minimum(length, low))
    for row, value, end, reach in zip(rows, table[side], ends, length):
        if reach:
            _write_value(ax, row, value_said(value), base + end, reach > 0)


def _write_value(ax: Axes, row: float, text: str, at: float, right: bool) -> None:
    aside, side = (4, "left") if right else (-4, "right")
    where = {"textcoords": "offset points", "va": "center", "ha": side, "fontsize": 8, "color": INK}
    ax.annotate(text, (at, row), (aside, 0), **where)


def _named(row) -> str:
    return row.parameter if pd.isna(row.base) else f"{row.parameter} ({value_said(row.base)})"


def _widest(row: pd.Series) -> str:
    base = row["goodput_from"] - row["difference_from"]
    reached = [row["goodput_from"], row["goodput_to"], base]
    return f"{row['parameter']} moves goodput most by itself: {100 * min(reached):.1f} to {percent(max(reached), 1)}"


def draw_sobol(table: pd.DataFrame, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw first order and total index of each parameter with their 95 % intervals, from `sobol_indices`.

    Where the two part, a parameter works together with others. Nothing is cut off at 0.
    """
    table = table.sort_values("total", ascending=False, kind="stable", ignore_index=True)
    ax = new_axes(ax, width=10, height=1.4 + 0.34 * len(table))
    ax.axvline(0, color=SOFT, lw=1)
    for name, (colour, up) in INDICES.items():
        mark, said = MARKS[name]
        rows = np.arange(len(table)) + up
        ax.hlines(rows, table[f"{name}_low"], table[f"{name}_high"], color=colour, lw=2.2, alpha=0.55)
        ax.plot(table[name], rows, mark, color=colour, ms=6, mec="white", label=said)
    ax.set_yticks(range(len(table)), table["parameter"])
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    ax.set(ylim=(len(table) - 0.5, -0.5), xlabel="Share of the variance of goodput; line: 95 % interval")
    return titled(ax, title or _most_of_the_variance(table.iloc[0]))


def _most_of_the_variance(row: pd.Series) -> str:
    spread = between(100 * row["total_low"], 100 * row["total_high"], "{:.0f}".format)
    said = f"{row['parameter']} has a part in {percent(row['total'], 0)} of the variance ({spread})"
    alone = percent(row["first"], 0) if row["first_low"] > 0 else "none that is known"
    return f"{said}, alone in {alone}"
