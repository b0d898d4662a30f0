"""The report opens anywhere, shows what the notebooks show; a failed run is never taken for a good one."""

import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from goodput import report
from goodput.errors import BadInput, RunFailed
from goodput.page import Prose, Requests, check_offline, render_output, write_report
from goodput.runner import Limits, run_notebook

PARAMETERS = new_code_cell("seeds = 20\nmtbf_hours = 1.5", metadata={"tags": ["parameters"]})
DRAW = """\
import matplotlib.pyplot as plt
import pandas as pd
_, ax = plt.subplots()
ax.plot([1, 2], [3, 4], marker="o", clip_on=True);"""
LINKS = "## More\nSee [spares](02_spares.ipynb) and [why](./02_spares.ipynb#More)."
TABLE = 'pd.DataFrame({"scenario": ["baseline"], "goodput_share": [0.9]})'


def write_notebook(path: Path, *cells) -> Path:
    """Write a notebook from cells; a plain string is a Markdown cell."""
    cells = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def page_of(folder: Path, *cells) -> str:
    """Return the report on one notebook that needs no run."""
    notebook = write_notebook(folder / "01_claim.ipynb", *cells)
    return write_report([notebook], folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def claim(tmp_path_factory) -> Path:
    """A notebook with prose, parameters, a figure and a table."""
    cells = ["# Saving often", PARAMETERS, new_code_cell(DRAW), new_code_cell(TABLE)]
    return write_notebook(tmp_path_factory.mktemp("notebooks") / "01_save_often.ipynb", *cells, LINKS)


@pytest.fixture(scope="module")
def executed(claim) -> list[Path]:
    """The notebook, run, and a copy of it under another name: the same figure twice in one report."""
    first = run_notebook(claim, claim.parent / "out" / claim.name, {"seeds": 3})
    second = first.with_name("02_spares.ipynb")
    second.write_bytes(first.read_bytes())
    return [first, second]


@pytest.fixture(scope="module")
def html(executed) -> str:
    return write_report(executed, executed[0].parent / "report.html").read_text(encoding="utf-8")


def test_a_run_takes_its_parameters(executed):
    sources = [cell.source for cell in nbformat.read(executed[0], as_version=4).cells]
    assert any("seeds = 3" in source for source in sources)


def test_the_report_asks_the_network_for_nothing(html):
    page = Requests()
    page.feed(html)
    assert page.requests == []
    assert "<script" not in html
    assert "@import" not in html


def test_the_report_holds_each_notebook_figure_and_table(html):
    assert html.count("<section ") == 2
    assert html.count("<svg ") == 2
    assert html.count('<td class="number">0.9</td>') == 2
    assert "<td>baseline</td>" in html
    assert "seeds" in html


def test_code_is_folded_and_the_parameters_of_the_run_are_named(html):
    assert "<details open" not in html
    assert "<summary>Parameters of this run</summary>" in html


def test_no_id_is_given_twice_and_each_inner_link_has_its_target(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)
    assert {one or other for one, other in targets} <= set(ids)


def test_links_between_notebooks_stay_in_the_report(html):
    assert '<a href="#02_spares">spares</a> and <a href="#02_spares--more">why</a>' in html
    assert ".ipynb" not in html


def test_two_builds_are_byte_identical(claim, executed, html, tmp_path):
    again = run_notebook(claim, tmp_path / claim.name, {"seeds": 3})
    assert write_report([again, executed[1]], tmp_path / "report.html").read_text(encoding="utf-8") == html


def test_formulas_are_mathml(tmp_path):
    page = page_of(
        tmp_path,
        "# F\n$\\tau = \\sqrt{2 \\delta M}$ and\n\n$$\\frac{a}{b}$$\n\n\\begin{align}a&=b\\end{align}",
    )
    assert page.count("<math ") == 3
    assert "$" not in page
    assert "\\begin" not in page


def test_a_price_and_code_are_no_formula(tmp_path):
    page = page_of(tmp_path, "# P\nAn hour costs \\$5; `$HOME` is a path.")
    assert "<math " not in page
    assert "costs $5" in page


def test_markup_in_a_formula_or_an_output_is_not_markup(tmp_path):
    stream = new_output("stream", text="<b>not bold</b>")
    page = page_of(tmp_path, "# M\n$a < b$", new_code_cell("x", outputs=[stream]))
    assert "&lt;b&gt;not bold&lt;/b&gt;" in page


def test_an_answer_stays_folded_with_markdown_in_it():
    html = Prose("x", []).render("<details><summary>Answer</summary>\n\nIt is **42**.\n\n</details>\n\nNext.")
    answer = BeautifulSoup(html, "html.parser").details
    assert answer.get_text().split() == ["Answer", "It", "is", "42."] and answer.strong.get_text() == "42"


def test_links_to_files_outside_the_report_are_only_named(tmp_path):
    page = page_of(tmp_path, "# L\n[data](../data/README.md), [other](09_gone.ipynb), [paper](https://example.org/)")
    assert re.findall(r'<a href="(?!#)([^"]+)"', page) == ["https://example.org/"]


@pytest.mark.parametrize(
    "markup",
    [
        '<script src="x.js"></script>',
        '<img src="https://example.org/x.png">',
        '<link rel="stylesheet" href="x.css">',
        "<style>@import 'x.css';</style>",
        '<p style="background: url(https://example.org/x.png)">',
        '<svg><image xlink:href="x.png"/></svg>',
    ],
)
def test_what_would_be_fetched_is_refused(markup):
    with pytest.raises(BadInput, match="without a network"):
        check_offline(f"<body>{markup}</body>")


def test_a_widget_becomes_a_note():
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "Output()"}
    assert "make lab" in render_output(new_output("display_data", data=data), None)


