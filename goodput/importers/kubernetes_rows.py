"""Kubernetes events and objects as rows, from JSON in any of the ways that it is written."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from goodput.errors import BadInput
from goodput.events import Finding, Unreadable
from goodput.importers.kubernetes_meaning import FAULT, OF_JOB, OVER, READY, RUN, Row, meaning_of
from goodput.line import NoZone, moment
from goodput.lines import read_blocks

WHOLE_BYTES = 256 << 20  # of a file that is not one object a line
_EVENT = ("involvedObject", "regarding")
_TIMES = ("ts", "time", "timestamp")
_GPU = ("nvidia.com/gpu", "amd.com/gpu")
_LIST = re.compile(r'\s*(?:\[|\{(?:[^{}\[\]]|\{[^{}]*\})*?"items"\s*:\s*\[)')
_NEXT = re.compile(r"[\s,]*")


class Reader:
    """The rows of a file, and the sizes of the jobs that it has the specification of."""

    def __init__(self, path: Path, zone: ZoneInfo | None):
        self.path, self.zone = path, zone
        self.rows: list[Row] = []
        self.seen: set[Row] = set()
        self.repeats: dict[tuple, tuple[int, int]] = {}  # object and reason -> how often it came, the line that says so
        self.sizes: dict[tuple, tuple[int, int]] = {}
        self.findings: list[Finding] = []
        self.unreadable: list[Unreadable] = []

    def read(self) -> None:
        """Read the file, text by text."""
        for line, read in _objects(self.path):
            try:
                self._take(read(), line)
            except NoZone as error:
                raise BadInput(f"{self.path}:{line}: {error}") from None
            except _Torn as error:
                self.unreadable.append(Unreadable(str(self.path), line, error.name, str(error)))
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                why = str(error) if type(error) is ValueError else "line must be a Kubernetes event or object"
                self.unreadable.append(Unreadable(str(self.path), line, None, why))
        self._count_hidden()

    def _take(self, found: Any, line: int) -> None:
        if isinstance(found, list):
            for each in found:
                self._take(each, line)
        elif not isinstance(found, dict):
            raise ValueError("line must be a JSON object, {...}")
        elif isinstance(found.get("object"), dict) and "reason" not in found:
            self._take(found["object"], line)  # as a watch prints it
        elif isinstance(found.get("items"), list):
            self._take(found["items"], line)
        elif any(isinstance(found.get(key), dict) for key in _EVENT):
            self._event(found, line)
        elif "reason" in found and any(key in found for key in _TIMES):
            self._row(line, self._moment(next(found[key] for key in _TIMES if key in found)), found, found)
        elif isinstance(found.get("metadata"), dict) and isinstance(found.get("kind"), str):
            self._object(found, line)
        else:
            raise ValueError("line must be a Kubernetes event or object")

    def _moment(self, value: Any) -> int:
        return moment(value, self.zone)

    def _row(self, line: int, time: int, about: dict, event: dict) -> Row:
        kind, name, reason = about.get("kind"), about.get("name"), event.get("reason")
        if not all(isinstance(each, str) and each for each in (kind, name, reason)):
            raise ValueError("event must have a kind, a name and a reason")
        message = event.get("message") or event.get("note") or ""
        source = event.get("source") or {}
        node = source.get("host") if isinstance(source, dict) else None
        node = event.get("node") or node
        row = Row(time, line, kind, about.get("namespace") or None, name, reason, str(message), node and str(node))
        if (same := row._replace(line=0)) not in self.seen:  # a watch tells the same again
            self.seen.add(same)
            self.rows.append(row)
        return row

    def _event(self, event: dict, line: int) -> None:
        about = next(event[key] for key in _EVENT if isinstance(event.get(key), dict))
        series = event.get("series") or {}
        begins = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
        ends = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("deprecatedLastTimestamp"))
        first = next((event[key] for key in begins if event.get(key)), None)
        last = next((time for time in ends if time), None)
        first = first or last or (event.get("metadata") or {}).get("creationTimestamp")
        row = self._row(line, self._moment(first), about, event)
        if last and self._moment(last) > row.time:
            self._row(line, self._moment(last), about, event)
        count = event.get("count") or event.get("deprecatedCount") or series.get("count") or 1
        key = row[2:6]
        if isinstance(count, int) and count > self.repeats.get(key, (1, 0))[0]:
            self.repeats[key] = (count, line)

    def _count_hidden(self) -> None:
        """Note how often something happened at a time that is not told: an Event keeps its first and last one only."""
        told = Counter(row[2:6] for row in self.rows)
        for key, (count, line) in self.repeats.items():
            kind, _, name, reason = key
            signal, _ = meaning_of(Row(0, 0, *key, ""))
            # a Pod that fails again and again while the job is down is one fault
            matters = signal in (FAULT, OVER, READY, RUN) and not (kind == "Pod" and signal == FAULT)
            if matters and (hidden := count - told[key]) > 0:
                said = f"{kind} {name}: {reason} came {count} times, {hidden} of them at times not told: left out"
                self.findings.append(Finding("note", "times-not-told", str(self.path), line, said))

    def _object(self, found: dict, line: int) -> None:
        kind, meta = found["kind"], found["metadata"]
        spec, status = found.get("spec") or {}, found.get("status") or {}
        about = {"kind": kind, "name": meta.get("name"), "namespace": meta.get("namespace")}
        if size := _size(kind, spec):
            self.sizes[about["namespace"], about["name"]] = size
        row = partial(self._row, line, about=about)
        if kind == "Pod":
            self._pod(row, spec, status)
        for condition in status.get("conditions") or []:
            if condition.get("status") == "True" and condition.get("lastTransitionTime"):
                time = self._moment(condition["lastTransitionTime"])
                row(time, event={"reason": _reason_of(kind, condition), "message": condition.get("message")})

    def _pod(self, row: Any, spec: dict, status: dict) -> None:
        node = spec.get("nodeName")
        if status.get("startTime") and node:
            event = {"reason": "Scheduled", "message": f"assigned pod to {node}", "node": node}
            row(self._moment(status["startTime"]), event=event)
        for container in status.get("containerStatuses") or []:
            for state in ((container.get(key) or {}) for key in ("state", "lastState")):
                started = (state.get("running") or state.get("terminated") or {}).get("startedAt")
                if started:
                    row(self._moment(started), event={"reason": "Started", "node": node})
                ended = state.get("terminated") or {}
                if ended.get("finishedAt") and ended.get("exitCode"):
                    said = {"reason": ended.get("reason") or "Error", "message": f"exit code {ended['exitCode']}"}
                    row(self._moment(ended["finishedAt"]), event={**said, "node": node})


class _Torn(ValueError):
    """A line that is not whole JSON, with the name that stands in it."""

    def __init__(self, text: str):
        super().__init__("line is not whole JSON")
        found = re.search(r'"name"\s*:\s*"([^"\\]{1,253})"', text)
        self.name = found[1] if found else None


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _Torn(text) from None


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the line of each JSON text, and what reads it: one a line, or texts over many lines."""
    rest: list[bytes] = []
    is_whole, size = None, 0
    for block in read_blocks(path):
        lines = block.data.split(b"\n")
        if is_whole is None:
            is_whole = _is_whole([line.strip() for line in lines if line.strip()])
        if is_whole:
            size += len(block.data)
            if size > WHOLE_BYTES:
                raise BadInput(f"{path}: one JSON text of over {WHOLE_BYTES:,} bytes: must be one event a line")
            rest.append(block.data)
            continue
        for number, line in enumerate(lines, block.first_line):
            text = line.strip(b"\r \t\0")
            if text and text[:1] != b"#":
                yield number, partial(_loads, text.decode("utf-8", "replace"))
    if is_whole:
        yield from _texts(b"".join(rest).decode("utf-8", "replace"))


