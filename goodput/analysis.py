"""One log, one answer: all that `goodput analyze` says of a log, as a frame or as JSON-ready data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.errors import BadInput
from goodput.events import Finding
from goodput.metrics import MeanTime, by_cause, per_job, rates, reference_steps
from goodput.slo import error_budget, slo_windows
from goodput.text import aligned, between, number, percent, printable, records


class Analysis(NamedTuple):
    """A log taken apart: its spans and what they add up to."""

    spans: pd.DataFrame
    interruptions: pd.DataFrame
    jobs: pd.DataFrame  # one row a job, see per_job
    causes: pd.DataFrame  # one row a cause
    findings: Sequence[Finding]


def analyze(log: pd.DataFrame, findings: Sequence[Finding] = ()) -> Analysis:
    """Return a log taken apart. Raises BadInput for a log in which no job held a GPU for any time."""
    stretches, struck = spans(log), interruptions(log)
    jobs = per_job(stretches, struck)
    if not jobs["held_gpu_hours"].sum() > 0:
        raise BadInput("log: must hold GPUs for some time: no job in it has a start and a later event")
    nameless = jobs["failures"].sum() > 0 and jobs["node_failures"].sum() == 0
    said = "no failure names its node: node MTBF knows of none, and its bound holds only if none was a node's"
    more = [Finding("note", "no-node", None, None, said)] if nameless else []
    return Analysis(stretches, struck, jobs, by_cause(stretches, struck), [*findings, *more])


def as_data(found: Analysis) -> dict[str, Any]:
    """Return an analysis as plain data with stable keys."""
    hours = found.jobs[list(CATEGORIES)].sum()
    return {
        **_totals(hours, found.jobs["held_gpu_hours"].sum()),
        **_rates(found.jobs),
        "by_cause": records(found.causes),
        "by_job": [
            {"job": job, **_totals(row[list(CATEGORIES)], row["held_gpu_hours"]), **_rates(row.to_frame().T)}
            for job, row in found.jobs.iterrows()
        ],
        "slo": None,
        "findings": [finding._asdict() for finding in found.findings],
    }


def _totals(hours: pd.Series, held: float) -> dict[str, Any]:
    # sum over sum: never a mean of percentages
    return {"goodput": hours["productive"] / held, "held_gpu_hours": held, "gpu_hours": hours.to_dict()}


def _rates(jobs: pd.DataFrame) -> dict[str, Any]:
    out: dict[str, Any] = {name: int(jobs[name].sum()) for name in ("interruptions", "failures", "node_failures")}
    for name, rate in rates(jobs)._asdict().items():
        out |= {f"{name}_hours": rate.hours, f"{name}_hours_ci95": [rate.low, rate.high]}
    return out


def slo_data(found: Analysis, target: float, window_hours: float) -> dict[str, Any]:
    """Return goodput against a target, window by window, as plain data."""
    windows = slo_windows(found.spans, target, window_hours)
    return {**error_budget(windows, target), "window_hours": window_hours, "by_window": records(windows)}


def step_data(log: pd.DataFrame, found: Analysis, step_seconds: float) -> dict[str, Any]:
    """Return goodput by reference step time, kept steps x step seconds / time held, as plain data."""
    steps, share = reference_steps(log, found.spans, step_seconds)
    return {"step_seconds": step_seconds, "kept_steps": steps, "goodput": share}


def as_text(found: Analysis, data: dict[str, Any]) -> str:
    """Return an analysis as a person reads it: totals, categories, causes, rates, SLO, findings."""
    parts = [_headline(found, data), _categories(data), _causes(found), _mean_times(found)]
    if len(found.jobs) > 1:
        parts.append(_jobs(found))
    if data["slo"]:
        parts.append(_slo(data["slo"]))
    if step := data.get("reference_step"):
        parts.append(
            f"goodput by reference step: {percent(step['goodput'])} ({step['kept_steps']:,} kept steps"
            f" x {step['step_seconds']:g} s / time held)"
        )
    parts.append("\n".join(_finding(finding) for finding in found.findings))
    return "\n\n".join(part for part in parts if part)


def _headline(found: Analysis, data: dict[str, Any]) -> str:
    jobs = found.jobs.index
    who = f"job {printable(jobs[0])}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    return f"{who}: {number(data['held_gpu_hours'])} GPU-hours held, goodput {percent(data['goodput'])}"


def _categories(data: dict[str, Any]) -> str:
    held = data["held_gpu_hours"]
    rows = [(name, number(hours), percent(hours / held)) for name, hours in data["gpu_hours"].items()]
    return aligned(("category", "GPU-hours", "share"), [*rows, ("held", number(held), percent(1))])


def _causes(found: Analysis) -> str:
    rows = [
        (cause, count, number(hours), number(hours / count) if count else "-")
        for cause, count, hours in found.causes.itertuples(index=False)
    ]
    return aligned(("cause", "interruptions", "GPU-hours", "GPU-hours each"), rows) if rows else "no interruptions"


def _mean_times(found: Analysis) -> str:
    named = {"mtbi": "MTBI of the job", "job_mtbf": "job MTBF", "node_mtbf": "node MTBF"}
    counted = {"mtbi": "interruptions", "job_mtbf": "failures", "node_mtbf": "failures of a named node"}
    rows = [_mean_time(named[name], rate, counted[name]) for name, rate in rates(found.jobs)._asdict().items()]
    return aligned(("mean time", "hours", "95 % interval", "from"), rows)


def _mean_time(name: str, rate: MeanTime, counted: str) -> tuple:
    unit = "node-hours" if name.startswith("node") else "hours"
    source = f"{rate.count:,} {counted} in {number(rate.exposure_hours)} running {unit}"
    digits = 1 if rate.low >= 1 else 3
    interval = between(rate.low, rate.high, lambda value: number(value, digits))
    return name, number(rate.hours, digits), interval, source


def _jobs(found: Analysis) -> str:
    columns = ["held_gpu_hours", "goodput", "interruptions", "failures"]
    rows = [
        (job, number(held), percent(goodput), f"{struck:.0f}", f"{failed:.0f}")
        for job, held, goodput, struck, failed in found.jobs[columns].itertuples()
    ]
    return aligned(("job", "GPU-hours held", "goodput", "interruptions", "failures"), rows)


def _slo(slo: dict[str, Any]) -> str:
    said = {True: "met", False: "missed", None: "no data"}
    rows = [
        (
            f"{window['start']:%Y-%m-%d %H:%M}",
            percent(window["goodput"]),
            said[window["met"]],
            number(window["budget_gpu_hours"]),
            number(window["used_gpu_hours"]),
            number(window["burn"], 2),
            f"{window['worst']} ({number(window['worst_gpu_hours'])})" if window["worst"] else "-",
        )
        for window in slo["by_window"]
    ]
    header = (
        "window from (UTC)",
        "goodput",
        "SLO",
        "error budget",
        "used",
        "burn",
        "used most by (GPU-hours)",
    )
    head = (
        f"SLO: goodput {percent(slo['target'])} in windows of {slo['window_hours']:g} h: {slo['met']} met,"
        f" {slo['missed']} missed, {slo['no_data']} without data"
    )
    return f"{head}\n\n{aligned(header, rows)}"


def _finding(finding: Finding) -> str:
    where = "" if finding.file is None else f"{finding.file}{f':{finding.line}' if finding.line else ''}: "
    return printable(f"{finding.severity}: {where}{finding.message}")
