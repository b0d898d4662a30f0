"""The job timeline of Google's ML Goodput Measurement library: JSON Lines of its entries, or saved Cloud Logging.

Read are one entry a line; the same wrapped by Cloud Logging (`jsonPayload`, `timestamp`, `insertId`), also as
`gcloud logging read --format=json` prints them and as pages of its API (`entries`); and the records that Orbax logs.

Raw columns: `job_name`, and one of these with its time (seconds since 1970 UTC, or ISO 8601).

| raw | ours |
|---|---|
| `job_start_time` | the first: launch; while training: interrupt then, `after` the last sign of life, and nodes_ready |
| start and end of `tpu_init`, `training_prep`, `data_loading`; restores | nothing: before the first step, so restart |
| `step_start_time` of a `step_count` | first of an attempt: start or running; where it does not grow: interrupt too |
| a step number left out | gap from the last step's start to the next one's, then resume |
| `event_type` save (of Orbax) | checkpoint_start, checkpoint_end; async where not `synchronous` |
| the step that a later attempt goes on from | a save of no length when that step began in the attempt before |
| `custom_badput_event` with its type | pause and resume; the type is the cause |
| `elastic_wait`, `elastic_reinit` | interrupt and detected, nodes_ready; the cause is known |
| `active_slices` at `elastic_slice_counts_timestamp` | resize: a node is a slice, chips that come and go together |
| `job_end_time` | end; interrupt where later steps show that work was lost by it |

A step lasts from its start to the next one's: data loading and compiling in between are in productive.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from goodput.errors import BadInput, printable
from goodput.events import Finding, Imported, make_log
from goodput.importers.ml_goodput_entries import Bad, Entry, Place, Save
from goodput.importers.ml_goodput_steps import Row, job_events
from goodput.importers.ml_goodput_text import objects, payloads, value_of
from goodput.line import NoZone, moment, zone_of
from goodput.lines import read_blocks

UTC, NO_TIME = "UTC", np.iinfo("int64").min
_PAIRS = ("job", "tpu_init", "training_prep", "data_loading", "custom_badput_event", "elastic_wait", "elastic_reinit")
# the key that holds an entry's time -> what it tells of
_KINDS = {f"{name}_{edge}_time": f"{name}_{edge}" for name in _PAIRS for edge in ("start", "end")}
_KINDS |= {"step_start_time": "step", "elastic_slice_counts_timestamp": "slices"}
_TYPES = {"custom_badput_event": "custom_badput_event_type", "elastic_wait": "elastic_wait_event_type"}
_SLICES = ("active_slices", "available_slices", "total_slices")
_ORBAX = {"save": "save", "restore": "restore", "emergency_restore": "restore"}
# where Orbax tells for how long it held up training, the whole of it first: the start, and the length or the end
_HELD_UP = (
    ("checkpoint_manager_blocking_start_time", "checkpoint_manager_blocking_duration_secs"),
    ("checkpoint_manager_blocking_start_time", "checkpoint_manager_blocking_end_time"),
    ("checkpoint_manager_start_time", "checkpoint_manager_duration_secs"),
    ("checkpointer_blocking_start_time", "checkpointer_blocking_duration_secs"),
    ("checkpointer_start_time", "checkpointer_duration_secs"),
    ("start_time", "end_time"),
    ("checkpoint_start_time", "checkpoint_end_time"),
)
_WAITED = tuple(("wait_for_prev_start_time", f"wait_for_prev_{rest}") for rest in ("duration_secs", "end_time"))
_OWN_KEYS = {*_KINDS, *(start for start, _ in _HELD_UP if start.startswith("checkpoint"))}
_LARGEST_STEP, _MOST_SLICES, _LONGEST_SECONDS = 2**53, 10_000_000, 1_000_000
_GIVE_UP_LINES = 1000  # so many that cannot be read, and none that can


def looks_like_ml_goodput(head: bytes) -> bool:
    """Return whether the first bytes are surely of such a timeline: the first entry in them is one of its own."""
    try:
        first = next((text for _, text in objects([(1, head)])), b"")
        payload = next((payload for payload, _ in payloads(value_of(first))), {})
    except ValueError:
        return False
    return _is_name(payload.get("job_name")) and not _OWN_KEYS.isdisjoint(payload)


def read_ml_goodput(path: str | Path | Iterable[str | Path], timezone: str | None = None) -> Imported:
    """Return the events of a timeline, of one file or of several that are pages of one, and what it leaves open.

    Times without a zone are UTC, as the library writes them, or in `timezone`. A line that cannot be read is a finding,
    and a gap where training went on around it. Raises BadInput for a file without an entry of the library's.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    reader = _Reader([printable(path) for path in paths], zone_of(timezone or UTC))
    for number, each in enumerate(paths):
        reader.read(each, number)
    reader.settle()
    if not reader.entries:
        why = f"; line {reader.bad[0].place.line}: {reader.bad[0].why}" if reader.bad else ""
        raise BadInput(f"{' '.join(reader.files)}: must hold entries of the ml-goodput timeline{why}")
    rows, findings = [], reader.findings()
    for job, entries in sorted(reader.entries.items()):
        events, found = job_events(job, entries, reader.bad_within(job), reader.files)
        rows += [{**event, "job": job} for event in events]
        findings += found
    return Imported(_log(rows, reader.files), findings, [])


