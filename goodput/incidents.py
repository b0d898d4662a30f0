"""What is broken? Alarms become incidents: one broken node with many alarms is one, until it is back."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.alarms import HARDWARE, HOUR, KINDS, MINUTE, NO_TIME, PROGRAM, STANDING, WARNING, Alarm, Reader
from goodput.errors import BadInput
from goodput.events import Finding
from goodput.line import zone_of

SILENT_HOURS = 24  # a node that says nothing for longer has a new incident after it; a condition is standing
REPEAT_MINUTES = 10  # the same XID of the same device within this is the same error
COLUMNS = ("time", "last", "until", "node", "device", "cause", "kind", "alarms", "line", "has_year")


class Causes(NamedTuple):
    """What a file of kernel messages or health checks says.

    `incidents` has one row an incident, in order of time: `time` of the first sign, `last` of the last alarm, `until`
    (the node was back), `node`, `device`, `cause`, `kind`, `alarms` (how many), `line` of the first, `has_year` (false
    where the file has none: then differences of its times mean something, dates do not). What is not known is null.
    """

    incidents: pd.DataFrame
    findings: list[Finding]
    file: str


@dataclass
class _Incident:
    alarms: list[Alarm]
    until: int | None = None
    conditions: set[str] = field(default_factory=set)

    @property
    def last(self) -> int | None:
        return self.alarms[-1].time


def read_causes(path: str | Path, timezone: str | None = None, boot_time: int | None = None) -> Causes:
    """Return the incidents of a file of kernel messages or health checks.

    Times without a zone are read in `timezone`, or as UTC. `boot_time` (microseconds since 1970 UTC) is for stamps in
    seconds since boot, where the file does not tell it; without it those have no time, only an order. Raises BadInput
    for a file without such lines.
    """
    reader = Reader(Path(path), zone_of(timezone), boot_time)
    reader.read()
    if not reader.is_known:
        raise BadInput(f"{path}: must hold kernel messages (dmesg, syslog) or health checks as JSON, one a line")
    alarms = reader.dated_alarms()
    # those without a time stand for themselves, in the order of their lines
    timed = sorted((alarm for alarm in alarms if alarm.time is not None), key=lambda alarm: alarm.time)
    groups = [*_grouped(timed), *_grouped(alarm for alarm in alarms if alarm.time is None)]
    end = max((alarm.time for alarm in timed), default=0)
    rows = [_row(group, _kind(group, end), not reader.lacks_year) for group in groups]
    return Causes(_frame(rows), reader.findings, str(path))


def _grouped(alarms: Iterable[Alarm]) -> list[_Incident]:
    """Return the incidents of alarms in order of time."""
    incidents: list[_Incident] = []
    opened: dict[tuple, _Incident] = {}
    for alarm in alarms:
        key = _key(alarm)
        if alarm.kind == "back":
            for each in [each for each in opened if each[1] == alarm.node]:
                opened.pop(each).until = alarm.time
        elif alarm.kind == "clear":
            incident = opened.get(key)
            if incident:
                incident.conditions.discard(alarm.cause)
                if not incident.conditions and not any(each.is_point for each in incident.alarms):
                    opened.pop(key).until = alarm.time
        else:
            broken = opened.get(("node", alarm.node)) if alarm.kind == PROGRAM and alarm.node else None
            incident = next((each for each in (broken, opened.get(key)) if each and _belongs(alarm, each)), None)
            if incident is None:
                incident = opened[key] = _Incident([])
                incidents.append(incident)
            incident.alarms.append(alarm)
            incident.conditions |= set() if alarm.is_point else {alarm.cause}
    return incidents


def _key(alarm: Alarm) -> tuple:
    if alarm.kind == PROGRAM:
        return "program", alarm.node, alarm.device, alarm.cause
    return ("node", alarm.node) if alarm.node else ("device", None, alarm.device)


def _belongs(alarm: Alarm, incident: _Incident) -> bool:
    if alarm.time is None or incident.last is None:
        return True
    is_program = incident.alarms[0].kind == PROGRAM
    return alarm.time - incident.last <= (REPEAT_MINUTES * MINUTE if is_program else SILENT_HOURS * HOUR)


def _kind(incident: _Incident, end: int) -> str:
    kinds = {alarm.kind for alarm in incident.alarms}
    is_old = incident.last is not None and end - incident.last > SILENT_HOURS * HOUR
    if is_old and incident.until is None and not any(alarm.is_point for alarm in incident.alarms):
        return STANDING
    return next(kind for kind in (HARDWARE, PROGRAM, WARNING) if kind in kinds)


def _row(incident: _Incident, kind: str, has_year: bool) -> tuple:
    first = incident.alarms[0]
    # an XID says more than a check, a fatal alarm more than a warning
    best = min(incident.alarms, key=lambda alarm: (KINDS.index(alarm.kind), not alarm.is_point))
    device = next((alarm.device for alarm in incident.alarms if alarm.device), None)
    times = [NO_TIME if time is None else time for time in (first.time, incident.last, incident.until)]
    return *times, first.node, device, best.cause, kind, len(incident.alarms), first.line, has_year


def _frame(rows: list[tuple]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    for name in ("time", "last", "until"):
        table[name] = times_of(table[name].to_numpy("int64"))
    for name in ("node", "device", "cause", "kind"):
        table[name] = table[name].astype(object)
    return table.sort_values(["time", "line"], kind="stable", na_position="last").reset_index(drop=True)


def times_of(micros: np.ndarray) -> pd.DatetimeIndex:
    """Return microseconds since 1970 UTC as times; the least int64 is null."""
    return pd.DatetimeIndex(micros.view("datetime64[us]")).tz_localize("UTC")
