"""How many seeds are enough? As many as the interval asks for, in order, so that everybody needs the same ones.

Like a survey that goes on until its margin is small enough, and then says how many were asked.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from goodput.errors import BadInput
from goodput.experiment import experiment, half_widths
from goodput.scenario import Scenario
from goodput.store import Store

MOST = 2000
GROWTH = 4  # at most so many times as many seeds in one step: a spread from few seeds is itself uncertain


def runs_until(
    scenarios: Sequence[Scenario],
    half_width: float,
    least: int = 20,
    most: int = MOST,
    jobs: int | None = None,
    store: Store | str | Path | None = None,
    fresh: bool = False,
) -> pd.DataFrame:
    """Return `experiment` with seeds 1, 2, ... until each 95 % interval is at most `half_width` (a share) on each side.

    It is the interval of the difference to the first scenario, paired by seed, or of the level where there is one
    scenario alone. From `least` to `most` seeds, the same for all; whether it was reached, `half_widths` says. The same
    input needs the same seeds everywhere. An interval that may stop the run is a little too narrow; with 20 seeds or
    more by less than a tenth. `jobs`, `store` and `fresh` are those of `experiment`. Raises BadInput for a width or
    numbers that cannot be.

    >>> from goodput.scenario import load_scenario
    >>> runs = runs_until([load_scenario("combined")], half_width=0.005, least=5, most=40)
    >>> bool(half_widths(runs).max() <= 0.005), bool(runs["seed"].nunique() < 40)
    (True, True)
    """
    if not (0 < half_width < math.inf and 2 <= least <= most):
        raise BadInput(
            f"--until-ci={half_width} must be above 0, and seeds from 2 to at least as many: {least}, {most}"
        )
    runs = experiment(scenarios, least, jobs, store, fresh)
    done = least
    while done < most and (widest := half_widths(runs).max()) > half_width:
        asked = math.ceil(done * (widest / half_width) ** 2)
        upto = min(most, max(done + 1, min(asked, GROWTH * done)))
        more = experiment(scenarios, range(done + 1, upto + 1), jobs, store, fresh)
        runs, done = pd.concat([runs, more], ignore_index=True), upto
    return runs


def parse_width(text: str) -> float:
    """Return a half-width as a share: percentage points with their unit.

    >>> parse_width("0.1pp")
    0.001
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*pp\s*", text)
    if not found or float(found[1]) == 0:
        raise BadInput(f"--until-ci={text!r} must be percentage points above 0 with their unit, as 0.1pp")
    return float(found[1]) / 100


def what_was_needed(runs: pd.DataFrame, half_width: float) -> str:
    """Return a line that says how many seeds were played and whether that was enough."""
    seeds, widest = runs["seed"].nunique(), half_widths(runs).max()
    what = "difference to the first" if len(runs["scenario"].cat.categories) > 1 else "mean"
    asked = f"every 95 % interval of the {what} within ±{100 * half_width:g} points"
    if widest <= half_width:
        return f"{seeds:,} seeds were needed for {asked} (widest ±{100 * widest:.3g})."
    return f"{seeds:,} seeds were not enough for {asked}: the widest is ±{100 * widest:.3g}; --most-seeds allows more."
