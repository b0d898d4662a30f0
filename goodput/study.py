"""Which scenarios do we ask? A study: a base, parameters with what each may be, and a design that spreads points.

Like a recipe for a survey: it says whom to ask and how many, and asks nobody yet. A study is a TOML file, read and
checked once; `goodput.design` makes its points, `goodput.sensitivity` plays them.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from goodput.attribution import CATEGORIES
from goodput.errors import BadInput, nearest, problem_of
from goodput.parts import Part
from goodput.scenario import Scenario, load_scenario
from goodput.scenario_file import find, load_toml, read_toml

MOST_SCENARIOS = 100_000
_WHAT = "a list of values, or a table with low and high"
SAMPLED = ("latin-hypercube", "sobol")
# Columns of a study's results begin so; a parameter must not take their place.
RESERVED = ("scenario", "role", "moved", "seeds", "goodput", "difference", "interruptions_per_run", "mtbi_hours")
RESERVED += ("node_mtbf_hours", *(f"share_{name}" for name in CATEGORIES))


class Parameter(Part):
    """What one parameter may be: a list of values, or a range. It moves one dotted path, or several together."""

    paths: Annotated[list[str], Field(min_length=1)] | None = None
    values: Annotated[list[Any], Field(min_length=2)] | None = None
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False  # whole numbers alone, each as likely on a linear scale
    steps: Annotated[int, Field(ge=2, le=MOST_SCENARIOS)] | None = None  # of a grid, both ends included

    @model_validator(mode="after")
    def _list_or_range(self):
        given = self.model_fields_set - {"paths"}
        if "values" in given:
            if given != {"values"}:
                raise ValueError(f"values must stand without {', '.join(sorted(given - {'values'}))}")
            if any(value in self.values[:at] for at, value in enumerate(self.values)):
                raise ValueError(f"values={self.values} must differ")
        elif self.low is None or self.high is None:
            raise ValueError(_WHAT)
        else:
            self._check_range()
        return self

    def _check_range(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low={self.low:g} must be below high={self.high:g}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"low={self.low:g} must be above 0 where scale is log")
        if self.whole and (self.low % 1 or self.high % 1):
            raise ValueError(f"low={self.low:g} and high={self.high:g} must be whole where whole is true")

    @property
    def ends(self) -> tuple[Any, Any]:
        """The two ends of the range, or the first and the last value of the list."""
        if self.values is not None:
            return self.values[0], self.values[-1]
        return tuple(self._kind(np.array([self.low, self.high])))

    def at(self, shares: np.ndarray) -> list:
        """Return the values below which these shares (0 to 1, 1 left out) lie; of a list each is as likely.

        >>> Parameter(low=10, high=1000, scale="log").at(np.array([0.0, 0.5]))
        [10.0, 100.0]
        >>> Parameter(low=0, high=3, whole=True).at(np.array([0.1, 0.3, 0.6, 0.99]))
        [0, 1, 2, 3]
        """
        if self.values is not None:
            return [self.values[at] for at in (shares * len(self.values)).astype(int).tolist()]
        # a whole number stands for all up to the next one
        return self._kind(np.floor(self._between(shares, 1)) if self.whole else self._between(shares))

    def levels(self) -> list:
        """Return the values of a grid: those of the list, or `steps` of the range; whole ones once each."""
        if self.values is not None:
            return list(self.values)
        spread = self._between(np.linspace(0, 1, self.steps))
        spread[[0, -1]] = self.low, self.high
        return self._kind(np.unique(np.round(spread)) if self.whole else spread)

    def _between(self, shares: np.ndarray, beyond: float = 0) -> np.ndarray:
        if self.scale == "linear":
            return self.low + shares * (self.high + beyond - self.low)
        return self.low * ((self.high + beyond) / self.low) ** shares

    def _kind(self, values: np.ndarray) -> list:
        within = np.clip(values, self.low, self.high)  # a power may miss its end by the last bit
        return [int(value) for value in np.round(within)] if self.whole else within.tolist()


class Study(Part):
    """All that a study asks: `seeds` for every scenario alike, and parameters in the order of their names."""

    name: str
    base: Scenario
    seeds: Annotated[int, Field(ge=2)]
    design: Literal["grid", "latin-hypercube", "sobol", "tornado"]
    samples: Annotated[int, Field(ge=2)] | None = None  # of a hypercube or of Sobol, where it is n of n (d + 2)
    design_seed: Annotated[int, Field(ge=0)] = 1  # which points; it has nothing to do with the luck of the runs
    parameters: Annotated[dict[str, Parameter], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self):
        self._check_names()
        if self.design in SAMPLED and self.samples is None:
            raise ValueError(f"samples must be given where design is {self.design}")
        if self.design == "sobol" and self.samples & (self.samples - 1):
            raise ValueError(f"samples={self.samples} must be a power of two where design is sobol")
        without = [name for name, each in self.parameters.items() if each.values is None and each.steps is None]
        if self.design == "grid" and without:
            raise ValueError(f"parameters.{without[0]}.steps must be given where design is grid")
        if self.scenarios > MOST_SCENARIOS:
            raise ValueError(f"the design must have at most {MOST_SCENARIOS:,} scenarios, not {self.scenarios:,}")
        return self

    def _check_names(self) -> None:
        moved = [path for name in self.parameters for path in self.paths(name)]
        for path in moved:
            if moved.count(path) > 1:
                raise ValueError(f"parameters must move {path} once")
        if taken := [n for n in self.parameters if n == "name" or n in RESERVED]:
            raise ValueError(f"parameters.{taken[0]} must not be a column of the results, or the name")

    def paths(self, name: str) -> list[str]:
        """Return the dotted paths that a parameter moves."""
        return self.parameters[name].paths or [name]

    @property
    def scenarios(self) -> int:
        """How many scenarios: the base, each parameter at its two ends, and the points of the design."""
        dimensions = len(self.parameters)
        points = {"tornado": 0, "latin-hypercube": self.samples, "sobol": (self.samples or 0) * (dimensions + 2)}
        if self.design == "grid":
            points["grid"] = math.prod(len(each.levels()) for each in self.parameters.values())
        return 1 + 2 * dimensions + points[self.design]

    def but(self, **changes: Any) -> "Study":
        """Return another study with some fields changed, as `samples`, `seeds` or `design`.

        >>> load_study("data/studies/what_moves_goodput.toml").but(design="tornado").scenarios
        29
        """
        return study_of({name: getattr(self, name) for name in type(self).model_fields} | changes, self.name)


def load_study(path: str | Path) -> Study:
    """Return the study of a TOML file; its `base` is a scenario's name, or a file beside it that ends in `.toml`.

    A key of `[parameters]` is a dotted path, or any name where `paths` lists what moves together. Raises BadInput,
    naming the file, the key and what is allowed.

    >>> load_study("data/studies/what_moves_goodput.toml").paths("pool.spares")
    ['pool.spares']
    """
    path = Path(path)
    data = _read(path)
    if "name" in data:  # of a study it is its file
        raise BadInput(f"{path}: name must be a known key; {nearest('name', _known_keys(()))}")
    base = data.get("base")
    if not isinstance(base, str):
        raise BadInput(f"{path}: base must be given: the name of a scenario, or its file")
    file = find(base, path.parent)
    read_toml(file, f"{path}: base={base!r}")  # whether there is one, said as of this file
    parameters = data.get("parameters")
    if isinstance(parameters, Mapping):
        data["parameters"] = _flat(parameters)
    return study_of(data | {"base": load_scenario(file)}, str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        return load_toml(path)
    except FileNotFoundError:
        raise BadInput(f"{path}: file must exist") from None


def _flat(table: Mapping, above: str = "") -> dict[str, Any]:
    """Return parameters by dotted path: TOML makes a table of each part of a key that is not in quotes."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        deeper = isinstance(value, Mapping) and value and not _is_parameter(value)
        flat |= _flat(value, f"{above}{key}.") if deeper else {f"{above}{key}": value}
    return flat


def _is_parameter(table: Mapping) -> bool:
    """Return whether a table says what a parameter may be; else it only holds the next parts of dotted paths."""
    plain = any(not isinstance(value, Mapping | list) for value in table.values())
    return plain or any(isinstance(table.get(name), list) for name in ("paths", "values"))


def study_of(data: Mapping[str, Any], name: str = "study") -> Study:
    """Return the study of plain data, as its TOML file has them; `base` is a scenario. Raises BadInput."""
    data = dict(data) | {"name": name}
    if isinstance(data.get("parameters"), Mapping):
        tables = {key: _as_table(value, f"{name}: parameters.{key}") for key, value in data["parameters"].items()}
        data["parameters"] = dict(sorted(tables.items()))  # so that their order in the file changes nothing
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        raise BadInput(f"{name}: {problem_of(error, _known_keys)}") from None


def _as_table(value: Any, where: str) -> Any:
    if not isinstance(value, list | Mapping | Parameter):
        raise BadInput(f"{where}={value!r} must be {_WHAT}")
    return {"values": value} if isinstance(value, list) else value


def _known_keys(parents: tuple) -> list[str]:
    return [key for key in (Parameter if parents else Study).model_fields if key != "name"]
