"""Many logs, or huge ones: whole jobs are read together, and only what is kept of them comes back.

A cheap look at the bytes tells which jobs each file names. Files that share a job are read as one log, in a process of
its own where that helps, and reduced there (`digest.py`), so that memory follows the largest such log and not their
number. The result is that of all files read at once, whatever the order of their names and the number of processes.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goodput.digest import Asked, Digest, asked_part, digest, merged
from goodput.errors import BadInput, NothingHappened, RunFailed
from goodput.events import Finding
from goodput.folder import find_logs
from goodput.importers import NATIVE, read_any
from goodput.line import read_line, zone_of
from goodput.lines import read_blocks

PART_BYTES = 32 << 20  # text that is read together; more where jobs are shared
WORKERS_BYTES = 96 << 20  # text that takes as long to read as workers take to start
PACKED = 20  # how far a log unpacks, about
FIRST_LINES = 10
_JOB = re.compile(rb'"job"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d+)')


class Reading(NamedTuple):
    """How logs are read; see `read_any`."""

    format: str | None = None
    timezone: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    causes: Path | None = None
    as_of: int | None = None


AS_IT_IS, ALL = Reading(), Asked()


class _Look(NamedTuple):
    jobs: set[str]
    size: int  # bytes of text
    first: int | None  # moment of the first event of a job, microseconds


def digest_logs(
    paths: Iterable[str | Path], reading: Reading = AS_IT_IS, asked: Asked = ALL, jobs: int | None = None
) -> Digest:
    """Return the digest of all logs that `paths` mean, files and folders, read by `jobs` processes (None: as help).

    Findings stand by file and line. Read at once, whatever their size, are logs that share jobs, logs of a foreign
    format, logs with a file of `causes` (an incident explains one interruption of all jobs), and what can be read only
    once, as standard input: those have to fit in memory.
    """
    files, format, left_out = find_logs(paths, reading.format)
    reading, asked = reading._replace(format=format), asked._replace(origin=asked.since)
    size = sum(map(_size, files))
    jobs = jobs or (1 if size < WORKERS_BYTES else os.cpu_count() or 1)
    parts = [tuple(files)]
    apart = format == NATIVE and reading.causes is None and all(file.is_file() for file in files)
    if apart and len(files) > 1 and size > PART_BYTES:
        looks = _values(_each(_look, [(file, reading.timezone) for file in files], jobs))
        parts = _parts(files, looks)
        if asked.since is None and len(parts) > 1:  # a guess, and most often right
            firsts = [look.first for look in looks if look.first is not None]
            asked = asked._replace(origin=min(firsts, default=0))
    found = merged(_digests(parts, reading, asked, jobs))
    return found._replace(findings=sorted([*left_out, *found.findings], key=_place))


def _size(file: Path) -> int:
    return file.stat().st_size * (PACKED if file.suffix == ".gz" else 1) if file.is_file() else 0


def _place(finding: Finding) -> tuple:
    return finding.file is None, finding.file or "", finding.line or 0


def _look(file: Path, timezone: str | None) -> _Look | BadInput:
    """Return what the bytes of a file tell without being read: a name too many costs time, and nothing else."""
    names: set[bytes] = set()
    size, first = 0, None
    try:
        for block in read_blocks(file):
            names |= set(_JOB.findall(block.data))
            first = _first_moment(block.data, timezone) if not size else first
            size += len(block.data)
    except BadInput as error:
        return error
    return _Look({name for token in names for name in _decoded(token)}, size, first)


def _decoded(token: bytes) -> list[str]:
    with suppress(ValueError):
        return [str(loads(token))]
    return []


def _first_moment(data: bytes, timezone: str | None) -> int | None:
    """Return the time of the first event of a job, where it is one of the first lines."""
    for line in data[: 1 << 16].split(b"\n", FIRST_LINES)[:FIRST_LINES]:
        with suppress(ValueError):
            row = read_line(line.strip(), zone_of(timezone))[0]
            if row["job"]:
                return row["time"]
    return None


def _parts(files: Sequence[Path], looks: Sequence[_Look]) -> list[tuple[Path, ...]]:
    """Return the files that are to be read together: those that share a job, and small ones until it is worth while.

    Files that name no job, as of the life of nodes, stand together with the first.
    """
    groups: dict[int, list[int]] = {}
    for at, label in enumerate(_connected([look.jobs or {None} for look in looks])):
        groups.setdefault(label, []).append(at)
    parts: list[list[int]] = []
    room = 0
    for group in groups.values():
        size = sum(looks[at].size for at in group)
        if parts and size <= room:
            parts[-1] += group
            room -= size
        else:
            parts.append(group)
            room = PART_BYTES - size
    return [tuple(files[at] for at in sorted(part)) for part in parts]


def _connected(named: Sequence[Iterable[Any]]) -> np.ndarray:
    """Return a label for each set of names; those that are joined by names, also through others, have the same."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    codes: dict[Any, int] = {}
    pairs = [(at, codes.setdefault(name, len(codes))) for at, names in enumerate(named) for name in names]
    row, column = np.array(pairs, int).reshape(-1, 2).T
    size = len(named) + len(codes)
    links = coo_array((np.ones(len(row), bool), (row, len(named) + column)), (size, size))
    return connected_components(links, directed=False)[1][: len(named)]


