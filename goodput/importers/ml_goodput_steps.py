"""From the attempts of one job to our events: what held them up, what is a hole, how each ended."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from operator import attrgetter, itemgetter
from typing import Any

from goodput.events import Finding
from goodput.importers.ml_goodput_attempts import (
    CUSTOM,
    HOLE,
    NEVER,
    OF_A_RESTART,
    SAVE,
    Attempt,
    Outage,
    Story,
    Stretch,
    settle_what_was_kept,
)
from goodput.importers.ml_goodput_entries import Bad, Entry, Notes, stride_of, tidy
from goodput.importers.ml_goodput_open import say_what_is_missing, say_what_is_open

# At equal times: what closes a stretch, what is over at once, what opens one.
_CLOSES, _AT_ONCE, _OPENS, _AT_LAST = range(4)

Row = dict[str, Any]


class Teller:
    """Tells the story of one job in our events."""

    def __init__(self, entries: list[Entry], raw: list[Entry], notes: Notes):
        self.entries, self.raw, self.notes = entries, raw, notes
        self.last = max(entries, key=attrgetter("end"))
        self.stride, half_step = stride_of([entry for entry in entries if entry.kind == "step"])
        self.story = Story(entries, half_step)
        self.attempts = self.story.attempts
        settle_what_was_kept(self.attempts, self.stride, notes)

    def _settle_pieces(self, attempt: Attempt) -> None:
        attempt.horizon = attempt.end.time if attempt.end else self.last.end
        if attempt.breaks:
            attempt.horizon = min(max(attempt.alive, attempt.outage.after), attempt.outage.struck)
        stretches = [*_saves(attempt), *self._customs(attempt), *_holes(attempt, self.stride), *_torn(attempt)]
        low, high = attempt.begin, attempt.horizon
        attempt.pieces = _apart([e._replace(start=max(e.start, low), end=min(e.end, high)) for e in stretches])

    def _customs(self, attempt: Attempt) -> Iterator[Stretch]:
        for start, end in attempt.customs:
            at = bisect_right(attempt.steps, start.time, key=attrgetter("time"))
            if end is None and at < len(attempt.steps):
                end = attempt.steps[at].time
                said = f"custom event {start.value!r} has no end: taken to last until the next step"
                self.notes.say("warning", "open-pair", start.place, said)
            yield Stretch(CUSTOM, start.time, attempt.horizon if end is None else end, start.place, start.value)

    def _place(self, bad: Sequence[Bad]) -> None:
        """Give each line that could not be read to the attempts that the lines beside it are of."""
        begins = [attempt.begin for attempt in self.attempts]
        for each in bad:
            at = bisect_left(self.raw, each.place, key=attrgetter("place"))
            beside = self.raw[max(at - 1, 0) : at + 1]
            if len(beside) == 2 and {entry.place.file for entry in beside} == {each.place.file} and not each.is_tail:
                low, high = sorted((beside[0].end, beside[1].time))
                for number in {bisect_right(begins, time) - 1 for time in (low, high)} - {-1}:
                    self.attempts[number].torn.append((low, high, each.place))

    def rows(self, bad: Sequence[Bad]) -> list[Row]:
        """Return the events in time."""
        self._place(bad)
        for attempt in self.attempts:
            self._settle_pieces(attempt)
        rows = list(self._opening())
        for attempt, following in zip_longest(self.attempts, self.attempts[1:]):
            rows += sorted(self._body(attempt), key=itemgetter("time", "turn"))
            rows += self._closing(attempt, following)
        if self.story.end:
            rows.append(_row(self.story.end, "end"))
        elif self.last.end > rows[-1]["time"] and rows[-1]["event"] != "end":
            # a resize to no other size: the job was still there
            rows.append(_row(self.last, "resize", time=self.last.end))
        return self._with_sizes(rows)

    def _opening(self) -> Iterator[Row]:
        """Yield how the job begins; without a job start it is seen from its first entry on."""
        first = next((entry for entry in self.entries if entry.kind != "slices"), self.entries[0])
        attempt = next(iter(self.attempts), None)
        start = attempt.start if attempt else self.story.start
        if start:
            yield _row(start, "launch")
        elif not attempt or first.kind.startswith(OF_A_RESTART):
            yield _row(first, "nodes_ready")
        if attempt:
            yield _training(attempt, "start" if start else "running")

    def _body(self, attempt: Attempt) -> Iterator[Row]:
        if attempt.marker is not None:
            for event in ("checkpoint_start", "checkpoint_end"):
                yield _row(attempt.outage, event, time=attempt.marker, turn=_AT_ONCE, step=attempt.kept)
        saves = [piece for piece in attempt.pieces if piece.kind == SAVE]
        for piece, following in zip_longest(saves, saves[1:]):
            yield from self._save(attempt, piece, following)
        at_once = [save.start for save in saves if save.start == save.end]
        at_once = sorted(at_once if attempt.marker is None else [*at_once, attempt.marker])
        for piece in attempt.pieces:
            if piece.kind != SAVE:
                yield from _stand_still(attempt, piece, at_once)
        if not attempt.is_known and not (saves and not saves[-1].what.is_async):
            # no attempt tells what was kept of it: what is not surely saved is not surely lost
            yield _row(attempt.steps[-1], "gap", time=attempt.horizon, turn=_AT_LAST)

    def _save(self, attempt: Attempt, piece: Stretch, following: Stretch | None) -> Iterator[Row]:
        save, is_left = piece.what, piece.start >= attempt.limit
        opens, closes = (_OPENS, _CLOSES) if piece.start < piece.end else (_AT_ONCE, _AT_ONCE)
        name = None if save.step is None else str(save.step)
        # one that the next attempt passed over is like one that never became durable
        is_async = save.is_async or is_left
        yield _row(piece, "checkpoint_start", time=piece.start, turn=opens, id=name, **{"async": is_async})
        yield _row(piece, "checkpoint_end", time=piece.end, turn=closes, id=name)
        durable = following.what.waited if following and save.is_async and not is_left else None
        if durable is not None and piece.end <= durable <= attempt.horizon:
            yield _row(following, "checkpoint_durable", time=durable, turn=_CLOSES, id=name)
        if is_left and not save.is_async:
            said = (
                f"save of step {name} was complete, but training went on from step {attempt.kept}: not counted as one"
            )
            self.notes.say("warning", "save-not-loaded", piece.place, said)

    def _closing(self, attempt: Attempt, following: Attempt | None) -> Iterator[Row]:
        if attempt.breaks:
            yield from _outage(attempt.outage)
            if following:
                yield _training(following, "running")
        elif attempt.end:
            yield _row(attempt.end, "end", step=attempt.steps[-1].value + self.stride)
            start = following.start if following else self.story.start
            if start:
                yield _row(start, "launch")
            if following:
                yield _training(following, "start")

    def _with_sizes(self, rows: list[Row]) -> list[Row]:
        """Return rows with the slices that the job held: at the first event of each run, and where they change."""
        records = [entry for entry in self.entries if entry.kind == "slices"]
        if not records:
            return rows
        times, sizes = [entry.time for entry in records], [_held(entry.value) for entry in records]
        active, _, total = records[0].value
        runs = [at for at, row in enumerate(rows) if at == 0 or rows[at - 1]["event"] == "end"]
        resizes = []
        for at, end in zip(runs, [*runs[1:], len(rows)]):
            known = bisect_right(times, rows[at]["time"])
            # before its first record the job had what it has now, or all where that is a wait
            rows[at]["nodes"] = sizes[known - 1] if known else active or total
            last = rows[end - 1]["time"] if rows[end - 1]["event"] == "end" else NEVER
            resizes += [_row(records[n], "resize", nodes=sizes[n]) for n in range(known, bisect_left(times, last))]
        said = "a node is a slice: active ones, or available ones while none is active (chips of one: --gpus-per-node)"
        self.notes.say("note", "slices", records[0].place, said)
        return sorted([*rows, *resizes], key=itemgetter("time"))


def _row(at: Any, event: str, **fields: Any) -> Row:
    """Return an event at an entry, or at a time where one of an entry's line was."""
    return {"event": event, "place": at.place, **({} if "time" in fields else {"time": at.time}), **fields}


