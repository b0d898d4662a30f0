"""Why did it stop? Kernel messages and health checks become incidents; incidents give interruptions cause and node.

Read are lines of `dmesg` (seconds since boot, `-T`, or ISO), of syslog and journalctl, also of many hosts in one file,
and health checks as JSON, one a line: `ts`, `node`, `check`, `fatal`, `msg`, or NVSentinel's names of them.

An *alarm* is one line, an *incident* is what is broken:

| kind | an incident is |
|---|---|
| `hardware` | all alarms of one node (where none is named, of one device) until it is back; it began with the first |
| `program` | an XID that mostly comes from the program (`PROGRAM_XIDS`), of one device; its repeats belong to it |
| `warning` | alarms of one node of which none is fatal |
| `standing` | a condition that was true for over a day, without an end and without effect: no incident |
"""

import re
from functools import partial

import numpy as np
import pandas as pd

from goodput.alarms import HARDWARE, KINDS, MINUTE, NO_TIME, NO_YEAR, PROGRAM, STANDING, WARNING
from goodput.errors import BadInput
from goodput.events import CHOSEN, CODE, UNKNOWN, Finding, codes, micros
from goodput.incidents import (
    Causes,
    read_causes,  # noqa: F401
    times_of,
)
from goodput.line import how_many

CLOCK_MINUTES = 2  # by how much a first sign may be stamped later than what it caused
OPEN_CAUSES = (UNKNOWN, "not_logged")
# what was seen of a fault; broken hardware explains it
SYMPTOMS = re.compile(r"collective_hang|node_lost|node_fail|pod_failed|pod_exit_\d+|program_error")
MOST_CANDIDATES = 100  # incidents looked at for one interruption
MOST_NODES = 2_000_000  # in one folded name; more are absurd


def join_causes(log: pd.DataFrame, causes: Causes, within_minutes: float = 30) -> tuple[pd.DataFrame, list[Finding]]:
    """Return a log whose interruptions have cause and node of the incident that explains them, and what was found.

    An interruption without a cause, or without a node, is explained by the nearest incident whose first sign came
    before it (or a little later: clocks) and whose last alarm is at most `within_minutes` older; where nodes are known,
    on a node that the job had then. What was silent since `after` is silent since the first sign, if that came later.
    An incident explains at most one interruption, hardware before programs. What somebody chose is left alone, and so
    is a cause that the log names, unless it is but a symptom. Incidents that explain nothing are in notes.
    """
    if not 0 <= within_minutes < 1e6:
        raise BadInput(f"within_minutes={within_minutes} must be from 0 to 1,000,000")
    table = _in_years_of(log, causes.incidents)
    table = table[table["time"].notna()].reset_index(drop=True)
    rows = _open_rows(log)
    pairs = _pairs(log, rows, table, round(within_minutes * MINUTE))
    taken = _one_to_one(pairs, rows)
    findings = [*causes.findings, *_unexplaining(table, set(taken.values()), causes.file)]
    if not taken:
        return log, findings
    at, which = np.array(list(taken)), np.array(list(taken.values()))
    findings += _explained(log, table, at, which, causes.file)
    return _with_causes(log, table.iloc[which], at), findings


