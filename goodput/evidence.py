"""What in a log bears on a scenario? Jobs of one size, the stops that nobody chose, and how long they could strike.

What somebody chose (a time limit, a cancel, a preemption) tells nothing of failures: its time is cut out, the time
before it counts. From the event log alone.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import FIRST_START, spans
from goodput.cohorts import by_cohort
from goodput.episodes import DOWN, RESTARTING, RUNNING, stops
from goodput.errors import BadInput
from goodput.events import CHOSEN, Finding
from goodput.metrics import hours

RESTART_FAILED = "restart_failed"
WORTH_SAYING = 0.01  # share of the time
LEFT_OUT = frozenset(CHOSEN) - {"planned"}
_FAILED_STARTS = re.compile(r"job (?P<job>.*): (?P<failed>\d+) of (?P<starts>\d+) starts loaded no checkpoint")


class Evidence(NamedTuple):
    """What calibration reads of a log. Hours are of the jobs taken."""

    log: pd.DataFrame  # rows of the jobs taken, and of nodes without a job
    spans: pd.DataFrame  # without time that was chosen, and without the first start
    jobs: list[str]
    nodes: int
    gpus_per_node: int
    faults: pd.DataFrame  # rows of `stops` that a failure cause is behind
    planned: pd.DataFrame
    failed_restarts: pd.DataFrame
    all_stops: pd.DataFrame
    always: bool  # failures struck a job that was down
    held_hours: float
    running_hours: float  # with half of the silence before stops
    silent_hours: float  # before stops: when they struck is not known
    hidden_restarts: tuple[int, int]  # failed starts, and all starts, that only the importer saw
    notes: list[str]

    @property
    def exposure_hours(self) -> float:
        """Hours in which a failure could strike: work that was lost to somebody's choice could have failed as well."""
        down = float(hours(self.spans)[~self.spans["running"]].sum()) - self.silent_hours
        return self.running_hours + (down + self.silent_hours / 2 if self.always else 0)


def evidence(log: pd.DataFrame, findings: Sequence[Finding] = ()) -> Evidence:
    """Return what of a log bears on a scenario. Raises BadInput where no job ran for any time."""
    log = with_plain_causes(log)
    stretches = spans(log)
    if not stretches["running"].any():
        raise BadInput("log: must hold a job that trained for some time")
    (nodes, gpus), jobs, notes = _one_size(stretches)
    log = log[log["job"].isin(jobs) | log["job"].isna()]
    log = log.assign(job=log["job"].cat.set_categories(jobs)).reset_index(drop=True)
    struck, stretches = stops(log), spans(log)
    kept, ran = kept_spans(stretches), float(hours(stretches)[stretches["running"]].sum())
    unlike = ~struck["chosen"] & ~struck["planned"]
    by_chance = struck["cause"] != RESTART_FAILED
    always = bool((unlike & by_chance & (struck["was"] == DOWN)).any())
    again = unlike & (struck["was"] == RESTARTING) & ~(by_chance & always)
    faults = unlike & by_chance & ((struck["was"] == RUNNING) | always)
    silent = struck.loc[faults, "silent_minutes"].sum() / 60
    return Evidence(
        log,
        kept,
        jobs,
        nodes,
        gpus,
        struck[faults],
        struck[struck["planned"] & (struck["was"] == RUNNING)],
        struck[again],
        struck,
        always,
        float(hours(kept).sum()),
        ran + float(silent) / 2,
        float(silent),
        _hidden_restarts(findings, jobs),
        [*notes, *_said(struck, silent, always), *_not_in_a_scenario(kept, silent)],
    )


def with_plain_causes(log: pd.DataFrame) -> pd.DataFrame:
    """Return a log whose causes can be keys of a scenario: letters, digits, `_` and `-`."""
    plain = [re.sub(r"[^A-Za-z0-9_-]+", "_", str(name)) or "_" for name in log["cause"].array.categories]
    if plain == list(log["cause"].array.categories):
        return log
    names, code = np.unique(plain, return_inverse=True)
    taken = np.append(code, -1)[log["cause"].array.codes]
    return log.assign(cause=pd.Categorical.from_codes(taken, pd.Index(names, dtype="str")))


