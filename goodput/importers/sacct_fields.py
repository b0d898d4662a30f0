"""What does a line of sacct say? Text and JSON become the same rows, keyed by the names of `sacct --format` in lower
case; a row becomes a `Record`, each field read on its own. A bad value costs one record at most, and is told."""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from goodput.importers.sacct_nodes import count_nodes
from goodput.importers.sacct_words import (
    ACTIVE,
    OTHER,
    count_of,
    gpus_of_gres,
    gpus_of_tres,
    is_nothing,
    kind_of,
    remembered,
    seconds_of,
)
from goodput.line import moment

_MOST_SECONDS = 20 * 366 * 86_400
_ID = re.compile(r"(\d{1,10})(_(?:\d+|\[[^\]]*\]))?(?:\+(\d{1,6}))?(?:\.(\S+))?", re.ASCII)
_EPOCH = re.compile(r"\d{9,13}(?:\.\d+)?", re.ASCII)  # SLURM_TIME_FORMAT=%s


class Clock:
    """Reads times; those without a zone in `zone`."""

    def __init__(self, zone: ZoneInfo):
        self.zone = zone
        self.was_needed = False  # a time had no zone

    def instants(self, value: Any) -> tuple[int, ...]:
        """Return the moments (microseconds since 1970 UTC) that a time may mean: none for `Unknown`, two where a change
        of summer time made the clock show it twice, or never. Raises ValueError for what is no time."""
        if is_nothing(value):
            return ()
        if not isinstance(value, str) or _EPOCH.fullmatch(value.strip()):
            return (moment(float(value)),) if float(value) else ()
        first = moment(value.strip(), self.zone)
        time = datetime.fromisoformat(value.strip())
        if time.tzinfo is not None:
            return (first,)
        self.was_needed = True
        before, behind = (time.replace(tzinfo=self.zone, fold=fold).utcoffset() for fold in (0, 1))
        return (first,) if before == behind else (first, first + (before - behind) // timedelta(microseconds=1))


class Record(NamedTuple):
    """One line of sacct: a job's stay on its nodes (an attempt), or a step of it. Times, durations in microseconds."""

    job: str
    offset: int | None  # of a component of a heterogeneous job
    step: str | None
    cluster: str
    name: str | None
    state: str
    kind: str
    submit: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    run: int | None
    suspended: int | None
    ran: bool
    nodes: int | None
    gpus: int | None
    node_names: str | None
    failed_node: str | None
    exit: tuple[int, int]  # code and signal
    step_exit: tuple[int, int]  # the worst of its steps, where that is told
    restarts: int | None
    odd: tuple[str, ...]  # what could not be read of it
    file: str
    line: int


def record_of(row: dict[str, Any], clock: Clock, file: str, line: int) -> Record:
    """Return a row as a record. Raises ValueError, with the rule, where it cannot be a line of sacct."""
    job, offset, step = id_of(row)
    state = str(row.get("state", "")).strip()
    if not re.match(r"[A-Za-z_]+\+?(?:\s|$)", state):
        raise ValueError(f"State={state[:60]!r} must be a word")
    submit, start, end = (_times(row, key, clock) for key in ("submit", "start", "end"))
    names, odd = _node_names(row.get("nodelist"))
    failed, more = _node_names(row.get("failednode"))
    nodes, run = _nodes_of(row, names), _micros_of(row, "elapsed")
    kind = kind_of(state)
    return Record(
        job=job,
        offset=offset,
        step=step,
        cluster=str(row.get("cluster") or ""),
        name=row.get("jobname") or None,
        state=state,
        kind=ACTIVE if kind == OTHER and "end" in row and not end else kind,
        submit=submit,
        start=start,
        end=end,
        run=run,
        suspended=_micros_of(row, "suspended"),
        ran=bool(start) and not _never_began(row, state, run),
        nodes=nodes,
        gpus=_gpus_of(row, nodes),
        node_names=names,
        failed_node=failed,
        exit=_exit_of(row.get("exitcode")),
        step_exit=_exit_of(row.get("derivedexitcode")),
        restarts=count_of(row.get("restarts")),
        odd=(*odd, *more),
        file=file,
        line=line,
    )


def id_of(row: dict[str, Any]) -> tuple[str, int | None, str | None]:
    """Return the job, the component and the step that a row names. Raises ValueError for what is no job id."""
    text = str(row.get("jobid") or row.get("jobidraw") or "").strip()
    found = _ID.fullmatch(text)
    if not found:
        raise ValueError(f"JobID={text[:60]!r} must be as 123, 123_4, 123+0 or 123.batch")
    return found[1] + (found[2] or ""), int(found[3]) if found[3] else None, found[4]


def _times(row: dict[str, Any], key: str, clock: Clock) -> tuple[int, ...]:
    try:
        return clock.instants(row.get(key))
    except ValueError as error:
        raise ValueError(f"{key.capitalize()}={str(row[key])[:60]!r} must be {error}") from None


def _never_began(row: dict[str, Any], state: str, run: int | None) -> bool:
    """Return whether a job with a Start never had nodes: some releases give a start to one cancelled in the queue."""
    nowhere = str(row.get("nodelist") or "").strip().lower()
    if nowhere == "none assigned" or state.upper().startswith("PENDING"):
        return True
    return run == 0 and not nowhere and is_nothing(row.get("alloctres")) and kind_of(state) == "user_cancel"


def _micros_of(row: dict[str, Any], key: str) -> int | None:
    raw, text = row.get(f"{key}raw"), row.get(key)
    seconds = raw if isinstance(raw, int | float) else count_of(raw)
    if seconds is None and not is_nothing(text):
        seconds = seconds_of(str(text))
        if seconds is None:
            raise ValueError(f"{key.capitalize()}={str(text)[:60]!r} must be as 1-02:03:04")
    if seconds is not None and not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(f"{key.capitalize()}={str(seconds)[:60]} s must be from 0 to 20 years")
    return None if seconds is None else round(seconds * 1e6)


@remembered
def _node_names(text: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return a folded node list where it can be read, and else what is wrong with it."""
    if is_nothing(text):
        return None, ()
    try:
        return (str(text), ()) if count_nodes(str(text)) else (None, ())
    except ValueError as error:
        return None, (f"node list {str(text)[:60]!r} cannot be read ({error}): left out",)


def _nodes_of(row: dict[str, Any], names: str | None) -> int | None:
    count = count_of(row.get("nnodes", "")) or count_of(row.get("allocnodes", ""))
    if count:
        return count
    tres = dict(entry.partition("=")[::2] for entry in str(row.get("alloctres") or "").split(","))
    return count_of(tres.get("node", "")) or (count_nodes(names) if names else None)


def _gpus_of(row: dict[str, Any], nodes: int | None) -> int | None:
    """Return the GPUs of a row, 0 where it says that there are none, None where it does not say."""
    held, asked = (gpus_of_tres(row.get(key) or "") for key in ("alloctres", "reqtres"))
    old_held, old_asked = (gpus_of_gres(row.get(key) or "", nodes) for key in ("allocgres", "reqgres"))
    # both lists of resources are of the same kinds: what was not in the one that was given, is not in the other
    counts = (held, old_held, asked if held is None else None, old_asked)
    known = [count for count in counts if count is not None]
    return next((count for count in known if count), 0 if known else None)


def _exit_of(text: Any) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9}):(\d{1,4})", str(text).strip(), re.ASCII)
    return (int(found[1]), int(found[2])) if found else (0, 0)
