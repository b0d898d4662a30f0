"""How does a command end? Its result, or one line that says what cannot be used, and an exit code."""

import sys
from typing import Any

import typer

from goodput.errors import BadInput, RunFailed, printable


def run_app(app: typer.Typer, arguments: list[str] | None = None) -> None:
    """Run a command line to its end: exit code 2 and one line for bad input, 1 for a notebook that failed."""
    try:
        code = app(arguments, standalone_mode=False)
    except BadInput as error:
        code = _refuse(error, 2)
    except RunFailed as error:
        code = _refuse(error, 1)
    except typer.Abort:
        code = 130
    except Exception as error:
        # usage errors of the parser carry their text; anything else is a fault of ours, and shows itself
        if not hasattr(error, "format_message"):
            raise
        code = _refuse(error.format_message(), 2)
    sys.exit(code or 0)


def _refuse(reason: Any, code: int) -> int:
    sys.stderr.write(f"goodput: {printable(reason)}\n")
    return code
