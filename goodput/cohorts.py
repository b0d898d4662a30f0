"""Which kind of node fails? Node MTBF by cohort, from the time each cohort's nodes were in the running job."""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from goodput.errors import BadInput
from goodput.events import codes
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
    blamed = _members(interruptions["node"], sets)[codes(interruptions["node"])] > 0
    blamed &= is_failure(interruptions).to_numpy()[:, None] & interruptions["node"].notna().to_numpy()[:, None]
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


def _node_hours(log: pd.DataFrame, spans: pd.DataFrame, sets: Mapping) -> np.ndarray:
    """Return the node-hours of each cohort in running jobs, `other` last."""
    changes = log[log[["node_names", "joined", "left"]].notna().any(axis=1) & log["job"].notna()]
    unnamed = set(spans["job"].unique()) - set(changes.loc[changes["node_names"].notna(), "job"])
    if unnamed:
        raise BadInput(f"cohorts: start of job {min(unnamed)} must give node_names, so that exposure is known")
    come = sum(_members(changes[name], sets)[codes(changes[name])] for name in ("node_names", "joined"))
    change = pd.DataFrame(come - _members(changes["left"], sets)[codes(changes["left"])])
    held = change.groupby(codes(changes["job"])).cumsum().to_numpy()
    since = _running_before(spans, changes)
    total = _running_in_all(spans)[codes(changes["job"])]
    last = np.append(np.diff(codes(changes["job"])) != 0, True)
    until = np.where(last, total, np.append(since[1:], 0))
    return ((until - since)[:, None] * held).sum(axis=0)


def _running(spans: pd.DataFrame) -> pd.Series:
    return hours(spans).where(spans["running"], 0.0)


def _running_in_all(spans: pd.DataFrame) -> np.ndarray:
    return _running(spans).groupby(spans["job"], observed=False).sum().to_numpy()


def _running_before(spans: pd.DataFrame, changes: pd.DataFrame) -> np.ndarray:
    """Return the hours that each change's job had run until then."""
    ran = _running(spans).groupby(spans["job"], observed=False).cumsum()
    clock = pd.DataFrame({"job": spans["job"], "time": spans["end"], "ran": ran}).sort_values("time", kind="stable")
    asked = changes[["job", "time"]].assign(row=np.arange(len(changes))).sort_values("time", kind="stable")
    found = pd.merge_asof(asked, clock, on="time", by="job").sort_values("row")
    return found["ran"].fillna(0.0).to_numpy()
