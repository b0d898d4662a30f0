"""One job, event by event: what cannot follow is moved to its cause, completed, or dropped, and said.

The walk knows what the job is doing (`order.STATE_AFTER`) and reads on until the next event cannot be:

| found | set right as |
|---|---|
| an effect before its cause (clocks disagree) | moved to its cause |
| the job is down, but no interrupt said so | an interrupt then, of unknown cause, silent since the event before |
| a start while the job runs | a restart: an interrupt then, silent since the event before, and training goes on |
| a save starts while the job is down | training goes on then; since the event before it cannot be placed |
| the end of a save that did not start | dropped |
| an event after the end | dropped, unless it starts the job again |
| no start at all | the job is seen from its first event on |
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.events import EVENT_DTYPE, UNKNOWN, Finding, concat_logs, make_log, micros
from goodput.order import (
    ANYTHING,
    DOWN,
    ENDED,
    NEW,
    PAUSED,
    POSSIBLE,
    RESTARTING,
    SAVING,
    STARTING,
    STATE_AFTER,
    WAITING,
)

CLOCK_MINUTES = 15  # by how much clocks may disagree before an event is taken for another outage's
_CHAIN = {"interrupt": 0, "detected": 1, "nodes_ready": 2, "running": 3}
_CLOSES = {
    SAVING: "checkpoint_end",
    PAUSED: "resume",
    DOWN: "detected",
    WAITING: "nodes_ready",
    RESTARTING: "running",
    STARTING: "start",
}
_IS_DOWN = (DOWN, WAITING, RESTARTING)


class Step(NamedTuple):
    """An event of the mended job: the row of the log that it comes from, and what is changed of it."""

    row: int
    time: int
    event: str
    assumed: dict[str, Any] | None = None  # of an event that the log does not have: its fields


class _Event(NamedTuple):
    row: int
    time: int
    name: str


class _Walk:
    def __init__(self, log: pd.DataFrame):
        self.log = log
        self.job = log["job"].iloc[0]
        times, names = micros(log["time"]).tolist(), log["event"].tolist()
        self.ahead = [_Event(row, time, name) for row, (time, name) in enumerate(zip(times, names, strict=True))]
        self.ahead.reverse()  # the next event is the last of the list
        self.state, self.open_saves, self.reached = NEW, 0, -1
        self.steps: list[Step] = []
        self.findings: list[Finding] = []

    def walk(self) -> None:
        while self.ahead:
            event = self._next()
            cause = None if self.state in (NEW, ENDED, ANYTHING) else self._cause_ahead(event)
            if cause is not None:
                self._move_behind(cause, event)
            elif self._can(event.name):
                self._keep(event)
            else:
                self._set_right(event)

    def _next(self) -> _Event:
        """Take the next event; of several at one time, first what closes the open state, then what is possible."""
        tied = [self.ahead.pop()]
        while self.ahead and self.ahead[-1].time == tied[0].time:
            tied.append(self.ahead.pop())
        closing = [each for each in tied if each.name == _CLOSES.get(self.state)]
        possible = [each for each in tied if self._can(each.name)]
        chosen = (closing or possible or tied)[0]
        self.ahead += [each for each in reversed(tied) if each is not chosen]
        return chosen

    def _can(self, name: str) -> bool:
        if name == "checkpoint_end" and self.open_saves == 0 and self.state != ANYTHING:
            return False
        return name in POSSIBLE[self.state]

    def _keep(self, event: _Event, as_name: str | None = None, assumed: dict[str, Any] | None = None) -> None:
        name = as_name or event.name
        self.reached = max(self.reached, event.time)
        self.steps.append(Step(event.row, self.reached, name, assumed))
        before, self.state = self.state, STATE_AFTER.get(name, self.state)
        if name == "checkpoint_start":
            self.open_saves += 1
        elif name == "checkpoint_end":
            self.open_saves = max(0, self.open_saves - 1)
        elif name in ("start", "running", "launch") or (before == ANYTHING and name in _CHAIN):
            self.open_saves = 0

    def _set_right(self, event: _Event) -> None:
        if self.state == NEW:
            self._see_from_here(event)
        elif self.state == ENDED:
            self._drop(event, "after-end", "comes after the end of the job: left out")
        elif self.state == STARTING and event.name == "running":
            self._say("note", "running-for-start", event, "running after a launch: taken for its start")
            self._keep(event, "start")
        elif event.name in ("start", "launch"):
            self._start_again(event)
        elif event.name in _CHAIN:
            self._complete_outage(event)
        elif event.name == "checkpoint_start":
            self._resume_unseen(event)
        elif event.name == "checkpoint_end":
            self._drop(event, "save-end-alone", "ends a save that did not start, or that a fault had cut: left out")
        else:
            self._drop(event, "out-of-order", f"cannot come while the job is {self.state}: left out")

    def _see_from_here(self, event: _Event) -> None:
        said = "does not begin with a start: seen from this event on, what was lost before it is not known"
        self._say("warning", "no-start", event, said)
        self.state = ANYTHING
        self.open_saves = 1 if event.name == "checkpoint_end" else 0
        self._keep(event)

    def _drop(self, event: _Event, code: str, said: str) -> None:
        self._say("warning", code, event, f"{event.name} {said}")

    def _cause_ahead(self, event: _Event) -> int | None:
        """Return where in `ahead` an earlier link of the same outage is still to come, by a clock that lags."""
        if event.name not in _CHAIN:
            return None
        seen = {DOWN: 0, WAITING: 1, RESTARTING: 2}.get(self.state, -1)
        for at in range(len(self.ahead) - 1, -1, -1):
            other = self.ahead[at]
            if other.name not in _CHAIN or other.name == event.name or (other.name == "interrupt" and seen >= 0):
                return None  # another outage
            if seen < _CHAIN[other.name] < _CHAIN[event.name]:
                return at if self._is_its_cause(event, at) else None
        return None

    def _is_its_cause(self, event: _Event, at: int) -> bool:
        following = itertools.takewhile(lambda each: each.name in _CHAIN, reversed(self.ahead[:at]))
        if self.ahead[at].name == "interrupt":  # the fault that comes next, if it has no such event of its own
            return event.name not in {each.name for each in following}
        return self.ahead[at].time - event.time <= CLOCK_MINUTES * 60_000_000

    def _move_behind(self, at: int, event: _Event) -> None:
        cause = self.ahead[at]
        seconds = (cause.time - event.time) / 1e6
        said = f"{event.name} is {seconds:g} s before its {cause.name} at {self._where(cause)}: moved to it"
        self._say("warning", "clocks-disagree", event, said)
        self.ahead.insert(at, event._replace(time=cause.time))

    def _start_again(self, event: _Event) -> None:
        name = "running" if event.name == "start" else "nodes_ready"
        if self.state == RESTARTING and name == "nodes_ready":
            self._drop(event, "out-of-order", f"cannot come while the job is {self.state}: left out")
            return
        if self.state in _IS_DOWN:
            self._say("note", "start-while-down", event, f"{event.name} while down: taken for its recovery")
        else:
            said = (
                f"{event.name} while {self.state}: a restart, the job was down at some time since {self._where_last()}"
            )
            self._say("warning", "restart", event, said)
            self._interrupt(event)
        self._keep(event, name)

    def _complete_outage(self, event: _Event) -> None:
        if self.state in _IS_DOWN:  # a link that is already behind, as a second `detected`
            self._drop(event, "out-of-order", f"cannot come while the job is {self.state}: left out")
            return
        since = self._where_last()
        said = f"{event.name} without an interrupt: one is assumed, of unknown cause, at some time since {since}"
        self._say("warning", "no-interrupt", event, said)
        self._interrupt(event)
        self._keep(event)

    def _resume_unseen(self, event: _Event) -> None:
        said = f"checkpoint_start while {self.state}: training went on at some time since {self._where_last()}"
        self._say("warning", "no-running", event, said)
        if self.state != STARTING:
            self.steps.append(Step(self.steps[-1].row, self.reached, "gap", {}))
        self._keep(event, "start" if self.state == STARTING else "running", assumed={})
        self._keep(event)

    def _interrupt(self, event: _Event) -> None:
        """Assume a fault at an event, silent since the one before."""
        self._keep(event, "interrupt", assumed={"cause": UNKNOWN, "after": self.reached})

    def _where_last(self) -> str:
        return self._place(self.steps[-1].row)

    def _where(self, event: _Event) -> str:
        return self._place(event.row)

    def _place(self, row: int) -> str:
        file, line = self.log["file"].iloc[row], self.log["line"].iloc[row]
        return "the event before" if pd.isna(file) else f"{file}:{line}"

    def _say(self, severity: str, code: str, event: _Event, said: str) -> None:
        file, line = self.log["file"].iloc[event.row], self.log["line"].iloc[event.row]
        place = (None, None) if pd.isna(file) else (str(file), int(line))
        self.findings.append(Finding(severity, code, *place, f"job {self.job}: {said}"))


def walk(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    """Return one job's ordered events as a possible sequence, and what had to be set right."""
    walker = _Walk(log)
    walker.walk()
    kept = [step for step in walker.steps if step.assumed is None]
    out = log.take([step.row for step in kept])
    times = np.array([step.time for step in kept], "int64").view("datetime64[us]")
    events = pd.Categorical([step.event for step in kept], dtype=EVENT_DTYPE)
    out = out.assign(time=pd.DatetimeIndex(times).tz_localize("UTC"), event=events)
    assumed = [step for step in walker.steps if step.assumed is not None]
    if not assumed:
        return out.reset_index(drop=True), walker.findings
    # kept and assumed events, each in its turn
    turn = np.argsort([step.assumed is not None for step in walker.steps], kind="stable")
    both = concat_logs([out, _assumed(log, assumed)])
    return both.take(np.argsort(turn, kind="stable")).reset_index(drop=True), walker.findings


def _assumed(log: pd.DataFrame, steps: list[Step]) -> pd.DataFrame:
    """Return events that the log does not have; they stand at the line that gave them away."""
    rows = [step.row for step in steps]
    return make_log(
        {
            "time": [step.time for step in steps],
            "job": [log["job"].iloc[0]] * len(steps),
            "event": [step.event for step in steps],
            "cause": [step.assumed.get("cause") for step in steps],
            "after": [step.assumed.get("after", np.iinfo("int64").min) for step in steps],
            "file": log["file"].array.take(rows),
            "line": log["line"].array.take(rows),
        }
    )
