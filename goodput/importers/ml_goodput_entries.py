"""One thing that a timeline says, and what of it can be: entries in the order of time, without what cannot.

Entries that are there twice count once, those of a clock out of order not at all; nothing ends before it starts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from goodput.events import Finding

A_YEAR = 366 * 86_400_000_000
# At equal times: what begins or ends a stretch, a job's start before its steps, its end after all.
_ORDER = {"job_start": 1, "slices": 2, "restore": 2, "step": 3, "save": 4, "job_end": 5}


class Place(NamedTuple):
    """Where an entry stands."""

    file: int
    line: int


class Entry(NamedTuple):
    """One thing that the timeline says."""

    time: int  # microseconds since 1970 UTC
    kind: str  # step, slices, save, restore, or the start or end of something, as tpu_init_end
    value: Any  # step number, type of a custom event or a wait, (active, available, total) slices, or a Save
    end: int  # of a save or restore; else the time
    logged: int  # when Cloud Logging took it; 0 where that is not known
    place: Place


class Save(NamedTuple):
    """What the record of a save or restore says beside its times."""

    step: int | None
    is_async: bool
    for_preemption: bool
    waited: int | None  # when the save before it was known to be complete


class Bad(NamedTuple):
    """A line that could not be read: the job that it names in full if it does, and whether nothing follows it."""

    place: Place
    job: str | None
    why: str
    is_tail: bool


class Notes:
    """Collects what is found in one job."""

    def __init__(self, job: str, files: Sequence[str]):
        self.job, self.files = job, files
        self.findings: list[Finding] = []

    def say(self, severity: str, code: str, place: Place | None, said: str) -> None:
        """Keep a finding, at a place or about all of the job."""
        file, line = (self.files[place.file], place.line) if place else (self.files[0], None)
        self.findings.append(Finding(severity, code, file, line, f"job {self.job}: {said}"))

    def at(self, place: Place) -> str:
        """Return a place as a sentence names it."""
        return f"{self.files[place.file]}:{place.line}"


def tidy(entries: list[Entry], notes: Notes) -> list[Entry]:
    """Return entries in the order of time, those that cannot be left out, and say which."""
    return _possible(_once(_near(entries, notes), notes), notes)


def _near(entries: list[Entry], notes: Notes) -> list[Entry]:
    """Return entries without those that a clock out of order has put years away, as into 1970."""
    middle = float(np.median([entry.time for entry in entries]))
    near = [entry for entry in entries if max(abs(entry.time - middle), abs(entry.end - middle)) <= A_YEAR]
    if near and len(near) < len(entries):
        far = min(set(entries) - set(near), key=attrgetter("place"))
        said = f"{len(entries) - len(near)} entries are more than a year away from the rest: left out"
        notes.say("warning", "absurd-time", far.place, said)
    return near or entries


def _once(entries: list[Entry], notes: Notes) -> list[Entry]:
    """Return entries in the order of time; one that is there twice, once."""
    kept, doubles, now, known = [], [], None, set()
    for entry in sorted(entries, key=_in_time):
        if entry.time != now:
            now, known = entry.time, set()
        content = entry.kind, entry.value, entry.end
        (doubles if content in known else kept).append(entry)
        known.add(content)
    if doubles:
        first = min(entry.place for entry in doubles)
        said = f"{len(doubles)} duplicated entries dropped, the first at line {first.line}"
        notes.say("note", "duplicates", first, said)
    return kept


def _possible(entries: list[Entry], notes: Notes) -> list[Entry]:
    """Return entries among which nothing ends before it starts."""
    out = set()
    for start, end in _negative_pairs(entries):
        _say_negative(start, end, notes)
        # a job whose end is wrong has started all the same
        out |= {end} if end.kind == "job_end" else {start, end}
    entries = [entry for entry in entries if entry not in out] or entries
    for at, entry in enumerate(entries):
        if entry.end < entry.time:
            _say_negative(entry, entry, notes)
            entries[at] = entry._replace(end=entry.time)
    if late := _late_start(entries):
        start, step = late
        _say_negative(start, step, notes)
        entries.remove(start)
        entries.insert(0, start._replace(time=step.time, end=step.time))
    return entries


def _say_negative(start: Entry, end: Entry, notes: Notes) -> None:
    seconds = (start.time - end.end) / 1e6
    said = f"{end.kind}_time at {notes.at(end.place)} is {seconds:g} s before {start.kind}_time at"
    said += f" {notes.at(start.place)}: a clock or a line is wrong, between them no time is counted"
    notes.say("warning", "negative-pair", end.place, said)


def _in_time(entry: Entry) -> tuple:
    step = entry.value if entry.kind == "step" else 0
    return entry.time, _ORDER.get(entry.kind, 0), step, entry.place


def _negative_pairs(entries: list[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Yield starts and ends that can only belong together, although the end is before the start."""
    of_kind: dict[tuple, list[tuple[str, Entry]]] = defaultdict(list)
    for entry in entries:
        kind, _, edge = entry.kind.rpartition("_")
        if edge in ("start", "end"):
            of_kind[kind, entry.value and entry.value.casefold()].append((edge, entry))
    for (kind, _), edges in of_kind.items():
        names = ["end", *(edge for edge, _ in edges), "start"]
        # alone are an end behind an end, and a start before a start
        alone = [at for at, name in enumerate(names[1:-1]) if name == names[at if name == "end" else at + 2]]
        for at, following in pairwise(alone):
            (edge, end), (other, start) = edges[at], edges[following]
            is_written_before = (start.logged, start.place) < (end.logged, end.place)
            is_sure = is_written_before or (kind != "job" and following == at + 1)
            if (edge, other) == ("end", "start") and end.time < start.time and is_sure:
                yield start, end


def _late_start(entries: list[Entry]) -> tuple[Entry, Entry] | None:
    """Return a job start and the first step, where that is before the start by its time, but was written after it."""
    start = next((entry for entry in entries if entry.kind == "job_start"), None)
    before = [entry for entry in entries if start and entry.kind == "step" and entry.time < start.time]
    if before and all((start.logged, start.place) < (step.logged, step.place) for step in before):
        return start, before[0]
    return None


def stride_of(steps: list[Entry]) -> tuple[int, float]:
    """Return by how much step numbers grow (1, unless most say otherwise), and half of what such a step takes."""
    numbers, times = np.array([(step.value, step.time) for step in steps], "int64").reshape(-1, 2).T
    grown, took = np.diff(numbers), np.diff(times)
    usual = Counter(grown[grown > 0].tolist()).most_common(1)
    stride, count = usual[0] if usual else (1, 0)
    smaller = ((grown > 0) & (grown < stride)).sum()
    if count < 3 or 2 * count < (grown > 0).sum() or 10 * smaller > count:
        stride = 1
    took = took[grown == stride]
    return stride, float(np.median(took)) / 2 if len(took) else 0.0
