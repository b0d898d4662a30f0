"""What may a notebook be asked? Its parameters, checked in the first cell after papermill has put others in.

Like the door of a workshop: what is not on the list, or has the wrong shape, stays outside, and is told why.
"""

import ast
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from goodput.errors import BadInput, problem_of

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
    model = create_model(
        "Parameters",
        __config__=ConfigDict(strict=True, allow_inf_nan=False),
        **{name: (kind, ...) for name, kind in declared.items()},
    )
    try:
        model.model_validate({name: namespace[name] for name in declared})
    except ValidationError as error:
        raise BadInput(f"parameters: {problem_of(error)}") from None


def check_name(name: str, value: Any, known: list[str], where: str = "parameters") -> None:
    """Refuse a name that is not among those declared."""
    if name not in known:
        rule = f"one of: {', '.join(known)}" if known else "left out, the notebook declares no parameters"
        raise BadInput(f"{where}: {name}={value!r} must be {rule}")


def injected(cells: list[str]) -> dict[str, Any]:
    """Return the names and values of the cells that papermill put in, from the sources of the cells run so far.

    >>> injected(["import pandas", "# Parameters\\nseeds = 5\\nlog = 'a.jsonl'\\n"])
    {'seeds': 5, 'log': 'a.jsonl'}
    """
    lines = [node for cell in cells if cell.startswith(INJECTED) for node in ast.parse(cell).body]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in lines if isinstance(node, ast.Assign)}
