"""Which kind of node fails? Node MTBF by cohort, from the time each cohort's nodes were in the running job."""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from goodput.attribution import US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import codes, micros
from goodput.line import how_many
from goodput.metrics import CONFIDENCE, hours, is_failure, mean_time

MOST_NODES = 2_000_000
OTHER = "other"  # nodes that no cohort names


def by_cohort(
    log: pd.DataFrame,
    spans: pd.DataFrame,
    interruptions: pd.DataFrame,
    cohorts: Mapping[str, str],
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """Return one row a cohort: `cohort`, `node_hours`, `failures`, `mtbf_hours`, `low`, `high`, `gpu_hours`.

    `cohorts` maps a label to folded node names, `{"batch_b": "node[0100-0131]"}`; nodes under no label are `other`.
    `node_hours` is exact: the cohort's nodes in the job (`node_names`, `joined`, `left` of the log), times the hours
    it ran. `gpu_hours` is what its failures cost. Raises BadInput for a job whose start names no nodes, and for
    cohorts that share a node or cannot be read.
    """
    sets = _sets(cohorts)
    blamed = _blamed(interruptions, sets)
    charged = _members(spans["node"], sets)[codes(spans["node"])] * spans["node"].notna().to_numpy()[:, None]
    gpu_hours = (np.minimum(charged, 1) * spans["gpu_hours"].to_numpy()[:, None]).sum(axis=0)
    rows = []
    table = zip([*sets, OTHER], _node_hours(log, spans, sets), blamed.sum(axis=0), gpu_hours, strict=True)
    for label, exposure, failures, cost in table:
        rate = mean_time(float(exposure), int(failures), confidence)
        rows.append((label, rate.exposure_hours, rate.count, rate.hours, rate.low, rate.high, cost))
    names = ["cohort", "node_hours", "failures", "mtbf_hours", "low", "high", "gpu_hours"]
    out = pd.DataFrame(rows, columns=names)
    return out[(out["node_hours"] > 0) | (out["failures"] > 0)].reset_index(drop=True)


def cohorts_by_day(
    log: pd.DataFrame,
    spans: pd.DataFrame,
    interruptions: pd.DataFrame,
    cohorts: Mapping[str, str],
    every_hours: float = 24,
) -> pd.DataFrame:
    """Return what was known at the end of each day: one row a job, day and cohort, all counted since the job began.

    Columns: `job`, `days`, `cohort`, `node_hours`, `failures`, counted as `by_cohort` does. A job's last day is its
    last whole one. Nothing after a day has a part in its row, so the rows are what a reader of that day could have had.
    """
    sets, width = _sets(cohorts), max(1, round(every_hours * US_PER_HOUR))
    lives = pd.DataFrame({"job": spans["job"], "start": micros(spans["start"]), "end": micros(spans["end"])})
    lives = lives.groupby("job", observed=False).agg({"start": "min", "end": "max"})
    begin, looks = lives["start"].to_numpy(), ((lives["end"] - lives["start"]) // width).to_numpy()
    code, day = np.indices((len(lives), looks.max() + 1)).reshape(2, -1)
    times = pd.DatetimeIndex((begin[code] + day * width).view("datetime64[us]")).tz_localize("UTC")
    asked = pd.DataFrame({"job": pd.Categorical.from_codes(code, dtype=spans["job"].dtype), "time": times})
    node_hours = _stays(log, spans, sets, asked).reshape(len(asked), -1)
    failures = _failures_by(interruptions, sets, begin, width, int(looks.max())).reshape(len(asked), -1)
    told = np.flatnonzero((day > 0) & (day <= looks[code]))
    names = [*sets, OTHER]
    out = asked.loc[np.repeat(told, len(names)), ["job"]].reset_index(drop=True)
    out["days"] = np.repeat(day[told] * width / (24 * US_PER_HOUR), len(names))
    out["cohort"] = pd.Categorical(np.tile(np.array(names, object), len(told)), names)
    return out.assign(node_hours=node_hours[told].ravel(), failures=failures[told].ravel())


def _failures_by(interruptions: pd.DataFrame, sets: Mapping, begin: np.ndarray, width: int, looks: int) -> np.ndarray:
    """Return the failures of each cohort until each look of each job."""
    job = codes(interruptions["job"])
    after = -((begin[job] - micros(interruptions["time"])) // width)  # rounded up: the first look that sees it
    counts = np.zeros((len(begin), looks + 2, len(sets) + 1), "int64")
    np.add.at(counts, (job, np.minimum(after, looks + 1)), _blamed(interruptions, sets))
    return counts.cumsum(axis=1)[:, :-1]


def failures_by_node(
    log: pd.DataFrame, spans: pd.DataFrame, interruptions: pd.DataFrame, cohorts: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row a node that was ever in a running job: `node`, `cohort`, `node_hours`, `failures`; by name.

    Nodes without a failure have a row too, which is what chance is reckoned from (`repeat_offenders`).
    """
    from ClusterShell.NodeSet import NodeSet

    seen = [_nodes(name) for column in ("node_names", "joined") for name in log[column].array.categories]
    names = sorted(NodeSet.fromlist(seen))
    table = by_cohort(log, spans, interruptions, {name: name for name in names})
    table = table[table["cohort"] != OTHER].rename(columns={"cohort": "node"})
    sets = _sets(cohorts)
    which = _members(table["node"].astype("category"), sets)[:-1].argmax(axis=1)
    table["cohort"] = np.array([*sets, OTHER], object)[which]
    return table[["node", "cohort", "node_hours", "failures"]].reset_index(drop=True)


def _sets(cohorts: Mapping[str, str]) -> dict:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        sets = {label: NodeSet(names, resolver=RESOLVER_NOGROUP) for label, names in cohorts.items()}
    except NodeSetException as error:
        raise BadInput(f"cohorts: names must be folded node names, as node[0100-0131]: {error}") from None
    if OTHER in sets:
        raise BadInput(f"cohorts: no label must be {OTHER}, which is what no label names")
    if len(NodeSet.fromlist(list(sets.values()))) < sum(map(len, sets.values())):
        raise BadInput("cohorts: each node must be under one label only")
    return sets


def _nodes(name: str):
    """Return the nodes of a folded name of a log; one that cannot be unfolded is a name as it stands."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    if how_many(name) > MOST_NODES:
        raise BadInput(f"cohorts: {name[:60]!r} must name at most {MOST_NODES:,} nodes")
    try:
        return NodeSet(name, resolver=RESOLVER_NOGROUP)
    except NodeSetException:
        return NodeSet(re.sub(r"[^\w.-]", "_", name), resolver=RESOLVER_NOGROUP)


def _members(column: pd.Series, sets: Mapping) -> np.ndarray:
    """Return for each category of a column of folded names how many of each cohort it names, `other` last."""
    names = [_nodes(name) for name in column.array.categories]
    counts = np.array([[len(name & each) for each in sets.values()] for name in names], "int64")
    counts = counts.reshape(len(names), len(sets))
    totals = np.array([len(name) for name in names], "int64")
    # one more row, of zeros: where code -1 (no name) leads
    return np.vstack([np.column_stack([counts, totals - counts.sum(axis=1)]), np.zeros((1, len(sets) + 1), "int64")])


def _blamed(interruptions: pd.DataFrame, sets: Mapping) -> np.ndarray:
    """Return for each interruption which cohorts a failure of it is counted for."""
    blamed = _members(interruptions["node"], sets)[codes(interruptions["node"])] > 0
    return blamed & (is_failure(interruptions) & interruptions["node"].notna()).to_numpy()[:, None]


def _node_hours(log: pd.DataFrame, spans: pd.DataFrame, sets: Mapping) -> np.ndarray:
    """Return the node-hours of each cohort in running jobs, `other` last."""
    ends = spans.groupby("job", observed=True)["end"].max().rename("time").reset_index()
    return _stays(log, spans, sets, ends).sum(axis=0)


def _stays(log: pd.DataFrame, spans: pd.DataFrame, sets: Mapping, asked: pd.DataFrame) -> np.ndarray:
    """Return the node-hours of each cohort, `other` last, until each moment that is asked for: (job, time)."""
    changes = log[log[["node_names", "joined", "left"]].notna().any(axis=1) & log["job"].notna()]
    unnamed = set(spans["job"].unique()) - set(changes.loc[changes["node_names"].notna(), "job"])
    if unnamed:
        raise BadInput(f"cohorts: start of job {min(unnamed)} must give node_names, so that exposure is known")
    come = sum(_members(changes[name], sets)[codes(changes[name])] for name in ("node_names", "joined"))
    change = come - _members(changes["left"], sets)[codes(changes["left"])]
    rows = pd.concat([changes[["job", "time"]], asked[["job", "time"]]], ignore_index=True)
    order = np.lexsort((micros(rows["time"]), codes(rows["job"])))
    rows, job = rows.take(order), codes(rows["job"])[order]
    change = np.vstack([change, np.zeros((len(asked), change.shape[1]), "int64")])[order]
    held = pd.DataFrame(change).groupby(job).cumsum().to_numpy()
    since = _running_before(spans, rows)
    # until a row, those were in the job who were there after the row before it
    stay = np.diff(since, prepend=0)[:, None] * np.vstack([np.zeros_like(held[:1]), held[:-1]])
    stay[np.diff(job, prepend=-1) != 0] = 0
    before = pd.DataFrame(stay).groupby(job).cumsum().to_numpy()
    return before[np.argsort(order)[len(changes) :]]


def _running_before(spans: pd.DataFrame, asked: pd.DataFrame) -> np.ndarray:
    """Return the hours that a job had run until each moment: those of whole spans, and of the one it lies in."""
    ran = hours(spans).where(spans["running"], 0.0)
    before = ran.groupby(spans["job"], observed=False).cumsum() - ran
    clock = pd.DataFrame({"job": spans["job"], "time": spans["start"], "since": spans["start"], "ran": ran})
    clock = clock.assign(before=before).sort_values("time", kind="stable")
    rows = asked[["job", "time"]].assign(row=np.arange(len(asked))).sort_values("time", kind="stable")
    found = pd.merge_asof(rows, clock, on="time", by="job").sort_values("row")
    inside = (found["time"] - found["since"]) / pd.Timedelta(hours=1)
    return (found["before"] + np.minimum(inside, found["ran"])).fillna(0.0).to_numpy()
