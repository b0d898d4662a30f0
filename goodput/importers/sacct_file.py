"""What does a file of sacct hold? Text or JSON, line by line or job by job, becomes records."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from goodput.errors import BadInput, printable
from goodput.events import Finding, Unreadable
from goodput.importers.sacct_fields import Clock, Record, id_of, record_of
from goodput.importers.sacct_json import JOBS, jobs_of_json, rows_of_json
from goodput.line import zone_of
from goodput.lines import Block, read_blocks

JSON_BYTES = 64 << 20  # `sacct --json` may come as one line


class Found:
    """What reading has found so far: records, findings, lines that could not be read, jobs that are only counted."""

    def __init__(self, timezone: str | None):
        self.clock = Clock(zone_of(timezone or "UTC"))
        self.is_zone_given = timezone is not None
        self.files: list[str] = []
        self.records: list[Record] = []
        self.findings: list[Finding] = []
        self.unreadable: list[Unreadable] = []
        self.tells_attempts = False  # something says how often a job was requeued
        self._counts: dict[str, list[str]] = {}

    def say(self, severity: str, code: str, record: Record, message: str) -> None:
        """Add a finding at the line of a record."""
        self.findings.append(Finding(severity, code, record.file, record.line, message))

    def say_of_file(self, code: str, message: str) -> None:
        """Add a note on the whole file."""
        self.findings.append(Finding("note", code, self.files[0], None, message))

    def count(self, code: str, job: str) -> None:
        """Count a job for a note that names all of its kind."""
        self._counts.setdefault(code, []).append(job)

    def say_counts(self) -> None:
        """Add the notes on jobs that were counted, and on the zone."""
        if self.clock.was_needed and not self.is_zone_given:
            self.say_of_file("no-zone", "times have no zone: read as UTC; give --timezone NAME")
        for code, jobs in self._counts.items():
            names = ", ".join(dict.fromkeys(jobs[:5])) + (", ..." if len(jobs) > 5 else "")
            self.say_of_file(code, f"{_COUNTED[code]}: {len(jobs)} ({names})")

    def add(self, row: dict[str, Any], file: str, line: int) -> None:
        """Add the record of a row. Raises ValueError where it is none."""
        self.records.append(record_of(row, self.clock, file, line))

    def set_aside(self, row: dict[str, Any], why: str, file: str, line: int) -> None:
        """Keep a line that could not be read; one of a step costs nothing but what the step would have told."""
        try:
            job, _, step = id_of(row)
        except ValueError:
            job, step = None, None
        if step is None:
            self.unreadable.append(Unreadable(file, line, job, why))
        else:
            said = f"job {job}: its step {step} could not be read ({why}): left out"
            self.findings.append(Finding("warning", "odd-step", file, line, said))


_COUNTED = {
    "never-ran": "jobs that never ran, and held nothing",
    "still-waiting": "jobs that wait in the queue, and hold nothing",
    "no-gpus": "jobs without GPUs, left out",
    "duplicates": "records of an attempt that another one tells as well or better, left out",
}
# Texts that a user writes: sacct does not escape what stands in them.
_FREE = ("jobname", "submitline", "comment", "admincomment", "systemcomment", "extra", "constraints", "workdir")
_LISTS = {"alloctres", "nodelist", "reqtres", "allocgres", "reqgres"}
_NEEDED = {
    "Start": {"start"},
    "End or Elapsed": {"end", "elapsed", "elapsedraw"},
    "NNodes, AllocNodes, AllocTRES or NodeList": {"nnodes", "allocnodes", "alloctres", "nodelist"},
}
_LIKELY = "JobID,JobName,State,Submit,Start,End,Elapsed,Suspended,NNodes,AllocTRES,NodeList,ExitCode"
_MOST_GUESSES = 16
_MOST_BROKEN_LINES = 10  # that the name of one job may go over
_HEADER_WITHIN = 50  # lines: a shell may greet before sacct speaks


class Table(NamedTuple):
    """The header of a text: columns, what stands between them, and whether it stands behind the last one too (-p)."""

    columns: tuple[str, ...]
    delimiter: str
    is_closed: bool

    def rows(self, text: str) -> Iterator[dict[str, str]]:
        """Yield a line as a row; where free texts hold the delimiter, as each row that it may be. Only the right one
        has a state, times and durations in their columns."""
        fields = text.split(self.delimiter)
        if self.is_closed and len(fields) > len(self.columns) and not fields[-1]:
            fields.pop()
        surplus = len(fields) - len(self.columns)
        if surplus < 0:
            return
        free = [name for name in _FREE if name in self.columns]
        for wider in itertools.islice(itertools.combinations_with_replacement(free, surplus), _MOST_GUESSES):
            wide, parts = Counter(wider), iter(fields)
            yield {name: self.delimiter.join(itertools.islice(parts, 1 + wide[name])) for name in self.columns}


def looks_like_sacct(head: bytes) -> bool:
    """Return whether the first bytes of a file can only be the header of `sacct -P`, or the JSON of sacct."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if text.startswith("{"):
        return '"jobs"' in text and '"allocation_nodes"' in text  # squeue has no such field
    table = header_of(text.partition("\n")[0])
    return table is not None and table.delimiter == "|"


def header_of(text: str) -> Table | None:
    """Return the columns that a line names, None where it is no header of sacct.

    >>> header_of("JobID|State|End|")
    Table(columns=('jobid', 'state', 'end'), delimiter='|', is_closed=True)
    """
    if len(text) > 10_000 or "state" not in text.lower() or "jobid" not in text.lower():
        return None
    text = text.strip("\r\n ")
    between = set(re.split(r"[A-Za-z]\w*(?:%-?\d+)?", text)) - {""}
    delimiter = " " if between and all(map(str.isspace, between)) and "\t" not in between else min(between, default="|")
    names = [name.strip().partition("%")[0].lower() for name in text.split(delimiter)]
    names = [name for name in names if name] if delimiter == " " else names
    is_closed = names[-1] == ""
    columns = tuple(names[:-1] if is_closed else names)
    is_one = "state" in columns and not {"jobid", "jobidraw"}.isdisjoint(columns)
    return Table(columns, delimiter, is_closed) if is_one and (len(between) == 1 or delimiter == " ") else None


def read_records(path: Path, found: Found) -> None:
    """Add the records of a file, text or JSON, to what was found. Raises BadInput for a file that is not of sacct."""
    found.files.append(printable(path))
    blocks = _blocks(path, found)
    first = next(blocks, Block(b"", 1, False))
    if first.data.lstrip()[:1] == b"{":
        _read_json(itertools.chain([first], blocks), printable(path), found)
    else:
        _read_text(_lines(itertools.chain([first], blocks)), printable(path), found)


def _blocks(path: Path, found: Found) -> Iterator[Block]:
    for block in read_blocks(path, JSON_BYTES):
        if block.breaks_off:
            said = "the packed file breaks off before its end: read up to there"
            found.findings.append(Finding("warning", "cut-file", printable(path), None, said))
        yield block


def _lines(blocks: Iterator[Block]) -> Iterator[tuple[int, str]]:
    for block in blocks:
        for number, line in enumerate(block.data.removesuffix(b"\n").split(b"\n"), block.first_line):
            yield number, line.decode("utf-8", "replace").strip("\r\0")


def _read_text(lines: Iterator[tuple[int, str]], file: str, found: Found) -> None:
    """Read a table line by line. A line that is none by itself may be a part of a name that goes over several."""
    table, greeting, waiting = None, 0, []
    for number, text in lines:
        header = header_of(text)
        if header is not None:  # not only the first: reports may be put behind each other
            _give_up(table, waiting, file, found)
            table, waiting = _checked(header, f"{file}:{number}"), []
        elif table is None:
            greeting += 1
            if greeting > _HEADER_WITHIN:
                break
        elif _is_added(table, text, file, number, found):
            _give_up(table, waiting, file, found)
            waiting = []
        elif waiting or (text.strip() and not text.startswith("#")):
            waiting = _wait(table, [*waiting, (number, text)], file, found)
    if table is None:
        rule = "output of sacct -P (first a line of columns, with JobID and State) or of sacct --json"
        raise BadInput(f"{file}: file must be {rule}")
    _give_up(table, waiting, file, found)


def _checked(table: Table, where: str) -> Table:
    has = set(table.columns)
    if table.delimiter == " ":
        raise BadInput(f"{where}: columns must be divided by '|': give sacct -P")
    if table.delimiter == "," and has & _LISTS:
        raise BadInput(f"{where}: columns must not be divided by commas, which lists of nodes and resources hold")
    missing = [said for said, names in _NEEDED.items() if not has & names]
    if missing:
        raise BadInput(f"{where}: columns must also be {' and '.join(missing)}; --format={_LIKELY} would do")
    return table


def _is_added(table: Table, text: str, file: str, line: int, found: Found) -> bool:
    for row in table.rows(text):
        try:
            found.add(row, file, line)
            return True
        except ValueError:
            continue
    return False


def _wait(table: Table, waiting: list[tuple[int, str]], file: str, found: Found) -> list[tuple[int, str]]:
    """Return the lines that wait for more; none where the last of them are one record."""
    may_break = any(name in table.columns for name in _FREE)
    for at in range(len(waiting) - 1 if may_break else 0):
        number = waiting[at][0]
        if _is_added(table, "\n".join(text for _, text in waiting[at:]), file, number, found):
            said = f"lines {number} to {waiting[-1][0]} are one record: read as a name with line breaks"
            found.findings.append(Finding("note", "broken-line", file, number, said))
            _give_up(table, waiting[:at], file, found)
            return []
    if len(waiting) > _MOST_BROKEN_LINES:
        _give_up(table, waiting[:1], file, found)
        return waiting[1:]
    return waiting


def _give_up(table: Table | None, waiting: list[tuple[int, str]], file: str, found: Found) -> None:
    for number, text in waiting:
        if text.strip() and table is not None:
            row = next(table.rows(text), {table.columns[0]: text.split(table.delimiter)[0]})
            try:
                record_of(row, found.clock, file, number)
                why = ""
            except ValueError as error:
                why = str(error)
            short = f"a line must have {len(table.columns)} fields, as its header"
            found.set_aside(row, why if len(row) == len(table.columns) else short, file, number)


_JSON_BYTES = 512 << 20


def _read_json(blocks: Iterator[Block], file: str, found: Found) -> None:
    parts, size = [], 0
    for block in blocks:
        parts.append(block.data)
        size += len(block.data)
        if size > _JSON_BYTES:
            raise BadInput(f"{file}: JSON must be at most {_JSON_BYTES:,} bytes; sacct -P is read in any size")
    text = b"".join(parts).decode("utf-8", "replace")
    if not JOBS.search(text):
        raise BadInput(f'{file}: JSON must be of sacct --json, with a list "jobs"')
    for line, job in jobs_of_json(text):
        _add_json(job, file, line, found)


def _add_json(job: Any, file: str, line: int, found: Found) -> None:
    row: dict[str, Any] = {}
    try:
        for row in rows_of_json(job):
            found.add(row, file, line)
    except ValueError as error:  # of a step: what the steps behind it tell is not known either
        found.set_aside(row, str(error), file, line)
