"""What do we assume? A scenario is a value: read from TOML, checked once, never changed.

`load_scenario("baseline")` reads `data/scenarios/baseline.toml`; `scenario.but({"pool.spares": 8})` returns
another scenario. The dotted paths are the keys of the TOML file, and the same everywhere.
"""

import copy
import math
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from goodput import checkpoint
from goodput.errors import BadInput, nearest, problem_of
from goodput.outage import mean_outage
from goodput.parts import (
    RESTART_FAILED,
    Cause,
    Checkpoint,
    Cohort,
    Failures,
    Job,
    JobFailures,
    Part,
    Pool,
    Repair,
    Restart,
    expected,
)
from goodput.scenario_file import find, read_toml

# The seven of the workbench, in the order of every table.
SEVEN = (
    "baseline",
    "daly-interval",
    "async-checkpoint",
    "fast-hang-detection",
    "no-spares",
    "firmware-regression",
    "combined",
)


class Scenario(Part):
    """All that a simulation assumes. Times are in the unit that ends the name."""

    name: Annotated[str, Field(min_length=1)]
    days: Annotated[float, Field(gt=0, le=36_500)]
    job: Job
    pool: Pool
    cohorts: Annotated[dict[str, Cohort], Field(min_length=1)]
    causes: Annotated[dict[str, Cause], Field(min_length=1)]
    job_failures: JobFailures = JobFailures()
    failures: Failures = Failures()
    checkpoint: Checkpoint
    restart: Restart = Restart()
    repair: Repair

    @model_validator(mode="after")
    def _parts_fit(self):
        if self.days < 1e-6:  # a tenth of a second
            raise ValueError(f"days={self.days} must be at least 0.000001")
        if RESTART_FAILED in self.causes:
            raise ValueError(f"causes must not have {RESTART_FAILED}: that is what a restart that fails is called")
        self._check_shares("node", wanted=True)
        self._check_shares("job", wanted=self.job_failures.mtbi_hours is not None)
        self._check_cohorts()
        return self

    def _check_shares(self, scope: str, wanted: bool) -> None:
        total = sum(cause.share for cause in self.causes.values() if cause.scope == scope)
        if wanted and abs(total - 1) > 1e-9:
            raise ValueError(f"shares of causes with scope {scope} must add up to 1, not {total:.6g}")

    def _check_cohorts(self) -> None:
        rest = [name for name, cohort in self.cohorts.items() if cohort.nodes is None]
        counted = sum(cohort.nodes or 0 for cohort in self.cohorts.values())
        if len(rest) > 1:
            raise ValueError(f"cohorts must leave out nodes at most once, not in {', '.join(rest)}")
        if counted > self.pool_nodes or (not rest and counted < self.pool_nodes):
            raise ValueError(f"cohorts must hold {self.pool_nodes} nodes (job and spares), not {counted}")

    @property
    def cause_names(self) -> list[str]:
        """Names of all causes that a run can have, in order."""
        return [*self.causes, *([RESTART_FAILED] if self.restart.failure_share else [])]

    @property
    def pool_nodes(self) -> int:
        """Nodes in all: those of the job and the spares."""
        return self.job.nodes + self.pool.spares

    @cached_property
    def cohort_sizes(self) -> dict[str, int]:
        """Nodes of each cohort; node numbers run through the cohorts in this order, and the job takes the first."""
        counted = sum(cohort.nodes or 0 for cohort in self.cohorts.values())
        return {name: cohort.nodes or self.pool_nodes - counted for name, cohort in self.cohorts.items()}

    @property
    def node_failures_per_hour(self) -> float:
        """Node failures per running hour of the job, at the mean failure rate of the pool."""
        rates = (size / self.cohorts[name].mtbf_hours for name, size in self.cohort_sizes.items())
        return self.job.nodes * sum(rates) / self.pool_nodes

    @property
    def job_failures_per_hour(self) -> float:
        """Failures per running hour that are not tied to a node."""
        return 1 / self.job_failures.mtbi_hours if self.job_failures.mtbi_hours else 0.0

    @property
    def nominal_mtbi_hours(self) -> float:
        """1 / (job nodes x mean failure rate of the pool + rate of job failures), in running hours.

        >>> round(load_scenario("baseline").nominal_mtbi_hours, 2)
        14.78
        """
        return 1 / (self.node_failures_per_hour + self.job_failures_per_hour)

    @property
    def overhead_minutes(self) -> float:
        """Mean detection + restart of an interruption; waiting is left out, as if spares never ran out.

        A restart that fails adds its own time, and that until it is noticed, each time that it is tried.
        """
        per_hour = {"node": self.node_failures_per_hour, "job": self.job_failures_per_hour}
        detection = sum(per_hour[c.scope] * c.share * expected(c.detection_minutes) for c in self.causes.values())
        again = self.restart.failure_share / (1 - self.restart.failure_share)  # mean number of restarts that fail
        restart = expected(self.job.restart_minutes)
        return (
            detection * self.nominal_mtbi_hours + restart + again * (restart + self.restart.failure_detection_minutes)
        )

    @property
    def outage_minutes(self) -> float:
        """Mean time from a fault that strikes the running job to training again, waiting left out.

        Where failures strike only while the job runs it is `overhead_minutes`; else longer, see `mean_outage`, which
        is exact for fixed lengths: of those that vary it takes the means.

        >>> always = load_scenario("baseline").but({"failures.strike": "always"})
        >>> round(always.overhead_minutes, 2), round(always.outage_minutes, 2)
        (34.33, 34.78)
        """
        if self.failures.strike == "running":
            return self.overhead_minutes
        mtbi, causes = self.nominal_mtbi_hours, self.causes.values()
        rates = {"node": self.node_failures_per_hour, "job": self.job_failures_per_hour}
        detections = [expected(cause.detection_minutes) for cause in causes]
        shares = [rates[cause.scope] * mtbi * cause.share for cause in causes]
        restart = expected(self.job.restart_minutes)
        failing = self.restart.failure_share, self.restart.failure_detection_minutes
        return mean_outage(60 * mtbi, restart, detections, shares, *failing)

    @property
    def interval_minutes(self) -> float:
        """Compute minutes between saves; `young`, `daly` and `optimal` are resolved at the nominal MTBI."""
        asked = self.checkpoint.interval_minutes
        if not isinstance(asked, str):
            return asked
        formula = getattr(checkpoint, f"{asked}_interval")
        return formula(self.nominal_mtbi_hours * 60, self.checkpoint.blocking_minutes)

    def expected_goodput(self, interval_minutes: Any = None) -> Any:
        """Return the exact model's goodput (0 to 1) at the nominal MTBI, as if no node were ever waited for.

        At the scenario's own interval, or at others in minutes of compute: scalar in, scalar out; array in, array out.
        Planned stops are reckoned as failures. Where outages never end, goodput is 0.

        >>> round(load_scenario("baseline").expected_goodput(), 4)
        0.809
        """
        interval = self.interval_minutes if interval_minutes is None else interval_minutes
        mtbi, save, outage = self.nominal_mtbi_hours * 60, self.checkpoint.blocking_minutes, self.outage_minutes
        if not math.isfinite(outage):
            return 0.0 * interval
        return checkpoint.expected_goodput(interval, mtbi, save, outage)

    def but(self, changes: Mapping[str, Any], name: str | None = None) -> "Scenario":
        """Return another scenario with dotted paths changed, and perhaps another name.

        Raises BadInput for a path or a value that the scenario cannot have.

        >>> load_scenario("baseline").but({"pool.spares": 8}).pool.spares
        8
        """
        data = self.model_dump(exclude_none=True)
        for path, value in changes.items():
            _put(data, path, value)
        if name is not None:
            data["name"] = name
        return _validated(data, self.name)