def test_a_failed_run_leaves_only_its_failed_notebook(tmp_path):
    notebook = write_notebook(tmp_path / "01_wrong.ipynb", "# Wrong", new_code_cell("1 / 0"))
    out = tmp_path / "out" / notebook.name
    out.parent.mkdir()
    out.write_text("from an earlier run")
    with pytest.raises(RunFailed, match=r"01_wrong.ipynb: cell \[1\] raised ZeroDivisionError: division by zero"):
        run_notebook(notebook, out)
    assert [path.name for path in out.parent.iterdir()] == ["01_wrong.failed.ipynb"]
    top = nbformat.read(out.with_suffix(".failed.ipynb"), as_version=4).cells[0]
    assert "ZeroDivisionError" in top.source


def test_a_run_that_takes_too_long_fails(tmp_path):
    notebook = write_notebook(tmp_path / "01_slow.ipynb", new_code_cell("import time; time.sleep(60)"))
    with pytest.raises(RunFailed, match=r"cell \[1\]: CellTimeoutError"):
        run_notebook(notebook, tmp_path / "out" / notebook.name, limits=Limits(cell=1))


def test_an_unknown_parameter_is_refused_with_the_valid_names(tmp_path):
    notebook = write_notebook(tmp_path / "01_claim.ipynb", "# Claim", PARAMETERS)
    with pytest.raises(BadInput, match=r"sede=1 must be one of: seeds, mtbf_hours"):
        run_notebook(notebook, tmp_path / "out" / notebook.name, {"sede": 1})
    assert not (tmp_path / "out").exists()


def test_committed_notebooks_are_byte_identical_from_run_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "BUILD", tmp_path / "build")
    monkeypatch.setenv("MPLBACKEND", "agg")
    slide = {"slideshow": {"slide_type": "slide"}}
    notebook = write_notebook(tmp_path / "01_claim.ipynb", "# Claim", PARAMETERS, new_code_cell(DRAW, metadata=slide))
    report.write_committed(notebook)
    first = notebook.read_bytes()
    report.write_committed(notebook)
    assert notebook.read_bytes() == first
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.id for cell in cells] == ["cell-0", "cell-1", "cell-2"]
    assert "image/png" in cells[2].outputs[-1].data
    assert cells[2].metadata == slide  # which cells are slides is the author's, not the run's
    assert b"papermill" not in first


def test_notebooks_are_found_by_number_stem_or_path(tmp_path):
    for name in ("01_save_often", "02_spares"):
        write_notebook(tmp_path / f"{name}.ipynb")
    assert [path.stem for path in report.find_notebooks(None, tmp_path)] == ["01_save_often", "02_spares"]
    for name in ("02", "02_spares", "notebooks/02_spares.ipynb"):
        assert [path.stem for path in report.find_notebooks([name], tmp_path)] == ["02_spares"]
    with pytest.raises(BadInput, match="name='07' must be one of: 01_save_often, 02_spares"):
        report.find_notebooks(["07"], tmp_path)
