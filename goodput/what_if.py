"""What if? One scenario beside another with some of its settings moved: goodput, waste and money, paired by seed.

Like a workbench with eight dials: each dial is a setting of the scenario, and what it does is read at once. Nothing
here draws or knows a widget, so the same question can be asked from a script.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from goodput.attribution import CATEGORIES
from goodput.errors import BadInput
from goodput.experiment import check_seeds, compare, experiment, wide_runs
from goodput.metrics import Mean, mean_interval
from goodput.parts import expected
from goodput.scenario import Scenario

BATCH = 5  # seeds between two looks at whether the answer is still wanted
UNLIMITED = "unlimited"
ENOUGH_CREWS = 10_000_000  # more than a scenario can have nodes


class Dial(NamedTuple):
    """A setting that can be moved: its label, its unit, and where it can stand; `path` is dotted, or `detection`."""

    path: str
    label: str
    unit: str
    stops: tuple


DIALS = (
    Dial("checkpoint.interval_minutes", "Save every", "min", (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360)),
    Dial("checkpoint.blocking_minutes", "A save takes", "min", (0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 20)),
    Dial("pool.spares", "Spares", "nodes", (*range(17), 20, 24, 32, 48, 64, 96, 128)),
    Dial("repair.crews", "Repair crews", "", (*range(1, 9), 12, 16, 24, 32, UNLIMITED)),
    Dial("detection", "Noticed in", "min", (1, 2, 3, 5, 10, 15, 20, 30, 45, 60)),
    Dial("mtbf", "Node MTBF", "h", (300, 600, 1000, 1500, 2000, 3000, 4000, 6000, 10_000, 20_000)),
    Dial("job.nodes", "Job", "nodes", (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)),
    Dial("job.restart_minutes", "Restart takes", "min", (1, 2, 5, 10, 15, 20, 30, 45, 60)),
)


def settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return where each dial stands in a scenario: numbers, `unlimited` crews, or the interval's formula.

    `detection` is the longest detection time of any cause, `mtbf` the node MTBF of the first cohort.

    >>> from goodput.scenario import load_scenario
    >>> settings_of(load_scenario("baseline"))["detection"]
    30.0
    """
    return {
        "checkpoint.interval_minutes": scenario.checkpoint.interval_minutes,
        "checkpoint.blocking_minutes": scenario.checkpoint.blocking_minutes,
        "pool.spares": scenario.pool.spares,
        "repair.crews": UNLIMITED if scenario.repair.crews in (None, ENOUGH_CREWS) else scenario.repair.crews,
        "detection": max(expected(cause.detection_minutes) for cause in scenario.causes.values()),
        "mtbf": next(iter(scenario.cohorts.values())).mtbf_hours,
        "job.nodes": scenario.job.nodes,
        "job.restart_minutes": expected(scenario.job.restart_minutes),
    }


def stops_of(dial: Dial, here: Any) -> list:
    """Return where a dial can stand, in order, with the place where it stands now.

    >>> stops_of(DIALS[7], 22)
    [1, 2, 5, 10, 15, 20, 22, 30, 45, 60]
    """
    stops = list(dial.stops) if here in dial.stops or isinstance(here, str) else [*dial.stops, here]
    return sorted(stops, key=lambda stop: (isinstance(stop, str), stop))


