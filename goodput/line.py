"""One line of an event log: what it may say, how a time is read, and what is wrong with it where something is."""

import json
import re
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from goodput.errors import BadInput, nearest, problem_of
from goodput.events import EVENTS, NODE_EVENTS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = 7_258_118_400_000_000  # 2200: a later time is no time, most likely milliseconds taken for seconds
SIZES = {"nodes": (0, 10_000_000), "gpus_per_node": (1, 1_000)}  # least and most


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return the time zone of an IANA name, None for none. Raises BadInput for a name that is not one."""
    try:
        return ZoneInfo(name) if name else None
    except (OSError, ValueError, KeyError):
        raise BadInput(f"--timezone={name} must be an IANA name, as Europe/Berlin or UTC") from None


def moment(value: Any, zone: ZoneInfo | None = None) -> int:
    """Return a time of a log as microseconds since 1970 UTC; without a zone it is read in `zone`.

    Raises ValueError with the rule that is broken, NoZone where there is no zone at all.

    >>> moment("1970-01-01T09:00:01+09:00"), moment(1.5)
    (1000000, 1500000)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _in_range(round(value * 1e6) if abs(value) < 1e12 else LATEST)
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("an ISO 8601 time with a zone, or seconds since 1970 UTC") from None
    if time.tzinfo is None:
        if zone is None:
            raise NoZone("a time with a zone, as Z or +09:00 at its end (or give --timezone NAME)")
        time = time.replace(tzinfo=zone)
    return _in_range((time - _EPOCH) // timedelta(microseconds=1))


class NoZone(ValueError):
    """A time without a zone: the one thing that a whole file is refused for."""


def _in_range(micros: int) -> int:
    if not 0 <= micros < LATEST:
        raise ValueError("a time from 1970 to 2199 (milliseconds are not seconds)")
    return micros


def _moment(value: Any, info: ValidationInfo) -> int:
    zone = info.context["zone"]
    if zone is not None and isinstance(value, str):
        _note_ambiguous(value, zone, info.context["notes"])
    return moment(value, zone)


def _note_ambiguous(value: str, zone: ZoneInfo, notes: list[tuple[str, str]]) -> None:
    """Note a local time that the clock showed twice, or never: the two hours a year at a change of summer time."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return
    if time.tzinfo is None:
        first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        if first != second:
            said = f"time {value} is ambiguous in {zone.key}: read with the offset from before the change"
            notes.append(("ambiguous-time", said))


def folded(value: Any) -> Any:
    """Return a list of node names as one folded name, `gpu[1-3]`; anything else as it is."""
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        return value
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # no groups: `@all` in a log is a name like any other, not what this machine's configuration makes of it
        return str(NodeSet.fromlist(value, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(value)


def how_many(folded: str) -> int:
    """Return how many names a folded one stands for, about, without unfolding it.

    >>> how_many("gpu[001-128],n[1-3,7]"), how_many("r[0-9999]n[0-9999]")
    (132, 100000000)
    """
    total = 0
    for part in re.split(r",(?![^\[]*\])", folded):
        sizes = [
            sum(abs(int(b or a) - int(a)) + 1 for a, b in re.findall(r"(\d{1,18})(?:-(\d{1,18}))?", each))
            for each in re.findall(r"\[([^\]]*)\]", part)
        ]
        total += prod(sizes)
    return total


def _known_event(value: Any) -> str:
    if value not in EVENTS:
        raise ValueError(f"a known event; {nearest(str(value), EVENTS)}")
    return value


def _sane(value: Any, info: ValidationInfo) -> int | None:
    """Return a size; one that cannot be is left out with a note."""
    low, high = SIZES[info.field_name]
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
        return value
    said = f"{info.field_name}={str(value)[:60]!r} must be a whole number from {low:,} to {high:,}: left out"
    info.context["notes"].append(("absurd-size", said))
    return None


Moment = Annotated[int, BeforeValidator(_moment)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
Names = Annotated[Text, BeforeValidator(folded)]
Size = Annotated[int | None, BeforeValidator(_sane)]


class Line(BaseModel):
    """One line of a log file; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", strict=True)

    time: Moment
    job: Name | None = None
    event: Annotated[str, BeforeValidator(_known_event)]
    cause: Text | None = None
    node: Names | None = None
    nodes: Size = None
    gpus_per_node: Size = None
    node_names: Names | None = None
    joined: Names | None = None
    left: Names | None = None
    planned: bool = False
    async_: bool = Field(False, alias="async")
    after: Moment | None = None
    id: Name | None = None
    resumed_from: Name | None = None
    outcome: Text | None = None

    @model_validator(mode="after")
    def _is_named(self):
        key = "node" if self.event in NODE_EVENTS else "job"
        if not getattr(self, key):
            raise ValueError(f"{key} must be given")
        return self


class UnknownEvent(ValueError):
    """A line that is right but for an event that nobody knows: it is left out."""


def read_line(text: bytes, zone: ZoneInfo | None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the fields of a line, and notes (code, sentence) on what in it is not clean.

    Raises NoZone, UnknownEvent, or ValueError with what is wrong.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("line is not whole JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("line must be a JSON object, {...}")
    notes: list[tuple[str, str]] = []
    try:
        row = Line.model_validate(fields, context={"zone": zone, "notes": notes})
    except ValidationError as error:
        raise _error_of(error) from None
    return row.model_dump(by_alias=True), notes


def _error_of(error: ValidationError) -> ValueError:
    problem = error.errors()[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, NoZone):
        return NoZone(problem_of(error))
    only_event = [each["loc"] for each in error.errors()] == [("event",)] and problem["type"] == "value_error"
    return (UnknownEvent if only_event else ValueError)(problem_of(error))


def job_in(text: bytes) -> str | None:
    """Return the job that a torn line names in full, if it does."""
    found = re.search(rb'"job"\s*:\s*"([^"\\]+)"', text)
    return found[1].decode("utf-8", "replace") if found else None