def _in_years_of(log: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return incidents of a file without a year in the year of the log, as near to its middle as may be."""
    if not len(table) or table["has_year"].all() or not len(log):
        return table
    middle = log["time"].min() + (log["time"].max() - log["time"].min()) / 2
    choices = [table["time"] + pd.DateOffset(years=middle.year + shift - NO_YEAR) for shift in (-1, 0, 1)]
    far = np.column_stack([np.abs((choice - middle).dt.total_seconds()) for choice in choices])
    best = np.where(np.isnan(far), np.inf, far).argmin(axis=1)
    shift = np.choose(best, [micros(choice.dt.as_unit("us")) for choice in choices]) - micros(table["time"])
    known = table["time"].notna().to_numpy()
    columns = {name: (table[name].notna() & known).to_numpy() for name in ("time", "last", "until")}
    moved = {name: np.where(has, micros(table[name]) + shift, NO_TIME) for name, has in columns.items()}
    return table.assign(**{name: times_of(times) for name, times in moved.items()})


def _open_rows(log: pd.DataFrame) -> np.ndarray:
    """Return the rows of interruptions that may be explained: by chance, with no cause or no node."""
    cause = log["cause"]
    is_open = cause.isna() | cause.isin(OPEN_CAUSES) | _is_symptom(cause) | log["node"].isna()
    by_chance = ~(cause.isin(CHOSEN) | log["planned"])
    return np.flatnonzero((codes(log["event"]) == CODE["interrupt"]) & is_open & by_chance & log["job"].notna())


def _is_symptom(cause: pd.Series) -> pd.Series:
    return cause.isin([name for name in cause.array.categories if SYMPTOMS.fullmatch(name)])


def _pairs(log: pd.DataFrame, rows: np.ndarray, table: pd.DataFrame, within: int) -> pd.DataFrame:
    """Return each interruption with each incident that may explain it, the best first: `row`, `incident`."""
    time, after = micros(log["time"])[rows], micros(log["after"])[rows]
    alive = np.where(after == NO_TIME, time, np.minimum(after, time))
    first, last = micros(table["time"]), micros(table["last"])  # in order of the first sign
    end = np.searchsorted(first, time + CLOCK_MINUTES * MINUTE, side="right")
    begin = np.minimum(np.searchsorted(np.maximum.accumulate(last), alive - within), end)
    begin = np.maximum(begin, end - MOST_CANDIDATES)
    which = np.repeat(np.arange(len(rows)), end - begin)
    incident = np.arange(len(which)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin) + begin[which]
    pairs = pd.DataFrame({"row": rows[which], "incident": incident, "time": time[which], "alive": alive[which]})
    pairs = pairs[last[incident] >= pairs["alive"] - within].reset_index(drop=True)
    pairs = pairs[_may_explain(log, pairs, table)]
    at = pairs["incident"].to_numpy()
    # how far the incident is from the last sign of life
    pairs["far"] = np.maximum(np.maximum(first[at] - pairs["alive"], pairs["alive"] - last[at]), 0)
    pairs["kind"] = table["kind"].map(KINDS.index).to_numpy("int64")[at]
    return pairs.sort_values(["kind", "far", "incident", "row"], kind="stable")


def _one_to_one(pairs: pd.DataFrame, rows: np.ndarray) -> dict[int, int]:
    """Return for each interruption that is explained its incident; the best pairs first, each side once."""
    taken: dict[int, int] = {}
    used: set[int] = set()
    for row, incident in zip(pairs["row"].tolist(), pairs["incident"].tolist(), strict=True):
        if row not in taken and incident not in used:
            taken[row] = incident
            used.add(incident)
            if len(taken) == len(rows):
                break
    return taken


def _may_explain(log: pd.DataFrame, pairs: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """Return which pairs agree in their nodes, as far as those are known, and in what the log says of the cause."""
    row, incident = pairs["row"].to_numpy(), pairs["incident"].to_numpy()
    names = table["node"].map(_short, na_action="ignore")
    known = sorted(set(names.iloc[incident].dropna()))
    number = names.map({name: k for k, name in enumerate(known)}).fillna(-1).to_numpy("int64")[incident]
    blamed = codes(log["node"])[row]
    members, which = _members(log["node"], blamed, known)
    agrees = np.where(blamed >= 0, members[which, number], _was_in_job(log, pairs, number, known))
    # only broken hardware explains a symptom
    is_symptom = _is_symptom(log["cause"]).to_numpy()[row]
    return (agrees | (number < 0)) & (~is_symptom | (table["kind"] == HARDWARE).to_numpy()[incident])


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _members(column: pd.Series, code: np.ndarray, known: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of which of the known nodes each folded name names, and which of its rows each code means.

    The last row and the last column are false: of no name, and of no node.
    """
    used, which = np.unique(code, return_inverse=True)
    out = np.zeros((len(used) + 1, len(known) + 1), bool)
    for k, each in enumerate(used):
        if each >= 0:
            names = {_short(name) for name in _unfolded(column.array.categories[each])}
            out[k, :-1] = [name in names for name in known]
    return out, which


def _unfolded(folded: str) -> set[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    if how_many(folded) > MOST_NODES:
        return {folded}
    try:
        # no groups: their names would be looked up by commands of the machine
        return set(NodeSet(folded, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return {folded}


def _was_in_job(log: pd.DataFrame, pairs: pd.DataFrame, number: np.ndarray, known: list[str]) -> np.ndarray:
    """Return whether the node of each pair was in the job at its time; true where the job names no nodes."""
    job = codes(log["job"])
    asked = pd.DataFrame({"time": pairs["time"], "job": job[pairs["row"]], "number": number})
    changes, named = [], asked["job"].iloc[:0]
    for name in ("node_names", "joined", "left"):
        said = np.flatnonzero((codes(log[name]) >= 0) & np.isin(job, asked["job"]))
        members, which = _members(log[name], codes(log[name])[said], known)
        members = members[which, :-1]
        # the names at a start are all: the other nodes are out then
        at, node = np.nonzero(members | (name == "node_names"))
        is_in = members[at, node] & (name != "left")
        fields = {"time": micros(log["time"])[said][at], "job": job[said][at], "number": node, "in": is_in}
        changes.append(pd.DataFrame(fields))
        named = pd.concat([named, pd.Series(job[said])])
    table = pd.concat(changes).sort_values("time", kind="stable")
    order = asked.reset_index().sort_values("time", kind="stable")
    found = pd.merge_asof(order, table, on="time", by=["job", "number"]).set_index("index")["in"].reindex(asked.index)
    return (found.eq(True) | ~asked["job"].isin(named)).to_numpy()


def _with_causes(log: pd.DataFrame, incidents: pd.DataFrame, at: np.ndarray) -> pd.DataFrame:
    """Return the log with cause, node and `after` of the rows that incidents explain."""
    cause = log["cause"]
    replaced = (cause.isna() | cause.isin(OPEN_CAUSES) | _is_symptom(cause)).to_numpy()[at]
    nameless = log["node"].isna().to_numpy()[at] & incidents["node"].notna().to_numpy()
    after, time, first = micros(log["after"]).copy(), micros(log["time"])[at], micros(incidents["time"])
    later = (after[at] != NO_TIME) & (after[at] < first)
    after[at[later]] = np.minimum(first, time)[later]
    # nodes are spelt as the log spells them
    folded = {name for each in ("node_names", "joined") for name in log[each].array.categories}
    spelt = {_short(name): name for each in sorted(folded) for name in _unfolded(each)}
    nodes = incidents["node"][nameless].map(lambda name: spelt.get(_short(name), name))
    return log.assign(
        cause=_put(cause, at[replaced], incidents["cause"][replaced]),
        node=_put(log["node"], at[nameless], nodes),
        after=times_of(after),
    )


def _put(column: pd.Series, at: np.ndarray, values: pd.Series) -> pd.Categorical:
    """Return a category column with other values in some rows; categories in the order of their names."""
    before = column.array
    names = pd.Index(sorted({*before.categories, *values}), dtype="str")
    place = np.append(names.get_indexer(before.categories), -1)
    out = place[before.codes]
    out[at] = names.get_indexer(pd.Index(values, dtype="str"))
    return pd.Categorical.from_codes(out, names)


def _explained(log: pd.DataFrame, table: pd.DataFrame, at: np.ndarray, which: np.ndarray, file: str) -> list[Finding]:
    findings = []
    for row, incident in zip(log.iloc[at].itertuples(), table.iloc[which].itertuples(), strict=True):
        seconds = (row.time - incident.time).total_seconds()
        ago = f"{seconds:.0f} s before" if seconds >= 0 else f"{-seconds:.0f} s after"
        place = f"{incident.cause} on {incident.node}" if isinstance(incident.node, str) else incident.cause
        said = f"job {row.job}: interrupt ({'no cause' if pd.isna(row.cause) else row.cause}) is explained by {place}"
        where = (None, None) if pd.isna(row.file) else (str(row.file), int(row.line))
        said += f", whose first sign came {ago}, at {file}:{incident.line}"
        findings.append(Finding("note", "cause-joined", *where, said))
    return findings


def _unexplaining(table: pd.DataFrame, used: set[int], file: str) -> list[Finding]:
    """Note each broken piece of hardware that no interruption needs, and how many other incidents there are."""
    rest = table[~table.index.isin(used)]
    say = partial(Finding, "note")
    findings = []
    for each in rest[rest["kind"] == HARDWARE].itertuples():
        place = next((f" on {name}" for name in (each.node, each.device) if isinstance(name, str)), "")
        findings.append(say("cause-unused", file, int(each.line), f"{each.cause}{place} explains no interruption"))
    for kind, code in ((PROGRAM, "cause-unused"), (WARNING, "cause-unused"), (STANDING, "standing-condition")):
        some = rest[rest["kind"] == kind]
        if len(some):
            said = f"{len(some)} incidents of kind {kind} explain no interruption"
            findings.append(say(code, file, int(some["line"].min()), said))
    return findings
