"""What does size do? MTBI and goodput over the GPUs of a job, how far dials would have to go, which size is kept."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from goodput.drawing import COLOURS, INK, SOFT, new_axes, titled
from goodput.text import percent

BLUE, RED, GREEN = (COLOURS[name] for name in ("checkpoint", "lost_work", "restart"))
ALONE = ("save", "detection", "restart", "node MTBF")
VIOLET = COLOURS["waiting"]
# Of each dial: some nearly coincide, and then the dashes of one show the other.
DIAL_LINES = (
    (BLUE, "-", 3.2),
    (COLOURS["detection"], "-", 3.2),
    (GREEN, "--", 1.6),
    (VIOLET, "--", 1.6),
    (INK, "-", 1.6),
    (RED, "-", 1.6),
)
HOURS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def draw_mtbi_by_size(table: pd.DataFrame, others: pd.DataFrame, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw the MTBI over the GPUs of a job: the law, simulated points with their interval, and published figures.

    `table` is `goodput_by_size`; `others` is `published_by_size`, hollow where second hand. Sizes beyond are left out.
    """
    others = others[others["gpus"].between(table["gpus"].min(), table["gpus"].max())]
    ax = new_axes(ax, width=8.5, height=4.3)
    ax.plot(table["gpus"], table["law_hours"], color=BLUE, lw=1.6, label="law, all failures grow with the job")
    ax.plot(table["gpus"], table["as_given_hours"], "--", color=GREEN, lw=1.3, label="law, only those of nodes grow")
    _draw_points(ax, table, "mtbi_hours", 1, INK, "simulated, 95 % interval")
    for (kind, hearsay), rows in others.groupby(["kind", others["status"] == "S"]):
        said = f"published, {kind}{', second hand' * hearsay}"
        mark = {"marker": "^" if kind == "projected" else "s", "mfc": "white" if hearsay else RED}
        ax.plot(rows["gpus"], rows["hours"], ls="", color=RED, ms=7, label=said, **mark)
    law = np.interp(np.log(others["gpus"]), np.log(table["gpus"]), table["law_hours"])
    for each, below in zip(others.itertuples(), others["hours"] < law):
        aside = {"xytext": (0, -7), "va": "top"} if below else {"xytext": (8, 0), "va": "center"}  # off the lines
        where = {"textcoords": "offset points", "fontsize": 9, "color": RED}
        ax.annotate(each.system, (each.gpus, each.hours), **aside, **where)
    seen = pd.concat([table["law_hours"], others["hours"]])
    _log_ticks(ax.xaxis, table["gpus"])
    _log_ticks(ax.yaxis, _between(HOURS, seen.min() / 2, 2 * seen.max()))
    ax.set(xlabel="GPUs of the job (log scale)", ylabel="Hours between interruptions (log scale)")
    ax.set_xlim(table["gpus"].min() / 1.3, 2.5 * table["gpus"].max())
    ax.legend(frameon=False, fontsize=9, loc="lower left")
    first, last = table.iloc[0], table.iloc[-1]
    grown, hours = f"{last['gpus'] / first['gpus']:,.3g} times the GPUs", [_time(e["law_hours"]) for e in (first, last)]
    return titled(ax, title or f"{grown}: {hours[0]} between interruptions become {hours[1]}")


def draw_goodput_by_size(
    tables: Mapping[str, pd.DataFrame], target: float, ax: Axes | None = None, *, title=None
) -> Axes:
    """Draw goodput over the GPUs of a job, a line a setting: closed form, simulated points, and the target.

    `tables` holds `goodput_by_size` by what its setting is called. A ring is where more than one failure strikes in a
    mean interval and its save.
    """
    ax = new_axes(ax, width=8.5, height=4.3)
    ax.axhline(100 * target, color=SOFT, lw=1, ls=":")
    for (name, table), colour in zip(tables.items(), (BLUE, GREEN, RED, VIOLET)):
        ax.plot(table["gpus"], 100 * table["foreseen"], color=colour, lw=1.6, label=f"{name}, closed form")
        _draw_points(ax, table, "goodput", 100, colour)
        often = table[table["per_interval"] > 1]
        ax.plot(often["gpus"], 100 * often["goodput"], "o", mfc="none", mec=colour, ms=11, mew=1.2)
    ax.plot([], [], "o", color=INK, ms=4.5, label="simulated, 95 % interval")
    if any((table["per_interval"] > 1).any() for table in tables.values()):
        ax.plot([], [], "o", mfc="none", mec=INK, ms=10, label="more than one failure an interval")
    gpus = next(iter(tables.values()))["gpus"]
    ax.annotate(
        f"target {percent(target, 0)}", (gpus.min(), 100 * target), (0, 3), textcoords="offset points", fontsize=9
    )
    _log_ticks(ax.xaxis, gpus)
    ax.set(xlabel="GPUs of the job (log scale)", ylabel="Goodput, % of GPU-hours held", ylim=(0, 100))
    ax.legend(frameon=False, fontsize=9, loc="lower left")
    ends = (f"{name} {percent(table['goodput'].iloc[-1], 1)}" for name, table in tables.items())
    return titled(ax, title or f"Goodput at {gpus.iloc[-1]:,} GPUs: {', '.join(ends)}")


