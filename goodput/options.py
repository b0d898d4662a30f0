"""What may a command be told? The options that commands share: how a log is read, and how runs are played, by them."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from warnings import filterwarnings

import typer

from goodput.errors import BadInput


class Format(StrEnum):
    """How a result is printed; csv where it is one table."""

    text = "text"
    json = "json"
    csv = "csv"


Formats = Annotated[Format, typer.Option("--format", help="text, json, or csv for tables.")]
Logs = Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files or folders; - is standard input.")]
From = Annotated[str | None, typer.Option("--from", metavar="FORMAT", help="The format, where it is not recognised.")]
Zone = Annotated[
    str | None, typer.Option("--timezone", metavar="NAME", help="For times without a zone: Europe/Berlin.")
]
Nodes = Annotated[int | None, typer.Option(help="Nodes of a job, where the log does not say.", min=1)]
Gpus = Annotated[int | None, typer.Option(help="GPUs of a node, where the log does not say.", min=1)]
Causes = Annotated[Path | None, typer.Option(help="Kernel messages or health checks: causes by time and node.")]
AsOf = Annotated[
    str | None, typer.Option(metavar="TIME", help="Closes jobs without an end; by default their last event.")
]
Strict = Annotated[bool, typer.Option(help="Refuse a log with a warning: to test an exporter.")]
Slo = Annotated[float | None, typer.Option(help="Goodput promised for each window, as 0.85.")]
WindowHours = Annotated[float, typer.Option(help="Length of an SLO window.")]
Exclude = Annotated[Path | None, typer.Option(help="Planned windows (start,end,reason): not in the SLO.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only what lies behind this moment.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only what lies before this moment.")]

Seeds = Annotated[int, typer.Option(help="Replications 1 to N of each scenario.")]
UntilCi = Annotated[
    str | None,
    typer.Option(metavar="POINTS", help="Add seeds until each 95 % interval is as narrow as this each way, as 0.1pp."),
]
MostSeeds = Annotated[int, typer.Option(help="With --until-ci: no more seeds than these.", min=2)]
Jobs = Annotated[int | None, typer.Option(help="Processes; by default as many as help.", min=1)]
Store = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Finished runs; by default $GOODPUT_STORE, or goodput in the user's cache."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Play runs again that are in the store.")]
Cluster = Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786.")]


def played(scenarios, seeds, until_ci=None, most_seeds=2000, jobs=None, store=None, fresh=False, cluster=None):
    """Return the runs of scenarios that the options of a command mean, and a line that says how many seeds they have.

    What was taken from the store, and what is kept there when somebody breaks off, is said on standard error.
    """
    if cluster is not None and jobs is not None:
        raise BadInput(f"--jobs={jobs} must not go with --cluster, whose workers are all used")
    from goodput.remote import connected
    from goodput.store import store_of

    filterwarnings("ignore", module="joblib|distributed")  # of work that was broken off
    kept = store_of(store)
    try:
        with connected(cluster):
            found = _played(scenarios, seeds, until_ci, most_seeds, jobs, kept, fresh)
    except KeyboardInterrupt:
        sys.stderr.write(f"goodput: {_broken_off(kept, fresh)}\n")
        raise typer.Exit(130) from None
    if kept and kept.taken:
        sys.stderr.write(f"goodput: {kept.taken:,} runs were taken from {kept.folder}; --fresh plays them again\n")
    return found


def _played(scenarios, seeds, until_ci, most_seeds, jobs, store, fresh):
    from goodput.adaptive import parse_width, runs_until, what_was_needed
    from goodput.experiment import experiment

    if until_ci is None:
        return experiment(scenarios, seeds, jobs, store, fresh), f"{seeds} seeds a scenario."
    width = parse_width(until_ci)
    runs = runs_until(scenarios, width, seeds, most_seeds, jobs, store, fresh)
    return runs, what_was_needed(runs, width)


def _broken_off(kept, fresh: bool) -> str:
    """Return what somebody who broke off a command wants to know."""
    if not kept:
        return "broken off; no store could be written, so nothing is kept"
    how = "the same command without --fresh" if fresh else "the same command"
    return f"broken off; {kept.taken + kept.added:,} runs are kept in {kept.folder}, and {how} goes on from there"


def read_logs(logs, format_, timezone, nodes, gpus_per_node, causes, as_of, strict):
    """Return the log that the options of a command mean, and its findings; `strict` refuses one with a warning."""
    from goodput.folder import find_logs
    from goodput.importers import read_any

    files, format_, left_out = find_logs(logs, format_)
    log, findings = read_any(
        files, format_, timezone, nodes, gpus_per_node, causes, time_of(as_of, "--as-of", timezone)
    )
    findings = [*left_out, *findings]
    if strict:
        refuse_warnings(findings)
    return log, findings


def refuse_warnings(findings) -> None:
    """Refuse a log with a warning."""
    bad = [finding for finding in findings if finding.severity != "note"]
    if bad:
        first = bad[0]
        where = "log" if first.file is None else f"{first.file}:{first.line}"
        more = f" (and {len(bad) - 1:,} more warnings)" if len(bad) > 1 else ""
        raise BadInput(f"{where}: {first.message}{more}; --strict allows no warning")


def take_apart(log, findings, since, until, timezone, slo, window_hours, exclude) -> tuple[Any, dict[str, Any]]:
    """Return the analysis of a log, and the same as plain data with `slo` where one is promised."""
    from goodput import analysis

    found = analysis.analyze(log, findings, time_of(since, "--since", timezone), time_of(until, "--until", timezone))
    return found, _data(found, slo, window_hours, excluded_by(exclude, timezone))


def take_apart_logs(
    logs, reading, strict, since, until, slo, window_hours, exclude, step_seconds, jobs
) -> tuple[Any, dict[str, Any]]:
    """Return what `take_apart` does, of many logs or huge ones: never all of them in memory."""
    from goodput import analysis
    from goodput.many_logs import Asked, Reading, digest_logs

    zone = reading[1]
    since, until = time_of(since, "--since", zone), time_of(until, "--until", zone)
    excluded = excluded_by(exclude, zone)
    asked = Asked(since, until, window_hours if slo is not None else None, None, excluded, step_seconds is not None)
    kept = digest_logs(logs, Reading(*reading), asked, jobs)
    if strict:
        refuse_warnings(kept.findings)
    found = analysis.analysis_of(kept, asked)
    data = _data(found, slo, window_hours, excluded)
    if step_seconds is not None:
        data["reference_step"] = analysis.step_data(found, step_seconds)
    return found, data


def _data(found, slo, window_hours, excluded) -> dict[str, Any]:
    from goodput import analysis

    data = analysis.as_data(found)
    if slo is not None:
        data["slo"] = analysis.slo_data(found, slo, window_hours, excluded)
    return data


def check_window_hours(window_hours: float) -> None:
    """Refuse a window that is no length."""
    if not 0 < window_hours < float("inf"):
        raise BadInput(f"--window-hours={window_hours} must be above 0 and finite")


def time_of(text: str | None, option: str, timezone: str | None) -> int | None:
    """Return the moment that an option names, in microseconds since 1970 UTC."""
    if text is None:
        return None
    from goodput.line import moment, zone_of

    try:
        return moment(float(text) if text.replace(".", "", 1).isdigit() else text, zone_of(timezone))
    except ValueError as error:
        raise BadInput(f"{option}={text} must be {error}") from None


def excluded_by(path: Path | None, timezone: str | None):
    """Return the planned windows of a file as rows of (start, end), in microseconds."""
    if path is None:
        return None
    from goodput.line import zone_of
    from goodput.window import read_exclusions

    return read_exclusions(path, zone_of(timezone))
