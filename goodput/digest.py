"""What has to be kept of a log, for all that is said of it? A small part, made where the log is, and merged exactly.

Each part holds whole jobs: what belongs to a job comes from one part, and what belongs to no job is added up as whole
numbers. So many parts give what one log of all would give, to the last bit, in whatever order they come. One log is
one part.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import interruptions, spans
from goodput.cycles import cycles
from goodput.events import Finding, micros
from goodput.metrics import job_steps, per_job, strikes
from goodput.slo import window_tally
from goodput.tally import add_up, tally
from goodput.window import clip, merge_windows, without


class Asked(NamedTuple):
    """What of a log is asked for; times in microseconds since 1970 UTC."""

    since: int | None = None
    until: int | None = None
    window_hours: float | None = None  # of SLO windows, where they are wanted
    origin: int | None = None  # where those begin; None: with the part itself
    excluded: np.ndarray | None = None  # planned windows, merged rows of (start, end)
    steps: bool = False  # steps that were kept are wanted


class Digest(NamedTuple):
    """What is kept of a log, or of a part of one with whole jobs; a size grows with jobs and interruptions alone."""

    jobs: pd.DataFrame  # see `per_job`, and `incomplete`; by name, those that held nothing as well
    charged: pd.DataFrame  # tally of time by `cause`
    struck: pd.Series  # interruptions by cause
    cycles: pd.DataFrame
    covered: np.ndarray  # rows of (start, end): when any job has data, merged
    windows: pd.DataFrame | None  # tally of the promised time by SLO window
    origin: int | None  # where those windows begin
    excluded: pd.DataFrame | None  # tally of the time that is not promised
    steps: pd.DataFrame | None  # see `job_steps`
    findings: list[Finding]

    @property
    def start(self) -> int | None:
        """The first moment with data, microseconds; None where no job held anything."""
        return int(self.covered[0, 0]) if len(self.covered) else None


def asked_part(log: pd.DataFrame, asked: Asked) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the spans and the interruptions of a log, as far as they are asked for."""
    whole, struck = spans(log), interruptions(log)
    time = micros(struck["time"])
    inside = np.ones(len(time), bool)
    if asked.since is not None:
        inside &= time >= asked.since
    if asked.until is not None:
        inside &= time < asked.until
    return clip(whole, asked.since, asked.until), struck[inside]


def digest(
    log: pd.DataFrame, parts: tuple[pd.DataFrame, pd.DataFrame], findings: Sequence[Finding], asked: Asked
) -> Digest:
    """Return what is kept of a log, from the `asked_part` of it."""
    stretches, struck = parts
    jobs = per_job(stretches, struck)
    jobs["incomplete"] = jobs.index.isin(log.loc[log["event"] == "gap", "job"])
    held = np.column_stack([micros(stretches["start"]), micros(stretches["end"])])
    covered = merge_windows(held) if len(held) else held
    found = Digest(
        jobs,
        _named(tally(stretches, cause=stretches["cause"].array)),
        strikes(struck),
        cycles(stretches),
        covered,
        *(None, None, None),
        job_steps(log, stretches) if asked.steps else None,
        list(findings),
    )
    return found if asked.window_hours is None else with_windows(found, stretches, asked)


def _named(charged: pd.DataFrame) -> pd.DataFrame:
    return charged.assign(cause=charged["cause"].astype(str))


def with_windows(found: Digest, stretches: pd.DataFrame, asked: Asked) -> Digest:
    """Return a digest with the SLO windows that are asked for."""
    origin = found.start if asked.origin is None else asked.origin
    promised = stretches if asked.excluded is None else without(stretches, asked.excluded)
    left_out = tally(promised).assign(micros=lambda rows: -rows["micros"])
    windows = window_tally(promised, asked.window_hours, origin or 0)
    return found._replace(windows=windows, origin=origin, excluded=add_up([tally(stretches), left_out]))


def merged(parts: Sequence[Digest]) -> Digest:
    """Return the digest of all parts; no job may be in two of them, and their SLO windows must have one origin."""
    covered = np.concatenate([part.covered for part in parts])
    with_windows = parts[0].windows is not None
    return Digest(
        _by_name([part.jobs for part in parts]),
        add_up([part.charged for part in parts]),
        _counted([part.struck for part in parts]),
        _in_order([part.cycles for part in parts]),
        merge_windows(covered) if len(covered) else covered,
        add_up([part.windows for part in parts]) if with_windows else None,
        next((part.origin for part in parts if part.origin is not None), None),
        add_up([part.excluded for part in parts]) if with_windows else None,
        None if parts[0].steps is None else _by_name([part.steps for part in parts]),
        [finding for part in parts for finding in part.findings],
    )


def _by_name(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return rows of jobs by name. The columns are laid out anew, always alike: how a sum rounds hangs on it."""
    names = np.concatenate([table.index.to_numpy(object) for table in tables])
    order = np.argsort(names, kind="stable")
    columns = {name: np.concatenate([table[name].to_numpy() for table in tables])[order] for name in tables[0]}
    return pd.DataFrame(columns, pd.Index(names[order], dtype="str", name="job"))


def _in_order(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    job = pd.api.types.union_categoricals([table["job"].array for table in tables], sort_categories=True)
    order = np.argsort(job.codes, kind="stable")
    columns = {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in ("productive", "held")}
    return pd.DataFrame({"job": job, **columns}).take(order).reset_index(drop=True)


def _counted(counts: Sequence[pd.Series]) -> pd.Series:
    every = pd.concat([pd.Series(each.to_numpy(), each.index.astype(str)) for each in counts])
    return every.groupby(level=0, sort=True).sum()