def _log(rows: list[Row], files: list[str]) -> pd.DataFrame:
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in ("time", "event", "job")}
    columns |= {name: [row.get(name) for row in rows] for name in ("cause", "id", "resumed_from")}
    columns |= {name: [row.get(name, False) for row in rows] for name in ("planned", "async")}
    columns |= {"after": [row.get("after", NO_TIME) for row in rows]}
    columns |= {"nodes": ([row.get("nodes") or 0 for row in rows], [row.get("nodes") is None for row in rows])}
    columns |= {"file": [files[row["place"].file] for row in rows], "line": [row["place"].line for row in rows]}
    return make_log(columns | {"step": np.array([row.get("step") for row in rows], float)})


class _Reader:
    """Takes in files line by line: entries by job, lines that could not be read, and what else was odd."""

    def __init__(self, files: list[str], zone: ZoneInfo):
        self.files, self.zone = files, zone
        self.entries: dict[str, list[Entry]] = defaultdict(list)
        self.nameless: list[Entry] = []
        self.bad: list[Bad] = []
        self.odd: dict[str, tuple[int, Place]] = {}  # code of a finding -> how often, and where first
        self.place = Place(0, 0)

    def read(self, path: Path, number: int) -> None:
        bad = None
        for line, text in objects(self._blocks(path, number)):
            self.place, bad = Place(number, line), None
            try:
                for payload, wrapper in payloads(value_of(text)):
                    self._take(payload, wrapper)
            except ValueError as error:
                bad = Bad(self.place, _job_in(text), str(error), False)
                self.bad.append(bad)
            if len(self.bad) >= _GIVE_UP_LINES and not self.entries:
                return
        if bad:
            self.bad[-1] = bad._replace(is_tail=True)

    def _blocks(self, path: Path, number: int) -> Iterator[tuple[int, bytes]]:
        for block in read_blocks(path):
            yield block.first_line, block.data
            if block.breaks_off:
                self.place = Place(number, 0)
                self._note("cut-file")

    def _note(self, code: str) -> None:
        count, first = self.odd.get(code, (0, self.place))
        self.odd[code] = count + 1, first

    def _take(self, payload: dict[str, Any], wrapper: dict[str, Any]) -> None:
        logged = self._logged(wrapper["timestamp"]) if "timestamp" in wrapper else 0
        given = [key for key in payload if key in _KINDS and payload[key] is not None]
        found = [self._entry(payload, key, _KINDS[key], logged) for key in given]
        operation = payload.get("event_type")
        if isinstance(operation, str) and operation in _ORBAX:
            found.append(self._save(payload, _ORBAX[operation], logged))
        if not found:
            self._note("other-entries")
        found = [entry for entry in found if entry]
        name = payload.get("job_name")
        if found:
            (self.entries[_text(name)] if _is_name(name) else self.nameless).extend(found)

    def _logged(self, time: Any) -> int:
        try:
            return moment(time, self.zone)
        except ValueError:
            return 0  # it serves only where an entry has no time of its own

    def _entry(self, payload: dict[str, Any], key: str, kind: str, logged: int) -> Entry | None:
        time, value = self._time(payload, key), None
        if kind == "step":
            value = _whole(payload, "step_count", _LARGEST_STEP)
        elif type_key := _TYPES.get(kind.rpartition("_")[0]):
            value = _text(payload.get(type_key) or "unknown")
        elif kind == "slices":
            try:
                value = tuple(_whole(payload, name, _MOST_SLICES) for name in _SLICES)
            except ValueError:
                self._note("absurd-size")
                return None
        return Entry(time, kind, value, time, logged, self.place)

    def _save(self, payload: dict[str, Any], kind: str, logged: int) -> Entry | None:
        """Return a save or a restore; Orbax logs it when it no longer holds up training."""
        start, end = self._stretch(payload, _HELD_UP)
        if start is None and not logged:
            self._note("no-save-time")
            return None
        start, end = (logged, logged) if start is None else (start, end)
        step = None if payload.get("step") is None else _whole(payload, "step", _LARGEST_STEP)
        flags = payload.get("synchronous") is False, payload.get("reached_preemption") is True
        _, waited = self._stretch(payload, _WAITED)
        return Entry(start, kind, Save(step, *flags, waited), end, logged, self.place)

    def _stretch(self, payload: dict[str, Any], keys: Iterable[tuple[str, str]]) -> tuple[int | None, int | None]:
        for first, second in keys:
            if payload.get(first) is not None and payload.get(second) is not None:
                start = self._time(payload, first)
                return start, start + _length(payload, second) if "duration" in second else self._time(payload, second)
        return None, None

    def _time(self, payload: dict[str, Any], key: str) -> int:
        value = payload[key]
        if isinstance(value, str) and re.fullmatch(r"[0-9]{9,}(\.[0-9]+)?", value):
            value = float(value)
        try:
            return moment(value)
        except NoZone:
            self._note_no_zone(value)
            return moment(value, self.zone)
        except ValueError as error:
            raise ValueError(f"{key}={str(value)[:60]!r} must be {error}") from None

    def _note_no_zone(self, value: str) -> None:
        self._note("no-zone")
        local = datetime.fromisoformat(value).replace(tzinfo=self.zone)
        if local.utcoffset() != local.replace(fold=1).utcoffset():
            self._note("ambiguous-time")

    def settle(self) -> None:
        """Give entries without a job to the only job there is."""
        if len(self.entries) == 1:
            for entries in self.entries.values():
                entries += self.nameless
                entries.sort(key=attrgetter("place"))
        else:
            self.bad += [Bad(entry.place, None, "job_name must be given", False) for entry in self.nameless]
        self.bad.sort(key=attrgetter("place"))

    def bad_within(self, job: str) -> list[Bad]:
        """Return the lines that could not be read, between those of a job, that may be of it."""
        first, last = (self.entries[job][at].place for at in (0, -1))
        ends = (bisect_left(self.bad, place, key=attrgetter("place")) for place in (first, last))
        return [each for each in self.bad[slice(*ends)] if each.job in (None, job)]

    def findings(self) -> list[Finding]:
        """Return what was found in the lines as such."""
        said = {
            "no-zone": ("note", f"{{}} times have no zone: read as {self.zone}"),
            "ambiguous-time": ("note", f"{{}} times are ambiguous in {self.zone}: read with the offset from before"),
            "other-entries": ("note", "{} lines are no entries of a timeline: left out"),
            "absurd-size": ("warning", f"{{}} slice counts are not whole numbers from 0 to {_MOST_SLICES:,}: left out"),
            "no-save-time": ("warning", "{} saves or restores have no time: left out"),
            "cut-file": ("warning", "the packed file breaks off before its end: read up to there"),
        }
        found = [(code, *said[code], *self.odd[code]) for code in said if code in self.odd]
        return [
            Finding(severity, code, self.files[first.file], first.line or None, text.format(count))
            for code, severity, text, count, first in found
        ] + [self._unread(bad) for bad in self.bad]

    def _unread(self, bad: Bad) -> Finding:
        if bad.is_tail:
            said = f"the last line is cut off, as by a writer that was stopped: left out ({bad.why})"
            return Finding("note", "cut-tail", self.files[bad.place.file], bad.place.line, said)
        said = f"line could not be read ({bad.why}); the steps around it are unattributed, numbers incomplete"
        return Finding("warning", "unreadable", self.files[bad.place.file], bad.place.line, said)