def draw_dials(table: pd.DataFrame, target: float, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw how many times better each dial alone must be for a target, over the GPUs of a job.

    `table` is `dials_by_size`. A line ends, with a cross, at the last size of the table at which some value is enough.
    """
    wide = table.pivot(index="gpus", columns="dial", values="times")[list(table["dial"].unique())]
    ax = new_axes(ax, width=8.5, height=4.3)
    ax.axhline(1, color=SOFT, lw=1, ls=":")
    ax.annotate(
        "as today", (wide.index.max(), 1), (0, 4), textcoords="offset points", fontsize=9, ha="right", color=SOFT
    )
    for (names, line), (colour, dashes, width) in zip(_same_lines(wide), DIAL_LINES):
        line = line[line > 0]
        ax.plot(line.index, line, "o", ls=dashes, color=colour, lw=width, ms=4, label=names)
        if len(line) and line.index[-1] < wide.index.max():
            ax.plot(line.index[-1], line.iloc[-1], "X", color=colour, ms=9, mec="white")
    _log_ticks(ax.xaxis, wide.index)
    low, high = wide.where(wide > 0).min(axis=None), wide.max(axis=None)
    _log_ticks(ax.yaxis, _between(10.0 ** np.arange(-12, 13), low / 9, 9 * high))
    ax.set(xlabel="GPUs of the job (log scale)", ylabel="Times better than today (log scale)")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return titled(ax, title or _no_dial(wide, target))


def _same_lines(wide: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    """Return the lines of a table, those that are one line named together."""
    groups: list[tuple[list[str], pd.Series]] = []
    for name in wide:
        line = wide[name].dropna()
        for names, other in groups:
            if line.index.equals(other.index) and np.allclose(line, other, rtol=1e-6):
                names.append(name)
                break
        else:
            groups.append(([name], line))
    return [("; or ".join(names), line) for names, line in groups]


def _no_dial(wide: pd.DataFrame, target: float) -> str:
    one, several = (wide[[name for name in wide if (name in ALONE) == alone]] for alone in (True, False))
    last, times = wide.index.max(), several.iloc[-1].min()
    lost = one.index[one.isna().all(axis=1)]
    dials = f"From {lost[0]:,} GPUs no dial alone keeps" if len(lost) else f"Up to {last:,} GPUs one dial can keep"
    return f"{dials} {percent(target, 0)}; at {last:,} all times must be {_rounded(times)} times shorter"


def draw_kept(table: pd.DataFrame, gpus: int, target: float, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw up to how many GPUs a target is kept, a row a step, beside the size that is asked for.

    `table` is `kept_by_steps` at so many GPUs; behind each row stands the goodput there.
    """
    kept = table["kept_up_to"]
    ax = new_axes(ax, height=1.2 + 0.42 * len(table))
    ax.hlines(range(len(table)), kept.min() / 3, kept, color=BLUE, lw=1.4)
    ax.plot(kept, range(len(table)), "o", color=BLUE, ms=7)
    ax.axvline(gpus, color=RED, lw=1.2, ls="--")
    ax.annotate(f"{gpus:,}", (gpus, len(table) - 0.5), (-4, 4), textcoords="offset points", ha="right", color=RED)
    for row, each in table.iterrows():
        said = f"{_rounded(each['kept_up_to'])}  ({percent(each['foreseen'], 1)} at {gpus:,})"
        where = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": INK}
        ax.annotate(said, (each["kept_up_to"], row), (8, 0), bbox={"fc": "white", "lw": 0, "pad": 1}, **where)
    ax.set_yticks(range(len(table)), table["step"])
    _log_ticks(ax.xaxis, _between(1024 * 4.0 ** np.arange(-4, 10), kept.min() / 3, 3 * kept.max()))
    ax.set(ylim=(len(table) - 0.5, -0.5), xlim=(kept.min() / 3, 30 * kept.max()))
    ax.set_xlabel(f"GPUs up to which goodput is {percent(target, 0)} (log scale)")
    first, last = _rounded(kept.iloc[0]), _rounded(kept.iloc[-1])
    finding = f"is kept up to {first} GPUs today, up to {last} with all {len(table) - 1} steps"
    return titled(ax, title or f"{percent(target, 0)} {finding}")


def _rounded(number: float) -> str:
    """Return a number with three digits.

    >>> _rounded(148_031.1), _rounded(604.9), _rounded(1.6929)
    ('148,000', '605', '1.69')
    """
    return f"{float(f'{number:.3g}'):,.10g}"


def _time(hours: float) -> str:
    """Return a time in hours, or in minutes where it is short.

    >>> _time(14.78), _time(0.1155)
    ('14.8 hours', '6.9 minutes')
    """
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def _draw_points(ax: Axes, table: pd.DataFrame, name: str, unit: float, colour: str, label: str | None = None) -> None:
    mean, low, high = (unit * table[each].to_numpy() for each in (name, f"{name}_low", f"{name}_high"))
    ends = [mean - low, high - mean]
    ax.errorbar(table["gpus"], mean, ends, fmt="o", color=colour, ms=4.5, capsize=3, lw=1.2, label=label, zorder=3)


def _between(ticks: Iterable[float], low: float, high: float) -> list[float]:
    return [tick for tick in ticks if low < tick < high]


def _log_ticks(axis, values) -> None:
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_ticks(list(values))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())