def _put(data: dict, path: str, value: Any) -> None:
    if not isinstance(path, str):
        raise BadInput(f"scenario: {path!r} must be a dotted path, as pool.spares")
    *parents, key = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise BadInput(f"scenario: {path} must name a key: {parent} is a value and has none below it")
    data[key] = copy.deepcopy(value)


def _validated(data: dict, where: str) -> Scenario:
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise BadInput(f"{where}: {problem_of(error, _known_keys)}{_other_name(error, data)}") from None


def _other_name(error: ValidationError, data: dict) -> str:
    """Return a hint where a cause or cohort lacks a key because its own name is misspelt."""
    problem = error.errors()[0]
    if problem["type"] != "missing" or problem["loc"][0] not in ("causes", "cohorts"):
        return ""
    table, name = problem["loc"][:2]
    hint = nearest(name, [other for other in data[table] if other != name])
    return f"; {hint}" if hint.startswith("did") else ""


def _known_keys(parents: tuple) -> list[str]:
    model: Any = Scenario
    for parent in parents:
        field = model.model_fields.get(parent) if model else None
        kind = field.annotation if field else None
        # cohorts and causes are tables of parts: the next parent is the user's own name
        model = {"cohorts": Cohort, "causes": Cause}.get(parent, kind if isinstance(kind, type) else model)
    return list(model.model_fields)


def load_scenario(name: str | Path) -> Scenario:
    """Return the scenario of that name in `data/scenarios`, or of a TOML file (a name that ends in `.toml`).

    A file may start from another one with `base = "baseline"` and say only what it changes.
    Raises BadInput, naming the file, the key and what is allowed.

    >>> load_scenario("no-spares").pool.spares
    0
    """
    path = find(str(name), Path())
    return _validated(read_toml(path, f"scenario: {str(name)!r}"), str(name))


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """Return `["pool.spares=8"]` as `{"pool.spares": 8}`; a value is read as TOML, else kept as text.

    >>> parse_changes(["pool.spares=8", "checkpoint.interval_minutes=daly"])
    {'pool.spares': 8, 'checkpoint.interval_minutes': 'daly'}
    """
    changes = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not (path and equals):
            raise BadInput(f"--set: {pair!r} must be path=value, as in pool.spares=8")
        changes[path.strip()] = parse_value(text)
    return changes


def parse_value(text: str) -> Any:
    """Return a value as TOML reads it (`8`, `1.5`, `true`), else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or none that can be read
        return text.strip()
