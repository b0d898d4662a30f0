"""From the shell: calibrate, a log becomes a scenario; replay, the scenario is held against the log."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from goodput.errors import BadInput
from goodput.options import AsOf, Causes, Format, Formats, From, Gpus, Logs, Nodes, Strict, Zone, read_logs

Output = Annotated[Path, typer.Option("-o", "--output", help="The scenario file; its name ends in .toml.")]
Cohorts = Annotated[Path | None, typer.Option(metavar="FILE", help="CSV node,cohort: which nodes fail alike.")]
Spares = Annotated[int | None, typer.Option(help="Spares, where you know them.", min=0)]
Crews = Annotated[int | None, typer.Option(help="Repair crews, where you know them.", min=1)]
Prior = Annotated[str | None, typer.Option(help="Pool node rates with a published one: rsc-1, rsc-2 or llama3.")]
Weight = Annotated[float, typer.Option(help="With --prior: events that the published rate counts as.", min=0.1)]
Seeds = Annotated[int, typer.Option(help="Simulated runs, 1 to N.", min=2)]


def calibrate(
    logs: Logs,
    output: Output,
    cohorts: Cohorts = None,
    spares: Spares = None,
    crews: Crews = None,
    prior: Prior = None,
    prior_events: Weight = 3,
    name: Annotated[str | None, typer.Option(help="Of the scenario; by default that of the file.")] = None,
    from_: From = None,
    timezone: Zone = None,
    nodes: Nodes = None,
    gpus_per_node: Gpus = None,
    causes: Causes = None,
    as_of: AsOf = None,
    strict: Strict = False,
    format: Formats = Format.text,
) -> None:
    """Fit a scenario to a log: each value with its 90 % interval, or why it is assumed."""
    from goodput import calibrate as fitting
    from goodput.fitted_file import fit_text, fit_toml, read_cohorts
    from goodput.logtext import written_whole

    if output.suffix != ".toml" or output.resolve() in [log.resolve() for log in logs]:
        raise BadInput(f"--output={output} must end in .toml, and not be a log that is read")
    labels = read_cohorts(cohorts) if cohorts else None
    log, findings = read_logs(logs, from_, timezone, nodes, gpus_per_node, causes, as_of, strict)
    fit = fitting.calibrate(log, labels, spares, crews, prior, name or output.stem, findings, prior_events)
    with written_whole(output) as file:
        file.write(fit_toml(fit).encode())
    _print_table(fit.table(), format, lambda: fit_text(fit), {"scenario": str(output), "notes": fit.notes}, "values")


def replay(
    scenario: str,
    logs: Logs,
    seeds: Seeds = 200,
    from_: From = None,
    timezone: Zone = None,
    nodes: Nodes = None,
    gpus_per_node: Gpus = None,
    causes: Causes = None,
    as_of: AsOf = None,
    strict: Strict = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default as many as help.", min=1)] = None,
    format: Formats = Format.text,
) -> None:
    """Hold a scenario against a log: is the log's ledger where 90 % of simulated runs are?"""
    from goodput import replay as replaying
    from goodput.scenario import load_scenario

    assumed = load_scenario(scenario)
    log, _ = read_logs(logs, from_, timezone, nodes, gpus_per_node, causes, as_of, strict)
    table = replaying.replay(assumed, log, seeds, jobs)
    said = {"scenario": scenario, "seeds": seeds}
    _print_table(table, format, lambda: replaying.replay_text(table, seeds), said, "measures")


def _print_table(table, format: Format, text, said: dict, rows: str) -> None:
    from goodput.text import records, to_json

    if format is Format.csv:
        out = table.to_csv(index=False)
    elif format is Format.json:
        out = to_json({**said, rows: records(table)}) + "\n"
    else:
        out = text() + "\n"
    sys.stdout.write(out)