def changes_of(base: Scenario, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dotted paths that settings change in a scenario; dials that stand where they stood change nothing.

    A shorter detection caps the causes that take longer; a longer one moves those that took longest.

    >>> from goodput.scenario import load_scenario
    >>> changes_of(load_scenario("baseline"), {"pool.spares": 8, "job.restart_minutes": 20})
    {'pool.spares': 8}
    """
    now = settings_of(base)
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if value == now[name]:
            continue
        if name == "detection":
            changes |= _detection(base, value, now[name])
        elif name == "mtbf":
            changes[f"cohorts.{next(iter(base.cohorts))}.mtbf_hours"] = value
        else:
            changes[name] = ENOUGH_CREWS if value == UNLIMITED else value
    return changes


def _detection(base: Scenario, minutes: float, longest: float) -> dict[str, float]:
    limit = min(minutes, longest)
    takes = {name: expected(cause.detection_minutes) for name, cause in base.causes.items()}
    slow = [name for name, now in takes.items() if now > limit or (minutes > longest and now == longest)]
    return {f"causes.{name}.detection_minutes": minutes for name in slow}


class Answer(NamedTuple):
    """What moving the settings does: two scenarios, `compare` of both, and what it is in GPU-hours and money."""

    base: Scenario
    changed: Scenario
    table: pd.DataFrame  # one row for the base; another for the change, where there is one
    saved_gpu_hours: Mean  # waste of a run that the change takes away, paired by seed
    price: float  # of a GPU-hour, held by the job or as a spare

    @property
    def is_base(self) -> bool:
        """Whether nothing was changed."""
        return len(self.table) == 1

    def money(self) -> pd.DataFrame:
        """Return what a run holds and costs, a row for each scenario: GPU-hours, money, money a productive GPU-hour.

        Spares are paid for as well: without that, more of them would always look cheap.
        """
        scenarios = [self.base, self.changed][: len(self.table)]
        gpu_days = [24 * each.job.gpus_per_node * each.days for each in scenarios]
        held = pd.Series([each.job.nodes * days for each, days in zip(scenarios, gpu_days)])
        spare = pd.Series([each.pool.spares * days for each, days in zip(scenarios, gpu_days)])
        productive = held * self.table["goodput"]
        paid = (held + spare) * self.price
        return pd.DataFrame(
            {
                "held_gpu_hours": held,
                "spare_gpu_hours": spare,
                "productive_gpu_hours": productive,
                "waste_gpu_hours": held - productive,
                "paid": paid,
                "paid_for_waste": (held - productive) * self.price,
                "paid_per_productive_gpu_hour": paid / productive,
            }
        ).set_axis(self.table["scenario"].to_numpy())


class Question:
    """A scenario to hold others against; each run is played once, so that going back to a setting costs nothing."""

    def __init__(self, base: Scenario, seeds: int, price_per_gpu_hour: float = 0.0):
        if not 0 <= price_per_gpu_hour < float("inf"):
            raise BadInput(f"price_per_gpu_hour={price_per_gpu_hour} must be 0 or more, and finite")
        self.base, self.price = base, price_per_gpu_hour
        seeds = check_seeds(seeds)
        self.batches = [tuple(seeds[at : at + BATCH]) for at in range(0, len(seeds), BATCH)]
        self._played: dict[tuple, pd.DataFrame] = {}

    def play(self, changed: Scenario) -> Iterator[int]:
        """Play both scenarios batch by batch; gives the percentage that is done, so that the caller may stop."""
        wanted = [(scenario, batch) for scenario in (self.base, changed) for batch in self.batches]
        for done, (scenario, batch) in enumerate(wanted):
            yield round(100 * done / len(wanted))
            self._runs(scenario, batch)

    def _runs(self, scenario: Scenario, batch: tuple) -> pd.DataFrame:
        key = (scenario.model_dump_json(exclude={"name"}), batch)
        if key not in self._played:
            self._played[key] = experiment([scenario], batch, jobs=1)
        return self._played[key]

    def answer(self, changed: Scenario) -> Answer:
        """Return what a change does, after playing what has not been played yet."""
        names = [self.base.name] if changed == self.base else [self.base.name, _other(self.base, changed)]
        parts = [
            self._runs(scenario, batch).assign(scenario=name)
            for name, scenario in zip(names, (self.base, changed))
            for batch in self.batches
        ]
        runs = pd.concat(parts, ignore_index=True).astype({"scenario": pd.CategoricalDtype(names)})
        wide = wide_runs(runs)
        waste = wide[list(CATEGORIES[1:])].sum(axis=1).unstack("scenario")
        saved = mean_interval(waste[names[0]] - waste[names[-1]])
        return Answer(self.base, changed, compare(runs), saved, self.price)


def _other(base: Scenario, changed: Scenario) -> str:
    return changed.name if changed.name != base.name else "what if"


def ask(base: Scenario, changes: Mapping[str, Any], seeds: int, price_per_gpu_hour: float = 0.0) -> Answer:
    """Return what changes of a scenario do over `seeds` runs, in points of goodput, GPU-hours and money.

    >>> from goodput.scenario import load_scenario
    >>> ask(load_scenario("no-spares"), {"pool.spares": 4}, seeds=2).table["scenario"].tolist()
    ['no-spares', 'what if']
    """
    return Question(base, seeds, price_per_gpu_hour).answer(base.but(changes))