def _digests(parts: list[tuple[Path, ...]], reading: Reading, asked: Asked, jobs: int) -> list[Digest]:
    """Return the digests of all parts; what a look at the bytes had wrong is seen here, and read again."""
    found: dict[tuple[Path, ...], Digest | NothingHappened] = {}
    while True:
        new = [part for part in parts if part not in found]
        found |= zip(new, _values(_each(_digest, [(part, reading, asked) for part in new], jobs)), strict=True)
        parts, before = _joined(parts, found), parts
        if parts != before:
            continue
        digests = [found[part] for part in parts]
        origin = min((each.start for each in digests if each.start is not None), default=None)
        if asked.window_hours is None or asked.since is not None or origin is None or len(parts) == 1:
            return digests
        if origin == asked.origin:
            return digests
        asked, found = asked._replace(origin=origin), {}


def _joined(parts: list[tuple[Path, ...]], found: dict) -> list[tuple[Path, ...]]:
    """Return the parts, those as one that turned out to share a job; where nothing happened goes with the first."""
    whole = [part for part in parts if isinstance(found[part], Digest)]
    if not whole:
        raise found[parts[0]]
    names = [found[part].jobs.index if part in whole else found[whole[0]].jobs.index[:1] for part in parts]
    joined: dict[int, list[Path]] = {}
    for part, label in zip(parts, _connected(names), strict=True):
        joined.setdefault(label, []).extend(part)
    return [tuple(sorted(files, key=str)) for files in joined.values()]


def _digest(files: Sequence[Path], reading: Reading, asked: Asked) -> Digest | BadInput:
    try:
        log, findings = read_any(files, *reading)
        return digest(log, asked_part(log, asked), findings, asked)
    except BadInput as error:
        return error


def _values(results: Iterable[Any]) -> list[Any]:
    """Return what is no error; raises the first error in the order of the work, whichever came first."""
    try:
        values = list(results)  # to the end: workers that are left alone complain
    except BrokenExecutor:
        said = "a process that read logs was killed, most likely for want of memory: fewer --jobs need less"
        raise RunFailed(f"analyze: {said}") from None
    for each in values:
        if isinstance(each, BadInput) and not isinstance(each, NothingHappened):
            raise each
    return values


def _each(work: Callable, arguments: list[tuple], jobs: int) -> Iterable[Any]:
    from tqdm import tqdm

    results = (work(*each) for each in arguments)
    if min(jobs, len(arguments)) > 1:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=min(jobs, len(arguments)), return_as="generator")
        results = parallel(delayed(work)(*each) for each in arguments)
    # disable=None: silent where output is not a terminal
    return tqdm(results, total=len(arguments), unit="part", disable=True if len(arguments) == 1 else None, leave=False)
