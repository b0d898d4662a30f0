"""From the shell: simulate, analyze, report, convert, compare, sweep, checkpoint, calibrate, replay, study.

Each command calls the package and prints. What cannot be used ends in one line on standard error and exit code 2.
Modules are imported where a command needs them, so that each starts quickly.
"""

import sys
from logging import getLogger
from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings

import typer

from goodput.commands_fit import calibrate, replay
from goodput.commands_study import study
from goodput.errors import BadInput
from goodput.options import (
    AsOf,
    Causes,
    Cluster,
    Exclude,
    Format,
    Formats,
    Fresh,
    From,
    Gpus,
    Jobs,
    Logs,
    MostSeeds,
    Nodes,
    Seeds,
    Since,
    Slo,
    Store,
    Strict,
    Until,
    UntilCi,
    WindowHours,
    Zone,
    check_window_hours,
    played,
    read_logs,
    take_apart,
    take_apart_logs,
    time_of,
)
from goodput.shell import run_app

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Changes = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a scenario.")]

_READ_AS = """Intervals are of the mean; p10 to p90 is where 80 % of the runs fall.
Differences are to the baseline, in percentage points, paired by seed. MTBI and node MTBF are pooled over the runs."""


@app.callback()
def _goodput() -> None:
    """Of all the GPU-hours a training job held, how many trained the model, and where did the rest go?"""


@app.command()
def simulate(
    scenario: str,
    seed: Annotated[int, typer.Option(help="The replication.", min=0)] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="By default standard output.")] = None,
    set_: Changes = None,
) -> None:
    """Write the event log of one simulated run, as JSON Lines."""
    from goodput.logtext import log_text, write_log
    from goodput.simulate import simulate

    log = simulate(_scenario(scenario, set_), seed)
    if output:
        write_log(log, output)
    else:
        _print(log_text(log), end="")


@app.command()
def analyze(
    logs: Logs,
    slo: Slo = None,
    window_hours: WindowHours = 168,
    exclude: Exclude = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    from_: From = None,
    timezone: Zone = None,
    nodes: Nodes = None,
    gpus_per_node: Gpus = None,
    causes: Causes = None,
    step_seconds: Annotated[float | None, typer.Option(help="Reference time of a step.")] = None,
    strict: Strict = False,
    jobs: Jobs = None,
    format: Formats = Format.text,
) -> None:
    """Say where the GPU-hours of a log went: category, cause, MTBI and MTBF, SLO."""
    from goodput import analysis
    from goodput.text import to_json

    check_window_hours(window_hours)
    reading = (from_, timezone, nodes, gpus_per_node, causes, time_of(as_of, "--as-of", timezone))
    of_windows = (since, until, slo, window_hours, exclude)
    found, data = take_apart_logs(logs, reading, strict, *of_windows, step_seconds, jobs)
    if format is Format.csv:
        _print(found.jobs.to_csv(), end="")
    else:
        _print(to_json(data) if format is Format.json else analysis.as_text(found, data))


@app.command()
def report(
    logs: Logs,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page, one HTML file.")] = Path("report.html"),
    price: Annotated[float | None, typer.Option(help="Of a GPU-hour, in any currency: what waste costs.")] = None,
    slo: Slo = None,
    window_hours: WindowHours = 168,
    exclude: Exclude = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    from_: From = None,
    timezone: Zone = None,
    nodes: Nodes = None,
    gpus_per_node: Gpus = None,
    causes: Causes = None,
    strict: Strict = False,
) -> None:
    """Write what `analyze` finds in a log as one HTML page, with figures, to open or to print."""
    check_window_hours(window_hours)
    from goodput.folder import find_logs

    if output.resolve() in [log.resolve() for log in find_logs(logs, from_).files]:
        raise BadInput(f"--output={output} must not be a log that is read")
    getLogger("matplotlib").setLevel("ERROR")  # it tells of a home that cannot be written, as in a container
    try:
        from goodput.logpage import write_page
    except ImportError as error:
        how = "pip install 'goodput-workbench[notebooks]'"
        raise BadInput(f"report: package {error.name} must be installed: {how}") from None
    log, findings = read_logs(logs, from_, timezone, nodes, gpus_per_node, causes, as_of, strict)
    found, data = take_apart(log, findings, since, until, timezone, slo, window_hours, exclude)
    with catch_warnings(action="ignore"):  # of a name in letters that matplotlib's own font lacks
        write_page(found, data, output, price)
    _print(f"{output}  {output.stat().st_size / 1e6:.1f} MB")


@app.command()
def convert(
    logs: Logs,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="By default standard output.")] = None,
    from_: From = None,
    timezone: Zone = None,
    nodes: Nodes = None,
    gpus_per_node: Gpus = None,
    causes: Causes = None,
    as_of: AsOf = None,
    strict: Strict = False,
) -> None:
    """Write a log of any format in ours, set right, as JSON Lines; findings go to standard error."""
    from goodput.analysis import findings_text
    from goodput.logtext import log_text, write_log

    log, findings = read_logs(logs, from_, timezone, nodes, gpus_per_node, causes, as_of, strict)
    if output:
        write_log(log, output)
    else:
        _print(log_text(log), end="")
    if findings:
        sys.stderr.write(f"{findings_text(findings)}\n")


