"""What is refused at the doors: one exception, one shape of message."""

import difflib
from collections.abc import Callable, Iterable
from reprlib import Repr
from typing import Any

# pydantic's rules that do not read as the end of "key=value must be ..."
_PLAIN = {
    "string_too_short": "text that is not empty",
    "too_short": "a table that is not empty",
    "string_type": "text",
    "model_type": "a table of keys",
    "dict_type": "a table of keys",
    "list_type": "a list",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
}
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class BadInput(ValueError):
    """Input that cannot be used; its text is one line, `where: key=value must be rule`."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of it: the line alone, as on the command line."""
        return [f"{type(self).__name__}: {self}"]


class NothingHappened(BadInput):
    """A log without an event of a job: what else there is to read may have some."""


class RunFailed(RuntimeError):
    """A notebook or a process that did not run to its end; its text is one line: what happened, and where."""


def printable(value: Any) -> str:
    """Return text without control characters: a name in a log must not steer the reader's terminal.

    >>> printable("gpu\\x1b[31m007")
    'gpu?[31m007'
    """
    return "".join(char if char.isprintable() else "?" for char in str(value))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word closest to `name`, and all of them where none is close.

    >>> nearest("sparse", ["spares", "crews"])
    "did you mean 'spares'?"
    >>> nearest("x", ["spares", "crews"])
    'known: spares, crews'
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def problem_of(error: Any, known_keys: Callable[[tuple], Iterable[str]] = lambda parents: ()) -> str:
    """Return the first problem of a pydantic ValidationError in one phrase, `key=value must be rule`.

    `known_keys` gives the keys that are allowed below a path, for the hint at a misspelt one.
    """
    # A misspelt key shows up twice, as unknown and as missing: the unknown one explains both.
    problem = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    kind, where, value = problem["type"], problem["loc"], problem["input"]
    path = ".".join(map(str, where))
    if kind == "extra_forbidden":
        return f"{path} must be a known key; {nearest(str(where[-1]), known_keys(where[:-1]))}"
    if kind == "missing":
        return f"{path} must be given"
    rule = str(problem["ctx"]["error"]) if kind == "value_error" else problem["msg"].removeprefix("Input should be ")
    if kind == "value_error" and (not path or " must " in rule):  # a rule about several keys: it names them itself
        return f"{path}: {rule}" if path else rule
    return f"{path}={_SHORT.repr(value)} must be {_PLAIN.get(kind, rule)}"
