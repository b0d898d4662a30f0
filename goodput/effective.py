"""How long may an outage last? What an effective training time allows, and what leaving out faults while down hides."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from goodput import checkpoint
from goodput.experiment import compare, experiment
from goodput.parts import expected
from goodput.scenario import Scenario

DIFFERENCE = ["difference", "difference_low", "difference_high"]


def with_overhead(scenario: Scenario, minutes: float, **others) -> Scenario:
    """Return a scenario whose mean detection + restart is so many minutes: detection stays, the restart gives way.

    Raises BadInput where detection alone takes as long. Restarts of the scenario must not fail.
    """
    detection = scenario.overhead_minutes - expected(scenario.job.restart_minutes)
    return scenario.but({"job.restart_minutes": minutes - detection, **others})


def most_overhead(scenario: Scenario, interval_minutes, share: float = 0.9) -> pd.DataFrame:
    """Return by interval the longest mean detection + restart, in minutes, with which `share` of the time is effective.

    Three readings of "effective", a column each: `kept` work alone (our goodput), `computed` (lost work, too), and
    `running` (saves, too). NaN where not even an outage of no length would do. From the exact model: of a cycle of
    M exp(O / M), with M the nominal MTBI and faults that strike always and begin the outage anew (as if it were a
    restart alone), a part that does not depend on O is effective.

    >>> from goodput.llama import llama_3
    >>> most_overhead(llama_3(), [10, 60]).round(1).to_dict("list")
    {'kept': [8.8, nan], 'computed': [14.1, 17.1], 'running': [17.6, 17.6]}
    """
    tau, mtbi = np.asarray(interval_minutes, float), scenario.nominal_mtbi_hours * 60
    costs = checkpoint.expected_costs(tau, mtbi, scenario.checkpoint.blocking_minutes, 0.0)
    effective = {
        "kept": 1 - costs["all"],
        "computed": 1 - costs["saves"],
        "running": np.ones_like(tau),
    }
    minutes = mtbi * np.log(pd.DataFrame(effective, index=pd.Index(tau, name="interval_minutes")) / share)
    return minutes.where(minutes >= 0)


def on_the_map(scenario: Scenario, overheads: Sequence[float], intervals: Sequence[float], seeds: int) -> pd.DataFrame:
    """Return a row for each pair of overhead and interval, in minutes: goodput played, and as the exact model has it.

    Columns: `overhead_minutes`, `interval_minutes`, `goodput` with `_low`, `_high` (95 % interval), `exact`.
    """
    pairs = [(overhead, interval) for overhead in overheads for interval in intervals]
    chosen = [
        with_overhead(scenario, overhead, **{"checkpoint.interval_minutes": interval}).but({}, name=f"{at}")
        for at, (overhead, interval) in enumerate(pairs)
    ]
    table = compare(experiment(chosen, seeds))[["goodput", "goodput_low", "goodput_high"]]
    return pd.DataFrame(pairs, columns=["overhead_minutes", "interval_minutes"]).join(
        table.assign(exact=[each.expected_goodput() for each in chosen])
    )


def flattery(scenario: Scenario, overhead_minutes, mtbi_hours: Sequence[float]) -> pd.DataFrame:
    """Return by overhead, a column an MTBI, by how much goodput looks better where no fault strikes a job that is down.

    A difference of shares, from the exact model at the scenario's interval: e^x / (1 + x) of the goodput with
    x = O / M, less that goodput. For short outages it is x squared, halved. As if outages were restarts alone, which
    each fault begins anew; of a detection under way less is hidden.
    """
    overhead, save = np.asarray(overhead_minutes, float), scenario.checkpoint.blocking_minutes
    curves = {}
    for hours in mtbi_hours:
        running = checkpoint.expected_goodput(scenario.interval_minutes, hours * 60, save, overhead)
        always = checkpoint.expected_goodput(
            scenario.interval_minutes, hours * 60, save, 60 * hours * np.expm1(overhead / hours / 60)
        )
        curves[hours] = running - always
    return pd.DataFrame(curves, index=pd.Index(overhead, name="overhead_minutes"))


def at_mtbi(scenario: Scenario, hours: float) -> Scenario:
    """Return a scenario whose nominal MTBI is so many hours: all causes strike more often, or less, alike."""
    scale = hours / scenario.nominal_mtbi_hours
    times = {f"cohorts.{name}.mtbf_hours": cohort.mtbf_hours for name, cohort in scenario.cohorts.items()}
    if scenario.job_failures.mtbi_hours:
        times["job_failures.mtbi_hours"] = scenario.job_failures.mtbi_hours
    return scenario.but({path: scale * time for path, time in times.items()})


def flattery_played(
    scenario: Scenario, overhead_minutes: Sequence[float], mtbi_hours: Sequence[float], seeds: int
) -> pd.DataFrame:
    """Return what `flattery` is when it is played, paired by seed, a row for each overhead and MTBI.

    Columns: `overhead_minutes`, `mtbi_hours`, `difference` with `_low`, `_high` (95 % interval), as shares.
    """
    rows = []
    for hours in mtbi_hours:
        for overhead in overhead_minutes:
            always = with_overhead(at_mtbi(scenario, hours), overhead, **{"failures.strike": "always"})
            running = always.but({"failures.strike": "running"}, name="running")
            table = compare(experiment([always, running], seeds))
            rows.append({"overhead_minutes": overhead, "mtbi_hours": hours} | table.iloc[1][DIFFERENCE].to_dict())
    return pd.DataFrame(rows)
