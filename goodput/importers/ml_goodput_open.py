"""What the timeline of a job leaves open: steps that are missing, faults without a time, saves that nobody logged."""

from itertools import pairwise, zip_longest

from goodput.importers.ml_goodput_attempts import CAUSE, HOLE, Attempt, Story
from goodput.importers.ml_goodput_entries import Notes


def say_what_is_missing(attempts: list[Attempt], stride: int, notes: Notes) -> None:
    """Say how many step numbers are not there, and what that leaves open."""
    missing, places, silent = 0, [], 0
    for attempt, following in zip_longest(attempts, attempts[1:]):
        steps = [*attempt.steps, *(following.steps[:1] if following and attempt.kept is None else [])]
        for step, behind in pairwise(steps):
            if behind.value > step.value + stride:
                missing += -((step.value - behind.value) // stride) - 1
                places.append((step.place, behind.place))
                is_between = attempt.breaks and step is attempt.steps[-1]
                silent += attempt.outage.struck - attempt.horizon if is_between else 0
    if not missing:
        return
    known, unsure, holes = _bounds(attempts)
    before, behind = places[0]
    where = f"{len(places)} places, the first " if len(places) > 1 else ""
    most, silence = known + unsure + silent, f"{(holes + silent) / 1e6:g} s"
    said = f"{missing} steps are missing, {where}between {notes.at(before)} and {notes.at(behind)}: {silence} are"
    said += f" unattributed, numbers incomplete; at least {known / 1e6:g} s are productive, at most {most / 1e6:g} s"
    notes.say("warning", "missing-steps", behind, said)


def _bounds(attempts: list[Attempt]) -> tuple[int, int, int]:
    """Return in microseconds what is surely productive, what may be beside it, and how long the holes are."""
    known = unsure = holes = 0
    for attempt in attempts:
        until = attempt.horizon if attempt.marker is None else attempt.marker
        until = attempt.begin if attempt.is_lost and attempt.breaks else until
        spent = sum(max(min(piece.end, until) - piece.start, 0) for piece in attempt.pieces)
        rest = until - attempt.begin - spent
        known, unsure = (known + rest, unsure) if attempt.is_known else (known, unsure + rest)
        missing = [piece for piece in attempt.pieces if piece.kind == HOLE]
        holes += sum(piece.end - piece.start for piece in missing)
        unsure += sum(piece.end - piece.start for piece in missing if not attempt.has_lost(piece.start))
    return known, unsure, holes


def say_what_is_open(story: Story, stride: int, notes: Notes) -> None:
    """Say what the timeline cannot tell, where it matters."""
    broken = [attempt for attempt in story.attempts if attempt.breaks]
    for code, place, said in story.odd:
        notes.say("warning", code, place, said)
    if any(attempt.outage.cause == CAUSE for attempt in broken):
        said = "when and why a fault struck is not logged: from the last sign of life on time is unattributed"
        notes.say("note", "no-fault-time", None, said)
    if broken and not any(attempt.saves for attempt in story.attempts):
        said = "saves are not logged: their time is in productive; what they held, the steps done again tell"
        notes.say("note", "no-save-time", None, said)
    for attempt in broken:
        if attempt.end:
            said = "job_end_time is no end, later steps do its work again: taken for the fault's time"
            notes.say("warning", "end-of-a-fault", attempt.end.place, said)
        if not attempt.is_known:
            said = "no step follows the fault: what was saved is not known, and unattributed"
            notes.say("warning", "no-resume", attempt.outage.place, said)
    if stride > 1:
        said = f"step numbers grow by {stride}: taken for a log of one step in {stride}, not for holes"
        notes.say("note", "step-stride", story.attempts[0].steps[0].place, said)
    counts = {
        "second-writer": (story.doubles, "steps are there twice within half a step: another writer's, left out"),
        "failed-restarts": (story.failed, "job starts lead to no step: failed restarts, part of the recovery"),
        "repeated-steps": (
            story.repeated,
            "times steps are done again without a job start: each taken for a fault",
        ),
    }
    for code, (count, said) in counts.items():
        if count:
            notes.say("note", code, None, f"{count} {said}")
