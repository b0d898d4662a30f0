"""Scenario files: TOML, each over the base that it names, so that it says only what it changes."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goodput.errors import BadInput, nearest

SCENARIOS = Path(__file__).parents[1] / "data" / "scenarios"
DEEPEST = 50  # tables and lists in each other; a scenario has five
_DEEP = f"tables and lists must be at most {DEEPEST} deep"


def _merged(base: dict, changes: Mapping) -> dict:
    out = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def load_toml(path: Path) -> dict:
    """Return what a TOML file says. Raises FileNotFoundError, or BadInput for what cannot be read."""
    if not os.path.exists(path):  # nor does what no file can be called
        raise FileNotFoundError(path)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        _check_depth(data)
    except RecursionError:
        raise BadInput(f"{path}: must be a readable TOML file: {_DEEP}") from None
    except (OSError, ValueError) as error:  # a number of thousands of digits is a ValueError
        raise BadInput(f"{path}: must be a readable TOML file: {error}") from None
    return data


def _check_depth(data: dict) -> None:
    inner: list[Any] = [data]
    for _ in range(DEEPEST):
        inner = [each for one in inner for each in (one.values() if isinstance(one, dict) else one)]
        inner = [each for each in inner if isinstance(each, dict | list)]
        if not inner:
            return
    raise ValueError(_DEEP)


def read_toml(path: Path, asked: str, seen: tuple[Path, ...] = ()) -> dict:
    """Return a file merged over its bases; `asked` says who wants it under which name."""
    try:
        data = load_toml(path)
    except FileNotFoundError:
        known = [file.stem for file in sorted(SCENARIOS.glob("*.toml")) if file.stem != path.stem]
        raise BadInput(f"{asked} must be a file or known; {nearest(path.stem, known)}") from None
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str) or path in seen:
        raise BadInput(f"{path}: base={base!r} must name another scenario, and not lead back to this one")
    return _merged(read_toml(find(base, path.parent), f"{path}: base={base!r}", (*seen, path)), data)


def find(name: str, folder: Path) -> Path:
    """Return the file of a name: as it stands if it ends in .toml, else in the folder, else in `data/scenarios`."""
    if name.endswith(".toml"):
        return folder / name
    beside = folder / f"{name}.toml"
    return beside if os.path.isfile(beside) else SCENARIOS / f"{name}.toml"


def changes_as_toml(base: str, name: str, changes: Mapping[str, Any]) -> str:
    """Return a scenario file that says only what it changes of its base: dotted paths become tables.

    >>> print(changes_as_toml("baseline", "more-spares", {"pool.spares": 8}), end="")
    base = "baseline"
    name = "more-spares"
    <BLANKLINE>
    [pool]
    spares = 8
    """
    import tomli_w

    data: dict[str, Any] = {"base": base, "name": name}
    for path, value in changes.items():
        *parents, key = path.split(".")
        table = data
        for parent in parents:
            table = table.setdefault(parent, {})
        table[key] = value
    return tomli_w.dumps(data)
