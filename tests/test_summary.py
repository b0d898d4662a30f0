"""The page of the seven scenarios: its numbers are those of `compare`, its assumptions those of the files."""

import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from goodput.assumptions import assumptions, changes, described
from goodput.attribution import CATEGORIES
from goodput.errors import BadInput
from goodput.experiment import cause_means, compare, experiment, wide_runs
from goodput.page import Requests
from goodput.scenario import SEVEN, load_scenario
from goodput.scenario_file import SCENARIOS, read_toml
from goodput.summary import ARXIV, SOURCES, write_summary
from goodput.text import between

ROOT = Path(__file__).parents[1]
SEEDS = 3


def run_seven() -> pd.DataFrame:
    return experiment([load_scenario(name) for name in SEVEN], SEEDS)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return run_seven()


@pytest.fixture(scope="module")
def html(runs, tmp_path_factory) -> str:
    return write_summary(tmp_path_factory.mktemp("page") / "seven.html", SEEDS, runs).read_text("utf-8")


@pytest.fixture(scope="module")
def soup(html) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def rows_of(soup: BeautifulSoup, part: str) -> list[list[str]]:
    """Return the text of the rows of a part's table, its header first; figures have none."""
    cells = [row.find_all(["th", "td"]) for row in soup.select(f"#{part} tr")]
    return [[cell.get_text(" ").replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in cells]


def tile(soup: BeautifulSoup, label: str) -> str:
    """Return all text of the tile whose label begins so."""
    (found,) = [each for each in soup.select(".tile") if each.dt.get_text().startswith(label)]
    return found.get_text(" ")


def test_the_page_asks_the_network_for_nothing_and_runs_nothing(html):
    page = Requests()
    page.feed(html)
    assert page.requests == []
    assert "<script" not in html and "$" not in html


def test_two_builds_are_byte_identical_wherever_they_lie_and_whatever_the_reader_likes(html, tmp_path):
    with plt.style.context("dark_background"):
        again = write_summary(tmp_path / "new folder" / "other.html", SEEDS, run_seven())
    assert again.read_bytes() == html.encode()


def test_no_id_is_given_twice_and_each_inner_link_has_its_target(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)
    assert {one or other for one, other in targets} <= set(ids)


def test_goodput_and_differences_are_those_of_compare(soup, runs):
    table = {row[0]: row for row in rows_of(soup, "scenarios")}
    for row in compare(runs).to_dict("records"):
        mine = table[row["scenario"]]
        ends = between(100 * row["goodput_low"], 100 * row["goodput_high"], lambda value: f"{value:,.2f}")
        assert mine[1] == f"{100 * row['goodput']:.2f} ({ends})"
        if row["scenario"] != "baseline":
            difference = float(mine[3].split(" (")[0].replace("−", "-"))
            assert difference == pytest.approx(100 * row["difference"], abs=0.0051)
        assert mine[5].startswith(f"{row['mtbi_hours']:.1f} (")


def test_the_tiles_tell_the_best_the_worst_and_all_together(soup, runs):
    """Reckoned again from the runs: the mean over seeds of each scenario's goodput less the baseline's."""
    goodput = wide_runs(runs)["goodput"].unstack("scenario")
    gain = 100 * goodput.sub(goodput["baseline"], axis=0).mean()
    best = gain.drop(["baseline", "combined"]).idxmax()
    told = {"Best single change": best, "Three changes together": "combined", "Worst": goodput.mean().idxmin()}
    for label, name in told.items():
        assert name in tile(soup, label)
        assert f"{gain[name]:+.2f}".replace("-", "−") in tile(soup, label)
    assert f"{100 * goodput['baseline'].mean():.2f}" in tile(soup, "Goodput, baseline")


def test_each_tile_has_a_unit_and_an_interval(soup):
    tiles = soup.select(".tile")
    assert len(tiles) == 8
    for each in tiles:
        assert each.select_one(".unit").get_text().strip()
        assert re.search(r"95 % interval [+−\d.,]+ to [+−\d.,]+", each.select_one(".sure").get_text())


def test_shares_of_a_scenario_add_up_to_all_it_held(soup):
    header, *rows = rows_of(soup, "waste")
    assert set(header[1:]) <= {name.replace("_", " ") for name in CATEGORIES}
    assert [row[0] for row in rows] == list(SEVEN)
    for row in rows:
        assert sum(float(cell.split(" ±")[0]) for cell in row[1:]) == pytest.approx(100, abs=0.005 * len(row))


def test_causes_cost_what_cause_means_says(soup, runs):
    header, *rows = rows_of(soup, "causes")
    means = cause_means(runs).set_index(["scenario", "cause"])
    for row in rows:
        assert row[1].startswith(f"{means.loc[('baseline', row[0]), 'count']:.1f} ± ")
        for name, cell in zip(header[2:], row[2:]):
            assert cell.startswith(f"{means.loc[(name, row[0]), 'gpu_hours']:,.0f} ± ")
    assert {row[0] for row in rows} == set(load_scenario("baseline").causes)


@pytest.mark.parametrize("name", SEVEN)
def test_assumptions_are_all_values_of_the_file(name):
    """A slow twin: the file as a TOML parser reads it, each table unfolded."""

    def unfold(table: dict, before: str = "") -> dict:
        parts = [unfold(v, f"{before}{k}.") if isinstance(v, dict) else {f"{before}{k}": v} for k, v in table.items()]
        return {path: value for part in parts for path, value in part.items()}

    whole = unfold(tomllib.loads((SCENARIOS / f"{name}.toml").read_text("utf-8")))
    found = {path: value for each in assumptions(name) for path, value in each.values.items()}
    assert found == {path: value for path, value in whole.items() if path not in ("name", "base")}


@pytest.mark.parametrize("name", SEVEN[1:])
def test_the_changes_of_a_scenario_make_it_from_the_baseline(name):
    changed = load_scenario("baseline").but({each.path: each.now for each in changes(name)}, name)
    assert changed == load_scenario(name)


def test_each_value_of_the_baseline_stands_on_the_page_with_its_reason(soup):
    """The reasons are the comments of the file; here they are read as the text behind the last #."""
    text = " ".join(" ".join(row) for row in rows_of(soup, "assumptions"))
    comments = re.findall(r"^[^#\n]+#\s*(.+)$", (SCENARIOS / "baseline.toml").read_text("utf-8"), re.MULTILINE)
    assert len(comments) > 15
    assert [reason for reason in comments if reason not in text] == []
    assert "job.restart_minutes" in text and "detection_minutes = 30" in text
    assert described("baseline") in soup.select_one("#assumptions").get_text()


def test_what_a_scenario_changes_is_said_with_the_value_before(soup):
    rows = rows_of(soup, "changes")
    assert ["pool.spares", "4", "0", ""] in rows
    assert any(row[:3] == ["checkpoint.interval_minutes", "30", "daly"] for row in rows)
    assert [row for row in rows if row[0].startswith(f"no-spares. {described('no-spares')}")]


def test_each_paper_that_the_files_name_is_linked(soup):
    said = " ".join((SCENARIOS / f"{name}.toml").read_text("utf-8") for name in SEVEN)
    said += (ROOT / "README.md").read_text("utf-8")
    links = {link["href"] for link in soup.select("#words a")}
    assert links == {f"https://arxiv.org/abs/{number}" for number in ARXIV.findall(said)}


def test_a_paper_without_a_title_is_refused(monkeypatch, runs, tmp_path):
    monkeypatch.delitem(SOURCES, "2410.21680")
    with pytest.raises(BadInput, match=r"2410\.21680"):
        write_summary(tmp_path / "seven.html", SEEDS, runs)
    assert list(tmp_path.iterdir()) == []


def test_the_ink_of_figures_is_that_of_the_page(soup):
    """So that they can be read on a dark screen; letters on a bar keep their own."""
    figures = soup.find_all("svg")
    assert len(figures) == 4
    for figure in map(str, figures):
        assert not re.search("#1c2126|#5b6570|#000000|#d3dee6", figure, re.IGNORECASE)
        assert "var(--ink)" in figure
    assert all(each.parent["aria-label"] in each.get_text(" ") for each in figures)


def test_how_it_was_made_can_be_done_again(soup):
    assert f"python -m goodput.summary --seeds {SEEDS}" in soup.get_text()
    assert read_toml(SCENARIOS / "baseline.toml", "baseline")["days"] == 28


def test_a_place_that_cannot_be_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setattr("goodput.summary.experiment", lambda *_: pytest.fail("played"))
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"file: folder must be writable: File exists \(--out names another\)"):
        write_summary(tmp_path / "file" / "page.html", seeds=2)
