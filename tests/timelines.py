"""A small cluster, failures at given minutes, and what happened when, for tests that know each minute beforehand."""

import pandas as pd
from naive import OUR_DAY

from goodput.cluster import ANY_COHORT, US_PER_MINUTE, Fault
from goodput.events import micros
from goodput.scenario import load_scenario

# Four nodes of two GPUs for a day: a save of 5 min after each hour of compute, restart in 10 min, one spare.
SMALL = load_scenario("baseline").but(
    {
        "days": 1,
        "job": {"nodes": 4, "gpus_per_node": 2, "restart_minutes": 10.0},
        "pool.spares": 1,
        "causes": {
            "broken": {"scope": "node", "share": 0.5, "detection_minutes": 3.0, "needs_repair": True},
            "hang": {"scope": "node", "share": 0.5, "detection_minutes": 30.0},
            "crash": {"scope": "job", "share": 1.0, "detection_minutes": 0.0},
        },
        "checkpoint": {"interval_minutes": 60.0, "blocking_minutes": 5.0},
    },
    name="small",
)
BROKEN, HANG, CRASH = range(3)


def fault(minute: float, cause: int, slot: int = 0, repair: float = 0, cohort: int = 0) -> Fault:
    """Return a failure at a minute of the running clock, with a repair of so many minutes."""
    return Fault(
        round(minute * US_PER_MINUTE),
        slot,
        ANY_COHORT if cause == CRASH else cohort,
        cause,
        round(repair * US_PER_MINUTE),
        round(list(SMALL.causes.values())[cause].detection_minutes * US_PER_MINUTE),
        round(SMALL.job.restart_minutes * US_PER_MINUTE),
    )


def timeline(log: pd.DataFrame, saves: bool = False) -> list[tuple]:
    """Return (minute, event, names ...) of each event, without saves unless asked for."""
    out = []
    for minute, event, *names in zip(
        (micros(log["time"]) - OUR_DAY) / US_PER_MINUTE, *(log[c] for c in ("event", "cause", "node", "joined", "left"))
    ):
        if saves or not event.startswith("checkpoint"):
            out.append((minute, event, *(name for name in names if not pd.isna(name))))
    return out
