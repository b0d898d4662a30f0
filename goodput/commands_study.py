"""From the shell: study, many scenarios played to see which assumption moves goodput most."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from goodput.errors import BadInput
from goodput.options import Cluster, Format, Formats, Fresh, Jobs, MostSeeds, Store, UntilCi, played

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="All scenarios with their results; its name ends in .parquet.")
]
Design = Annotated[str | None, typer.Option(help="Instead of the file's: tornado, grid, latin-hypercube or sobol.")]
Seeds = Annotated[int | None, typer.Option(help="Instead of the file's: replications 1 to N of each scenario.")]


def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file: base, seeds, design, parameters.")],
    output: Output = None,
    design: Design = None,
    seeds: Seeds = None,
    until_ci: UntilCi = None,
    most_seeds: MostSeeds = 2000,
    jobs: Jobs = None,
    store: Store = None,
    fresh: Fresh = False,
    cluster: Cluster = None,
    format: Formats = Format.text,
) -> None:
    """Play a study, and say which of its parameters moves goodput most."""
    from goodput.design import scenarios_of
    from goodput.logtext import written_whole
    from goodput.sensitivity import results_of, storable
    from goodput.study import load_study

    if output and (output.suffix != ".parquet" or output.resolve() == file.resolve()):
        raise BadInput(f"--output={output} must end in .parquet")
    instead = {"design": design, "seeds": seeds}
    asked = load_study(file).but(**{name: value for name, value in instead.items() if value is not None})
    scenarios = scenarios_of(asked)
    # opened before anything is played: minutes later is late to hear that it cannot be written
    with written_whole(output) if output else nullcontext() as place:
        runs, said = played(scenarios, asked.seeds, until_ci, most_seeds, jobs, store, fresh, cluster)
        results = results_of(asked, runs)
        if place:
            storable(results).to_parquet(place, index=False)
    _print_results(asked, results, said if until_ci else "", format)


def _print_results(asked: Any, results: Any, needed: str, format: Format) -> None:
    from goodput.sensitivity import what_moves
    from goodput.study_text import study_json, study_text

    if format is Format.csv:
        out = what_moves(results).to_csv(index=False)
    elif format is Format.json:
        out = study_json(asked, results) + "\n"
    else:
        out = study_text(asked, results, needed) + "\n"
    sys.stdout.write(out)
