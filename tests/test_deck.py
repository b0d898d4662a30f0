"""The deck shows what is marked, large, with the prose in the notes, and opens anywhere."""

import re
from pathlib import Path

import matplotlib
import nbformat
import pytest
from bs4 import BeautifulSoup
from matplotlib import pyplot as plt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from goodput import deck, report
from goodput.deck import FIGURE_HOOK, Talk, write_deck
from goodput.errors import BadInput
from goodput.page import Requests
from goodput.projector import INCHES
from goodput.shell import run_app

OPENING = """# What does saving cost?

**Question.** Saves stop the job. How much is that?

**Answer.** With 20 seeds, 13.3 % of the GPU-hours (12.9 to 13.7). The rest is small.

*Before this:* nothing."""
FIGURE = """\
ax = plt.figure(figsize=(7.5, 3), layout="constrained").add_subplot()
ax.barh(["no-spares"], [60.6], label="waiting")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
ax.tick_params(labelsize=9)
ax.set_title("Waste <runs> to 60.6 %, which is far more than all the rest of it taken together", loc="left");"""
TABLE = """<table border="1" class="dataframe"><thead>
<tr><th></th><th>goodput_low</th></tr><tr><th>scenario</th><th></th></tr></thead>
<tbody><tr><th>baseline</th><td>79.7</td></tr></tbody></table>"""


def mark(cell, kind: str | None):
    """Return a cell with its slide type as JupyterLab writes it; a string becomes a Markdown cell."""
    cell = new_markdown_cell(cell) if isinstance(cell, str) else cell
    cell.metadata.update({"slideshow": {"slide_type": kind}} if kind is not None else {})
    return cell


def shown(html: str, source: str = "secret_code()"):
    """Return a code cell that has shown some HTML."""
    return new_code_cell(source, outputs=[new_output("display_data", data={"text/html": html})])


