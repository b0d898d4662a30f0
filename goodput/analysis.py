"""One log, one answer: all that `goodput analyze` says of a log, as a frame or as JSON-ready data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES, US_PER_HOUR
from goodput.cycles import FEWEST, METHOD, goodput_interval
from goodput.digest import Asked, Digest, asked_part, digest, merged, with_windows
from goodput.errors import BadInput, printable
from goodput.events import Finding
from goodput.metrics import MeanTime, cause_times, causes_of, rates, rates_of, steps_of
from goodput.slo import check_target, error_budget, windows_of
from goodput.tally import gpu_hours
from goodput.text import aligned, between, number, percent, records, saving_said


class Analysis(NamedTuple):
    """What a log adds up to, and its spans where it was read as a whole."""

    digest: Digest
    jobs: pd.DataFrame  # one row a job, see per_job
    causes: pd.DataFrame  # one row a cause
    findings: Sequence[Finding]
    window: dict[str, Any]  # what was asked for, and how much of it has data
    unit: str  # GPU-hours, or what they are where the log does not know sizes
    spans: pd.DataFrame | None = None
    interruptions: pd.DataFrame | None = None


def analyze(
    log: pd.DataFrame, findings: Sequence[Finding] = (), since: int | None = None, until: int | None = None
) -> Analysis:
    """Return a log taken apart, or the part of it from `since` to `until` (microseconds since 1970 UTC).

    What was lost before the window stays outside of it. Raises BadInput for a log in which no job held a GPU for
    any time there.
    """
    asked = Asked(since, until)
    parts = asked_part(log, asked)
    found = analysis_of(merged([digest(log, parts, findings, asked)]), asked)
    return found._replace(spans=parts[0], interruptions=parts[1])


def analysis_of(found: Digest, asked: Asked) -> Analysis:
    """Return what a digest adds up to. Raises BadInput where no job held a GPU for any time."""
    jobs = found.jobs[found.jobs["held_gpu_hours"] > 0]
    if not len(jobs):
        raise BadInput("log: must hold GPUs for some time: no job has a start and a later event in what was asked for")
    nameless = jobs["failures"].sum() > 0 and jobs["node_failures"].sum() == 0
    said = "no failure names its node: node MTBF knows of none, and its bound holds only if none was a node's"
    more = [Finding("note", "no-node", None, None, said)] if nameless else []
    more += [Finding("warning", "mostly-saving", None, None, said) for said in _saving(jobs)]
    causes, unit = causes_of(found.charged, found.struck), _unit(found.findings)
    return Analysis(found, jobs, causes, [*found.findings, *more], _window(found.covered, asked), unit)


def _saving(jobs: pd.DataFrame) -> list[str]:
    hours = jobs.reset_index()[["job", *CATEGORIES]].to_dict("records")
    return [said for row in hours if (said := saving_said(f"job {row['job']}", row))]


def _window(covered: np.ndarray, asked: Asked) -> dict[str, Any]:
    start = int(covered[0, 0]) if asked.since is None else asked.since
    end = int(covered[-1, 1]) if asked.until is None else asked.until
    hours, known = (end - start) / US_PER_HOUR, float((covered[:, 1] - covered[:, 0]).sum()) / US_PER_HOUR
    return {"start": _utc(start), "end": _utc(end), "hours": hours, "covered_hours": known, "coverage": known / hours}


def _utc(micros: int) -> pd.Timestamp:
    return pd.Timestamp(micros, unit="us", tz="UTC")


def _unit(findings: Sequence[Finding]) -> str:
    unknown = " ".join(finding.message for finding in findings if finding.code == "no-size")
    return "job-hours" if "job-hours" in unknown else "node-hours" if unknown else "GPU-hours"


def as_data(found: Analysis) -> dict[str, Any]:
    """Return an analysis as plain data with stable keys."""
    hours = found.jobs[list(CATEGORIES)].sum()
    return {
        **_totals(hours.to_dict(), found.jobs["held_gpu_hours"].sum()),
        **_sure(found),
        **_rates(found.jobs[_COUNTED].sum().to_dict()),
        "by_cause": records(found.causes),
        "by_job": [_job_data(row) for row in found.jobs.reset_index().to_dict("records")],
        "window": found.window,
        "unit": found.unit,
        "slo": None,
        "findings": [finding._asdict() for finding in found.findings],
    }


_COUNTED = ["running_hours", "node_hours", "interruptions", "failures", "node_failures"]


def _job_data(row: dict[str, Any]) -> dict[str, Any]:
    totals = _totals({name: row[name] for name in CATEGORIES}, row["held_gpu_hours"])
    return {"job": row["job"], **totals, **_rates(row), "incomplete": bool(row["incomplete"])}


def _totals(hours: dict[str, float], held: float) -> dict[str, Any]:
    # sum over sum: never a mean of percentages
    return {"goodput": hours["productive"] / held, "held_gpu_hours": held, "gpu_hours": hours}


def _sure(found: Analysis) -> dict[str, Any]:
    share = goodput_interval(found.digest.cycles)
    interval = [share.low, share.high]
    return {"goodput_ci95": interval, "goodput_cycles": share.cycles, "goodput_ci95_method": METHOD}


def _rates(total: dict[str, float]) -> dict[str, Any]:
    out: dict[str, Any] = {name: int(total[name]) for name in ("interruptions", "failures", "node_failures")}
    for name, rate in rates_of(total)._asdict().items():
        out |= {f"{name}_hours": rate.hours, f"{name}_hours_ci95": [rate.low, rate.high]}
    return out


def slo_data(found: Analysis, target: float, window_hours: float, excluded: np.ndarray | None = None) -> dict[str, Any]:
    """Return goodput against a target, window by window, as plain data; planned windows are taken out of the promise.

    `excluded` are merged rows of (start, end) in microseconds. Windows begin at the log's first event, or at `since`.
    """
    check_target(target)
    start, end = (int(found.window[name].value) // 1000 for name in ("start", "end"))
    kept = found.digest
    if kept.windows is None:
        kept = with_windows(kept, found.spans, Asked(window_hours=window_hours, origin=start, excluded=excluded))
    table = windows_of(kept.windows, target, window_hours, start, end)
    left_out = gpu_hours(kept.excluded, np.zeros(len(kept.excluded), int), 1)[0]
    total = {**error_budget(table, target), "window_hours": window_hours, "excluded_gpu_hours": left_out}
    return {**total, "by_window": records(table)}


def step_data(found: Analysis, step_seconds: float) -> dict[str, Any]:
    """Return goodput by reference step time, kept steps x step seconds / time held, as plain data.

    The log must have been asked for its steps.
    """
    steps, share = steps_of(found.digest.steps, step_seconds)
    return {"step_seconds": step_seconds, "kept_steps": steps, "goodput": share}


def as_text(found: Analysis, data: dict[str, Any]) -> str:
    """Return an analysis as a person reads it: totals, categories, causes, rates, SLO, findings."""
    parts = [_headline(found, data), _categories(found, data), _causes(found), _mean_times(found)]
    if len(found.jobs) > 1:
        parts.append(_jobs(found))
    if data["slo"]:
        parts.append(_slo(data["slo"]))
    if step := data.get("reference_step"):
        parts.append(
            f"goodput by reference step: {percent(step['goodput'])} ({step['kept_steps']:,} kept steps"
            f" x {step['step_seconds']:g} s / time held)"
        )
    parts.append(findings_text(found.findings))
    return "\n\n".join(part for part in parts if part)


def _headline(found: Analysis, data: dict[str, Any]) -> str:
    jobs = found.jobs.index
    who = f"job {printable(jobs[0])}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    said = f"{who}: {number(data['held_gpu_hours'])} {found.unit} held, goodput {percent(data['goodput'])}"
    said += f" ({goodput_sure(data)})"
    window = found.window
    if window["coverage"] < 1:
        said += f"\nfrom {window['start']:%Y-%m-%d %H:%M} to {window['end']:%Y-%m-%d %H:%M} UTC,"
        said += f" {number(window['hours'])} h, of which {percent(window['coverage'], 1)} has data"
    return said


def goodput_sure(data: dict[str, Any]) -> str:
    """Return the interval of goodput as text, with the cycles that it rests on."""
    low, high = data["goodput_ci95"]
    count = f"{data['goodput_cycles']:,} cycle{'' if data['goodput_cycles'] == 1 else 's'}"
    count += " of all jobs" if len(data["by_job"]) > 1 else ""
    if data["goodput_cycles"] < FEWEST:
        return f"{count}: too few for an interval"
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f} by {count}"


def _categories(found: Analysis, data: dict[str, Any]) -> str:
    held = data["held_gpu_hours"]
    rows = [(name, number(hours), percent(hours / held)) for name, hours in data["gpu_hours"].items()]
    return aligned(("category", found.unit, "share"), [*rows, ("held", number(held), percent(1))])


def _causes(found: Analysis) -> str:
    times = cause_times(found.causes, float(found.jobs["running_hours"].sum()))
    rows = [
        (cause, count, number(cost), number(cost / count) if count else "-", *_apart(time))
        for (cause, count, cost), time in zip(found.causes.itertuples(index=False), times.itertuples())
    ]
    header = ("cause", "interruptions", found.unit, f"{found.unit} each", "running hours for one", "95 % interval")
    return aligned(header, rows) if rows else "no interruptions"


def _apart(time) -> tuple[str, str]:
    if not time.count:
        return "-", "-"
    digits = 1 if time.low >= 1 else 3
    return number(time.hours, digits), between(time.low, time.high, lambda value: number(value, digits))


def _mean_times(found: Analysis) -> str:
    named = {"mtbi": "MTBI of the job", "job_mtbf": "job MTBF", "node_mtbf": "node MTBF"}
    counted = {"mtbi": "interruption", "job_mtbf": "failure", "node_mtbf": "failure of a named node"}
    rows = [_mean_time(named[name], rate, counted[name]) for name, rate in rates(found.jobs)._asdict().items()]
    return aligned(("mean time", "hours", "95 % interval", "from"), rows)


def _mean_time(name: str, rate: MeanTime, counted: str) -> tuple:
    unit = "node-hours" if name.startswith("node") else "hours"
    what, _, which = counted.partition(" ")
    events = f"{what}{'' if rate.count == 1 else 's'} {which}".rstrip()
    source = f"{rate.count:,} {events} in {number(rate.exposure_hours)} running {unit}"
    digits = 1 if rate.low >= 1 else 3
    interval = between(rate.low, rate.high, lambda value: number(value, digits))
    return name, number(rate.hours, digits), interval, source


def _jobs(found: Analysis) -> str:
    columns = ["held_gpu_hours", "goodput", "interruptions", "failures", "incomplete"]
    rows = [
        (job, number(held), percent(goodput), f"{struck:.0f}", f"{failed:.0f}", "incomplete" if torn else "")
        for job, held, goodput, struck, failed, torn in found.jobs[columns].itertuples()
    ]
    return aligned(("job", f"{found.unit} held", "goodput", "interruptions", "failures", ""), rows)


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


SHOWN = 3  # findings of one kind that the text shows; JSON has them all


def findings_text(findings: Sequence[Finding]) -> str:
    """Return findings as text, the gravest first, the first few of a kind and a count of the others."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        kinds.setdefault((finding.severity, finding.code), []).append(finding)
    lines = []
    for severity in ("error", "warning", "note"):
        for (grave, code), those in kinds.items():
            if grave == severity:
                lines += [_finding(each) for each in those[:SHOWN]]
                if len(those) > SHOWN:
                    lines.append(f"{severity}: and {len(those) - SHOWN:,} more of this kind ({code})")
    return "\n".join(lines)


def _finding(finding: Finding) -> str:
    where = "" if finding.file is None else f"{finding.file}{f':{finding.line}' if finding.line else ''}: "
    return printable(f"{finding.severity}: {where}{finding.message}")
