"""What the lines of a Megatron-LM log say, one record a line or a save; times are microseconds since 1970 UTC."""

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

SECOND = 1_000_000


class Step(NamedTuple):
    """An iteration line: its stamp, how much later the moment may be, and the mean of its iterations; in us."""

    line: int
    time: int
    slack: int
    iteration: int
    mean: float


@dataclass
class Save:
    """What the lines of one save say; times in us."""

    line: int
    iteration: int | None
    began: int | None = None
    took: int | None = None
    done: int | None = None
    done_line: int | None = None
    is_async: bool = False
    is_unused: bool = False  # an older one was loaded after it
    ended: int = 0  # when training went on

    @property
    def is_cut(self) -> bool:
        """Whether no line tells that it came to an end."""
        return self.took is None and self.done_line is None and not self.is_async

    @property
    def id(self) -> str | None:
        """The name of it in our log."""
        return None if self.iteration is None else str(self.iteration)


class Mark(NamedTuple):
    """A line that tells what the process is doing, or what happens to it, and when, if it says."""

    line: int
    time: int | None
    what: str


class Fact(NamedTuple):
    """A line that tells a number: of the iteration that is loaded, of GPUs; or that the model is evaluated."""

    line: int
    what: str
    value: int | None = None


class Alarm(NamedTuple):
    """A watchdog line; `ran` is how long the collective had hung, in us."""

    line: int
    time: int | None
    rank: int | None
    sequence: int | None
    ran: int | None


class Hang(NamedTuple):
    """One hang, of many watchdog lines."""

    line: int
    onset: int
    detected: int
    last: int
    suspect: int | None


@dataclass
class Life:
    """One life of the process, from its start-up to its last line."""

    steps: list[Step] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)  # lines
    loaded: int | None = None
    gpus: int | None = None

    @cached_property
    def saves_behind(self) -> list[list[Save]]:
        """The saves before the first iteration line, and behind each."""
        groups: list[list[Save]] = [[] for _ in range(len(self.steps) + 1)]
        lines = [step.line for step in self.steps]
        for save in self.saves:
            groups[bisect_left(lines, save.line)].append(save)
        return groups

    @cached_property
    def paces(self) -> list[float]:
        """The time of an iteration in each interval but the first, in us: no longer than the stamps allow."""
        paces = []
        for (before, step), saves in zip(pairwise(self.steps), self.saves_behind[1:], strict=False):
            span = step.time + step.slack - before.time - sum(save.took or 0 for save in saves)
            paces.append(min(step.mean, max(0, span) / (step.iteration - before.iteration)))
        return [pace for pace in paces if pace > 0]


class Opening(NamedTuple):
    """The first interval of a life: the iteration it goes on from, whether that is known, and when it began."""

    base: int
    is_known: bool
    begin: int
