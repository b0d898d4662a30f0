"""Which attempts were there, and what of each was kept? A job's entries followed in time.

The timeline says when a step started, hardly ever that something broke, and rarely what was saved. Both follow from
the step numbers. An *attempt* is a stretch of steps that grow. The attempt after it begins at some step: the work up
to that step was saved, and what the attempts before did from it on is lost.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from goodput.importers.ml_goodput_entries import Entry, Notes, Place

CAUSE = "not_logged"
NEVER = np.iinfo("int64").max
OF_A_RESTART = ("tpu_init", "training_prep", "restore", "elastic")
SAVE, CUSTOM, HOLE = range(3)  # what a moment is where it could be several of them: the first


class Stretch(NamedTuple):
    """Time in an attempt that no step can claim."""

    kind: int  # SAVE, CUSTOM or HOLE
    start: int
    end: int
    place: Place
    what: Any = None  # a Save, or the type of a custom event


@dataclass
class Outage:
    """How an attempt ended, as far as it is known."""

    struck: int
    after: int  # last sign of life
    place: Place
    cause: str = CAUSE
    planned: bool = False
    detected: int | None = None
    ready: int | None = None


@dataclass
class Attempt:
    """Steps that grow, and what happened meanwhile."""

    start: Entry | None  # the job start that led to it
    restored: int | None  # the step of the save that was loaded, where that is logged
    steps: list[Entry] = field(default_factory=list)
    saves: list[Entry] = field(default_factory=list)
    customs: list[tuple[Entry, int | None]] = field(default_factory=list)  # the start, and when it was over
    torn: list[tuple[int, int, Place]] = field(default_factory=list)  # a bad line: the times beside it, and where
    alive: int = 0  # last sign of life
    seen: int = 0  # the same, where loading data counts as one
    sign: int | None = None  # when something of a restart was seen behind the newest step
    end: Entry | None = None
    outage: Outage | None = None
    # what became of it; only the attempts after it tell
    kept: int | None = None  # its work was kept up to this step, exclusive; None: all of it
    is_known: bool = True  # False: it broke, and no attempt came after it
    horizon: int = 0  # where ends what is known of it
    pieces: list[Stretch] = field(default_factory=list)

    @property
    def begin(self) -> int:
        """When it began to train."""
        return self.steps[0].time

    @property
    def breaks(self) -> bool:
        """Whether a fault ended it. A job's end is one where work was lost by it."""
        return self.outage is not None and (self.end is None or self.kept is not None)

    @property
    def is_lost(self) -> bool:
        """Whether nothing of it was kept."""
        return self.kept == self.steps[0].value

    @property
    def marker(self) -> int | None:
        """When the state existed that the next attempt went on from; None where there is no such time."""
        if not self.breaks or not self.is_known or self.is_lost:
            return None
        if self.kept is None:
            return self.horizon
        # a step that is in a hole began at some time in it
        at = bisect_right(self.steps, self.kept, key=attrgetter("value")) - 1
        return min(self.steps[at].time, self.horizon)

    def has_lost(self, time: int) -> bool:
        """Whether work behind a time in it is known to be lost."""
        return self.kept is not None and (self.marker is None or time > self.marker)

    @property
    def limit(self) -> int:
        """From when on a save cannot be the one that the next attempt went on from."""
        if self.kept is None:
            return NEVER
        at = bisect_right(self.steps, self.kept, key=attrgetter("value"))
        return self.steps[at].time if at < len(self.steps) else NEVER


