"""Kernel messages and health checks as alarms, one a line, in any of the clocks that they are stamped with."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from goodput.events import Finding
from goodput.line import moment
from goodput.lines import read_blocks

PROGRAM_XIDS = (13, 31, 43, 45, 68, 69)  # NVIDIA's guide to XIDs: mostly an error of the application
HARDWARE, PROGRAM, WARNING, STANDING = KINDS = ("hardware", "program", "warning", "standing")
FALLEN = "gpu_xid79"  # newer drivers print the words of XID 79 over three lines, without its number
NO_YEAR = 2000
MINUTE, HOUR = 60_000_000, 3_600_000_000
NO_TIME = -(2**63)
_HOST = r"(?:(?P<pdsh>[\w.-]+): +)?"
_BOOT = re.compile(_HOST + r"\[ *(?P<boot>\d{1,9}\.\d{1,9})\] ?")
_CTIME = re.compile(_HOST + r"\[\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<clock>[\d:]{8}) (?P<year>\d{4})\] ?")
_ISO = re.compile(
    _HOST + r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) +"
    r"(?:(?P<host>\S+) +kernel: ?)?"
)
_SYSLOG = re.compile(
    r"(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) +(?P<host>\S+) +kernel: ?"
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_PCI = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_PCI}(?:\.\d)?\): (\d{{1,5}})\b")
_SXID = re.compile(rf"SXid \((?:PCI:)?{_PCI}(?:\.\d)?\): (\d{{1,6}})\b")
_GPU = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}")
_FALLEN = re.compile(rf"(?:{_PCI}(?:\.\d)?\S* )?(?:GPU )?(?:has )?fallen off the bus")
_CLOCK = re.compile(r"setting system clock to .*\((\d{9,10})\)")
_KERNEL = (
    (re.compile(r"Out of memory: Killed process|oom-kill:"), "host_out_of_memory", PROGRAM),
    (re.compile(r"Hardware Error\]|Machine check events logged"), "machine_check", HARDWARE),
)
_READY = re.compile(r"\bready\b", re.IGNORECASE)
_NOT_READY = re.compile(r"\b(?:not|never|no longer|un)[ _-]?ready\b|stopped posting", re.IGNORECASE)
_SAID_XID = re.compile(r"\bxid\b\W{0,3}(\d{1,5})\b", re.IGNORECASE)
_FIELDS = {
    "time": ("ts", "time", "timestamp", "generatedTimestamp"),
    "node": ("node", "nodeName", "node_name", "host", "hostname"),
    "check": ("check", "checkName", "check_name"),
    "message": ("msg", "message", "MESSAGE"),
    "fatal": ("fatal", "isFatal", "is_fatal"),
    "healthy": ("healthy", "isHealthy", "is_healthy"),
}


class Alarm(NamedTuple):
    """One line that tells of trouble, or of its end."""

    line: int
    time: int | None
    node: str | None
    device: str | None
    cause: str
    kind: str  # hardware, program, warning; or `clear` of a condition, or `back` of a node
    is_point: bool  # something that happened; false for a condition that is true for a while


class Reader:
    """The alarms in a file, as they stand in it."""

    def __init__(self, path: Path, zone: ZoneInfo | None, boot_time: int | None):
        self.path, self.zone, self.boot_time = path, zone, boot_time
        self.found: list[tuple[Alarm, Any]] = []  # with a date that lacks its year, or seconds since boot
        self.findings: list[Finding] = []
        self.dated: list[int] = []
        self.pending: tuple[Any, str | None, str, int] | None = None  # a message over several lines
        self.line = 0
        self.is_known = self.lacks_year = self.has_no_zone = False

    def read(self) -> None:
        """Read the file, in blocks."""
        for block in read_blocks(self.path):
            for number, raw in enumerate(block.data.split(b"\n"), block.first_line):
                self.line, text = number, raw.decode("utf-8", "replace").strip("\r\0")
                if text.lstrip()[:1] == "{":
                    self._read_json(text)
                elif text.strip():
                    self._read_text(text)
        if self.has_no_zone:
            said = f"times without a zone are read as {self.zone.key if self.zone else 'UTC'}"
            self._say("note", "no-zone", None, said)

    def _say(self, severity: str, code: str, line: int | None, said: str) -> None:
        self.findings.append(Finding(severity, code, str(self.path), line, said))

    def _bad(self, why: str) -> None:
        self._say("warning", "unreadable", self.line, f"line could not be read ({why}): left out")

    def _moment(self, value: Any) -> int:
        try:
            naive = isinstance(value, str) and datetime.fromisoformat(value).tzinfo is None
        except ValueError:
            naive = False
        self.has_no_zone |= naive
        return moment(value, self.zone or ZoneInfo("UTC"))

    def _read_text(self, text: str) -> None:
        found = next((found for each in (_BOOT, _CTIME, _ISO, _SYSLOG) if (found := each.match(text))), None)
        when, host = None, None
        if found is not None:
            said = found.groupdict()
            host = said.get("host") or said.get("pdsh")
            try:
                when = self._when(said)
            except ValueError as error:
                self._bad(str(error))
                return
            self.is_known = True
            text = text[found.end() :]
        self._read_kernel(text, when, host)

    def _when(self, said: dict[str, str | None]) -> Any:
        """Return a time in us, a date without a year as a tuple, or seconds since boot as a float."""
        if said.get("boot"):
            return float(said["boot"])
        if said.get("iso"):
            return self._dated(self._moment(said["iso"].replace(",", ".")))
        if said["month"] not in _MONTHS:
            raise ValueError("no such month")
        date = (_MONTHS.index(said["month"]) + 1, int(said["day"]), said["clock"])
        return self._dated(self._with_year(int(said["year"]), date)) if said.get("year") else date

    def _dated(self, time: int) -> int:
        self.dated.append(time)
        return time

    def _with_year(self, year: int, date: tuple[int, int, str]) -> int:
        return self._moment(f"{year:04}-{date[0]:02}-{date[1]:02} {date[2]}")

    def _read_kernel(self, text: str, when: Any, host: str | None) -> None:
        if when is None and not (self.pending and text[:1].isspace()):
            return
        clock = _CLOCK.search(text)
        if clock and isinstance(when, float) and self.boot_time is None:
            self.boot_time = int(clock[1]) * 1_000_000 - round(when * 1e6)
        elif found := _XID.search(text):
            self._xid(when, host, found[1], int(found[2]))
        elif found := _SXID.search(text):
            self._add(when, host, _device(found[1]), f"nvswitch_sxid{int(found[2])}", HARDWARE)
        elif found := _GPU.search(text):
            self.pending = (when, host, found[1], self.line)
        elif found := _FALLEN.search(text):
            self._fallen(when, host, found[1])
        elif "Linux version " in text:
            self._add(when, host, None, "boot", "back")
        else:
            for pattern, cause, kind in _KERNEL:
                if pattern.search(text):
                    self._add(when, host, None, cause, kind)

    def _xid(self, when: Any, host: str | None, device: str, xid: int) -> None:
        self._add(when, host, _device(device), f"gpu_xid{xid}", PROGRAM if xid in PROGRAM_XIDS else HARDWARE)

    def _fallen(self, when: Any, host: str | None, device: str | None) -> None:
        """Add a card that fell off the bus; where the line does not name it, a line shortly before did."""
        before, self.pending = self.pending, None
        line = self.line
        if device is None and before and line - before[3] <= 4 and host in (None, before[1]):
            when, host, device, line = before
        if when is not None:
            self._add(when, host, device and _device(device), FALLEN, HARDWARE, line=line)

    def _add(self, when, node, device, cause, kind, is_point: bool = True, line: int | None = None) -> None:
        time = when if isinstance(when, int) else None
        self.found.append((Alarm(line or self.line, time, node, device, cause, kind, is_point), when))

    def _read_json(self, text: str) -> None:
        try:
            fields = json.loads(text)
            for each in _checks(fields):
                self._check(each)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            known = type(error) is ValueError
            self._bad(str(error) if known else "line is not whole JSON of a health check")

    def _check(self, fields: dict) -> None:
        said = {name: next((fields[key] for key in keys if key in fields), None) for name, keys in _FIELDS.items()}
        time, node = said["time"], said["node"] or fields.get("_HOSTNAME")
        if isinstance(fields.get("__REALTIME_TIMESTAMP"), str) and fields["__REALTIME_TIMESTAMP"].isdigit():
            time = int(fields["__REALTIME_TIMESTAMP"]) / 1e6  # journalctl -o json
        if isinstance(time, dict):
            time = int(time.get("seconds", -1)) + int(time.get("nanos", 0)) / 1e9
        when, message = self._dated(self._moment(time)), str(said["message"] or "")
        self.is_known = True
        if said["check"] is None:
            self._read_kernel(message, when, node)
        elif not isinstance(node, str) or not node:
            raise ValueError("health check must name its node")
        else:
            self._add(when, node, _device_of(fields), *_verdict(str(said["check"]), message, said, fields))

    def dated_alarms(self) -> list[Alarm]:
        """Return the alarms with their times, as far as they have any."""
        out, lacking = [], 0
        for alarm, when in self.found:
            if isinstance(when, float):
                time = None if self.boot_time is None else self.boot_time + round(when * 1e6)
                lacking += time is None and alarm.kind != "back"
                alarm = alarm._replace(time=time)
            elif isinstance(when, tuple):
                alarm = alarm._replace(time=self._nearest(when))
            out.append(alarm)
        if lacking:
            said = f"{lacking} alarms say seconds since boot, and no line when that was: they have an order, no time"
            self._say("warning", "no-boot-time", None, said)
        if self.lacks_year:
            said = "no line says a year: that of the log is taken where causes are joined to one"
            self._say("warning", "no-year", None, said)
        return out

    def _nearest(self, date: tuple[int, int, str]) -> int | None:
        """Return the moment of a date without a year, in the year that brings it next to the dated lines."""
        self.lacks_year |= not self.dated
        near = self.dated[0] if self.dated else None
        year = NO_YEAR if near is None else datetime.fromtimestamp(near / 1e6, self.zone or ZoneInfo("UTC")).year
        times = []
        for each in [year] if near is None else [year - 1, year, year + 1]:
            try:
                times.append(self._with_year(each, date))
            except ValueError:  # no such day
                continue
        return min(times, key=lambda time: abs(time - (near or 0)), default=None)


def _checks(fields: Any) -> Iterator[dict]:
    """Yield the health checks of a JSON text: itself, or those that a monitor logs as a list."""
    if not isinstance(fields, dict):
        raise ValueError("line must be a JSON object, {...}")
    for key in ("healthEvents", "events"):
        inner = fields.get(key)
        inner = inner.get("events") if isinstance(inner, dict) else inner
        if isinstance(inner, list):
            yield from (each for each in inner if isinstance(each, dict))
            return
    yield fields


def _verdict(check: str, message: str, said: dict[str, Any], fields: dict) -> tuple[str, str, bool]:
    """Return the cause, the kind of a health check's line, and whether it tells of something that happened."""
    if check in ("NodeReady", "Ready"):
        is_up = said["healthy"] is True or (_READY.search(message) and not _NOT_READY.search(message))
        return "node_not_ready", "back" if is_up and not said["fatal"] else HARDWARE, False
    cause = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", check).strip("_").lower()[:80] or "health_check"
    if said["healthy"] is True:
        return cause, "clear", False
    code = (fields.get("errorCode") or [None])[0] if isinstance(fields.get("errorCode"), list) else None
    xid = _SAID_XID.search(message) or ("xid" in check.lower() and re.fullmatch(r"(\d{1,5})", str(code)))
    if xid:
        return f"gpu_xid{int(xid[1])}", PROGRAM if int(xid[1]) in PROGRAM_XIDS else HARDWARE, True
    if _FALLEN.search(message):
        return FALLEN, HARDWARE, True
    return cause, HARDWARE if said["fatal"] else WARNING, False


def _device_of(fields: dict) -> str | None:
    for each in fields.get("entitiesImpacted") or []:
        if isinstance(each, dict) and each.get("entityType") == "PCI":
            return _device(str(each.get("entityValue")))
    return None


def _device(pci: str) -> str:
    """Return a PCI address as domain:bus:device.

    >>> _device("00000000:B3:00.0"), _device("0000:44:00")
    ('0000:b3:00', '0000:44:00')
    """
    domain, _, rest = pci.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"
