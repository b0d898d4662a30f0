"""Slow twins: the accounting of one job, event by event in whole microseconds, and a cluster with a clock in each node.

Written from the rules, with none of the package's arithmetic: the tests compare the two. Also here: a short way to
write a log by hand, one event a line, `<minute> <event> [key=value ...]`.
"""

import heapq
from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.events import EVENT_DTYPE, codes, make_log, micros
from goodput.mend import mend

MINUTE = 60_000_000
OUR_DAY = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
NULL_TIME = -(2**63)


class Stretch(NamedTuple):
    """A stretch of a job's time: microseconds, what it is, what it is charged to, and GPUs held."""

    start: int
    end: int
    category: str
    cause: str | None
    gpus: int


def events_of(text: str, job: str = "a") -> list[dict]:
    """Return the events of a log written by hand; a bare word is a flag, `after` is in minutes like the time."""
    return [_event(line.split(), job) for line in text.splitlines() if line.strip()]


def _event(words: list[str], job: str) -> dict:
    event = {"time": OUR_DAY + round(float(words[0]) * MINUTE), "job": job, "event": words[1]}
    for word in words[2:]:
        key, _, value = word.partition("=")
        event[key] = True if not value else int(value) if key in ("nodes", "gpus_per_node") else value
    if "after" in event:
        event["after"] = OUR_DAY + round(float(event["after"]) * MINUTE)
    return event


def frame_of(events: list[dict]) -> pd.DataFrame:
    """Return events as a log set right and ordered, as `read_log` would of a file with these lines."""
    log, findings = mend(raw_frame(events))
    assert not {finding.code for finding in findings} - {"no-end", "no-cause", "duplicates", "overlapping-saves"}, (
        findings
    )
    return log


def raw_frame(events: list[dict]) -> pd.DataFrame:
    """Return events as a log, in the order that they have, whatever it is."""
    names = dict.fromkeys(["time", "job", "event", *(key for event in events for key in event)])
    columns = {name: [event.get(name) for event in events] for name in names}
    for name in {"planned", "async"} & set(names):
        columns[name] = [bool(value) for value in columns[name]]
    if "after" in names:
        columns["after"] = [NULL_TIME if value is None else value for value in columns["after"]]
    columns["event"] = pd.Categorical(columns["event"], dtype=EVENT_DTYPE)
    return make_log(columns)


def log_of(text: str) -> pd.DataFrame:
    """Return a log written by hand, of one job named `a`."""
    return frame_of(events_of(text))


def walk(events: list[dict]) -> list[Stretch]:
    """Return the stretches of one job's life, in order; those that last no time are left out."""
    walker = _Walker()
    for event in in_order(events):
        walker.hear(event)
    walker.close_run()  # a log without an end is closed at its last event
    return [stretch for stretch in walker.out if stretch.end > stretch.start]


def in_order(events: list[dict]) -> list[dict]:
    """Return the events of one job by time; those of one moment as they came, but for rule 7."""
    return _fault_last(sorted(events, key=lambda event: event["time"]))


def _fault_last(events: list[dict]) -> list[dict]:
    """Rule 7: a save that ends, or reaches storage, counts before the fault that strikes with it."""
    out: list[dict] = []
    for event in events:
        at = len(out)
        if event["event"] in ("checkpoint_end", "checkpoint_durable"):
            for here in reversed(range(len(out))):
                if out[here]["time"] < event["time"] or out[here]["event"] == "running":
                    break
                at = here if out[here]["event"] == "interrupt" else at
        out.insert(at, event)
    return out


