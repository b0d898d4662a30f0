"""What is assumed, and why? The values of a scenario file with the reasons that stand beside them as comments."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from goodput.scenario import load_scenario
from goodput.scenario_file import SCENARIOS

LINE = re.compile(r'(?:\[(?P<part>[\w.-]+)\]|(?P<key>[\w-]+) *= *(?P<value>"[^"]*"|[^#\s]+))? *(?:# *(?P<said>.*))?')
NAMES = ("name", "base")  # what a file is called is no assumption


class Assumption(NamedTuple):
    """A value of a scenario, or those of a part that share one reason."""

    group: str  # what a comment says of this part and those that follow
    path: str
    values: dict[str, Any]  # by dotted path
    reason: str


def assumptions(name: str) -> list[Assumption]:
    """Return the values that a file of `data/scenarios` gives, in its order, each with its reason.

    A reason stands at the end of the line, else at that of the part: values that have it from there stand together.

    >>> assumptions("combined")[0]
    Assumption(group='', path='pool.spares', values={'pool.spares': 8}, reason="twice the baseline's")
    """
    found: list[Assumption] = []
    part, why_part, group, block = "", "", "", []
    for line in _text(name).splitlines():
        match = LINE.fullmatch(line.strip())
        if match["part"]:
            same = match["part"].split(".")[0] == part.split(".")[0]
            group, block = " ".join(block) or (group if same else ""), []
            part, why_part = match["part"], match["said"] or ""
        elif match["key"]:
            block = []
            if match["key"] not in NAMES:
                _add(found, group, part, match, why_part)
        elif match["said"]:
            block.append(match["said"])
    return found


def _add(found: list[Assumption], group: str, part: str, match: re.Match, why_part: str) -> None:
    path = f"{part}.{match['key']}".lstrip(".")
    values = {path: tomllib.loads(f"value = {match['value']}")["value"]}
    if match["said"] or not why_part:
        found.append(Assumption(group, path, values, match["said"] or ""))
    elif found and found[-1].path == part:
        found[-1].values.update(values)
    else:
        found.append(Assumption(group, part, values, why_part))


def described(name: str) -> str:
    """Return what the comment at the top of a scenario's file says of it."""
    head = _text(name).split("\nname", 1)[0].split("\nbase", 1)[0]
    return " ".join(line.lstrip("# ") for line in head.splitlines())


class Change(NamedTuple):
    """What a scenario has otherwise than another one; None where one of them has no such value."""

    path: str
    was: Any
    now: Any
    reason: str


def changes(name: str, base: str = "baseline") -> list[Change]:
    """Return what a scenario of `data/scenarios` changes of another, each with the reason that its files give.

    >>> changes("no-spares")
    [Change(path='pool.spares', was=4, now=0, reason='')]
    """
    before, after = (
        _flat(load_scenario(each).model_dump(exclude={"name"}, exclude_none=True)) for each in (base, name)
    )
    reasons = _reasons(name)
    paths = [path for path in after | before if before.get(path) != after.get(path)]
    return [Change(path, before.get(path), after.get(path), reasons.get(path, "")) for path in paths]


def _reasons(name: str) -> dict[str, str]:
    base = tomllib.loads(_text(name)).get("base")
    own = {path: each.reason for each in assumptions(name) for path in each.values}
    return (_reasons(base) if base else {}) | own


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        out |= _flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return out


def _text(name: str) -> str:
    return (SCENARIOS / f"{name}.toml").read_text("utf-8")