def _whole(payload: dict[str, Any], key: str, most: int) -> int:
    number = payload.get(key)
    if isinstance(number, str) and re.fullmatch("[0-9]{1,15}", number):
        number = int(number)
    # Cloud Logging keeps whole numbers as floats
    if type(number) not in (int, float) or not 0 <= number <= most or number != int(number):
        raise ValueError(f"{key}={str(number)[:60]!r} must be a whole number from 0 on")
    return int(number)


def _length(payload: dict[str, Any], key: str) -> int:
    seconds = payload[key]
    if type(seconds) not in (int, float) or not abs(seconds) <= _LONGEST_SECONDS:
        raise ValueError(f"{key}={str(seconds)[:60]!r} must be a number of seconds up to {_LONGEST_SECONDS:,}")
    return round(seconds * 1e6)


def _is_name(name: Any) -> bool:
    return type(name) in (str, int) and name != ""


def _text(value: Any) -> str:
    # half of a surrogate pair is legal in JSON, but it is no text
    return str(value).encode("utf-8", "replace").decode()


def _job_in(text: bytes) -> str | None:
    """Return the job that a torn line names in full, if it does."""
    found = re.search(rb'"job_name"\s*:\s*"([^"\\]+)"', text)
    return found[1].decode("utf-8", "replace") if found else None
