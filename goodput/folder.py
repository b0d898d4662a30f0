"""Which files are logs, and in which format? A folder stands for all the logs in it, also in its folders.

What is hidden is not looked at; what is no log (a README, a picture) is left out, and said. A file that is named is
always read.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from goodput.errors import BadInput, printable
from goodput.events import Finding
from goodput.importers import NATIVE, format_of
from goodput.line import read_line, zone_of
from goodput.lines import read_head

HEAD_BYTES = 1 << 16


class Found(NamedTuple):
    """The files of a log by name, their format, and a note on each file of a folder that was left out."""

    files: list[Path]
    format: str
    left_out: list[Finding]


def find_logs(paths: Iterable[str | Path], format: str | None = None) -> Found:
    """Return the files that `paths` mean, files and folders, each once and by name; the format is given or recognised.

    Raises BadInput for a folder without a log, or for logs of more than one format.
    """
    paths = [Path(path) for path in paths]
    folders = [path for path in paths if path.is_dir()]
    named = set(paths) - set(folders)
    kinds = {path: _kind(path) for folder in folders for path in _files_in(folder) if path not in named}
    inside = {path for path, kind in kinds.items() if kind is not None and format in (None, kind)}
    if format is not None and not inside:  # not recognised, as it can be: that is what a format is named for
        inside = {path for path, kind in kinds.items() if kind is None}
    if not inside | named:
        raise BadInput(f"{folders[0]}: folder must hold at least one log, files of JSON Lines or of a known format")
    left_out = [_left_out(path, kinds[path]) for path in sorted(kinds.keys() - inside, key=str)]
    if format is None:
        format = _one_format({path: kinds[path] for path in inside} | {path: _kind(path) for path in named})
    return Found(sorted(inside | named, key=str), format, left_out)


def _files_in(folder: Path) -> Iterable[Path]:
    def refuse(error: OSError) -> None:
        raise BadInput(f"{error.filename}: folder must be readable: {error.strerror}") from None

    for where, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(where, name) for name in files if not name.startswith(".")]
        # a pipe or a socket would be waited for; what is gone is refused where it is read
        yield from (path for path in paths if path.is_file() or not path.exists())


def _kind(path: Path) -> str | None:
    """Return the format that a file is surely in; None where it is not seen to be a log, or cannot be read twice."""
    if (path.exists() and not path.is_file()) or str(path) == "-":
        return None
    head = read_head(path, HEAD_BYTES)
    if _opens_with_an_event(head):  # most do, and then all that others look like need not be tried
        return NATIVE
    kind = format_of(head)
    return kind if kind != NATIVE or _is_native(head) else None


def _opens_with_an_event(head: bytes) -> bool:
    with suppress(ValueError):
        return bool(read_line(head[: head.find(b"\n")], zone_of("UTC")))
    return False


def _is_native(head: bytes) -> bool:
    """Return whether the lines of a file are events, or whether it has none yet."""
    lines = [line for line in map(bytes.strip, head.split(b"\n")) if line and line[:1] != b"#"]
    objects = [line for line in lines if line[:1] == b"{"]
    return not lines or (2 * len(objects) >= len(lines) and any(b'"event"' in line for line in objects))


def _one_format(kinds: dict[Path, str | None]) -> str:
    """Return the format of all files; those in which none is seen, as the second page of a report, have it too."""
    first: dict[str, Path] = {}
    for path in sorted(kinds, key=str):
        if kinds[path] is not None:
            first.setdefault(kinds[path], path)
    if len(first) > 1:
        said = ", ".join(f"{path} is {kind}" for kind, path in first.items())
        raise BadInput(f"logs must be of one format ({said}): name one with --from, or convert the others first")
    return next(iter(first), NATIVE)


def _left_out(path: Path, kind: str | None) -> Finding:
    said = f"is a log of another format, {kind}: left out" if kind else "holds no event of a known format: left out"
    return Finding("note", "no-log", printable(path), None, said)