class _Walker:
    """What a job is doing, what it holds, and the stretches so far."""

    def __init__(self):
        self.out: list[Stretch] = []
        self.doing, self.since, self.cause = "nothing", 0, None
        self.nodes = self.gpus_per_node = 0
        self.run: list[tuple[dict, int]] = []  # events of the training that goes on, with the GPUs held after each
        self.since_fault = self.since_detected = 0  # where in `out` the outage, and its known part, begins

    def hear(self, event: dict) -> None:
        """Take one event: time up to it is placed, and what the job does from now on is known."""
        self._pass_time(event)
        kind = event["event"]
        if kind == "interrupt" and self.run:
            self.close_run(fault=event)
        if self.run and kind in ("running", "detected", "nodes_ready"):
            self.close_run(torn=True)  # what ended this run stood where the log has a hole
        self.nodes = self._now(event, "nodes")
        self.gpus_per_node = self._now(event, "gpus_per_node")
        if self.run:
            self.run.append((event, self._gpus()))
        getattr(self, f"_hear_{kind}", lambda event: None)(event)

    def _now(self, event: dict, name: str) -> int:
        return getattr(self, name) if event.get(name) is None else event[name]

    def _gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    def _pass_time(self, event: dict) -> None:
        # while it trains, what time was is known only when the run ends
        if self.doing not in ("nothing", "training"):
            self.out.append(Stretch(self.since, event["time"], self.doing, self.cause, self._gpus()))
        self.since = event["time"]

    def _hear_launch(self, event: dict) -> None:
        self.doing, self.cause = "restart", "first_start"

    def _hear_start(self, event: dict) -> None:
        self.doing, self.cause = "training", None
        self.run = [(event, self._gpus())]

    def _hear_interrupt(self, event: dict) -> None:
        self.doing, self.cause = "detection", event.get("cause")
        self.since_fault = len(self.out)

    def _hear_detected(self, event: dict) -> None:
        self.doing = "waiting"
        self.since_detected = len(self.out)

    def _hear_nodes_ready(self, event: dict) -> None:
        if self.doing == "detection":
            self._cannot_place(self.since_fault)
        self.doing = "restart"

    def _hear_running(self, event: dict) -> None:
        if self.doing == "detection":
            self._cannot_place(self.since_fault)
        if self.doing == "waiting":
            self._cannot_place(self.since_detected)
        self._hear_start(event)

    def _hear_checkpoint_start(self, event: dict) -> None:
        if not self.run:  # the `running` before it stood in a hole
            self._hear_start(event)

    _hear_checkpoint_end = _hear_checkpoint_start

    def _hear_gap(self, event: dict) -> None:
        if self.doing != "training":
            self.doing, self.cause = "unattributed", None if self.cause == "first_start" else self.cause

    def _hear_end(self, event: dict) -> None:
        self.close_run()
        self.doing = "nothing"

    def _cannot_place(self, begin: int) -> None:
        self.out[begin:] = [stretch._replace(category="unattributed") for stretch in self.out[begin:]]

    def close_run(self, fault: dict | None = None, torn: bool = False) -> None:
        """Place the time of the training that ends now: by a fault, in a hole of the log, or because the log ends."""
        run, self.run = self.run, []
        if not run:
            return
        stop = fault["time"] if fault else self.since
        holes = _holes([event["event"] for event, _ in run])
        silent = stop
        if fault and fault.get("after") is not None and not holes[-1]:
            silent = min(stop, max(fault["after"], run[-1][0]["time"]))  # any event is a sign of life
        saves = _pair([event for event, _ in run], stop)
        kept = max([start for start, _, durable in saves if durable], default=run[0][0]["time"])
        times = [*(event["time"] for event, _ in run), silent]
        for at, ((_, gpus), start, end) in enumerate(zip(run, times[:-1], times[1:], strict=True)):
            category, cause = "productive", None
            if holes[at]:
                category = "unattributed"
            elif any(opened <= start and end <= closed for opened, closed, _ in saves):
                category = "checkpoint"
            elif (fault or torn) and start >= kept:
                # a hole may have held a save: then this was not lost
                category = "unattributed" if torn or any(holes[at:]) else "lost_work"
                cause = fault and fault.get("cause")
            self.out.append(Stretch(start, end, category, cause, gpus))
        if silent < stop:
            self.out.append(Stretch(silent, stop, "unattributed", fault.get("cause"), run[-1][1]))


def _holes(names: list[str]) -> list[bool]:
    """Return whether the log has a hole behind each event of a run: from a gap to what tells again how it goes."""
    out = [False]
    for name in names[1:]:
        out.append(name == "gap" or (out[-1] and name not in ("checkpoint_start", "checkpoint_end")))
    return out


def _pair(run: list[dict], stop: int) -> list[tuple[int, int, bool]]:
    """Rules 2 and 9: return (opened, closed, durable) of each save of a run that ends at `stop`."""
    ends, saves = [], []
    for at in reversed(range(len(run))):
        if run[at]["event"] == "checkpoint_end":
            ends.append(at)
        if run[at]["event"] == "checkpoint_start":
            end = ends.pop(0) if ends else None
            # one that no end closes has failed: it lasts until the next start, or until the run is over
            until = saves[-1]["at"] if saves else None
            saves.append({"at": at, "end": end, "until": end if end is not None else until, "durable": False})
    saves.reverse()
    for save in saves:
        save["durable"] = save["end"] is not None and not run[save["at"]].get("async")
    _reach_storage(run, saves)
    times = [event["time"] for event in run]
    return [(times[s["at"]], stop if s["until"] is None else times[s["until"]], s["durable"]) for s in saves]


