"""How much dearer, how sure? Two sides timed in turn in one run, and the lines that come of it in one table.

Like a pair of scales: what lies on the other side is weighed in the same draught, so a noisy machine moves both.
"""

import gc
import platform
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

from tabulate import tabulate

MOST_ROUNDS = 21
FEWEST_ROUNDS = 3
ENOUGH_SECONDS = 4  # of processor time on one line: no further rounds
MEANINGS = Path(__file__).with_name("benchmarks.md")
COLUMNS = ("line", "median", "from", "to", "unit", "at most", "holds", "note")


class Line(NamedTuple):
    """One line of the table: the median over rounds, the least and the most, and what was hoped for."""

    name: str
    value: float
    low: float
    high: float
    unit: str = "times"
    at_most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.at_most is None or self.value <= self.at_most

    def cells(self) -> tuple[str, ...]:
        """Return the line as text, for one row of the table."""
        spread = (short(self.low), short(self.high)) if self.low != self.high else ("", "")
        aim = ("", "") if self.at_most is None else (f"{self.at_most:g}", "yes" if self.holds else "NO")
        return (self.name, short(self.value), *spread, self.unit, *aim, self.note)


class Bench:
    """Measures lines and keeps them; each must be in benchmarks.md, which says what it means."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.known = names()

    def ratio(
        self,
        name: str,
        ours: Callable[[], object],
        other: Callable[[], object],
        at_most: float | None = None,
        *,
        per: tuple[float, float] = (1, 1),
        rounds: int = MOST_ROUNDS,
        note: str = "",
    ) -> float:
        """Return ours / other in processor time, children included: the median of the ratios of rounds in turn.

        `per` divides each side first: (failures, events) compares one failure with one event.
        """
        ours(), other()  # warm caches
        ratios, began = [], cpu_seconds()
        while len(ratios) < rounds and (len(ratios) < FEWEST_ROUNDS or cpu_seconds() - began < ENOUGH_SECONDS):
            ratios.append(seconds(ours) / per[0] / (seconds(other) / per[1]))
        return self.found(name, ratios, "times", at_most, note=note)

    def figure(self, name: str, value: float, unit: str, at_most: float | None = None, *, note: str = "") -> float:
        """Return the value, and keep it as a line: a count, or bytes, which no noise moves."""
        return self.found(name, [value], unit, at_most, note=note)

    def found(
        self, name: str, values: Iterable[float], unit: str, at_most: float | None = None, *, note: str = ""
    ) -> float:
        """Return the median of values that were measured elsewhere, as in a child process, and keep it as a line."""
        values = sorted(values)
        self._place(name)
        self.lines.append(Line(name, median(values), values[0], values[-1], unit, at_most, note))
        return self.lines[-1].value

    def _place(self, name: str) -> int:
        for place, pattern in enumerate(self.known):
            if matches(pattern, name):
                return place
        raise LookupError(f"benchmarks.md must say what the line {name!r} means")

    def table(self, form: str) -> str:
        """Return all lines as one table, in the order of benchmarks.md; `form` is one of tabulate's."""
        lines = sorted(self.lines, key=lambda line: self._place(line.name))
        align = ("left", *["right"] * 3, "left", "right", "left", "left")
        return tabulate([line.cells() for line in lines], COLUMNS, form, colalign=align, disable_numparse=True)

    def missing(self) -> list[str]:
        """Return what benchmarks.md explains and this run did not measure."""
        return [name for name in self.known if not any(matches(name, line.name) for line in self.lines)]

    def page(self) -> str:
        """Return the table as Markdown, with what it was measured on."""
        where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        head = (
            "Median of the rounds, least and most; processor time. `tests/benchmarks/benchmarks.md` explains each line."
        )
        return f"# Bench\n\n{where}. {head}\n\n{self.table('github')}\n"


def names(text: str | None = None) -> list[str]:
    """Return the names of all lines that benchmarks.md explains, in its order: first cells of its tables, in ticks."""
    return re.findall(r"^\| `(.+?)` \|", text if text is not None else MEANINGS.read_text("utf-8"), re.MULTILINE)


def matches(pattern: str, name: str) -> bool:
    """Return whether a line has this name, or one that differs in what stands in braces.

    >>> matches("{nodes} nodes / 128 nodes", "1,024 nodes / 128 nodes")
    True
    """
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(pattern)), name) is not None


def short(value: float) -> str:
    """Return three digits, and whole numbers above a thousand with commas.

    >>> short(0.012345), short(12.345), short(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time that work takes; what was there before is none of the collector's business."""
    gc.collect()
    gc.freeze()
    began = cpu_seconds()
    work()
    return cpu_seconds() - began
