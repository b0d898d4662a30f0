"""`goodput report`: the page says what `analyze` says, whatever a log holds, and nothing in a log is markup."""

import json
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup

from goodput import cli, logpage
from goodput.errors import BadInput
from goodput.logtext import log_text, written_whole
from goodput.page import Requests
from goodput.scenario import load_scenario
from goodput.simulate import simulate

EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$x$ \\frac{", 'url(#a) id="q"', "日本" * 90]


def events(job: str, hours: float = 10, cause: str | None = "host", node: str | None = "n1", **size) -> list[dict]:
    """Return a job that trains; with a cause it is struck after 2 h, noticed at once, and trains again 1 h later."""
    struck = [(2, "interrupt"), (2, "detected"), (2.5, "nodes_ready"), (3, "running")] if cause else []
    rows = [{"time": 3600 * at, "job": job, "event": event} for at, event in [(0, "start"), *struck, (hours, "end")]]
    rows[0] |= size or {"nodes": 2, "gpus_per_node": 4}
    if cause:
        rows[1] |= {"cause": cause} | ({"node": node} if node else {})
    return rows


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command on events, in a folder of its own, and gives what it printed."""

    def run(name: str, rows: list[dict], *options) -> str:
        (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        arguments = ["goodput", name, str(tmp_path / "log.jsonl"), *map(str, options)]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, errors = capsys.readouterr()
        assert (ended.value.code, errors) == (0, "")
        return out

    return run


@pytest.fixture
def html(command, tmp_path):
    """Return a function that gives the page of events."""

    def page(rows: list[dict], *options) -> str:
        said = command("report", rows, *options, "-o", tmp_path / "page.html")
        assert said.startswith(f"{tmp_path / 'page.html'}  ") and said.endswith(" MB\n")
        return (tmp_path / "page.html").read_text("utf-8")

    return page


@pytest.fixture
def soup(html):
    return lambda *arguments: BeautifulSoup(html(*arguments), "html.parser")


def tiles(page: BeautifulSoup) -> dict[str, str]:
    """Return the text below the label of each tile."""
    said = {each.dt.get_text(): [dd.get_text(" ") for dd in each.select("dd")] for each in page.select(".tile")}
    return {label: " ".join(" ".join(texts).split()) for label, texts in said.items()}


def rows_of(page: BeautifulSoup, part: str) -> list[list[str]]:
    cells = [row.find_all(["th", "td"]) for row in page.select(f"#{part} tr")]
    return [[cell.get_text().replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in cells]


def simulated(name: str = "baseline", **changes) -> list[dict]:
    log = simulate(load_scenario(name).but({key.replace("__", "."): value for key, value in changes.items()}), 1)
    return [json.loads(line) for line in log_text(log).splitlines()]


def test_the_tiles_of_a_log_worked_out_by_hand(soup):
    """8 GPUs for 10 h: 2 h lost, half an hour waiting, half an hour restarting; 56 of 80 GPU-hours trained. It ran
    9 h for one interruption. Waste is 24 GPU-hours, all charged to the host: 60 at 2.5 each."""
    told = tiles(soup(events("a"), "--slo", 0.6, "--window-hours", 5, "--price", 2.5))
    assert told["Goodput"].startswith("70.00 % 56 of 80 GPU-hours")
    assert told["Held"] == "80 GPU-hours by 1 job"
    assert told["Wasted"].startswith("24 GPU-hours 30.00 %")
    assert told["Interruptions"] == "1 stop 1 of them a failure"
    assert told["MTBI of a job"].startswith("9.0 h 95 % interval 1.6 to 355.5 h, 1 interruption")
    assert told["Dearest cause: host"] == "100.0 % of the waste 24 GPU-hours, 1 interruption"
    assert told["SLO windows met"].startswith("1 of 2")
    assert told["Cost of waste"] == "60 at 2.5 a GPU-hour 24 GPU-hours wasted"


def test_the_page_says_what_analyze_says(soup, command):
    rows = simulated(days=7)
    found = json.loads(command("analyze", rows, "--slo", 0.8, "--window-hours", 24, "--format", "json"))
    page = soup(rows, "--slo", 0.8, "--window-hours", 24)
    assert [row[1] for row in rows_of(page, "hours")[1:-1]] == [f"{each:,.1f}" for each in found["gpu_hours"].values()]
    causes = [(row[0], row[1], row[3]) for row in rows_of(page, "causes")[1:]]
    assert causes == [(each["cause"], str(each["count"]), f"{each['gpu_hours']:,.1f}") for each in found["by_cause"]]
    windows = [row[3] for row in rows_of(page, "slo")[1:]]
    assert windows == [f"{100 * each['goodput']:.2f} %" for each in found["slo"]["by_window"]]
    low, high = found["mtbi_hours_ci95"]
    assert f"95 % interval {low:.1f} to {high:.1f} h" in tiles(page)["MTBI of a job"]
    low, high = found["goodput_ci95"]
    sure = f"95 % interval {100 * low:.1f} to {100 * high:.1f} by {found['goodput_cycles']} cycles"
    assert tiles(page)["Goodput"].endswith(sure)


def test_each_tile_has_a_unit_and_an_interval_or_a_count(soup):
    page = soup(simulated(days=3), "--slo", 0.8, "--window-hours", 24, "--price", 3)
    assert len(page.select(".tile")) == 8
    for each in page.select(".tile"):
        assert each.select_one(".unit").get_text().strip()
        assert re.search(r"\d", each.select_one(".sure").get_text())


def test_the_page_asks_the_network_for_nothing_and_repeats_to_the_byte(html):
    first = html(simulated(days=3), "--slo", 0.8)
    page = Requests()
    page.feed(first)
    assert page.requests == [] and "<script" not in first
    with plt.style.context("dark_background"):
        assert html(simulated(days=3), "--slo", 0.8) == first


def test_names_in_a_log_are_text_and_never_markup(soup):
    page = soup([row for name in EVIL for row in events(name, cause=name, node=name)], "--slo", 0.5)
    assert page.find_all(["script", "img"]) == []
    assert not [tag for tag in page.find_all(True) if any(key.startswith("on") for key in tag.attrs)]
    for part in ("causes", "nodes", "jobs"):
        assert set(EVIL) <= {row[0] for row in rows_of(page, part)}
    labels = {text.get_text() for text in page.select("svg text")}
    assert set(EVIL[:-1]) <= labels  # the long one is cut there
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))


def test_without_interruptions_mtbi_is_a_bound(soup):
    page = soup(events("a", cause=None))
    assert tiles(page)["MTBI of a job"].startswith("at least 2.7 h 95 % bound, 0 interruptions")
    assert "Nothing interrupted it" in page.get_text()
    assert "No failure in this log names a node" in page.get_text()


def test_an_interruption_that_cost_nothing_has_no_figure_and_no_share(soup):
    """Saved, struck, noticed and trained again at 2 h: all that was held trained."""
    times = {
        "start": 0,
        "checkpoint_start": 2,
        "checkpoint_end": 2,
        "interrupt": 2,
        "detected": 2,
        "running": 2,
        "end": 9,
    }
    rows = [{"time": 3600 * at, "job": "a", "event": event} for event, at in times.items()]
    rows[0] |= {"nodes": 2, "gpus_per_node": 4}
    rows[3]["cause"] = "host"
    page = soup(rows, "--slo", 0.9)
    assert rows_of(page, "causes")[1][:2] == ["host", "1"] and page.select("#causes svg, #slo svg") == []
    assert not [label for label in tiles(page) if label.startswith("Dearest")]


def test_planned_windows_are_left_out_of_the_promise(soup, tmp_path):
    """Struck after 2 h, training again at 3: without the first 3 h all of it trained."""
    (tmp_path / "planned.csv").write_text("start,end\n1970-01-01T00:00Z,1970-01-01T03:00Z\n")
    page = soup(events("a"), "--slo", 0.9, "--exclude", tmp_path / "planned.csv")
    assert tiles(page)["SLO windows met"].startswith("1 of 1")
    assert "Planned windows, 24.0 GPU-hours, are left out" in page.select_one("#slo").get_text()


def test_a_failure_without_a_node_is_said_and_listed_among_the_findings(soup):
    page = soup(events("a", node=None))
    assert "No failure in this log names a node" in page.get_text()
    assert any(row[0] == "note: no-node" and row[2] == "1" for row in rows_of(page, "findings"))


def test_nodes_are_named_beside_how_many_repeat_offenders_chance_would_make(soup):
    """Two failures, both of n1, one of 4 nodes: by chance one of them has both in 4 of 16 ways."""
    rows = events("a", nodes=4, gpus_per_node=8)
    again = [{**row, "time": row["time"] + 4 * 3600} for row in rows[1:5]]
    said = soup([*rows[:-1], *again, rows[-1]]).select_one("#nodes p").get_text()
    assert "0.25 would fail 2 times or more, and 1 did (the chance of so many or more: 22.1 %)" in said


def test_where_sizes_are_unknown_nothing_speaks_of_gpu_hours(html):
    page = html([{key: value for key, value in row.items() if "node" not in key} for row in events("a", node=None)])
    assert "GPU-hours" not in page
    assert "job-hours" in page


def test_of_many_jobs_the_largest_are_listed_and_the_rest_counted(soup):
    rows = [row for at in range(60) for row in events(f"job{at}", nodes=1 + at, gpus_per_node=8)]
    page = soup(rows)
    listed = [row[0] for row in rows_of(page, "jobs")[1:]]
    assert listed == [f"job{at}" for at in range(59, 9, -1)]
    assert "And 10 more jobs" in page.get_text()
    assert len(page.select("#timeline svg")) == logpage.TIMELINES
    assert tiles(page)["Held"].endswith("by 60 jobs")


def test_a_whole_job_is_drawn_with_its_length_in_words(soup):
    """2 of 50 h were lost and 1 h down: 47 trained it."""
    (figure,) = soup(events("a", hours=50)).select("#timeline figure")
    assert figure["aria-label"] == "2.1 days with 1 interruption: 94.0 % of the GPU-hours trained the model"


def test_of_a_long_job_the_week_with_most_waste_is_drawn(soup):
    """Struck after 2 h of 60 days: that is the first week."""
    (figure,) = soup(events("a", hours=60 * 24)).select("#timeline figure")
    assert "7 days with 1 interruption" in figure["aria-label"]


def test_what_is_too_much_to_draw_is_counted(soup, monkeypatch):
    monkeypatch.setattr(logpage, "MOST_SPANS", 3)  # lost, waiting, restarting, training: one too many
    page = soup(events("a"))
    assert page.select("#timeline svg") == []
    assert re.search(r"4 stretches of time in it are more than can be drawn", page.get_text())


def test_of_many_windows_those_with_most_burn_are_listed(soup):
    page = soup(events("a", hours=400), "--slo", 0.9, "--window-hours", 1)
    burns = [float(row[-1]) for row in rows_of(page, "slo")[1:]]
    assert len(burns) == logpage.WINDOWS and burns == sorted(burns, reverse=True) and burns[0] == pytest.approx(10)
    assert page.select("#slo svg") == []
    assert "And 340 more windows" in page.get_text()


def test_findings_are_counted_by_kind(soup):
    rows = events("a")
    page = soup([*rows[:1], *[{"time": 60 + at, "job": "a", "event": "nonsense"} for at in range(4)], *rows[1:]])
    (row,) = [row for row in rows_of(page, "findings") if row[0] == "warning: unknown-event"]
    assert row[2] == "4" and ":2: " in row[1]


def test_a_link_to_a_device_stays_one_and_the_page_goes_into_it(tmp_path):
    link = tmp_path / "null.html"
    link.symlink_to("/dev/null")
    with written_whole(link) as file:
        file.write(b"page")
    assert link.is_symlink() and Path("/dev/null").is_char_device() and list(tmp_path.iterdir()) == [link]


def test_an_output_without_a_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="file must be writable"), written_whole(Path()) as file:
        file.write(b"page")
    assert not list(tmp_path.iterdir())