def _is_whole(lines: list[bytes]) -> bool:
    """Return whether texts go over many lines: the first line is no object, and the second begins none."""
    if not lines or lines[0][:1] not in (b"{", b"["):
        return False
    try:
        json.loads(lines[0])
        return False
    except (ValueError, RecursionError):
        return lines[0] in (b"{", b"[") or (len(lines) > 1 and lines[1][:1] != b"{")


def _texts(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each object of texts over many lines, those of a List one by one: a torn one costs no other."""
    decoder, at, line, counted, in_list = json.JSONDecoder(), 0, 1, 0, False
    while (at := _NEXT.match(text, at).end()) < len(text):
        line, counted = line + text.count("\n", counted, at), at
        opens = None if in_list else _LIST.match(text, at)
        if opens:
            in_list, at = True, opens.end()
        elif in_list and text[at] == "]":
            in_list, at = False, _next_text(text, at)
        else:
            try:
                found, at = decoder.raw_decode(text, at)
                yield line, partial(lambda found: found, found)
            except (ValueError, RecursionError):
                after = _next_text(text, at + 1)
                yield line, partial(_loads, text[at : min(after, at + 4096)])
                in_list, at = False, after


def _next_text(text: str, at: int) -> int:
    found = text.find("\n{", at)
    return found + 1 if found >= 0 else len(text)


def _reason_of(kind: str, condition: dict) -> str:
    """Return a condition as the reason of an event."""
    type_, reason = str(condition.get("type")), str(condition.get("reason"))
    if kind == "Workload":
        return {"Evicted": f"EvictedDueTo{reason}", "Finished": f"Finished{reason}"}.get(type_, type_)
    if kind == "Node":
        return {"Ready": "NodeReady"}.get(type_, type_)
    if kind == "Pod":
        return reason if type_ == "DisruptionTarget" else type_
    return reason if type_ == "Failed" and reason in OF_JOB else type_


def _size(kind: str, spec: dict) -> tuple[int, int] | None:
    """Return Pods with GPUs, and GPUs of each, of a Job, a JobSet or a Workload; None where it has none."""
    parts: list[tuple[Any, Any]] = []
    if kind == "JobSet":
        for each in spec.get("replicatedJobs") or []:
            job = (each.get("template") or {}).get("spec") or {}
            parts.append((each.get("replicas", 1) * job.get("parallelism", 1), job.get("template")))
    elif kind == "Workload":
        parts = [(each.get("count", 1), each.get("template")) for each in spec.get("podSets") or []]
    elif "parallelism" in spec or kind == "Job":
        parts = [(spec.get("parallelism", 1), spec.get("template"))]
    sizes = [(pods, _gpus(template)) for pods, template in parts]
    sizes = [(pods, gpus) for pods, gpus in sizes if gpus and 0 < pods < 1e6]
    each = gcd(*(gpus for _, gpus in sizes))
    return (sum(pods * gpus // each for pods, gpus in sizes), each) if each and each <= 1000 else None


def _gpus(template: Any) -> int:
    containers = ((template or {}).get("spec") or {}).get("containers") or []
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return sum(int(each[name]) for each in limits for name in _GPU if re.fullmatch(r"\d{1,4}", str(each.get(name))))