def _training(attempt: Attempt, event: str) -> Row:
    restored = None if attempt.restored is None else str(attempt.restored)
    return _row(attempt.steps[0], event, step=attempt.steps[0].value, resumed_from=restored)


def _outage(outage: Outage) -> Iterator[Row]:
    after = {"after": outage.after} if outage.after < outage.struck else {}
    yield _row(outage, "interrupt", time=outage.struck, cause=outage.cause, planned=outage.planned, **after)
    for event, time in (("detected", outage.detected), ("nodes_ready", outage.ready)):
        if time is not None:
            yield _row(outage, event, time=time)


def _stand_still(attempt: Attempt, piece: Stretch, at_once: list[int]) -> Iterator[Row]:
    # a save ends what stands still, even one of no length
    inside = at_once[bisect_right(at_once, piece.start) : bisect_left(at_once, piece.end)]
    cuts = [piece.start, *inside, piece.end]
    # a hole in what was kept makes the numbers incomplete; one in what was lost anyway does not
    event = "gap" if piece.kind == HOLE and not attempt.has_lost(piece.start) else "pause"
    for start, end in pairwise(cuts):
        yield _row(piece, event, time=start, turn=_OPENS, cause=piece.what)
        yield _row(piece, "resume", time=end, turn=_CLOSES)


