"""What does a log say, on one page? What `goodput report` writes: `analyze` as tiles, figures and tables.

A log may hold a thousand jobs and a million events: what could not be read on a page is counted there, not drawn.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import goodput
from goodput.analysis import Analysis
from goodput.drawing import HOUR, as_words
from goodput.figures import draw_burn, draw_causes, draw_ledger, draw_timeline
from goodput.headline import check_price, counted, hours_text, lead, tiles, title
from goodput.metrics import by_node, cause_times, failures_in_jobs
from goodput.repeats import repeat_offenders
from goodput.sheet import Figures, Part, Table, paragraph, short_names, unbroken, write_sheet
from goodput.slo import slo_windows
from goodput.text import between, number, percent, printable, whole

# What can still be read on one page.
JOBS, CAUSES, NODES, WINDOWS, BARS = 50, 30, 15, 60, 250
TIMELINES, DRAWN_CAUSES = 3, 12
MOST_SPANS, MOST_HOURS = 3000, 35 * 24  # of one timeline; of a longer job its dearest week is drawn
WEEK = 168


def write_page(found: Analysis, data: dict[str, Any], out: Path, price: float | None = None) -> Path:
    """Return `out`, the page of an analysis and its data (`as_data`, with `slo` where one was promised).

    `price` is that of a GPU-hour. Raises BadInput for one that cannot be, and where the log knows no GPUs.
    """
    check_price(price, found.unit)
    figures = Figures("log", found.unit)
    parts = [
        Part("hours", "Where the hours went", _hours(found, data, figures)),
        Part("causes", "What interrupted it", _causes(found, data, figures)),
        Part("timeline", "When it happened", _timelines(found, figures)),
        *([Part("slo", "Was the promise kept?", _slo(data["slo"], figures, found.unit))] if data["slo"] else []),
        Part("nodes", "Which nodes", _nodes(found)),
        Part("jobs", "Job by job", [_jobs(found, data)]),
        Part("findings", "What the log could not tell", _findings(found)),
    ]
    content = {"title": title(found), "lead": lead(found), "tiles": tiles(found, data, price), "parts": parts}
    return write_sheet(out, "logpage.html.j2", unit=found.unit, version=goodput.__version__, **content)


def _hours(found: Analysis, data: dict[str, Any], figures: Figures) -> list[Any]:
    hours, held = data["gpu_hours"], data["held_gpu_hours"]
    rows = [(as_words(name), number(each), percent(each / held)) for name, each in hours.items()]
    table = Table(("category", found.unit, "share"), [*rows, ("held", number(held), percent(1))])
    return [figures.draw(draw_ledger, pd.Series(hours)), table]


def _causes(found: Analysis, data: dict[str, Any], figures: Figures) -> list[Any]:
    causes = found.causes
    if causes.empty:
        return [paragraph("Nothing interrupted it, and no time was charged to a cause.")]
    figure = [_cause_figure(found, figures)] if causes["gpu_hours"].sum() > 0 else []
    return [*figure, paragraph(_by_count(causes)), _cause_table(found, data)]


def _cause_figure(found: Analysis, figures: Figures) -> Any:
    causes = found.causes
    drawn = causes.head(DRAWN_CAUSES).assign(cause=short_names(causes["cause"].head(DRAWN_CAUSES)))
    named = dict(zip(causes["cause"], drawn["cause"]))
    spans = found.spans[found.spans["cause"].isin(list(named))]
    spans = spans.assign(cause=spans["cause"].astype(str).map(named))
    # a title made from the first few would give shares of them alone
    title = f"{drawn['cause'].iloc[0]} cost most: {percent(causes['gpu_hours'].iloc[0] / causes['gpu_hours'].sum(), 0)}"
    title += f" of the {causes['gpu_hours'].sum():,.0f} GPU-hours charged to a cause"
    return figures.draw(draw_causes, drawn, spans, title=title)


def _by_count(causes: pd.DataFrame) -> str:
    often, dear = causes.loc[causes["count"].idxmax()], causes.iloc[0]
    if often["cause"] == dear["cause"]:
        said = f"{dear['cause']} leads by cost and by count"
    else:
        said = f"By cost {dear['cause']} leads, by count {often['cause']}"
    return f"{said}: {often['count']:,} of {causes['count'].sum():,} interruptions."


def _cause_table(found: Analysis, data: dict[str, Any]) -> Table:
    causes, running = found.causes, float(found.jobs["running_hours"].sum())
    times = cause_times(causes, running)
    waste = data["held_gpu_hours"] - data["gpu_hours"]["productive"]
    rows = []
    for (cause, count, cost), rate in zip(causes.head(CAUSES).itertuples(index=False), times.itertuples()):
        apart = f"{number(rate.hours)} ({unbroken(between(rate.low, rate.high))})" if count else "-"
        each = number(cost / count) if count else "-"
        rows.append(
            (printable(cause), f"{count:,}", apart, number(cost), percent(cost / waste, 1) if waste else "-", each)
        )
    header = ("cause", "interruptions", "running hours for one (95 % interval)", found.unit, "of the waste", "each")
    return Table(header, rows, _more(len(causes), CAUSES, "causes", "cost"))


def _more(count: int, shown: int, what: str, by: str) -> str:
    return f"And {count - shown:,} more {what}; these are the first {shown} by {by}." if count > shown else ""


def _timelines(found: Analysis, figures: Figures) -> list[Any]:
    largest = found.jobs["held_gpu_hours"].sort_values(ascending=False, kind="stable").index[:TIMELINES]
    pieces: list[Any] = []
    if len(found.jobs) > TIMELINES:
        pieces.append(paragraph(f"The {TIMELINES} jobs that held most, of {len(found.jobs):,}."))
    for job in largest:
        pieces += _timeline(found, job, figures)
    return pieces


def _timeline(found: Analysis, job: str, figures: Figures) -> list[Any]:
    spans, named = found.spans[found.spans["job"] == job], None
    start, end = spans["start"].min(), spans["end"].max()
    hours, said = (end - start) / HOUR, f"Job {job}"
    if len(spans) > MOST_SPANS or hours > MOST_HOURS:
        windows = slo_windows(spans, 0.5, WEEK)
        start, hours = windows["start"].iloc[windows["used_gpu_hours"].argmax()], WEEK
        said += f" ran {number((end - spans['start'].min()) / HOUR / 24)} days; this is its week with most waste"
        spans = spans[(spans["end"] > start) & (spans["start"] < start + hours * HOUR)]
    else:
        row = found.jobs.loc[job]
        named = f"{number(hours / 24)} days" if hours > 48 else f"{number(hours)} hours"
        named += f" with {counted(int(row['interruptions']), 'interruption')}:"
        named += f" {percent(row['goodput'], 1)} of the GPU-hours trained the model"
    if len(spans) > MOST_SPANS:
        return [paragraph(f"{said}. {len(spans):,} stretches of time in it are more than can be drawn.")]
    row_hours = 24 if hours > 24 else max(1, int(np.ceil(hours)))
    return [
        paragraph(f"{said}. A row is {row_hours} h."),
        figures.draw(draw_timeline, spans, start=start, hours=hours, row_hours=row_hours, title=named),
    ]


def _slo(slo: dict[str, Any], figures: Figures, unit: str) -> list[Any]:
    windows = slo["by_window"]
    said = f"Promised is a goodput of {percent(slo['target'])} in each window of {slo['window_hours']:g} h. "
    said += f"Windows that met it: {slo['met']:,}; missed: {slo['missed']:,}; without data: {slo['no_data']:,}. "
    said += f"The error budget is the other {percent(1 - slo['target'])}: {number(slo['budget_gpu_hours'])} {unit}, "
    said += f"of which {number(slo['used_gpu_hours'])} were used: a burn of {number(slo['burn'], 2)}."
    if slo["excluded_gpu_hours"]:
        said += f" Planned windows, {number(slo['excluded_gpu_hours'])} {unit}, are left out."
    frame = pd.DataFrame(windows).astype({"burn": float})
    drawn = [figures.draw(draw_burn, frame)] if len(windows) <= BARS and frame["burn"].max() > 0 else []
    order = range(len(windows)) if len(windows) <= WINDOWS else np.argsort(-frame["burn"], kind="stable")
    rows = [_window_row(windows[at]) for at in order[:WINDOWS]]
    header = ("window from (UTC)", "SLO", "used most by", "goodput", f"error budget, {unit}", "used", "burn")
    return [paragraph(said), *drawn, Table(header, rows, _more(len(windows), WINDOWS, "windows", "burn"), texts=3)]


def _window_row(window: dict[str, Any]) -> tuple:
    met = {True: "met", False: "missed", None: "no data"}[window["met"]]
    worst = as_words(window["worst"]) if window["worst"] else "-"
    budget, used = number(window["budget_gpu_hours"]), number(window["used_gpu_hours"])
    return (
        f"{window['start']:%Y-%m-%d %H:%M}",
        met,
        worst,
        percent(window["goodput"]),
        budget,
        used,
        number(window["burn"], 2),
    )


def _nodes(found: Analysis) -> list[Any]:
    nodes = by_node(found.spans, found.interruptions)
    if nodes.empty:
        return [paragraph("No failure in this log names a node.")]
    rows = [
        (printable(node), f"{count:,}", number(cost)) for node, count, cost in nodes.head(NODES).itertuples(index=False)
    ]
    header = ("node", "failures", f"{found.unit} charged to it")
    return [*_by_chance(found), Table(header, rows, _more(len(nodes), NODES, "nodes", "cost"))]


def _by_chance(found: Analysis) -> list[Any]:
    """Return how many nodes would fail as often if all of a job were alike: to be read before one is called bad."""
    nodes = failures_in_jobs(found.spans, found.interruptions)
    if nodes.empty or found.unit == "job-hours":  # where sizes are not known nobody can tell
        return []
    table = repeat_offenders(nodes, within="job")
    often = table[table["failures_or_more"].isin([2, table["failures_or_more"].max()])]
    said = "; ".join(_as_often(row) for row in often.itertuples())
    return [paragraph(f"Repeat offenders come by chance, too. If all nodes of a job were alike, {said}.")]


def _as_often(row: Any) -> str:
    said = f"{whole(row.expected)} would fail {row.failures_or_more} times or more, and {row.nodes:,} did"
    chance = percent(row.chance, 1) if row.chance >= 0.001 else "under 0.1 %"
    return f"{said} (the chance of so many or more: {chance})" if row.nodes else said


def _jobs(found: Analysis, data: dict[str, Any]) -> Table:
    largest = sorted(data["by_job"], key=lambda job: -job["held_gpu_hours"])[:JOBS]
    header = ("job", f"{found.unit} held", "goodput", "interruptions", "failures", "MTBI, h (95 % interval)", "")
    return Table(header, [_job_row(job) for job in largest], _more(len(data["by_job"]), JOBS, "jobs", found.unit))


def _job_row(job: dict[str, Any]) -> tuple:
    interval = unbroken(between(*job["mtbi_hours_ci95"], hours_text))
    mtbi = f"{hours_text(job['mtbi_hours'])} ({interval})" if job["interruptions"] else interval
    counts = (f"{job['interruptions']:,}", f"{job['failures']:,}")
    torn = "incomplete" if job["incomplete"] else ""
    return printable(job["job"]), number(job["held_gpu_hours"]), percent(job["goodput"]), *counts, mtbi, torn


def _findings(found: Analysis) -> list[Any]:
    if not found.findings:
        return [paragraph("Nothing: the log is clean.")]
    kinds: dict[tuple[str, str], list] = {}
    for each in found.findings:
        kinds.setdefault((each.severity, each.code), []).append(each)
    order = {"error": 0, "warning": 1, "note": 2}
    rows = [
        (f"{severity}: {code}", printable(_where(those[0]) + those[0].message), f"{len(those):,}")
        for (severity, code), those in sorted(kinds.items(), key=lambda kind: order[kind[0][0]])
    ]
    said = (
        f"{counted(len(found.findings), 'finding')} of {counted(len(rows), 'kind')}: the first, and what was assumed."
    )
    return [paragraph(said), Table(("finding", "the first", "how many"), rows, texts=2)]


def _where(finding: Any) -> str:
    return "" if finding.file is None else f"{finding.file}{f':{finding.line}' if finding.line else ''}: "