class Story:
    """Follows the entries of a job, in the order of time, from attempt to attempt."""

    def __init__(self, entries: list[Entry], half_step: float):
        self.half_step = half_step
        self.attempts: list[Attempt] = []
        self.now: Attempt | None = None
        self.start: Entry | None = None  # a job start that has led to no step yet
        self.end: Entry | None = None  # a job end behind it
        self.restored: int | None = None
        self.elastic: Outage | None = None
        self.open: dict[str, Entry] = {}  # custom events that go on
        self.odd: list[tuple[str, Place, str]] = []  # code, place and text of warnings
        self.doubles = self.failed = self.repeated = 0
        for entry in entries:
            getattr(self, f"_{entry.kind}", self._see)(entry)
        if self.now and self.elastic:
            self._stop(self.elastic)
        elif self.now:
            self._leave_open()

    def _see(self, entry: Entry) -> None:
        """Take an entry for a sign of life of the steps, or of a restart."""
        if self.now is None or self.elastic or entry.kind == "slices":
            return
        if entry.kind.startswith(OF_A_RESTART) and self.now.sign is None:
            self.now.sign = entry.time
        elif self.now.sign is None:
            self.now.seen = max(self.now.seen, entry.end)
            if not entry.kind.startswith("data_loading"):
                self.now.alive = self.now.seen

    def _job_start(self, entry: Entry) -> None:
        if self.now:
            struck = entry.time if self.now.sign is None else self.now.sign
            outage = self.elastic or Outage(struck, self.now.seen, entry.place)
            outage.ready = entry.time
            self._stop(outage)
        elif self.start or self.attempts:
            self.failed += 1
        self.start, self.end = self.start or entry, None

    def _job_end(self, entry: Entry) -> None:
        if self.now:
            self.now.end = entry
            self._see(entry)
        else:
            self.end = entry

    def _step(self, entry: Entry) -> None:
        if self.now and self.elastic:
            self._stop(self.elastic)
        elif self.now and entry.value <= self.now.steps[-1].value:
            if self._is_double(entry):
                self.doubles += 1
                return
            self._repeat(entry)
        elif self.now and self.now.end:
            said = f"job_end_time of line {self.now.end.place.line} is before this step, no job start between: left out"
            self.odd.append(("end-before-steps", entry.place, said))
            self.now.end = None
        if self.now is None:
            self.now = Attempt(self.start, self.restored)
            self.attempts.append(self.now)
            self.start = self.end = self.restored = None
        self.now.steps.append(entry)
        self.now.sign = None
        self._see(entry)

    def _is_double(self, entry: Entry) -> bool:
        last = self.now.steps[-1]
        return entry.value == last.value and entry.time - last.time < self.half_step and self.now.sign is None

    def _repeat(self, entry: Entry) -> None:
        """End the attempt at a step that was there before, although no job start says so."""
        self.repeated += 1
        struck = entry.time if self.now.sign is None else self.now.sign
        self._stop(Outage(struck, self.now.alive, entry.place, ready=struck))

    def _stop(self, outage: Outage) -> None:
        now = self.now
        if now.end:
            outage.struck = outage.after = outage.detected = now.end.time
        if outage.cause == CAUSE and now.saves and now.saves[-1].value.for_preemption:
            outage.cause = "preemption"
        self._leave_open()
        now.outage, self.now, self.elastic = outage, None, None

    def _leave_open(self) -> None:
        self.now.customs += [(entry, None) for entry in self.open.values()]
        self.open = {}

    def _save(self, entry: Entry) -> None:
        if self.now:
            self.now.saves.append(entry)
        self._see(entry)

    def _restore(self, entry: Entry) -> None:
        self.restored = entry.value.step
        self._see(entry)

    def _custom_badput_event_start(self, entry: Entry) -> None:
        before = self.open.get(entry.value.casefold())
        if before and self.now:
            self.now.customs.append((before, None))
        self.open[entry.value.casefold()] = entry
        self._see(entry)

    def _custom_badput_event_end(self, entry: Entry) -> None:
        begun = self.open.pop(entry.value.casefold(), None)
        if begun and self.now:
            self.now.customs.append((begun, entry.time))
        elif self.now:
            said = f"custom event {entry.value!r} ends, but its start is not there: it stays in productive"
            self.odd.append(("open-pair", entry.place, said))
        self._see(entry)

    def _elastic_wait_start(self, entry: Entry) -> None:
        if self.elastic:
            self.elastic.ready = None
        elif self.now:
            self._break(entry, entry.value, "scale_up" in entry.value.casefold())

    def _elastic_wait_end(self, entry: Entry) -> None:
        if self.elastic:
            self.elastic.ready = entry.time

    def _elastic_reinit_start(self, entry: Entry) -> None:
        if self.now and not self.elastic:
            self._break(entry, "elastic_reinit", False)
        if self.elastic and self.elastic.ready is None:
            self.elastic.ready = entry.time

    def _break(self, entry: Entry, cause: str, planned: bool) -> None:
        self.elastic = Outage(entry.time, self.now.seen, entry.place, cause, planned, detected=entry.time)


def settle_what_was_kept(attempts: list[Attempt], stride: int, notes: Notes) -> None:
    """Go back from the last attempt: what it went on from is of the newest one before it that got so far."""
    reached = np.maximum.accumulate([each.steps[-1].value + stride for each in attempts] or [0])
    need = None
    for number, attempt in reversed(list(enumerate(attempts))):
        first, last = attempt.steps[0].value, attempt.steps[-1].value
        if need is None:
            attempt.is_known = attempt.outage is None
        elif need > last + stride and number and reached[number - 1] >= need:
            said = f"goes on at step {need}, behind its last one, {last}: taken for a return to an earlier attempt"
            notes.say("warning", "jump-forward", attempt.outage.place, said)
            attempt.kept = first
            continue
        elif need <= first:
            attempt.kept = first
            continue
        elif need <= last:
            attempt.kept = need
        need = first