def _held(slices: tuple[int, int, int]) -> int:
    active, available, _ = slices
    return active or available


def _saves(attempt: Attempt) -> list[Stretch]:
    """Return the saves of an attempt; what many workers log of one, or what overlaps, is one."""
    found: list[Stretch] = []
    for entry in sorted(attempt.saves, key=attrgetter("time", "end")):
        last = found[-1] if found else None
        if last and entry.time < last.end:
            both = last.what._replace(is_async=last.what.is_async or entry.value.is_async)
            found[-1] = last._replace(end=max(last.end, entry.end), what=both)
        elif attempt.begin <= entry.time <= attempt.horizon:
            found.append(Stretch(SAVE, entry.time, entry.end, entry.place, entry.value))
    return found


def _holes(attempt: Attempt, stride: int) -> Iterator[Stretch]:
    """Yield where step numbers are missing: how long the step before them took is not known either."""
    for step, following in pairwise(attempt.steps):
        if following.value > step.value + stride:
            yield Stretch(HOLE, step.time, following.time, following.place)


def _torn(attempt: Attempt) -> Iterator[Stretch]:
    """Yield the steps around lines that could not be read, where the file is in order so that it is clear which."""
    for low, high, place in attempt.torn:
        first = bisect_right(attempt.steps, low, key=attrgetter("time"))
        behind = bisect_left(attempt.steps, high, key=attrgetter("time"))
        if behind - first <= 2:
            start = attempt.steps[first - 1].time if first else attempt.begin
            end = attempt.steps[behind].time if behind < len(attempt.steps) else attempt.horizon
            yield Stretch(HOLE, start, end, place)


def _apart(stretches: list[Stretch]) -> list[Stretch]:
    """Return stretches that do not overlap: a moment that several claim is of the first kind, then of the first."""
    ahead = sorted((each for each in stretches if each.start < each.end), key=attrgetter("start"), reverse=True)
    out = [each for each in stretches if each.kind == SAVE and each.start == each.end]
    claims: list[tuple[int, int, int, Stretch]] = []
    for now, following in pairwise(sorted({time for each in ahead for time in (each.start, each.end)})):
        while ahead and ahead[-1].start <= now:
            each = ahead.pop()
            heapq.heappush(claims, (each.kind, each.start, len(ahead), each))
        while claims and claims[0][-1].end <= now:
            heapq.heappop(claims)
        if claims:
            kind, _, _, top = claims[0]
            goes_on = out and out[-1].end == now and (out[-1].kind, out[-1][3:]) == (kind, top[3:])
            out.append((out.pop() if goes_on else top._replace(start=now))._replace(end=following))
    return sorted(out, key=attrgetter("start", "end"))


def job_events(
    job: str, entries: list[Entry], bad: Sequence[Bad], files: Sequence[str]
) -> tuple[list[Row], list[Finding]]:
    """Return the events of one job, in time, as fields of rows, and what its entries leave open."""
    notes = Notes(job, files)
    teller = Teller(tidy(entries, notes), entries, notes)
    rows = teller.rows(bad)
    say_what_is_missing(teller.attempts, teller.stride, notes)
    say_what_is_open(teller.story, teller.stride, notes)
    return rows, notes.findings
