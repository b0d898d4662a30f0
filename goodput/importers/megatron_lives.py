"""The lives of a training process: where one ends and the next begins, when it hung, how fast it went, why it ended."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import gcd

from goodput.importers.megatron_records import SECOND, Alarm, Fact, Hang, Life, Mark, Opening, Save, Step
from goodput.importers.megatron_text import CAUSE, DUE_TO, HANG, LONGEST, Text

HANG_MINUTES = 30  # watchdog lines closer than this tell of one hang
STARTING = ("after megatron", "after model", "after dataloaders", "before the start")
_BEFORE_TRAINING, DONE = "before the start", "after training is done"
_ENDINGS = {
    "exiting program after receiving": "sigterm",  # of whom is not said: no choice that could be named
    "exiting program after": "time_limit",
    "exiting program at": "planned",
}
_CHOICES = ("time_limit", "preemption", "user_cancel", "planned")
_SAID = (*DUE_TO.values(), "user_cancel", "out_of_memory", HANG)


def lives_of(text: Text, detections: Sequence[int]) -> tuple[list[Life], Life]:
    """Return the lives of the process that trained, and what is left; one that did not is the next one's start-up."""
    lives, life = [], Life()
    for record in text.records:
        if isinstance(record, Step) and life.steps and _is_late(record, life.steps[-1]):
            text.doubles += [record.line] if _has_or_takes(life.steps, record) else []
            continue
        if life.steps and _begins_anew(record, life.steps[-1], detections):
            lives.append(life)
            life = Life()
        _add(life, record)
    if text.doubles:
        said = f"{len(text.doubles)} duplicated lines dropped, the first at line {min(text.doubles)}"
        text.say("note", "duplicates", min(text.doubles), said)
    return ([*lives, life], Life()) if life.steps else (lives, life)


def _is_late(step: Step, last: Step) -> bool:
    return step.time <= last.time + step.slack and step.iteration <= last.iteration


def _has_or_takes(steps: list[Step], step: Step) -> bool:
    """Return whether an iteration line came before; one that only comes late is put in its place."""
    at = bisect_left(steps, step.iteration, key=lambda step: step.iteration)
    if steps[at].iteration == step.iteration:
        return True
    steps.insert(at, step._replace(line=steps[at].line - 1))
    return False


def _begins_anew(record: Step | Save | Mark | Fact, last: Step, detections: Sequence[int]) -> bool:
    if isinstance(record, Step):
        hung = bisect_right(detections, record.time) > bisect_right(detections, last.time)
        return hung or record.iteration <= last.iteration
    if isinstance(record, Mark):
        return record.what.startswith(STARTING)
    return isinstance(record, Fact) and record.what in ("load", "world")


def _add(life: Life, record: Step | Save | Mark | Fact) -> None:
    if isinstance(record, Step):
        life.steps.append(record)
    elif isinstance(record, Save):
        life.saves.append(record)
    elif isinstance(record, Mark):
        life.marks.append(record)
    elif record.what == "load":
        life.loaded = life.loaded if record.value is None else record.value
    elif record.what == "world":
        life.gpus = record.value
    else:
        life.evaluated.append(record.line)


def hangs_of(alarms: list[Alarm]) -> list[Hang]:
    """Return one hang for all watchdog lines that are close in time, in order of time."""
    groups: list[list[Alarm]] = []
    for alarm in sorted(alarms, key=lambda alarm: alarm.time):
        if groups and alarm.time - groups[-1][-1].time <= HANG_MINUTES * 60 * SECOND:
            groups[-1].append(alarm)
        else:
            groups.append([alarm])
    return [_hang(group) for group in groups if any(alarm.ran is not None for alarm in group)]


def _hang(alarms: list[Alarm]) -> Hang:
    said = [alarm for alarm in alarms if alarm.ran is not None]
    onset = max(0, min(alarm.time - alarm.ran for alarm in said))
    return Hang(said[0].line, onset, said[0].time, alarms[-1].time, _suspect(alarms))


def _suspect(alarms: list[Alarm]) -> int | None:
    """Return the one rank whose last sequence number is behind all others'; None where it is not one."""
    last: dict[int, int] = {}
    for alarm in alarms:
        if alarm.rank is not None and alarm.sequence is not None:
            last[alarm.rank] = max(alarm.sequence, last.get(alarm.rank, 0))
    least = min(last.values(), default=0)
    behind = [rank for rank, sequence in last.items() if sequence == least]
    return behind[0] if len(behind) == 1 and len(last) > 1 else None


def opening_of(life: Life, interval: int, reached: int | None) -> Opening:
    """Return the first interval of a life; `reached` is the iteration that the life before it came to."""
    step = life.steps[0]
    whole = (step.iteration - 1) // interval * interval
    is_known = life.loaded is not None or reached is not None or step.iteration <= interval
    near = life.loaded is not None and 0 < step.iteration - life.loaded <= interval
    base = life.loaded if near else max(0, whole)
    stamped = [mark.time for mark in life.marks if is_before(mark, _BEFORE_TRAINING, step)]
    begin = stamped[-1] if stamped else step.time - round(believed(step.mean * (step.iteration - base)))
    return Opening(base, is_known, max(0, begin))


def is_before(mark: Mark, beginning: str | tuple[str, ...], step: Step | None) -> bool:
    """Return whether a mark of that kind has a time and comes before an iteration line."""
    in_time = mark.time is not None and (step is None or (mark.line < step.line and mark.time <= step.time))
    return in_time and mark.what.startswith(beginning)


def believed(micros: float) -> float:
    """Return a length of time, 0 for one that is absurd."""
    return micros if micros <= LONGEST else 0


def log_interval_of(*groups: Sequence[Life]) -> int:
    """Return how many iterations a line tells of: what is usual in the first group of lives that has anything usual."""
    for lives in groups:
        numbers = [[step.iteration for step in life.steps] for life in lives]
        steps = Counter(b - a for each in numbers for a, b in pairwise(each)).most_common(1)
        if steps and steps[0][1] > 1:
            return steps[0][0]
    whole = gcd(*(number for each in numbers for number in each[1:]))
    # newer releases write a line for the first iteration of a life, whatever its number
    firsts = [each[0] for each in numbers if each and (not whole or (each[0] - 1) % whole)]
    # the number of a single line says little: people log each 1, 5, 10, 50 or 100
    return gcd(whole, *firsts, *([] if whole else [100])) or 1


def reason_of(life: Life) -> Mark | None:
    """Return the line that says why a life ended: what somebody chose, or else the first trouble."""
    first = life.steps[0].line if life.steps else 0
    signs = [mark for mark in life.marks if mark.line > first and cause_of(mark) != CAUSE]
    return next((mark for mark in signs if cause_of(mark) in _CHOICES), signs[0] if signs else None)


def cause_of(mark: Mark | None) -> str:
    """Return the cause that a line gives; that of a life without such a line."""
    if mark is None:
        return CAUSE
    ending = next((cause for beginning, cause in _ENDINGS.items() if mark.what.startswith(beginning)), CAUSE)
    return mark.what if mark.what in _SAID else ending
