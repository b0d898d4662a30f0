"""Where do we look? The points of a study, spread over its parameters, and the scenarios that they are.

Every study looks first at its base, and at each parameter alone at both ends, which is its tornado. Then come the
points of its design. The order of the parameters in the file changes nothing: each has its place by its name.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.errors import BadInput
from goodput.scenario import Scenario
from goodput.streams import stream
from goodput.study import Study


class Point(NamedTuple):
    """One scenario of a study: what it is for, which parameter it moves by itself, and what it sets."""

    role: str  # base, low, high (of the tornado); point (of a grid or hypercube); A, B, AB (of Sobol's design)
    moved: str | None
    values: dict[str, Any]


def design(study: Study) -> pd.DataFrame:
    """Return one row a scenario: `scenario` (its name), `role`, `moved`, and a column a parameter, in its own unit.

    What a point does not move is shown as it is in the base, and is missing where that has no one number for it.
    Latin hypercube: M. D. McKay et al. (1979). Sobol: matrices A and B of n points each, and for each parameter A with
    that one column of B, n (d + 2) in all: A. Saltelli et al. (2010), doi 10.1016/j.cpc.2009.09.018.

    >>> from goodput.study import load_study
    >>> table = design(load_study("data/studies/what_moves_goodput.toml"))
    >>> table["role"].value_counts(sort=False).to_dict()
    {'base': 1, 'low': 14, 'high': 14, 'A': 64, 'B': 64, 'AB': 896}
    """
    points = _points(study)
    frame = pd.DataFrame({"scenario": _names(study, points)})
    frame["role"], frame["moved"] = (
        [each.role for each in points],
        pd.Series([each.moved for each in points], dtype=object),
    )
    for name in study.parameters:
        unmoved = _in_base(study, name)
        frame[name] = _column([each.values.get(name, unmoved) for each in points])
    return frame


def scenarios_of(study: Study) -> list[Scenario]:
    """Return the scenarios of a study's points, in the order of `design`; BadInput names a point that cannot be."""
    points = _points(study)
    return [_scenario(study, name, point) for name, point in zip(_names(study, points), points)]


def _scenario(study: Study, name: str, point: Point) -> Scenario:
    changes = {path: value for moved, value in point.values.items() for path in study.paths(moved)}
    try:
        return study.base.but(changes, name)
    except BadInput as error:
        problem = str(error).removeprefix(f"{study.base.name}: ").removeprefix("scenario: ")
        said = ", ".join(f"{moved}={value}" for moved, value in point.values.items())
        where = f"{name}: " if name == said else f"{name} ({said}): "
        told = point.role in ("low", "high") and problem.startswith(f"{point.moved}=")
        raise BadInput(f"{study.name}: {'' if told else where}{problem}") from None


def _names(study: Study, points: list[Point]) -> list[str]:
    """Return names of scenarios: the base's, `path=value` where one parameter moves, else numbers."""
    alone = 1 + 2 * len(study.parameters)
    first = [f"{each.moved}={each.values[each.moved]}" for each in points[1:alone]]
    return [study.base.name, *first, *(f"point {number}" for number in range(1, len(points) - alone + 1))]


def _points(study: Study) -> list[Point]:
    ends = [
        Point(role, name, {name: end})
        for name, each in study.parameters.items()
        for role, end in zip(("low", "high"), each.ends)
    ]
    return [Point("base", None, {}), *ends, *_spread(study)]


def _spread(study: Study) -> Iterator[Point]:
    names = list(study.parameters)
    if study.design == "grid":
        levels = [each.levels() for each in study.parameters.values()]
        yield from (Point("point", None, dict(zip(names, values))) for values in itertools.product(*levels))
    elif study.design == "latin-hypercube":
        yield from _rows(study, "point", None, _hypercube(study))
    elif study.design == "sobol":
        a, b = np.hsplit(_sobol(study), 2)
        yield from _rows(study, "A", None, a)
        yield from _rows(study, "B", None, b)
        for at, name in enumerate(names):
            yield from _rows(study, "AB", name, np.where(np.arange(len(names)) == at, b, a))


def _rows(study: Study, role: str, moved: str | None, shares: np.ndarray) -> Iterator[Point]:
    columns = [each.at(column) for each, column in zip(study.parameters.values(), shares.T)]
    return (Point(role, moved, dict(zip(study.parameters, values))) for values in zip(*columns))


def _hypercube(study: Study) -> np.ndarray:
    from scipy.stats.qmc import LatinHypercube

    generator = stream(study.design_seed, "study", "latin-hypercube")
    return LatinHypercube(len(study.parameters), seed=generator).random(study.samples)


def _sobol(study: Study) -> np.ndarray:
    from scipy.stats.qmc import Sobol

    generator = stream(study.design_seed, "study", "sobol")
    return Sobol(2 * len(study.parameters), seed=generator, bits=64).random(study.samples)


def _in_base(study: Study, name: str) -> Any:
    """Return what a parameter is in the base: a plain value, the same on all its paths; else None."""
    found = [_value(study.base.model_dump(), path) for path in study.paths(name)]
    plain = isinstance(found[0], bool | int | float | str) and all(each == found[0] for each in found)
    return found[0] if plain else None


def _value(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _column(values: list) -> pd.Series:
    """Return values as a column of whole numbers, numbers or flags where all are; None is missing."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    if kinds == {int}:
        return pd.Series(values, dtype="Int64")
    return pd.Series(values, dtype=float if kinds <= {int, float} else object)
