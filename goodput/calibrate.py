"""Which scenario fits this log? Each value of it read off the events, with its interval, or assumed, with the reason.

A log is turned into rates per node-hour and hour, times of noticing, restarting, saving and repair, and a pool; what
it cannot tell is the baseline's. `fit_toml` writes the result as a scenario file.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from goodput.cohorts import OTHER
from goodput.errors import BadInput, nearest
from goodput.events import Finding
from goodput.evidence import WORTH_SAYING, Evidence, cohort_hours, evidence, first_nodes, folded
from goodput.fitted import Fitted, counted, pooled, rate, six
from goodput.fitted_pool import crews_of, repair_of, spares_of
from goodput.fitted_stops import CauseFits, causes_of, restart_rows, saves_of
from goodput.published import figure, published
from goodput.scenario import Scenario, load_scenario
from goodput.shelf import Shelf, shelf

PSEUDO_EVENTS = 3.0  # what a published rate counts as
NEVER_HOURS = 1e8  # node MTBF of a scenario whose nodes do not fail by themselves
PRIORS = ("rsc-1", "rsc-2", "llama3")


class Fit(NamedTuple):
    """A scenario read off a log, value by value."""

    rows: list[Fitted]
    scenario: Scenario
    causes: pd.DataFrame  # one row a cause: `cause`, `scope`, `count`, `exposure_hours`, `hours`, `low`, `high` (90 %)
    notes: list[str]  # what was left out, and what was taken for what

    def row(self, path: str) -> Fitted:
        """Return the row of a dotted path. Raises BadInput where there is none."""
        for row in self.rows:
            if row.path == path:
                return row
        raise BadInput(f"fit: {path} must be a value of it; {nearest(path, [row.path for row in self.rows])}")

    def table(self) -> pd.DataFrame:
        """Return one row a value: `path`, `value`, `low`, `high` (90 % interval), `events`, `how`, `note`."""
        return pd.DataFrame(self.rows)[["path", "value", "low", "high", "events", "how", "note"]]


def calibrate(
    log: pd.DataFrame,
    cohorts: Mapping[str, str] | None = None,
    spares: int | None = None,
    crews: int | None = None,
    prior: str | None = None,
    name: str = "mine",
    findings: Sequence[Finding] = (),
    pseudo_events: float = PSEUDO_EVENTS,
) -> Fit:
    """Return the scenario that fits an ordered log, with each value's 90 % interval and how it was found.

    `cohorts` maps nodes, or folded names of several, to labels. `spares` and `crews` are taken as given. `prior` pools
    node failure rates with a published one (`rsc-1`, `rsc-2`, `llama3`), which counts as `pseudo_events` events.
    `findings` are those of the importer: some formats tell of failed restarts only there. Raises BadInput for a log
    without training, and for what the scenario cannot have.

    >>> from goodput.simulate import simulate
    >>> fit = calibrate(simulate(load_scenario("baseline"), 1))
    >>> fit.row("job.restart_minutes")[1:6]
    (20.0, 20.0, 20.0, 47, 'fitted')
    """
    found, base = evidence(log, findings), load_scenario("baseline")
    told = shelf(found.log, found.all_stops)
    pool = spares_of(told, spares, base), crews_of(told, crews, base)
    stops = causes_of(found, base)
    nodes = _cohorts(found, stops, cohorts, pool[0].value, prior, pseudo_events)
    rows = [
        *_size(found),
        pool[0],
        *nodes,
        *stops.rows,
        counted("failures.strike", "always" if found.always else "running", "while the job is down" * found.always),
        *saves_of(found, base),
        *restart_rows(found, base),
        repair_of(told, base),
        pool[1],
    ]
    notes = [*found.notes, *stops.notes, *_idle(found, told)]
    return Fit(rows, scenario_of(rows, name), stops.table, notes)


def _idle(found: Evidence, told: Shelf) -> list[str]:
    """Say how much of the time the job waited for what the log does not tell."""
    part = found.spans.loc[found.spans["category"] == "waiting", "gpu_hours"].sum() / found.spans["gpu_hours"].sum()
    if told.trips or part < WORTH_SAYING:
        return []
    return [f"{100 * part:.0f} % of the time is waiting, and no event of a node tells what for: spares are assumed"]


def scenario_of(rows: Sequence[Fitted], name: str) -> Scenario:
    """Return the scenario of values by dotted path; those that are None are left out."""
    data: dict = {"name": name}
    for row in rows:
        if row.value is None:
            continue
        *parents, key = row.path.split(".")
        table = data
        for parent in parents:
            table = table.setdefault(parent, {})
        table[key] = row.value
    # a table that has no value is empty, not the baseline's
    return load_scenario("baseline").but({"job_failures": {}} | data, name)


def _size(found: Evidence) -> list[Fitted]:
    jobs, days = len(found.jobs), found.held_hours / 24 / len(found.jobs)
    mean = f"mean of {jobs} jobs" if jobs > 1 else "the length of the log"
    return [
        counted("days", six(days), mean),
        counted("job.nodes", found.nodes, "held most of the time"),
        counted("job.gpus_per_node", found.gpus_per_node, "held most of the time"),
    ]


def _cohorts(
    found: Evidence,
    stops: CauseFits,
    cohorts: Mapping[str, str] | None,
    spares: int,
    prior: str | None,
    pseudo_events: float,
) -> list[Fitted]:
    exposure, named = found.nodes * found.exposure_hours, int(stops.node_faults["node"].notna().sum())
    total = len(stops.node_faults)
    if cohorts is None:
        sizes, parts = {"default": None}, [("default", exposure, total, 1.0)]
    else:
        table = cohort_hours(found, cohorts, stops.node_faults)
        weight = total / named if named else 1.0
        sizes = _sizes(found, cohorts, list(table["cohort"]), spares)
        by = table.set_index("cohort")
        parts = [
            (label, by["node_hours"].get(label, 0.0), int(by["failures"].get(label, 0)), weight) for label in sizes
        ]
    rows = []
    for label, hours, count, weight in parts:
        rows += _cohort(label, sizes[label], hours, count, weight, bool(len(found.faults)) and not total)
    if prior is None:
        return rows
    hours, source = _published(prior)
    return [pooled(row, hours, source, pseudo_events) if row.path.endswith("mtbf_hours") else row for row in rows]


def _cohort(label: str, nodes: int | None, hours: float, count: int, weight: float, nameless: bool) -> list[Fitted]:
    row = rate(f"cohorts.{label}.mtbf_hours", hours, count, f"{count} failures in {hours:,.0f} node-hours", weight)
    if nameless:
        said = "no failure names a node: all are job_failures, so nodes as good as never fail; else at least "
        row = row._replace(value=NEVER_HOURS, note=f"{said}{row.low:,.3g} h", shape=math.nan)
    return [row] if nodes is None else [counted(f"cohorts.{label}.nodes", nodes, "with its spares"), row]


def _sizes(found: Evidence, cohorts: Mapping[str, str], labels: list[str], spares: int) -> dict[str, int | None]:
    """Return how many nodes each cohort has in the job and on the shelf; the one with most spares comes last, as the
    job takes the first nodes of the pool."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    sets = {label: NodeSet(names, resolver=RESOLVER_NOGROUP) for label, names in folded(cohorts).items()}
    begun = NodeSet(first_nodes(found.log) or "", resolver=RESOLVER_NOGROUP)
    inside = {label: len(names & begun) for label, names in sets.items()}
    outside = {label: len(names - begun) for label, names in sets.items()}
    if OTHER in labels or sum(inside.values()) < found.nodes:
        inside[OTHER], outside[OTHER] = found.nodes - sum(inside.values()), 0
    beyond = sum(outside.values())
    # the file may name a whole cluster: what is not in the job is spread over the spares in proportion
    weight = outside if beyond else inside
    order = sorted(weight, key=lambda label: (outside[label], label))
    taken, sizes, run = 0, {}, 0
    for label in order:
        run += weight[label]
        upto = round(spares * run / max(1, sum(weight.values())))
        sizes[label], taken = inside[label] + upto - taken, upto
    some = {label: nodes for label, nodes in sizes.items() if nodes > 0}
    # one cohort is all the rest, so that more spares may be asked for: the one that spares are of
    return some | {list(some)[-1]: None}


def _published(prior: str) -> tuple[float, str]:
    """Return a published node MTBF in hours, and where it stands."""
    if prior not in PRIORS:
        raise BadInput(f"--prior={prior} must be a known rate; {nearest(prior, PRIORS)}")
    if prior == "llama3":
        table = published("llama3_interruptions")
        hardware = table[(table["quantity"] == "interruptions") & table["group"].isin(["GPU", "Host"])]
        # 16,384 GPUs in servers of eight, 54 days of the calendar
        return 2048 * 54 * 24 / float(hardware["value"].sum()), "Llama 3 (arXiv 2407.21783, Table 5, GPUs and hosts)"
    which = prior.replace("-", "")
    per_1000_node_days = figure(published("meta_rsc", second_hand=True), f"r_f_{which}")
    said = ", second hand" if which == "rsc2" else ""
    return 24_000 / per_1000_node_days, f"Meta {prior.upper()} (arXiv 2410.21680, Sec. III{said})"