@app.command()
def compare(
    scenarios: Annotated[list[str] | None, typer.Argument(metavar="[SCENARIO]...")] = None,
    seeds: Seeds = 20,
    until_ci: UntilCi = None,
    most_seeds: MostSeeds = 2000,
    set_: Changes = None,
    jobs: Jobs = None,
    store: Store = None,
    fresh: Fresh = False,
    cluster: Cluster = None,
    format: Formats = Format.text,
) -> None:
    """Compare scenarios (by default the seven) with the baseline, paired by seed."""
    from goodput import experiment
    from goodput.scenario import SEVEN
    from goodput.text import comparison_json, comparison_text, shares_text, to_json

    names = list(dict.fromkeys(["baseline", *(scenarios or SEVEN)]))
    assumed = [_scenario(name, set_) for name in names]
    runs, said = played(assumed, seeds, until_ci, most_seeds, jobs, store, fresh, cluster)
    table = experiment.compare(runs)
    if format is Format.csv:
        _print(table.to_csv(index=False), end="")
    elif format is Format.json:
        _print(to_json({"scenarios": comparison_json(table, experiment.cause_means(runs)), "seeds": said}))
    else:
        _print(f"{comparison_text(table)}\n\n{shares_text(table)}\n\n{said}\n{_READ_AS}")


@app.command()
def sweep(
    scenario: str,
    path: Annotated[str, typer.Argument(help="A dotted path, as checkpoint.interval_minutes.")],
    values: Annotated[str, typer.Argument(help="Values with commas between, as 10,30,90.")],
    seeds: Seeds = 20,
    until_ci: UntilCi = None,
    most_seeds: MostSeeds = 2000,
    set_: Changes = None,
    jobs: Jobs = None,
    store: Store = None,
    fresh: Fresh = False,
    cluster: Cluster = None,
    format: Formats = Format.text,
) -> None:
    """Vary one parameter of a scenario; differences are to the scenario as it is, paired by seed."""
    from goodput import experiment
    from goodput.scenario import parse_value
    from goodput.text import comparison_json, comparison_text, shares_text, to_json

    wanted = [parse_value(value) for value in values.split(",")]
    scenarios = experiment.sweep_scenarios(_scenario(scenario, set_), path, wanted)
    runs, said = played(scenarios, seeds, until_ci, most_seeds, jobs, store, fresh, cluster)
    table = experiment.swept(runs, wanted)
    if format is Format.csv:
        _print(table.to_csv(index=False), end="")
    elif format is Format.json:
        _print(to_json({"scenario": scenario, "path": path, "values": comparison_json(table), "seeds": said}))
    else:
        _print(f"{scenario}, {path}: {said}\n\n{comparison_text(table)}\n\n{shares_text(table)}")


@app.command()
def checkpoint(
    mtbi_hours: Annotated[float, typer.Option(help="Mean time between interruptions of the job, not of a node.")],
    write_minutes: Annotated[float, typer.Option(help="Time that training stands still for a save.")],
    overhead_minutes: Annotated[float, typer.Option(help="Detection + waiting + restart, mean.")] = 0,
    format: Formats = Format.text,
) -> None:
    """Say how often to save: Young, Daly and the exact optimum, and the goodput that follows."""
    from goodput import checkpoint as formulas
    from goodput.text import aligned, number, percent, to_json

    mtbi = mtbi_hours * 60
    rows = []
    for name in ("young", "daly", "optimal"):
        minutes = getattr(formulas, f"{name}_interval")(mtbi, write_minutes)
        goodput = formulas.expected_goodput(minutes, mtbi, write_minutes, overhead_minutes)
        rows.append({"formula": name, "interval_minutes": minutes, "goodput": goodput})
    if format is Format.json:
        asked = {
            "mtbi_hours": mtbi_hours,
            "write_minutes": write_minutes,
            "overhead_minutes": overhead_minutes,
        }
        _print(to_json({**asked, "intervals": rows}))
    elif format is Format.csv:
        _print("formula,interval_minutes,goodput")
        _print("\n".join(",".join(map(str, row.values())) for row in rows))
    else:
        table = [(row["formula"], number(row["interval_minutes"]), percent(row["goodput"])) for row in rows]
        _print(aligned(("formula", "compute between saves, min", "expected goodput"), table))


app.command()(calibrate)
app.command()(replay)
app.command()(study)


def _scenario(name: str, changes: list[str] | None):
    from goodput.scenario import load_scenario, parse_changes

    scenario = load_scenario(name)
    return scenario.but(parse_changes(changes)) if changes else scenario


def _print(text: Any, end: str = "\n") -> None:
    sys.stdout.write(f"{text}{end}")


def main() -> None:
    """Run the command line; what cannot be used ends in one line and exit code 2."""
    run_app(app, sys.argv[1:] or ["--help"])