def _reach_storage(run: list[dict], saves: list[dict]) -> None:
    """A `checkpoint_durable` is of the oldest async save in flight: of its id, or without one of those without."""
    for at, event in enumerate(run):
        if event["event"] != "checkpoint_durable":
            continue
        for save in saves:
            start = run[save["at"]]
            in_flight = start.get("async") and not save["durable"] and save["at"] < at
            if in_flight and start.get("id") == event.get("id"):
                save["durable"] = True
                break


def totals(stretches: list[Stretch]) -> Counter:
    """Return microseconds by (category, cause, GPUs held)."""
    sums: Counter = Counter()
    for stretch in stretches:
        sums[stretch.category, stretch.cause, stretch.gpus] += stretch.end - stretch.start
    return sums


def failures(log: pd.DataFrame) -> list[list[tuple[int, str]]]:
    """Return for each run of a log its failures as (microseconds on the running clock, cause)."""
    out: list[list[tuple[int, str]]] = [[] for _ in log["job"].cat.categories]
    ran, began = 0, None
    for job, event, time, cause in zip(
        codes(log["job"]).tolist(), log["event"], micros(log["time"]).tolist(), log["cause"]
    ):
        if event == "start":
            ran, began = 0, time
        elif event == "running":
            began = time
        elif event == "interrupt":
            ran += time - began
            out[job].append((ran, cause))
    return out


class Played(NamedTuple):
    """What one run of the naive cluster came to."""

    failures: dict[str, int]  # of nodes, by cohort
    interruptions: int
    running_hours: float
    waiting_hours: float


def play_naively(scenario, rng: np.random.Generator) -> Played:
    """Return one run of a cluster in which every node carries its own exponential clock, on the job's running time.

    Only cohorts, causes, spares and repairs count here; a node's clock is drawn anew when it joins the job.
    """
    names = [name for name, size in scenario.cohort_sizes.items() for _ in range(size)]
    life = [scenario.cohorts[name].mtbf_hours for name in names]
    node_causes = [cause for cause in scenario.causes.values() if cause.scope == "node"]
    job_causes = [cause for cause in scenario.causes.values() if cause.scope == "job"]
    due = {node: rng.exponential(life[node]) for node in range(scenario.job.nodes)}
    spares, shop = list(range(scenario.job.nodes, scenario.pool_nodes)), []
    horizon, restart = scenario.days * 24, scenario.job.restart_minutes / 60
    now = ran = waited = 0.0
    counts, struck = Counter(), 0
    job_due = rng.exponential(scenario.job_failures.mtbi_hours)
    while True:
        node = min(due, key=due.get)
        at = min(due[node], job_due)
        if now + at - ran >= horizon:
            return Played(dict(counts), struck, ran + horizon - now, waited)
        now, ran, struck = now + at - ran, at, struck + 1
        if job_due < due[node]:
            cause = rng.choice(job_causes, p=[cause.share for cause in job_causes])
            job_due = ran + rng.exponential(scenario.job_failures.mtbi_hours)
        else:
            cause = rng.choice(node_causes, p=[cause.share for cause in node_causes])
            counts[names[node]] += 1
            due[node] = ran + rng.exponential(life[node])
        now += cause.detection_minutes / 60
        if cause.needs_repair:
            del due[node]
            heapq.heappush(shop, (now + rng.exponential(scenario.repair.mean_hours), node))
            while shop and (shop[0][0] <= now or not spares):
                back, mended = heapq.heappop(shop)
                waited += max(0.0, min(back, horizon) - now)
                now = max(now, back)
                heapq.heappush(spares, mended)
            joined = heapq.heappop(spares)
            due[joined] = ran + rng.exponential(life[joined])
        now += restart
        if now >= horizon:
            return Played(dict(counts), struck, ran, waited)


def only_failures(scenario):
    """Return a scenario of failures and repairs and no more: hardly any time down or saving, and always a spare."""
    changes = {"pool.spares": 2000, "job.restart_minutes": 0.001, "checkpoint.interval_minutes": 1e7}
    detection = {f"causes.{name}.detection_minutes": 0.0 for name in scenario.causes}
    return scenario.but(changes | detection, name="only-failures")


def as_events(log: pd.DataFrame, job: str) -> list[dict]:
    """Return the events of one job of a log as `walk` takes them."""
    rows = log[log["job"] == job]
    columns = (rows[name] for name in ("event", "cause", "nodes", "gpus_per_node"))
    out = []
    for micro, event, cause, nodes, gpus in zip(micros(rows["time"]).tolist(), *columns):
        sizes = {} if pd.isna(nodes) else {"nodes": int(nodes), "gpus_per_node": int(gpus)}
        out.append({"time": micro, "job": job, "event": event, "cause": None if pd.isna(cause) else cause, **sizes})
    return out
