"""The events of one job, from the rows of it and its Pods."""

import re
from typing import Any

from goodput.events import CHOSEN, Finding
from goodput.importers.kubernetes_meaning import DONE, FAULT, KNOWN, OVER, READY, RUN, UP, Row, meaning_of
from goodput.line import folded

SAME_FAULT_SECONDS = 120  # signs of trouble closer than this to the first tell of one fault
STARTUP_MINUTES = 30  # a Pod that starts later than this behind the others is no part of their start-up
CAUSE = "not_logged"
NODE_LOST_MINUTES = 10  # a node is not ready this long at most before the Pods on it are given up
_US = 1_000_000
_ASSIGNED = re.compile(r"assigned \S+ to (\S+)")
_PRIORITY = ("preemption", "user_cancel", "time_limit", "planned", "node_lost", "out_of_memory")


class Story:
    """The events of one job, from the rows of it and its Pods."""

    def __init__(self, job: str, rows: list[Row], nodes: list[Row], size: tuple[int, int] | None, kind: str):
        self.job, self.rows, self.kind = job, rows, kind
        self.size = {"nodes": size[0], "gpus_per_node": size[1]} if size else {}
        self.trouble = [row for row in nodes if row.reason == "NodeNotReady"]
        self.has_pods = any(row.kind == "Pod" and row.reason == "Started" for row in rows)
        self.told: list[dict[str, Any]] = []
        self.findings: list[Finding] = []
        self.state = "new"  # launched, running, down, ended
        self.on: dict[str, str] = {}  # Pod -> node
        self.places: dict[str, str] = {}  # Pod without the end of its name, which changes at each restart -> node
        self.reached = 0
        self.fault: dict[str, Any] = {}
        self.killed: Row | None = None  # the last Pod that was stopped
        self._forget()

    def _forget(self) -> None:
        """Forget the signs of a start-up."""
        self.up: Row | None = None  # the first sign that nodes are held
        self.ready: Row | None = None  # the last one
        self.run: Row | None = None  # the last sign that it runs
        self.is_running = False  # surely: all of it
        self.waiting: set[str] = set()  # Pods that have a node and are not started
        self.started: set[str] = set()

    def tell(self) -> list[dict[str, Any]]:
        """Return the events of the job, in order."""
        for row in self.rows:
            signal, cause = meaning_of(row)
            if row.kind == "Pod" and row.reason == "Killing":
                self.killed = row
            elif signal in (UP, READY, RUN):
                self._come_up(row, signal)
            elif signal == FAULT:
                self._fail(row, cause)
            elif signal == KNOWN and self.state == "down":
                self._know(row)
            elif signal == KNOWN:
                self._fail(row, "pod_failed")  # what failed is not told
            elif signal == OVER:
                self._give_up(row, cause)
            elif signal == DONE and self._is_whole(row):
                self._end(row, "completed")
        if self.state != "ended":
            self._settle()
            self._know(None)
            if self.told and self.rows[-1].time > self.reached:
                # an event that changes nothing: the log goes on until here
                self._tell(self.rows[-1].time, "resize", self.rows[-1])
        self._sum_up()
        return self.told

    def _say(self, code: str, line: int | None, said: str) -> None:
        self.findings.append(Finding("note", code, None, line, f"job {self.job}: {said}"))

    def _sum_up(self) -> None:
        for told in self.told:
            if told.get("is_guess"):
                self._say("suspended", told["line"], "suspended, and nobody says why: taken for a preemption")
        gap = next((told for told in self.told if told["event"] == "gap"), None)
        if gap:
            said = "no event tells of saves: compute before each fault is unattributed, part of it is lost"
            self._say("no-saves", gap["line"], said)

    def _tell(self, time: int, event: str, row: Row, **fields: Any) -> dict[str, Any]:
        self.reached = max(self.reached, time)
        told = {"time": self.reached, "job": self.job, "event": event, "line": row.line, **fields}
        self.told.append(told)
        return told

    def _is_whole(self, row: Row) -> bool:
        """Return whether a row of a job is of all of it, not of one of the Jobs of a JobSet."""
        return row.kind != "Job" or self.kind == "Job"

    def _come_up(self, row: Row, signal: str) -> None:
        if self.state == "ended":
            if row.kind == "Pod":
                return
            self.state = "new"
            self._forget()
        last = max((sign.time for sign in (self.run, self.ready) if sign), default=row.time)
        # what comes long after all else was up tells of no start-up
        is_late = self.run is not None and row.time - last > STARTUP_MINUTES * 60 * _US
        if not (self._pod_comes_up(row, is_late) if row.kind == "Pod" else not is_late):
            return
        self.up = self.up or row
        if signal == UP or row.kind != "Pod":
            self.ready = row
        if signal != UP and not self.is_running:
            self.run = row
            self.is_running = signal == RUN

    def _pod_comes_up(self, row: Row, is_late: bool) -> bool:
        """Take in a Pod's sign; return whether it belongs to a start-up."""
        found = _ASSIGNED.search(row.message)
        if found or row.node:
            self.on[row.name] = found[1] if found else row.node
        if row.reason == "Scheduled":
            if is_late:
                self._replace(row)
            self.waiting.add(row.name)
            return not is_late
        if row.name in self.started and is_late:
            self._restart_in_place(row)
            return False
        belongs = row.name in self.waiting or not is_late
        self.waiting.discard(row.name)
        self.started.add(row.name)
        return belongs

    def _replace(self, row: Row) -> None:
        """A Pod that comes in the middle of a run takes the place of one: the job stopped, when that was killed."""
        near = row.time - self.killed.time <= NODE_LOST_MINUTES * 60 * _US if self.killed else False
        self._fail(row._replace(time=self.killed.time if near else row.time, name=""), CAUSE)
        said = f"Pod {row.name} came in the middle of the run, without a sign of trouble: taken for a failure"
        self._say("pod-replaced", row.line, said)
        self.up = self.ready = row

    def _restart_in_place(self, row: Row) -> None:
        """A container that starts again had died before: how long before is not told, only that it was not long."""
        self._fail(row, "pod_failed")
        said = f"Pod {row.name} started again without a sign of its end: taken for a failure then"
        self._say("restart-in-place", row.line, said)
        self.up = self.ready = self.run = row
        self.started.add(row.name)

    def _settle(self) -> None:
        """Tell of a start-up, now that it is known how far it came."""
        if self.up is None or self.state not in ("new", "launched", "down"):
            return
        runs = self.run is not None and bool(self.started or not self.has_pods or self.is_running)
        names = self._names()
        if self.state == "down":
            self._recover(runs, names)
        else:
            if self.state == "new" and not (runs and self.up.time >= self.run.time):
                self._tell(self.up.time, "launch", self.up, **self.size)
            if runs:
                self._tell(self.run.time, "start", self.run, **self.size, **names)
        self.state = "running" if runs else "launched" if self.state != "down" else "down"
        self.up = None

    def _recover(self, runs: bool, names: dict[str, Any]) -> None:
        self._know(None)
        ready = self.ready or self.up
        if not self.fault.get("is_ready"):
            self._tell(min(ready.time, self.run.time) if runs else ready.time, "nodes_ready", ready, **names)
            self.fault["is_ready"] = True
        if runs:
            self._tell(self.run.time, "running", self.run)

    def _names(self) -> dict[str, Any]:
        """Return the names of the nodes that came, as far as each Pod that started has its place and its node."""
        places = {pod.rpartition("-")[0]: self.on.get(pod) for pod in self.started}
        if not places or len(places) < len(self.started) or None in places.values():
            return {}
        before, self.places = set(self.places.values()), {**self.places, **places}
        now = set(self.places.values())
        if self.state != "down":
            return {"node_names": folded(sorted(now))}
        return {"joined": folded(sorted(now - before)) or None, "left": folded(sorted(before - now)) or None}

    def _fail(self, row: Row, cause: str | None) -> None:
        self._settle()
        if self.state in ("new", "ended"):
            return  # it waits in its queue, or is over
        if self.state == "down" and self._is_same_fault(row, cause):
            self._refine(row, cause)
            return
        is_choice = cause is None or cause in CHOSEN
        lost = None if is_choice else self._lost_node(row, cause)
        time, node = row.time, None if is_choice or row.kind != "Pod" else row.node or self.on.get(row.name)
        if lost is not None:
            time, node, cause = max(self.reached, lost.time), lost.name, "node_lost"
        if self.state == "running":
            self._tell(time, "gap", row)  # what of the compute before it was saved is not told
        self.fault = self._tell(time, "interrupt", row, cause=cause or "preemption", node=node)
        self.fault |= {"began": row.time, "is_guess": cause is None, "known": None}
        if is_choice or lost is not None:
            self._know(row)  # who stops a job knows that it stops
        self.state = "down"
        self._forget()

    def _is_same_fault(self, row: Row, cause: str | None) -> bool:
        soon = row.time - self.fault["began"] <= SAME_FAULT_SECONDS * _US
        stopped = cause in CHOSEN or (row.kind == "Workload" and cause is not None)
        return soon or not stopped or cause == self.fault["cause"]

    def _refine(self, row: Row, cause: str | None) -> None:
        """Take the cause of a later sign of the same fault where it says more."""
        if cause is None or row.time - self.fault["began"] > SAME_FAULT_SECONDS * _US:
            return
        rank = {name: rank for rank, name in enumerate((*_PRIORITY, None, "pod_failed"))}
        other = rank["out_of_memory"] + 0.5  # exit codes, evictions
        if self.fault["is_guess"] or rank.get(cause, other) < rank.get(self.fault["cause"], other):
            self.fault |= {"cause": cause, "is_guess": False}
            self.fault["node"] = None if cause in CHOSEN else self.fault["node"]
        if self.fault["node"] is None and self.fault["cause"] not in CHOSEN and row.kind == "Pod":
            self.fault["node"] = row.node or self.on.get(row.name)

    def _lost_node(self, row: Row, cause: str | None) -> Row | None:
        """Return when a node of the job was found not ready, shortly before a failure; None where none was."""
        mine = set(self.on.values())
        near = (bad for bad in self.trouble if 0 <= row.time - bad.time <= NODE_LOST_MINUTES * 60 * _US)
        # where the job's nodes are not known, a Pod must say that it lost its node
        return next((bad for bad in near if bad.name in mine or (not mine and cause == "node_lost")), None)

    def _know(self, row: Row | None) -> None:
        """Tell that a fault is known: where nothing else says so, its first sign did."""
        if not self.fault or self.fault["known"] is not None:
            return
        time = self.fault["known"] = self.fault["time"] if row is None else max(row.time, self.fault["time"])
        told = {"time": time, "job": self.job, "event": "detected", "line": row.line if row else self.fault["line"]}
        at = next(k for k in range(len(self.told) - 1, -1, -1) if self.told[k] is self.fault)
        self.told.insert(at + 1, told)
        self.reached = max(self.reached, time)

    def _give_up(self, row: Row, cause: str | None) -> None:
        if self.state == "down" and row.time > self.fault["time"]:
            self._know(row)
        if row.kind != "Workload":
            self._fail(row, cause)
        if self._is_whole(row) and self.state not in ("new", "ended"):
            self._know(row)
            self._end(row, "failed")

    def _end(self, row: Row, outcome: str) -> None:
        self._settle()
        if self.state in ("new", "ended"):
            return
        self._know(None)
        self._tell(row.time, "end", row, outcome=outcome)
        self.state, self.fault, self.places = "ended", {}, {}
        self._forget()
