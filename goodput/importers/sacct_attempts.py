"""How long did a job hold its nodes, and what ended it? Its records become attempts, attempts become events."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from goodput.events import CHOSEN, UNKNOWN
from goodput.importers.sacct_fields import Record
from goodput.importers.sacct_file import Found
from goodput.importers.sacct_nodes import expand_nodes
from goodput.importers.sacct_words import ACTIVE, COMPLETED, OTHER, SEVERITY, kind_of
from goodput.line import folded

_MOST_NODES = 10_000_000
TOGETHER = 60_000_000  # what belongs together starts within a minute
SUSPENDED = "preemption"  # whoever suspended a job chose to
_HOUR = 3_600_000_000
_MOST_GPUS_PER_NODE = 1_000
_SECOND = 1_000_000


class Attempt(NamedTuple):
    """One stay of a job on its nodes, from `begin` to `stop` (microseconds), of which it was `suspended` for a time."""

    record: Record
    kind: str
    nodes: int
    gpus_per_node: int | None
    names: str | None
    begin: int
    stop: int
    suspended: int


def attempt_of(stay: list[Record], steps: list[Record], found: Found) -> Attempt:
    """Return one attempt of a job from its records and their steps; its times come from `timed`."""
    longest = max(stay, key=lambda each: each.run or 0)
    told = _believed(stay, steps, found)
    for each in stay:
        for odd in each.odd:
            found.say("warning", "odd-field", each, f"job {each.job}: {odd}")
    if kind_of(told.state) == OTHER:
        found.say("note", "unknown-state", told, f"job {told.job}: state {told.state} is not known")
    kind = "node_fail" if told.kind == "requeue" and longest.failed_node else told.kind
    times = {name: getattr(longest, name) for name in ("submit", "start", "end", "run", "suspended")}
    counted = [each for each in stay if each.gpus != 0]  # the nodes of a component without GPUs are not
    nodes, gpus_per_node = _size(counted, found) if counted else (0, None)
    names = [each.node_names for each in counted]
    folded_names = ",".join(names) if names and None not in names else None
    return Attempt(told._replace(**times), kind, nodes, gpus_per_node, folded_names, longest.start[0], 0, 0)


def _believed(stay: list[Record], steps: list[Record], found: Found) -> Record:
    """Return the record that tells how an attempt ended: its worst component, with the kind of a step that is worse."""
    told = min(stay, key=lambda each: (each.kind != ACTIVE, SEVERITY[each.kind]))
    if told.kind not in (COMPLETED, "program_error"):
        return told
    if not steps and any(told.step_exit):  # sacct -X leaves the steps out, but not the worst of their exit codes
        steps = [
            told._replace(step="as DerivedExitCode says,", kind="program_error", state="FAILED", exit=told.step_exit)
        ]
    worst = min(steps, key=lambda each: SEVERITY[each.kind], default=told)
    if SEVERITY[worst.kind] >= SEVERITY[told.kind]:
        return told
    said = f"job {told.job}: step {worst.step} ended {worst.state}, its job {told.state}: the step is believed"
    found.say("note", "step-tells", worst, said)
    return told._replace(kind=worst.kind, exit=worst.exit)


def _size(stay: list[Record], found: Found) -> tuple[int, int | None]:
    """Return nodes and GPUs per node, null where they are not known."""
    counts, held = [each.nodes for each in stay], [each.gpus for each in stay]
    nodes, gpus = (None if None in each else sum(each) for each in (counts, held))
    said = f"job {stay[0].job}: {gpus} GPUs on {nodes} nodes"
    if (nodes or 0) > _MOST_NODES or (gpus or 0) > (nodes or 1) * _MOST_GPUS_PER_NODE:
        rule = f"must be at most {_MOST_GPUS_PER_NODE:,} on each of at most {_MOST_NODES:,}: left out"
        found.say("warning", "absurd-size", stay[0], f"{said} {rule}")
        nodes, gpus = None, None
    if gpus is not None and (nodes is None or gpus % nodes):
        rule = "do not divide: GPU-hours are right, but node-hours and node MTBF are not"
        found.say("note", "uneven-gpus", stay[0], f"{said} {rule}")
        return (1, gpus) if gpus <= _MOST_GPUS_PER_NODE else (gpus, 1)
    if nodes is None:
        found.say("warning", "no-nodes", stay[0], f"job {stay[0].job}: its nodes are not known: counted as 1")
    return nodes or 1, None if gpus is None else gpus // (nodes or 1)


def timed(attempts: list[Attempt], found: Found) -> list[Attempt]:
    """Return attempts with the times that they held their nodes, one after the other."""
    out: list[Attempt] = []
    for attempt, following in itertools.pairwise([*attempts, None]):
        kind = attempt.kind
        begin, stop, suspended = _times(attempt.record, kind == ACTIVE, found)
        shift = max(0, out[-1].stop - begin) if out else 0
        if shift:
            text = f"attempts overlap by {shift / 1e6:g} s: this one is moved behind the one before"
            found.say("warning", "attempts-overlap", attempt.record, f"job {attempt.record.job}: {text}")
        begin, stop = begin + shift, stop + shift
        if following is not None:
            if kind == ACTIVE and not _is_resized(attempt, following):
                kind, stop = UNKNOWN, min(stop, following.begin)
                text = "an attempt has no end, but a later one follows: interrupted, of unknown cause"
                found.say("warning", "no-attempt-end", attempt.record, f"job {attempt.record.job}: {text}")
            over = stop - following.begin - _HOUR
            if over > 0:  # local times may jump by an hour; more than that is no change of clocks
                text = f"an attempt goes on after the next one has begun: its last {over / 1e6:g} s are left out"
                found.say("warning", "attempts-overlap", attempt.record, f"job {attempt.record.job}: {text}")
                stop = max(begin, stop - over)
        out.append(attempt._replace(kind=kind, begin=begin, stop=stop, suspended=min(suspended, stop - begin)))
    return out


def _is_resized(attempt: Attempt, following: Attempt) -> bool:
    """Return whether a record was closed only because the job went on with another number of nodes."""
    record = attempt.record
    went_on = bool(record.end) and following.begin - record.end[0] <= TOGETHER
    return went_on and record.state.upper().startswith("RESIZING")


def _times(record: Record, goes_on: bool, found: Found) -> tuple[int, int, int]:
    """Return begin, stop and suspended time. Durations are exact; local times are not, where clocks change."""
    start, end = _best_instants(record, found)
    suspended = record.suspended or 0
    if record.run is None:
        if end is None:
            found.say("warning", "no-time", record, f"job {record.job}: without End and Elapsed: no time is counted")
        end = max(start, end or 0)
        return start, end, min(suspended, end - start)
    if end is None or goes_on:
        if not goes_on:
            found.say("note", "no-end-time", record, f"job {record.job}: End is not known: Start + Elapsed is taken")
        return start, start + record.run + suspended, suspended
    rest = max(0, end - start - record.run)
    suspended = rest if record.suspended is None else min(suspended, rest)
    stop = start + record.run + suspended
    if abs(stop - end) > _SECOND or suspended != (record.suspended or suspended):
        held = (record.run + (record.suspended or 0)) / 1e6
        text = f"End - Start is {(end - start) / 1e6:g} s, but Elapsed and Suspended {held:g} s"
        advice = "Elapsed is believed (if clocks changed: give --timezone)"
        found.say("warning", "times-disagree", record, f"job {record.job}: {text}: {advice}")
    return start, stop, suspended


def _best_instants(record: Record, found: Found) -> tuple[int, int | None]:
    """Return start and end: of a time that the clock showed twice, the one that fits Elapsed."""
    pairs = list(itertools.product(record.start, record.end or (None,)))
    if len(pairs) == 1:
        return pairs[0]
    held = (record.run or 0) + (record.suspended or 0)
    fits = record.run is not None and bool(record.end)
    how = "with the offset that fits Elapsed" if fits else "with the offset from before the change"
    text = f"job {record.job}: a local time is ambiguous, or was skipped, at a change of clocks: read {how}"
    found.say("note", "ambiguous-time", record, text)
    return min(pairs, key=lambda pair: abs(pair[1] - pair[0] - held)) if fits else pairs[0]


def life(attempts: list[Attempt], is_open: bool) -> Iterator[dict[str, Any]]:
    """Yield a job's events; a job that is open goes on behind its last attempt."""
    before = None
    for number, now in enumerate(attempts, 1):
        is_last = number == len(attempts)
        rows = [*_begin(before, now), *_suspend(before, now), *_finish(now, is_last, is_open)]
        place = {"attempt": number, "file": now.record.file, "line": now.record.line}
        yield from (row | place for row in rows)
        before = now


