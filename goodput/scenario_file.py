"""Scenario files: TOML, each over the base that it names, so that it says only what it changes."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goodput.errors import BadInput, nearest

SCENARIOS = Path(__file__).parents[1] / "data" / "scenarios"


def _merged(base: dict, changes: Mapping) -> dict:
    out = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def read_toml(path: Path, asked: str, seen: tuple[Path, ...] = ()) -> dict:
    """Return a file merged over its bases; `asked` says who wants it under which name."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        known = [file.stem for file in sorted(SCENARIOS.glob("*.toml")) if file.stem != path.stem]
        raise BadInput(f"{asked} must be a file or known; {nearest(path.stem, known)}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: must be a readable TOML file: {error}") from None
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
    return beside if beside.is_file() else SCENARIOS / f"{name}.toml"


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