def write_notebook(path: Path, *cells) -> Path:
    """Write a notebook of pairs (cell, slide type)."""
    cells = [mark(cell, kind) for cell, kind in cells]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def slides_of(folder: Path, *cells) -> list[deck.Slide]:
    """Return the slides of a notebook that needs no run."""
    return Talk(write_notebook(folder / "07_saves.ipynb", *cells)).slides


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A notebook as one writes it: opening, imports, a figure with its reading, takeaways."""
    return write_notebook(
        tmp_path_factory.mktemp("notebooks") / "07_saves.ipynb",
        (OPENING, "slide"),
        (new_code_cell("import matplotlib.pyplot as plt"), None),
        ("## Where it goes\nBy category, with $\\tau$.", "notes"),
        (new_code_cell(FIGURE), "slide"),
        (
            "Waiting is most. It costs \\$5.\n\n## Takeaways\nFirst this.\n\n- Wait less.\n- Save less.\n\nDone.",
            "slide",
        ),
        ("Nobody shows this.", None),
    )


@pytest.fixture(scope="module")
def executed(source) -> Path:
    return report.run_notebook(source, source.parent / "out" / source.name, figure_hooks=[FIGURE_HOOK])


@pytest.fixture(scope="module")
def html(executed) -> str:
    return write_deck([executed], executed.parent / "slides.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def slides(html) -> list:
    return BeautifulSoup(html, "html.parser").select(".slides > section")


def test_the_deck_has_the_slides_that_are_marked(slides):
    assert [slide.select_one("h1, h2").get_text() for slide in slides] == [
        "What does saving cost?",
        "The question",
        "Waste <runs> to 60.6 %, which is far more than all the rest of it taken together",
        "Takeaways",
    ]


def test_the_talk_opens_with_the_answer_and_its_question(slides):
    answer, question = (slide.select_one(".body").get_text(strip=True) for slide in slides[:2])
    assert answer == "With 20 seeds, 13.3 % of the GPU-hours (12.9 to 13.7)."
    assert question == "Saves stop the job. How much is that?"
    assert "The rest is small." in slides[0].aside.get_text()


def test_the_prose_around_a_figure_is_in_its_notes(slides):
    """What stands before a heading belongs to the slide before it, what follows to the one after."""
    notes = slides[2].aside.get_text()
    assert " ".join(notes.split()) == "By category, with τ. Waiting is most. It costs $5."
    assert "Done." in slides[3].aside.get_text()


def test_a_slide_of_prose_shows_its_list_alone(slides):
    body = slides[3].select_one(".body")
    assert [item.get_text() for item in body("li")] == ["Wait less.", "Save less."]
    assert body("p") == []


def test_code_and_unmarked_cells_are_not_in_the_deck(html):
    for text in ("import matplotlib", "barh", "Nobody shows this", "Before this"):
        assert text not in html


def test_formulas_are_mathml(html):
    assert html.count("<math ") == 1
    assert "\\tau" not in html


def test_the_title_of_a_figure_is_said_once(html):
    assert html.count("far more than all the rest") == 1
    assert "slide-title" not in html


def test_the_letters_of_a_figure_can_be_read_from_the_back_row(html):
    """A slide has 1200 x 590 pixels for it, so letters of 9 points are about 28 high, however long the title."""
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', html).groups())
    assert 9 * min(1200 / width, 590 / height) > 26.5


def test_the_deck_asks_the_network_for_nothing(html):
    page = Requests()
    page.feed(html)
    assert page.requests == ["<script>"] * 3  # reveal.js, its notes and their start; none with an address
    assert "sourceMappingURL" not in html
    assert "@import" not in html


def test_no_id_is_given_twice_and_each_reference_has_its_target(slides):
    text = "".join(map(str, slides))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)} <= set(ids)


def test_two_builds_are_byte_identical(source, html, tmp_path):
    again = report.run_notebook(source, tmp_path / source.name, figure_hooks=[FIGURE_HOOK])
    assert write_deck([again], tmp_path / "slides.html").read_text(encoding="utf-8") == html


def test_a_table_stands_below_its_section_and_the_sentence_before_it(tmp_path):
    (slide,) = slides_of(tmp_path, ("## Levels\nFirst. In per cent.", None), (shown(TABLE), "slide"))
    assert slide.heading == "Levels"
    text = BeautifulSoup("".join(slide.body), "html.parser")
    assert text.p.get_text() == "In per cent."
    assert [cell.get_text() for cell in text.thead("th")] == ["scenario", "goodput low"]
    assert len(text("tr")) == 2
    assert "secret_code" not in str(slide)


@pytest.mark.parametrize("rows, columns", [(9, 2), (2, 8)])
def test_a_table_that_nobody_could_read_is_refused(tmp_path, rows, columns):
    row = f"<tr>{'<td>1</td>' * columns}</tr>"
    table = f"<table><tbody><tr>{'<th>a</th>' * columns}</tr>{row * rows}</tbody></table>"
    with pytest.raises(BadInput, match=f"cell-0: a table of {rows} rows and {columns} columns must have at most"):
        slides_of(tmp_path, (shown(table), "slide"))


def test_a_fragment_waits_for_a_key_and_a_dash_does_not(tmp_path):
    (slide,) = slides_of(tmp_path, ("## One\nA.", "slide"), ("B.", "fragment"), ("C.", "-"), (shown("D"), "skip"))
    assert [part.strip() for part in slide.body] == [
        "<p>A.</p>",
        '<div class="fragment"><p>B.</p>\n</div>',
        "<p>C.</p>",
    ]


def test_each_heading_of_a_prose_cell_starts_a_slide_of_its_own(tmp_path):
    found = slides_of(tmp_path, ("Before.\n## One\nA.\n## Two\nB.", "slide"))
    assert [(slide.anchor, slide.heading) for slide in found] == [("07-cell-0", "One"), ("07-cell-0-2", "Two")]


def test_links_to_other_notebooks_are_only_named(tmp_path):
    (slide,) = slides_of(tmp_path, ("## L\n- [a](11_hours.ipynb), [b](#c), [d](https://example.org/)", "slide"))
    assert re.findall(r'href="([^"]+)"', "".join(slide.body)) == ["https://example.org/"]


@pytest.mark.parametrize(
    "cells, message",
    [
        ([("# A", None)], "07_saves: slide_type must be 'slide' in at least one cell"),
        ([("# A", "slid")], "cell-0: slide_type='slid' must be one of: slide, subslide"),
        ([("A", "fragment")], "slide_type='fragment' must come after a cell marked 'slide'"),
    ],
)
def test_marks_that_make_no_deck_are_refused(tmp_path, cells, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        slides_of(tmp_path, *cells)


def test_what_would_be_fetched_is_refused(tmp_path):
    notebook = write_notebook(tmp_path / "07_saves.ipynb", (shown('<img src="https://example.org/x.png">'), "slide"))
    with pytest.raises(BadInput, match="without a network"):
        write_deck([notebook], tmp_path / "slides.html")
    assert not (tmp_path / "slides.html").exists()


def test_a_notebook_that_is_not_there_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        run_app(deck.app, ["99"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("goodput: notebooks: name='99' must be one of: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", [name for name in deck.TALK if any(report.NOTEBOOKS.glob(f"{name}_*"))])
def test_a_committed_talk_takes_ten_minutes_and_each_figure_has_its_notes(name):
    """A minute a slide; its outputs are stored, so nothing runs here."""
    found = Talk(report.find_notebooks([name])[0]).slides
    assert 6 <= len(found) <= 14
    assert found[0].kind == "title"
    assert all(slide.notes for slide in found if slide.kind == "outputs")


@pytest.fixture()
def hooked():
    """Figures made here are made for a slide."""
    with matplotlib.rc_context({"figure.hooks": [FIGURE_HOOK]}):
        yield
    plt.close("all")


def test_a_row_of_colours_takes_no_width_from_the_axes(hooked):
    """Axes as narrow as the names of their rows leave them: without the legend they are as wide."""
    widths = []
    for legend in (False, True):
        ax = plt.figure(figsize=(7.5, 3)).add_subplot()
        ax.barh(["a row with a long name"], [1], label="colour")
        if legend:
            names = [plt.Rectangle((0, 0), 1, 1, label=f"category {n}") for n in range(4)]
            ax.legend(handles=names, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
        ax.figure.draw_without_rendering()
        widths.append(ax.get_position().width)
    assert widths[1] == pytest.approx(widths[0], rel=0.03)


def test_a_figure_of_many_rows_stays_taller_and_titles_of_panels_stay(hooked):
    figure = plt.figure(figsize=(7.5, 6))
    for ax, title in zip(figure.subplots(1, 2), ("left", "right")):
        ax.set_title(title, loc="left")
    figure.draw_without_rendering()
    assert figure.get_size_inches().tolist() == pytest.approx([INCHES[0], 3.6])
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["left", "right"]


def test_a_deck_that_cannot_take_its_place_is_refused_in_one_line(tmp_path):
    (tmp_path / "slides.html").mkdir()
    cell = new_markdown_cell("## A slide\n\nSaid.", metadata={"slideshow": {"slide_type": "slide"}})
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "talk.ipynb")
    with pytest.raises(BadInput, match=r"slides.html: file must be writable: Is a directory"):
        write_deck([tmp_path / "talk.ipynb"], tmp_path / "slides.html")
