"""What is a scenario made of? Its parts, each checked once: what is unknown, of a wrong type or impossible is refused.

A duration is a number, or a distribution of one: `{ distribution = "lognormal", median = 3, sigma = 0.8 }`.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from goodput.errors import problem_of

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
FORMULAS = ("young", "daly", "optimal")
RESTART_FAILED = "restart_failed"  # the cause of the interruptions that restarts which fail are


class Part(BaseModel):
    """A frozen part of a scenario: unknown keys, wrong types, NaN and infinity are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Distribution(Part):
    """How long something takes, where that varies: exponential, lognormal, or one of the durations once seen."""

    distribution: Literal["exponential", "lognormal", "empirical"]
    mean: Positive | None = None
    median: Positive | None = None
    sigma: Annotated[float, Field(ge=0, le=10)] | None = None  # standard deviation of the logarithm
    values: Annotated[list[NotNegative], Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self):
        needs = {"exponential": {"mean"}, "lognormal": {"median", "sigma"}, "empirical": {"values"}}[self.distribution]
        given = {name for name in ("mean", "median", "sigma", "values") if getattr(self, name) is not None}
        if needs != given:
            raise ValueError(f"distribution={self.distribution} must have {' and '.join(sorted(needs))}, and no more")
        return self

    @property
    def expected(self) -> float:
        """The mean duration, in the unit of its key.

        >>> round(Distribution(distribution="lognormal", median=3.0, sigma=0.8).expected, 2)
        4.13
        """
        if self.distribution == "exponential":
            return self.mean
        return self.median * math.exp(self.sigma**2 / 2) if self.median else sum(self.values) / len(self.values)

    def at(self, chance: np.ndarray) -> np.ndarray:
        """Return the durations below which these shares (0 to 1, 1 left out) of all durations lie.

        >>> Distribution(distribution="empirical", values=[4.0, 2.0, 9.0]).at(np.array([0.0, 0.5, 0.9])).tolist()
        [2.0, 4.0, 9.0]
        """
        if self.distribution == "exponential":
            return -self.mean * np.log1p(-chance)
        if self.distribution == "lognormal":
            from scipy.special import ndtri

            return self.median * np.exp(self.sigma * ndtri(chance))
        return np.sort(self.values)[(chance * len(self.values)).astype(int)]


def expected(duration: float | Distribution) -> float:
    """Return the mean of a duration of a scenario, a number or a distribution.

    >>> expected(3), expected(Distribution(distribution="empirical", values=[1.0, 4.0]))
    (3, 2.5)
    """
    return duration.expected if isinstance(duration, Distribution) else duration


def _duration(value: Any, least: str) -> float | Distribution:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, Mapping):
        try:
            return Distribution.model_validate(value)
        except ValidationError as error:
            problem = problem_of(error, lambda parents: Distribution.model_fields)
            raise ValueError(f"a distribution must be right: {problem}") from None
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    if not number or (value == 0 and least == "above 0"):
        raise ValueError(f"a number {least}, or a distribution")
    return float(value)


LongDuration = Annotated[Any, PlainValidator(lambda value: _duration(value, "above 0"))]
Duration = Annotated[Any, PlainValidator(lambda value: _duration(value, "of 0 or more"))]


class Job(Part):
    """The training job: its size, and the minutes from healthy nodes to training again."""

    nodes: Count
    gpus_per_node: Count
    restart_minutes: LongDuration
    name: str | None = None


class Pool(Part):
    """Healthy nodes held beside the job at the start."""

    spares: Annotated[int, Field(ge=0, le=10_000_000)]


class Cohort(Part):
    """Nodes that share a failure behaviour; without `nodes` it is all the rest of the pool."""

    mtbf_hours: Positive
    nodes: Count | None = None


class Cause(Part):
    """A reason of stops: its share of the stops of its scope, and what it takes to notice and mend."""

    scope: Literal["node", "job"]
    share: Share
    detection_minutes: Duration
    needs_repair: bool = False
    planned: bool = False  # somebody's choice: the job saves first, and nothing has to be noticed

    @model_validator(mode="after")
    def _makes_sense(self):
        if self.scope == "job" and self.needs_repair:
            raise ValueError("needs_repair must be false where scope is job: no node is to blame")
        if self.planned and self.detection_minutes != 0:
            raise ValueError("detection_minutes must be 0 where planned is true: nobody has to notice")
        return self


class JobFailures(Part):
    """Stops that are not tied to a node; without `mtbi_hours` there are none."""

    mtbi_hours: Positive | None = None


class Failures(Part):
    """When causes strike: only while the job runs, or always, also while it is down."""

    strike: Literal["running", "always"] = "running"


class Restart(Part):
    """Restarts that fail at their end, and are noticed so many minutes later: then the job restarts again."""

    failure_share: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    failure_detection_minutes: NotNegative = 0.0


def _interval(value: Any) -> float | str:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    if not number and value not in FORMULAS:
        raise ValueError(f"a number above 0, or one of {', '.join(FORMULAS)}")
    return value


class Checkpoint(Part):
    """Saves: compute time between two of them, and the time training stands still for one."""

    interval_minutes: Annotated[Any, PlainValidator(_interval)]  # a number, or the name of a formula
    blocking_minutes: Positive


class Repair(Part):
    """Repair of one node by one crew: exponential with this mean, or as a distribution says.

    Without `crews` there are always enough.
    """

    mean_hours: LongDuration
    crews: Count | None = None
