"""What does their log say? One file a foreign format: the raw columns, and one map raw -> ours.

`read_any` reads any of them, or ours: the format is named, or recognised from the first bytes where that is safe.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import pandas as pd

from goodput.errors import BadInput, nearest
from goodput.events import Finding
from goodput.lines import read_head
from goodput.logfile import mended, read_log

NATIVE = "native"
# format -> module; each has read_<module>(path, timezone) and looks_like_<module>(first bytes)
FORMATS = {
    "resiliency": "resiliency",
    "sacct": "sacct",
    "ml-goodput": "ml_goodput",
    "megatron": "megatron",
    "kubernetes": "kubernetes",
}
# a requeue chain, or a timeline, may stand in several reports or pages: these are read together
TOGETHER = ("sacct", "ml-goodput")


def read_any(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    timezone: str | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    causes: Path | None = None,
    as_of: int | None = None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return a log of any known format, ordered, and what in it was not clean.

    `format` is `native` or a key of `FORMATS`, None to recognise it. `timezone` is for times without a zone, `nodes`
    and `gpus_per_node` for jobs whose size the log does not say, `causes` a file of kernel messages or health checks
    that gives causes by time and node, `as_of` (microseconds since 1970 UTC) closes jobs without an end.
    """
    paths = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if format is not None and format not in (NATIVE, *FORMATS):
        raise BadInput(f"--from={format} must be a known format; {nearest(format, [NATIVE, *FORMATS])}")
    format = format or recognise(paths[0])
    if format == NATIVE:
        log, findings = read_log(paths, timezone, nodes, gpus_per_node, as_of)
    else:
        read = _function("read", format)
        parts = [read(paths, timezone)] if format in TOGETHER else [read(path, timezone) for path in paths]
        log, findings = mended(parts, str(paths[0]), nodes, gpus_per_node, as_of)
    if causes is None:
        return log, findings
    from goodput.causes import join_causes, read_causes

    log, more = join_causes(log, read_causes(causes, timezone))
    return log, findings + more


def recognise(path: Path) -> str:
    """Return the format that a file is surely in; `native` where it is none of the foreign ones, or standard input."""
    if str(path) == "-":
        return NATIVE
    return format_of(read_head(path, 1 << 16))


def format_of(head: bytes) -> str:
    """Return the format that a file is surely in, by its first bytes; `native` for none of the foreign ones."""
    return next((format for format in FORMATS if _function("looks_like", format)(head)), NATIVE)


def _function(name: str, format: str) -> Callable:
    module = FORMATS[format]
    return getattr(import_module(f"goodput.importers.{module}"), f"{name}_{module}")
