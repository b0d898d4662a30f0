"""How many spares, how many crews, how long a repair? From a log's node events, as far as they tell.

Think of a shelf that nobody can look at: how much was on it shows at the moment when somebody has to wait.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import US_PER_HOUR
from goodput.events import NODE_EVENTS, codes, micros
from goodput.shop import repair_trips

WAITS_MINUTES = 1  # a shorter wait is none: clocks differ, and handing over takes a moment


class Shelf(NamedTuple):
    """What node events tell of the pool; a count of 0 trips tells nothing."""

    trips: int
    spares: np.ndarray  # spares as seen each time that the job waited for a node
    most_out: int  # nodes out of the job's reach at once, at most
    crews: np.ndarray  # crews at work each time that a node waited for one
    most_in_repair: int
    repair_hours: np.ndarray  # repairs that ended
    open_hours: np.ndarray  # repairs that had not, as long as they had taken
    tells_start: bool  # when a repair began is known; else it is counted from when the node broke


def shelf(log: pd.DataFrame, stops: pd.DataFrame) -> Shelf:
    """Return what the node events of a log tell; `stops` are its interruptions, as `episodes.stops` gives them."""
    log = _of_the_only_job(log)
    trips = repair_trips(log[log["job"].notna()])
    told = bool(trips["repair_start"].notna().any())
    begun = trips if not told else trips[trips["repair_start"].notna()]
    took = _repair_hours(log, begun, told)
    done = begun["repaired"].notna().to_numpy()
    seen = [_of_job(trips[trips["job"] == job], stops[stops["job"] == job]) for job in log["job"].cat.categories]
    spares, out, crews, working = zip(*seen, strict=True) if seen else ((), (), (), ())
    return Shelf(
        len(trips),
        np.concatenate([[], *spares]),
        max(out, default=0),
        np.concatenate([[], *crews]),
        max(working, default=0),
        took[done],
        took[~done],
        told,
    )


def _of_the_only_job(log: pd.DataFrame) -> pd.DataFrame:
    """Return a log of one job with its name on node events that name none: there is one pool."""
    if len(log["job"].cat.remove_unused_categories().cat.categories) != 1:
        return log
    nameless = log["job"].isna() & log["event"].isin(NODE_EVENTS)
    return log.assign(job=log["job"].where(~nameless, log["job"].dropna().iloc[0])) if nameless.any() else log


def _repair_hours(log: pd.DataFrame, trips: pd.DataFrame, told: bool) -> np.ndarray:
    if told:
        return trips["repair_hours"].to_numpy(float)
    last = pd.Series(micros(log["time"])).groupby(codes(log["job"])).max()
    end = trips["repaired"].fillna(pd.Series(codes(trips["job"]), trips.index).map(last).astype("datetime64[us, UTC]"))
    return (micros(end) - micros(trips["down"])) / US_PER_HOUR


def _of_job(trips: pd.DataFrame, stops: pd.DataFrame) -> tuple[np.ndarray, int, np.ndarray, int]:
    """Return of one job: spares at each wait of its own, most nodes out, crews at each wait of a node, most at work."""
    down, back = _sorted(trips["down"]), _sorted(trips["repaired"])
    waited = stops[(stops["waiting_minutes"] > WAITS_MINUTES) & stops["ready"].notna()]
    # just before the last node comes, all spares and one more are out
    out = _level(down, back, micros(waited["ready"]))
    begun, end = _sorted(trips["repair_start"]), back
    queued = trips[(trips["wait_hours"] > WAITS_MINUTES / 60) & trips["repair_start"].notna()]
    busy = _level(begun, end, micros(queued["repair_start"]))
    return out[out > 0] - 1, _most(down, back), busy[busy > 0], _most(begun, end)


def _sorted(times: pd.Series) -> np.ndarray:
    return np.sort(micros(times.dropna()))


def _level(up: np.ndarray, down: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return how many are there just before each moment."""
    return np.searchsorted(up, at, "left") - np.searchsorted(down, at, "left")


def _most(up: np.ndarray, down: np.ndarray) -> int:
    """Return how many are there at once at most; who goes as another comes was not there with it."""
    there = np.searchsorted(up, up, "right") - np.searchsorted(down, up, "right")
    return int(there.max(initial=0))
