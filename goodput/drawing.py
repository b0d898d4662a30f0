"""Parts of figures: one palette, axes, titles, and the marks that several figures share."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import NullLocator, StrMethodFormatter

from goodput.attribution import CATEGORIES, US_PER_HOUR
from goodput.events import micros
from goodput.text import between, percent, points

# After M. Okabe and K. Ito (2008), for colour-blind readers too; productive time, the ground of it all, is calm.
COLOURS = {
    "productive": "#D3DEE6",
    "checkpoint": "#0072B2",
    "lost_work": "#D55E00",
    "detection": "#F0C442",
    "waiting": "#CC79A7",
    "restart": "#009E73",
    "unattributed": "#4D4D4D",
}
DARK = ("checkpoint", "lost_work", "restart", "unattributed")  # white letters read better on these
INK, SOFT = "#1C2126", "#5B6570"
WASTE = list(CATEGORIES[1:])
HOUR = pd.Timedelta(hours=1)


def new_axes(ax: Axes | None, width: float = 7.5, height: float = 3) -> Axes:
    """Return the axes to draw on, new ones where none are given; the size is in inches."""
    if ax is None:
        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(SOFT)
    ax.tick_params(colors=SOFT, labelcolor=INK, labelsize=9)
    return ax


def titled(ax: Axes, title: str, legend: bool = False) -> Axes:
    """Return the axes with a title at the left edge, numbers with thousands separated, and perhaps a row of colours."""
    if legend and ax.get_legend_handles_labels()[0]:
        row = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "frameon": False, "fontsize": 9}
        ax.legend(ncols=7, handlelength=1, handleheight=1, handletextpad=0.4, columnspacing=1.2, **row)
    ax.set_title(
        title, loc="left", pad=26 if legend else 10, fontsize=10.5, fontweight="bold", color=INK, parse_math=False
    )
    if ax.get_xscale() == "linear" and max(map(abs, ax.get_xlim())) > 1000:
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return ax


def cut_into_rows(spans: pd.DataFrame, start: pd.Timestamp, hours: float | None, row_hours: float) -> pd.DataFrame:
    """Return spans cut at the edges of rows, with the `row`, and `left` and `width` in hours."""
    begin, end = ((micros(spans[side]) - start.value // 1000) / US_PER_HOUR for side in ("start", "end"))
    begin, end = np.clip(begin, 0, hours), np.clip(end, 0, hours)
    first = (begin // row_hours).astype(int)
    count = np.where(end > begin, np.ceil(end / row_hours).astype(int) - first, 0)
    of = np.repeat(np.arange(len(spans)), count)
    row = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    left = np.maximum(begin[of] - row * row_hours, 0)
    width = np.minimum(end[of] - row * row_hours, row_hours) - left
    gpus = spans["nodes"] * spans["gpus_per_node"]
    return spans[["category", "interruption"]].assign(gpus=gpus).iloc[of].assign(row=row, left=left, width=width)


def draw_boxes(ax: Axes, pieces: pd.DataFrame) -> None:
    """Draw each piece as a box, all boxes of a category as one shape: an SVG of thousands stays small."""
    for name in present_in(pieces["category"]):
        row, left, width = pieces.loc[pieces["category"] == name, ["row", "left", "width"]].to_numpy(float).T
        x, y = np.array([left, left, left + width, left + width]), row + np.array([[-0.42], [0.42], [0.42], [-0.42]])
        path = Path.make_compound_path_from_polys(np.stack([x.T, y.T], axis=2))
        ax.add_patch(PathPatch(path, facecolor=COLOURS[name], linewidth=0, label=as_words(name)))


def draw_stack(ax: Axes, parts: pd.DataFrame, write_from: float = np.inf) -> None:
    """Draw each row of a table of categories as one bar; parts of `write_from` or more carry their number."""
    left = np.zeros(len(parts))
    for name in (name for name in CATEGORIES if name in parts and parts[name].sum() > 0):
        length = parts[name].fillna(0).to_numpy()
        bars = ax.barh(row_labels(parts.index), length, 0.75, left, color=COLOURS[name], label=as_words(name))
        said = [f"{value:.1f}" if value >= write_from else "" for value in length]
        ax.bar_label(bars, said, label_type="center", fontsize=8, color="white" if name in DARK else INK)
        left += length
    ax.invert_yaxis()


def write_behind(ax: Axes, lengths: Sequence[float], said: Sequence[str]) -> None:
    """Write behind each bar what it stands for; bars run from the top down."""
    for row, (length, text) in enumerate(zip(lengths, said)):
        ax.annotate(text, (length, row), (4, 0), textcoords="offset points", va="center", fontsize=9, color=INK)
    ax.set_ylim(len(said) - 0.5, -0.5)


def write_minutes(ax: Axes, mine: pd.DataFrame, fault: pd.Timestamp, names: list[str]) -> None:
    """Write behind each row of an interruption how long it lasted; before lost work, which ends at the fault."""
    lengths = mine.assign(length=mine["end"] - mine["start"]).groupby("category", observed=True)
    for name, start, end, length in lengths.agg({"start": "min", "end": "max", "length": "sum"}).itertuples():
        text = f"{length / HOUR:.1f} h" if length > 2 * HOUR else f"{length / HOUR * 60:.0f} min"
        at, aside, side = (start, -4, "right") if name == "lost_work" else (end, 4, "left")
        where = {"textcoords": "offset points", "va": "center", "ha": side, "fontsize": 9, "color": INK}
        ax.annotate(text, ((at - fault) / HOUR, names.index(name)), (aside, 0), **where)


def write_at_end(ax: Axes, x: pd.Series, y: pd.Series, text: str, colour: str, up: float) -> None:
    """Name a line at its last point, `up` points higher than that."""
    end = (x.iloc[-1], y.iloc[-1])
    ax.annotate(text, end, (7, up), textcoords="offset points", va="center", fontsize=9.5, color=colour)


def draw_dots(ax: Axes, table: pd.DataFrame, label: str) -> None:
    """Draw the goodput of a sweep over its value, with its interval."""
    reach = 100 * np.abs(table[["goodput_low", "goodput_high"]].to_numpy().T - table["goodput"].to_numpy())
    ax.errorbar(
        table["value"], 100 * table["goodput"], reach, fmt="o", color=INK, ms=4.5, capsize=3, lw=1.2, label=label
    )


def draw_dots_in_rows(ax: Axes, table: pd.DataFrame, name: str, show) -> None:
    """Draw a mean with its interval on each row, and write both at the right."""
    rows, mean, low, high = range(len(table)), table[name], table[f"{name}_low"], table[f"{name}_high"]
    ax.hlines(rows, 100 * low, 100 * high, color=COLOURS["checkpoint"], lw=6)
    ax.plot(100 * mean, rows, "|", color=INK, ms=13, mew=1.6)
    for row, (m, lo, hi) in enumerate(zip(mean, low, high)):
        text = f"{show(m)}  ({between(lo, hi, show)})"
        ax.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=INK)
    ax.set_yticks(rows, table[table.columns[0]].astype(str))
    ax.set_ylim(len(table) - 0.5, -0.5)


def log_minutes(ax: Axes, minutes: Iterable[float]) -> None:
    """Give an axis of minutes its log scale, with a tick at each value."""
    ax.set(xscale="log", xlabel="Compute time between two saves, minutes (log scale)")
    ax.set_xticks(list(minutes), [f"{value:g}" for value in minutes])
    ax.xaxis.set_minor_locator(NullLocator())


def times_over(count: float) -> str:
    """Return how often something was, as a person says it; a mean of runs may be a fraction.

    >>> times_over(1), times_over(4), times_over(2.55)
    ('once', '4 times', '2.55 times')
    """
    return "once" if count == 1 else f"{count:,.4g} times"


def signed_points(difference: float) -> str:
    """Return percentage points with their sign, a true minus."""
    return points(difference).replace("-", "−")


def as_words(name: str) -> str:
    """Return the name of a category as it is read."""
    return name.replace("_", " ")


def row_labels(names: Iterable) -> list[str]:
    """Return names of rows as they are read."""
    return [as_words(name) if name in COLOURS else str(name) for name in names]


def present_in(categories: pd.Series) -> list[str]:
    """Return the categories that occur, in their order."""
    return [name for name in CATEGORIES if (categories == name).any()]


def charged_to(mine: pd.DataFrame) -> str:
    """Return what one interruption is charged to."""
    cause, node = mine["cause"].iloc[0], mine["node"].iloc[0]
    return f"{cause}" if pd.isna(node) else f"{cause} on {node}"


def what_pieces_say(pieces: pd.DataFrame) -> str:
    """Return the title of a timeline: how long, how many interruptions, what share trained."""
    hours = pieces["width"] * pieces["gpus"]
    goodput = hours[pieces["category"] == "productive"].sum() / hours.sum()
    faults = pieces.loc[pieces["interruption"] >= 0, "interruption"].nunique()
    length = pieces["width"].sum()
    time = f"{length / 24:.4g} days" if length > 48 else f"{length:.4g} hours"
    struck = f"{faults} interruption{'s' if faults != 1 else ''}"
    return f"{time} with {struck}: {percent(goodput, 1)} of the GPU-hours trained the model"
