"""Spares, crews and repair: what node events tell of them, else what was given, else the baseline's."""

import numpy as np

from goodput.fitted import Fitted, assumed, counted, repair_time
from goodput.scenario import Scenario
from goodput.shelf import Shelf


def spares_of(told: Shelf, given: int | None, base: Scenario) -> Fitted:
    """Return the spares: as given, else one less than were out each time that the job waited, else a least number."""
    path = "pool.spares"
    if given is not None:
        return Fitted(path, given, how="given")
    if len(told.spares):
        said = "nodes out when a wait of the job ended, less one"
        return _counted(path, told.spares, said)
    if told.trips:
        return counted(path, told.most_out, "at least: so many were out at once, and the job never waited", told.trips)
    return assumed(path, base.pool.spares, "no event of a node outside the job")


def crews_of(told: Shelf, given: int | None, base: Scenario) -> Fitted:
    """Return the crews: as given, else those at work each time that a node waited for one; None is unlimited."""
    path = "repair.crews"
    if given is not None:
        return Fitted(path, given, how="given")
    if len(told.crews):
        return _counted(path, told.crews, "crews at work when a node that waited got one")
    if told.trips and told.tells_start:
        said = f"unlimited: no node waited for a crew; at least {told.most_in_repair} worked at once"
        return counted(path, None, said, told.trips)
    return assumed(path, base.repair.crews, "unlimited: no event tells when a repair began")


def _counted(path: str, seen: np.ndarray, note: str) -> Fitted:
    value = int(np.median(seen))
    agreed = "" if seen.min() == seen.max() else f", between {seen.min():.0f} and {seen.max():.0f}: the median"
    return Fitted(path, value, float(seen.min()), float(seen.max()), len(seen), "counted", note + agreed)


def repair_of(told: Shelf, base: Scenario) -> Fitted:
    """Return the hours of a repair."""
    path = "repair.mean_hours"
    if not len(told.repair_hours):
        why = f"none of {len(told.open_hours)} repairs ended" if len(told.open_hours) else "no repair in the log"
        return assumed(path, base.model_dump()["repair"]["mean_hours"], why)
    row = repair_time(path, told.repair_hours, told.open_hours)
    return row if told.tells_start else row._replace(note=f"from node_down, as no repair_start is told; {row.note}")
