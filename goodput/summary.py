"""What do the seven scenarios say, on one page? Headlines, figures, tables, and every assumption with its reason.

`python -m goodput.summary` writes it; the same seeds give the same bytes.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

import goodput
from goodput.assumptions import Assumption, assumptions, changes, described
from goodput.attribution import CATEGORIES
from goodput.drawing import as_words, signed_points
from goodput.errors import BadInput
from goodput.experiment import cause_means, compare, experiment, wide_runs
from goodput.figures import draw_causes, draw_differences, draw_goodput, draw_waste
from goodput.metrics import Mean, mean_interval
from goodput.page import make_folder
from goodput.results import DIGITS, ROOT, SEEDS
from goodput.scenario import SEVEN, load_scenario
from goodput.sheet import Figures, Part, Table, Tile, codes, paragraph, unbroken, write_sheet
from goodput.shell import run_app
from goodput.text import between, number

OUT = ROOT / "build" / "seven_scenarios.html"
BASE, ALL = "baseline", "combined"
AXIS_FROM = -15  # points: what loses more is an arrow, so that the others can be read
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
# What the scenario files name, in the order of this page: an arXiv number or a name, and the whole title.
SOURCES = {
    "2407.21783": "Llama Team, AI @ Meta: The Llama 3 Herd of Models, 2024",
    "2410.21680": "A. Kokolis and others: Revisiting Reliability in Large-Scale Machine Learning Research Clusters,"
    " 2024",
    "Daly (2006)": "J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps,"
    " Future Generation Computer Systems 22(3), 2006",
}


def write_summary(out: Path = OUT, seeds: int = SEEDS, runs: pd.DataFrame | None = None) -> Path:
    """Return `out`, the page of the seven scenarios with replications 1 to `seeds`; `runs` where they are at hand."""
    make_folder(Path(out).parent)  # before the long run
    runs = experiment([load_scenario(name) for name in SEVEN], seeds) if runs is None else runs
    table, causes, figures = compare(runs).round(DIGITS), cause_means(runs).round(DIGITS), Figures("seven")
    parts = [
        Part("scenarios", "Seven scenarios", _scenarios(table, figures)),
        Part("waste", "Where the hours went", _waste(table, runs, figures)),
        Part("causes", "Which cause took them", _causes(causes, runs, figures)),
        Part("changes", "What each scenario changes", [_changes()]),
        Part("assumptions", "What the baseline assumes", [paragraph(described(BASE)), _assumptions()]),
    ]
    content = {"tiles": tiles(table, runs), "parts": parts, "lead": _lead(runs), "sources": sources(), "seeds": seeds}
    title = "The seven scenarios: which change buys most goodput?"
    return write_sheet(Path(out), "summary.html.j2", title=title, version=goodput.__version__, **content)


def _lead(runs: pd.DataFrame) -> list[str]:
    base, held = load_scenario(BASE), wide_runs(runs)["held_gpu_hours"].mean()
    gpus = base.job.nodes * base.job.gpus_per_node
    seeds = runs["seed"].nunique()
    return [
        f"A simulated job of {gpus:,} GPUs for {base.days:g} days, seven ways, {seeds} seeds each. Goodput is the share"
        f" of the {number(held, 0)} GPU-hours held that trained the model."
    ]


def tiles(table: pd.DataFrame, runs: pd.DataFrame) -> list[Tile]:
    """Return the headline numbers of `compare` and its runs, each with its interval."""
    rows = table.set_index("scenario")
    base, single = rows.loc[BASE], rows.drop([BASE, ALL], errors="ignore")
    best, worst = single["difference"].idxmax(), rows["goodput"].idxmin()
    struck = mean_interval(wide_runs(runs).loc[BASE, "interruptions"])
    held = wide_runs(runs).loc[BASE, "held_gpu_hours"].mean()
    mtbi = between(base["mtbi_hours_low"], base["mtbi_hours_high"])
    return [
        _level(BASE, base),
        _change("Best single change", best, rows.loc[best], held, "good"),
        _change("Three changes together", ALL, rows.loc[ALL], held, "good"),
        _level(ALL, rows.loc[ALL]),
        _change("Worst", worst, rows.loc[worst], held, "bad"),
        _wasted(runs),
        Tile(
            f"Interruptions, {BASE}", number(struck.mean), "a run", f"95 % interval {between(struck.low, struck.high)}"
        ),
        Tile(
            f"MTBI, {BASE}", number(base["mtbi_hours"]), "h", f"95 % interval {mtbi} h, pooled over {struck.count} runs"
        ),
    ]


def _level(name: str, row: pd.Series) -> Tile:
    return Tile(f"Goodput, {name}", _hundredths(row["goodput"]), "%", f"95 % interval {_interval(row, 'goodput')} %")


def _change(label: str, name: str, row: pd.Series, held: float, tone: str) -> Tile:
    hours = f"{row['difference'] * held:+,.0f}".replace("-", "−") + " GPU-hours a run"
    ends = between(row["difference_low"], row["difference_high"], signed_points)
    return Tile(
        f"{label}: {name}", signed_points(row["difference"]), "points", f"95 % interval {ends}, paired; {hours}", tone
    )


def _wasted(runs: pd.DataFrame) -> Tile:
    mine = wide_runs(runs).loc[BASE]
    waste = mean_interval(mine["held_gpu_hours"] - mine["productive"])
    said = f"95 % interval {between(waste.low, waste.high, _whole)}"
    return Tile(f"Wasted, {BASE}", _whole(waste.mean), "GPU-hours a run", said, "bad")


def _whole(hours: float) -> str:
    return number(hours, 0)


def _hundredths(share: float) -> str:
    return number(100 * share, 2)


def _interval(row: Any, name: str, show=_hundredths) -> str:
    return between(row[f"{name}_low"], row[f"{name}_high"], show)


def _with_interval(row: Any, name: str, show: Callable[[float], str]) -> str:
    return f"{show(row[name])} ({unbroken(_interval(row, name, show))})"


def _scenarios(table: pd.DataFrame, figures: Figures) -> list[Any]:
    rows = [
        (
            row["scenario"],
            _with_interval(row, "goodput", _hundredths),
            unbroken(between(row["goodput_p10"], row["goodput_p90"], _hundredths)),
            "-" if row["scenario"] == BASE else _with_interval(row, "difference", signed_points),
            number(row["interruptions_per_run"]),
            _with_interval(row, "mtbi_hours", number),
            _with_interval(row, "node_mtbf_hours", _whole),
        )
        for row in table.to_dict("records")
    ]
    header = (
        "scenario",
        "goodput, %",
        "p10 to p90 of runs",
        "difference, points",
        "interruptions a run",
        "MTBI, h",
        "node MTBF, node-hours",
    )
    said = "In brackets the 95 % interval. Differences are to the baseline, paired by seed."
    drawn = [figures.draw(draw_differences, table, from_points=AXIS_FROM), figures.draw(draw_goodput, table)]
    return [*drawn, Table(header, rows, said)]


def _waste(table: pd.DataFrame, runs: pd.DataFrame, figures: Figures) -> list[Any]:
    wide = wide_runs(runs)
    shares = wide[list(CATEGORIES)].div(wide["held_gpu_hours"], axis=0)
    shown = [name for name in CATEGORIES if shares[name].sum() > 0]
    rows = [
        (name, *[_plus_minus(mean_interval(shares.loc[name, category]), 100, 2) for category in shown])
        for name in SEVEN
    ]
    said = "Mean share of the GPU-hours held, in %, ± half of its 95 % interval."
    return [figures.draw(draw_waste, table), Table(("scenario", *map(as_words, shown)), rows, said)]


def _plus_minus(mean: Mean, times: float = 1, digits: int = 0) -> str:
    half = number(times * (mean.high - mean.mean), digits)
    return f"{number(times * mean.mean, digits)} ±\N{NO-BREAK SPACE}{half}"


def _causes(causes: pd.DataFrame, runs: pd.DataFrame, figures: Figures) -> list[Any]:
    base = causes[causes["scenario"] == BASE]
    of_cause = runs[runs["cause"].notna()].groupby(["metric", "cause", "scenario"], observed=True)["value"]
    means = of_cause.agg(mean_interval)
    names = list(base["cause"])
    struck = [(name, _plus_minus(means["cause_count", name, BASE], 1, 1)) for name in names]
    rows = [(*row, *[_plus_minus(means["cause_gpu_hours", row[0], each]) for each in SEVEN]) for row in struck]
    said = "GPU-hours a run charged to each cause, and how often it struck the baseline; ± half of the 95 % interval."
    header = ("cause", f"times a run, {BASE}", *SEVEN)
    return [figures.draw(draw_causes, base), Table(header, rows, said)]


def _changes() -> Table:
    rows: list[tuple] = []
    for name in SEVEN[1:]:
        rows.append((f"{name}. {described(name)}",))
        rows += [
            (codes([each.path]), codes([_shown(each.was)]), codes([_shown(each.now)]), each.reason)
            for each in changes(name)
        ]
    return Table(("value", BASE, "here", "reason"), rows, texts=4)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _assumptions() -> Table:
    rows: list[tuple] = []
    group = ""
    for each in assumptions(BASE):
        if each.group and each.group != group:
            rows.append((each.group,))
        group = each.group
        rows.append((codes([each.path]), codes(_values(each)), each.reason))
    return Table(("value", "assumed", "reason"), rows, texts=3)


def _values(each: Assumption) -> list[str]:
    if list(each.values) == [each.path]:
        return [_shown(value) for value in each.values.values()]
    return [f"{path.removeprefix(each.path + '.')} = {_shown(value)}" for path, value in each.values.items()]


def sources() -> list[tuple[str, str]]:
    """Return the titles of what the scenario files name, each with its address (none for a paper without one)."""
    said = " ".join(f"{described(name)} {' '.join(each.reason for each in assumptions(name))}" for name in SEVEN)
    unknown = set(ARXIV.findall(said)) - set(SOURCES)
    if unknown:
        raise BadInput(f"scenarios: arXiv {min(unknown)} must have its title in goodput.summary.SOURCES")
    cited = [(key, title) for key, title in SOURCES.items() if key in said]
    return [(title, f"https://arxiv.org/abs/{key}" if ARXIV.fullmatch(key) else "") for key, title in cited]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def _write(
    seeds: Annotated[int, typer.Option(help="Replications 1 to N of each scenario.", min=2)] = SEEDS,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = OUT.parent,
) -> None:
    """Write the report of the seven scenarios, one HTML file."""
    done = write_summary(out / OUT.name, seeds)
    shown = done.relative_to(ROOT) if done.is_relative_to(ROOT) else done
    typer.echo(f"{shown}  {done.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    run_app(app)
