"""How much time of each kind? Whole microseconds by size of the job, so that parts add up to the same hours exactly.

Floats that are added up in another order differ in their last digits, and GPU-microseconds do not fit 64 bits. Time is
therefore added up as whole numbers, by how many GPUs were held, and only the sums are weighted and become hours: a log
that is read in parts, in any order and by any number of processes, gives the same numbers to the last bit.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from goodput.attribution import US_PER_HOUR
from goodput.events import micros


def tally(spans: pd.DataFrame, **keys) -> pd.DataFrame:
    """Return one row for each combination of `keys` (arrays as long as spans) and `size`: its time, in `micros`.

    What has no key, as time that is charged to no cause, is left out.
    """
    return _summed(pd.DataFrame({**keys, "size": sizes(spans), "micros": lengths(spans)}, copy=False))


def sizes(spans: pd.DataFrame) -> np.ndarray:
    """Return how many GPUs each span holds."""
    return spans["nodes"].to_numpy() * spans["gpus_per_node"].to_numpy()


def lengths(spans: pd.DataFrame) -> np.ndarray:
    """Return how long each span is, in whole microseconds."""
    return micros(spans["end"]) - micros(spans["start"])


def add_up(tallies: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return several tallies, or rows that are to become one, as one tally."""
    return _summed(pd.concat(tallies, ignore_index=True))


def _summed(table: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in table if name != "micros"]
    return table.groupby(keys, sort=True, observed=True)["micros"].sum().reset_index()


def gpu_hours(table: pd.DataFrame, cell: np.ndarray, cells: int) -> np.ndarray:
    """Return the GPU-hours of each cell of a tally, float64; `cell` says which one a row belongs to.

    >>> pair = pd.DataFrame({"size": [8, 16], "micros": [US_PER_HOUR, US_PER_HOUR]})
    >>> gpu_hours(pair, np.array([0, 0]), 2).tolist()
    [24.0, 0.0]
    """
    # one after the other, in the order of sizes: the tally is sorted
    weighted = table["size"].to_numpy(float) * table["micros"].to_numpy(float)
    return np.bincount(cell, weighted, cells) / US_PER_HOUR