def kept_spans(stretches: pd.DataFrame) -> pd.DataFrame:
    """Return spans without the first start and without what somebody chose: a scenario has neither."""
    return stretches[~stretches["cause"].isin([FIRST_START, *LEFT_OUT])]


def _one_size(stretches: pd.DataFrame) -> tuple[tuple[int, int], list[str], list[str]]:
    """Return the size with the most GPU-hours, the jobs that mostly had it, and a note on the others."""
    size = stretches.assign(hours=hours(stretches)).groupby(["job", "nodes", "gpus_per_node"], observed=True)
    held = size[["hours", "gpu_hours"]].sum().reset_index().sort_values("hours", kind="stable")
    most = held.groupby("job", observed=True).last().reset_index()
    weight = most.groupby(["nodes", "gpus_per_node"])["gpu_hours"].sum()
    nodes, gpus = weight.idxmax()
    mine = (most["nodes"] == nodes) & (most["gpus_per_node"] == gpus)
    others = sorted(most.loc[~mine, "job"].astype(str))
    notes = [f"{_many(len(others), 'job')} of another size left out: {', '.join(others[:3])}"] if others else []
    return (int(nodes), int(gpus)), sorted(most.loc[mine, "job"].astype(str)), notes


def _hidden_restarts(findings: Sequence[Finding], jobs: list[str]) -> tuple[int, int]:
    found = [_FAILED_STARTS.search(each.message) for each in findings if each.code == "failed-restarts"]
    pairs = [(int(each["failed"]), int(each["starts"])) for each in found if each and each["job"] in jobs]
    return sum(failed for failed, _ in pairs), sum(starts for _, starts in pairs)


def _said(struck: pd.DataFrame, silent_hours: float, always: bool) -> list[str]:
    chosen = struck.loc[struck["chosen"], "cause"].astype(str).value_counts()
    notes = [f"{cause}: {_many(count, 'stop')} left out: somebody chose that" for cause, count in chosen.items()]
    if silent_hours:
        notes.append(
            f"when faults struck is not known in {silent_hours:.3g} h of silence: taken in the middle, so half of it "
            "counts as running and half as detection"
        )
    if always:
        notes.append("faults struck a job that was down: strike is always, and rates are over all time held")
    return notes


def _not_in_a_scenario(kept: pd.DataFrame, silent_hours: float) -> list[str]:
    """Say how much of the time nobody can place, where that is not the silence before faults."""
    took = hours(kept).groupby(kept["category"], observed=False).sum()
    share = max(0.0, took["unattributed"] - silent_hours) / took.sum()
    if share < WORTH_SAYING:
        return []
    return [f"{100 * share:.0f} % of the time is unattributed beside that: the scenario has none of it"]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def cohort_hours(found: Evidence, cohorts: Mapping[str, str], faults: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cohort: `cohort`, `node_hours` in which it could fail, `failures` that named a node of it.

    `cohorts` maps a node, or a folded name of several, to a label. Raises BadInput where the log names no nodes.
    """
    named = faults[["job", "time", "cause", "node", "planned"]]
    table = by_cohort(found.log, spans(found.log), named, folded(cohorts), 0.9)
    ran = found.running_hours - found.silent_hours / 2
    return table.assign(node_hours=table["node_hours"] * found.exposure_hours / ran)


def folded(cohorts: Mapping[str, str]) -> dict[str, str]:
    """Return labels with all their nodes from nodes with their label.

    >>> folded({"node1": "old", "node[2-9]": "new", "node10": "old"})
    {'old': 'node1,node10', 'new': 'node[2-9]'}
    """
    out: dict[str, list[str]] = {}
    for node, label in cohorts.items():
        out.setdefault(re.sub(r"[^A-Za-z0-9_-]+", "_", str(label)), []).append(str(node))
    return {label: ",".join(nodes) for label, nodes in out.items()}


def first_nodes(log: pd.DataFrame) -> str | None:
    """Return the folded names of the nodes that a job of the log started with, or None where none says."""
    named = log.loc[log["event"].eq("start") & log["node_names"].notna(), "node_names"]
    return None if named.empty else str(named.iloc[0])
