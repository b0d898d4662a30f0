"""What may a notebook be asked? Its parameters, checked in the first cell after papermill has put others in.

Like the door of a workshop: what is not on the list, or has the wrong shape, stays outside, and is told why.
"""

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from goodput.errors import BadInput, problem_of

LONGEST_NAME = 120  # bytes: a file system counts those, not letters
INJECTED = "# Parameters"  # how papermill opens the cell that it puts in


def check_parameters(namespace: Mapping[str, Any]) -> None:
    """Refuse a parameter that the notebook does not declare, and a value of another type than declared.

    `namespace` is `globals()` of a notebook whose cell tagged `parameters` declares each with its type, as in
    `seeds: int = 20`. Papermill itself only warns of a name that no notebook declares, and takes any value. Raises
    BadInput with the names that are valid, or with the type.

    >>> check_parameters({"__annotations__": {"seeds": int}, "seeds": "ten"})
    Traceback (most recent call last):
    goodput.errors.BadInput: parameters: seeds='ten' must be a whole number
    """
    declared = dict(namespace.get("__annotations__", {}))
    for name, value in injected(namespace.get("In", [])).items():
        check_name(name, value, list(declared))
    check_types(declared, {name: namespace[name] for name in declared})
    for name in declared:
        check_that(namespace[name] != [], f"{name}=[] must be a list that is not empty")


def check_types(declared: Mapping[str, Any], values: Mapping[str, Any], where: str = "parameters") -> None:
    """Refuse a value of another type than declared; an int is taken for a float, nothing else is."""
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    model = create_model("Parameters", __config__=strict, **{name: (declared[name], ...) for name in values})
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        raise BadInput(f"{where}: {problem_of(error)}") from None


def plain_type(text: str) -> Any:
    """Return the type that an annotation names, where it is a plain one; anything goes for another.

    >>> plain_type("list[float]"), plain_type("Path")
    (list[float], typing.Any)
    """
    plain = {kind.__name__: kind for kind in (int, float, str, bool, list, dict)}
    try:
        return eval(text, {"__builtins__": {}}, plain) or Any  # None: the notebook names no type
    except (NameError, SyntaxError, TypeError):
        return Any


def check_that(is_so: bool, rule: str) -> None:
    """Refuse parameters that do not go together, or that the notebook has no answer to; `rule` is what they must be.

    >>> check_that(0 > 1, "page_hours=0 must be above 0")
    Traceback (most recent call last):
    goodput.errors.BadInput: parameters: page_hours=0 must be above 0
    """
    if not is_so:
        raise BadInput(f"parameters: {rule}")


def check_name(name: str, value: Any, known: list[str], where: str = "parameters") -> None:
    """Refuse a name that is not among those declared."""
    if name not in known:
        rule = f"one of: {', '.join(known)}" if known else "left out, the notebook declares no parameters"
        raise BadInput(f"{where}: {name}={value!r} must be {rule}")


def parse_parameters(pairs: list[str]) -> dict[str, Any]:
    """Return `["seeds=50"]` as `{"seeds": 50}`; a value is read as YAML, which has lists and tables as well.

    >>> parse_parameters(["seeds=50", "overrides={pool.spares: 8}", "scenarios=[baseline, combined]"])
    {'seeds': 50, 'overrides': {'pool.spares': 8}, 'scenarios': ['baseline', 'combined']}
    """
    import yaml

    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"parameters: {pair!r} must be name=value, as in seeds=50")
        try:
            found[name.strip()] = value = yaml.safe_load(text)
            # papermill keeps it in the notebook, which is JSON in UTF-8
            json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
        except RecursionError:
            raise BadInput(f"parameters: {pair[:60]!r}... must be nested less deeply") from None
        except (yaml.YAMLError, ValueError, TypeError) as error:  # a ValueError for a date that is none
            said, shown = " ".join(str(error).split()), pair if len(pair) < 200 else f"{pair[:60]}..."
            raise BadInput(f"parameters: {shown!r} must have a value that reads as YAML: {said}") from None
    return found


def name_of_run(stem: str, parameters: Mapping[str, Any]) -> str:
    """Return the name of a notebook's output, with the parameters in it; a long one is cut and numbered by content.

    The name of an output, run again, gives way to the new parameters.

    >>> name_of_run("30_the_seven_scenarios", {"seeds": 50, "overrides": {"pool.spares": 8}})
    '30_the_seven_scenarios__seeds=50__overrides=pool.spares-8'
    """
    if not parameters:
        return stem
    parts = [f"{name}={_plain(value)}" for name, value in parameters.items()]
    name = "__".join([stem.split("__")[0], *parts])
    if len(name.encode()) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: LONGEST_NAME - 9].decode(errors='ignore')}-{mark}"


def _plain(value: Any) -> str:
    return re.sub(r"[^\w.,+-]+", "-", str(value)).strip("-")


def injected(cells: list[str]) -> dict[str, Any]:
    """Return the names and values of the cells that papermill put in, from the sources of the cells run so far.

    >>> injected(["import pandas", "# Parameters\\nseeds = 5\\nlog = 'a.jsonl'\\n"])
    {'seeds': 5, 'log': 'a.jsonl'}
    """
    lines = [node for cell in cells if cell.startswith(INJECTED) for node in ast.parse(cell).body]
    return {node.targets[0].id: _value(node.value) for node in lines if isinstance(node, ast.Assign)}


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:  # float('inf'), as papermill writes it
        return ast.unparse(node)
