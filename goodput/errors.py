"""What is refused at the doors: one exception, one shape of message."""

import difflib
from collections.abc import Iterable


class BadInput(ValueError):
    """Input that cannot be used; its text is one line, `where: key=value must be rule`."""


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