def _begin(before: Attempt | None, now: Attempt) -> Iterator[dict[str, Any]]:
    size = {"time": now.begin, "nodes": now.nodes, "gpus_per_node": now.gpus_per_node}
    if before is None or before.kind == COMPLETED:
        submit = [time for time in now.record.submit if time <= now.begin]
        queued = (now.begin - submit[-1]) / 1e6 if submit else None
        yield size | {"event": "start", "node_names": now.names, "name": now.record.name, "queued_seconds": queued}
        return
    size |= _moved(before.names, now.names)
    if before.kind == ACTIVE:
        yield size | {"event": "resize"}
    else:
        yield size | {"event": "nodes_ready"}
        yield {"time": now.begin, "event": "running"}


def _moved(before: str | None, now: str | None) -> dict[str, str]:
    """Return the nodes that came and went between two attempts."""
    if before is None or now is None or before == now:
        return {}
    old, new = dict.fromkeys(expand_nodes(before)), dict.fromkeys(expand_nodes(now))
    moves = {"joined": [name for name in new if name not in old], "left": [name for name in old if name not in new]}
    return {key: folded(names) for key, names in moves.items() if names}


def _suspend(before: Attempt | None, now: Attempt) -> Iterator[dict[str, Any]]:
    """Yield the outage of a job that was suspended: at its begin, where no compute is at risk, for it lost none."""
    if now.suspended:
        again = now.begin + now.suspended
        if before is not None and before.kind == ACTIVE:  # it was resized: compute before that is at risk
            yield {"time": now.begin, "event": "gap"}
        yield {"time": now.begin, "event": "interrupt", "cause": SUSPENDED}
        yield {"time": now.begin, "event": "detected", "nodes": 0}
        yield {"time": again, "event": "nodes_ready", "nodes": now.nodes}
        yield {"time": again, "event": "running"}


def _finish(now: Attempt, is_last: bool, is_open: bool) -> Iterator[dict[str, Any]]:
    told = {"time": now.stop, "state": now.record.state, "signal": now.record.exit[1] or None}
    if now.kind == ACTIVE:
        if is_last:
            is_held = not now.record.state.upper().startswith("SUSPENDED")
            yield told | {"event": "resize", "nodes": now.nodes if is_held else 0}
    elif now.kind == COMPLETED:
        yield told | {"event": "end", "outcome": "completed"}
    else:
        yield {"time": now.stop, "event": "gap"}
        yield told | {"event": "interrupt", "cause": now.kind, "node": _blamed(now)}
        if is_last and not is_open:
            yield told | {"event": "end", "outcome": "interrupted"}
        else:
            yield {"time": now.stop, "event": "detected", "nodes": 0}


def _blamed(now: Attempt) -> str | None:
    """Return the node that failed: as FailedNode says, or the only one of a NODE_FAIL."""
    if now.kind in CHOSEN:
        return None
    is_alone = now.kind == "node_fail" and now.nodes == 1 and now.names is not None and now.record.nodes == 1
    return now.record.failed_node or (now.names if is_alone and len(expand_nodes(now.names)) == 1 else None)
