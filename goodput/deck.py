"""What does the room see? The marked cells of a notebook as slides, all in one HTML file that needs no network.

Like the talk that goes with a paper: a figure a slide, its finding above it, and the prose in the speaker's notes.
How a notebook marks its cells: `slideshow.slide_type` in their metadata, which JupyterLab sets as "Slide Type".

* `slide` (or `subslide`) starts a slide. A code cell shows its outputs: a figure below its own title, a table below the
  title of its section and the last sentence before it. A Markdown cell starts one at each heading, with its list, or
  else its first sentence; all of it goes into the notes. The cell with the H1 makes two: its answer's first
  sentence, and its question.
  A `lead` beside the mark is said below the heading in place of that sentence; a `title` is the heading.
* `fragment` adds to the slide at the next key, `-` at once.
* `notes` is for the speaker. What stands before a heading belongs to the slide before, what follows it to the next.
* A cell without a mark, or with `skip`, is left out.
"""

import re
from dataclasses import dataclass, field
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from bs4 import BeautifulSoup
from nbformat import NotebookNode

from goodput.attribution import CATEGORIES
from goodput.drawing import as_words
from goodput.errors import BadInput
from goodput.page import TEMPLATES, Prose, check_offline, render_output, slugify, store_page, template
from goodput.projector import TITLE, fit_to_slide
from goodput.report import BUILD, NOTEBOOKS, Out, announced, find_notebooks, short
from goodput.runner import run_notebook
from goodput.shell import run_app

TALK = ("30", "31")  # what `make slides` shows, as far as it is there
KINDS = ("slide", "subslide", "fragment", "-", "notes", "skip", "")
FIGURE_HOOK = f"{fit_to_slide.__module__}:{fit_to_slide.__name__}"
FIGURE_TITLE = re.compile(rf'^( *)<g id="{TITLE}">(.*?)^\1</g>\n', re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
LIST = re.compile(r"^(?:[-*+]|\d+\.) .*(?:\n(?!\n).*)*", re.MULTILINE)
SENTENCE_END = re.compile(r"(?:(?<=[.?!])|(?<=[.?!]\)))\s+(?=[^\sa-z0-9])")
MOST_ROWS, MOST_COLUMNS = 8, 7  # what a table of readable letters has room for


@dataclass
class Slide:
    """One slide: its anchor, heading and body, and the speaker's notes, all but the anchor as HTML."""

    anchor: str
    heading: str
    body: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kind: str = "outputs"


class SlideProse(Prose):
    """Turns Markdown into HTML for a slide: no anchors, and links only to the world outside."""

    def heading(self, text: str, level: int, **attrs: dict) -> str:
        """Return a heading below that of the slide."""
        return f"<h3>{text}</h3>\n"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link, where it leads out of the project; a slide has no other chapters at hand."""
        return super().link(text, url, title) if re.match(r"[a-z]+:", url) else text

    def line(self, source: str) -> str:
        """Return one line of Markdown as HTML without a paragraph around it."""
        return self.render(source).strip().removeprefix("<p>").removesuffix("</p>")


class Talk:
    """The slides of one notebook, gathered cell by cell."""

    def __init__(self, path: Path):
        self.name, self.slug = path.stem, slugify(path.stem)
        self.prose = SlideProse(self.slug, [])
        self.slides: list[Slide] = []
        self.title = self.section = self.lead = ""  # the lead is the last sentence so far
        self.ahead: list[str] = []  # notes that wait for their slide
        for cell in nbformat.read(path, as_version=4).cells:
            self.add(cell, self.kind_of(cell))
        if not self.slides:
            raise BadInput(f"{self.name}: slide_type must be 'slide' in at least one cell, it has no slide to show")

    def kind_of(self, cell: NotebookNode) -> str:
        """Return how a cell is marked, empty if it is not."""
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "")
        if kind not in KINDS:
            rule = f"one of: {', '.join(KINDS[:-1])}"
            raise BadInput(f"{self.name}: cell {cell.id}: slide_type={kind!r} must be {rule}")
        return kind

    def add(self, cell: NotebookNode, kind: str) -> None:
        """Take a cell in as it is marked; headings of cells that are not shown still name the sections."""
        if cell.cell_type == "markdown":
            for part in filter(str.strip, SECTION.split(cell.source)):
                self.add_prose(part.strip(), kind, cell)
        elif cell.cell_type == "code" and kind not in ("", "skip"):
            self.add_outputs(cell, kind)

    def add_prose(self, text: str, kind: str, cell: NotebookNode) -> None:
        """Take in a piece of Markdown that has a heading at most at its top."""
        headed = re.match(r"(#+) +(.+)\n*", text)
        if headed:
            self.section = self.prose.line(headed[2])
            self.title = self.title or self.section
        body = text[headed.end() :] if headed else text
        self.lead = sentences(body.split("\n\n")[-1])[-1]
        if kind == "notes" or (kind in ("slide", "subslide") and not headed and SECTION.search(cell.source)):
            self.note(self.prose.render(body), ahead=bool(headed))
        elif kind in ("slide", "subslide") and headed and headed[1] == "#":
            self.open(body, cell.id)
        elif kind in ("slide", "subslide"):
            shown = "\n\n".join(LIST.findall(body)) or sentences(body)[0]
            self.start(cell.id, self.section, self.prose.render(shown), "prose")
            self.note(self.prose.render(body))
        elif kind in ("fragment", "-"):
            self.show(self.prose.render(text), kind)

    def open(self, body: str, anchor: str) -> None:
        """Start the two slides that open a talk: what it is about with the answer in short, and the question."""
        said = dict(re.findall(r"\*\*(\w+)\.\*\* ((?:.+\n?)+)", body))
        answer = said.get("Answer", body)
        self.start(anchor, self.title, self.prose.render(sentences(answer)[0]), "title")
        self.note(self.prose.render(answer))
        if "Question" in said:
            self.start(anchor, "The question", self.prose.render(said["Question"]), "question")

    def add_outputs(self, cell: NotebookNode, kind: str) -> None:
        """Take in what a code cell shows; the title of a figure becomes the heading of its slide."""
        title = next(filter(None, [take_title(output) for output in cell.outputs]), "")
        html = "\n".join(render_output(output, self.prose) for output in cell.outputs)
        if kind == "notes":
            return self.note(html)
        html = fit_tables(html, f"{self.name}: cell {cell.id}")
        if kind in ("slide", "subslide"):
            own = cell.metadata.slideshow
            lead = own.get("lead", "" if "<figure" in html else self.lead)
            heading = own.get("title", title or self.section)
            return self.start(cell.id, heading, (self.prose.render(lead) if lead else "") + html, "outputs")
        return self.show(f"<h3>{title}</h3>{html}" if title else html, kind)

    def start(self, anchor: str, heading: str, html: str, kind: str) -> None:
        """Start a slide, with the notes that waited for it."""
        anchor = f"{self.name.split('_')[0]}-{anchor}"
        same = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", slide.anchor) is not None for slide in self.slides)
        self.slides.append(Slide(f"{anchor}-{same + 1}" if same else anchor, heading, [html], self.ahead, kind))
        self.ahead = []

    def show(self, html: str, kind: str) -> None:
        """Add to the newest slide, at once or at the next key."""
        if not self.slides:
            raise BadInput(f"{self.name}: slide_type={kind!r} must come after a cell marked 'slide'")
        self.slides[-1].body.append(f'<div class="fragment">{html}</div>' if kind == "fragment" else html)

    def note(self, html: str, ahead: bool = False) -> None:
        """Add to the notes of the newest slide, or of the one to come."""
        (self.ahead if ahead or not self.slides else self.slides[-1].notes).append(html)


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph.

    >>> sentences("It gains 12.0 points (95 % interval 11.9 to 12.2). `no-spares` loses most.")
    ['It gains 12.0 points (95 % interval 11.9 to 12.2).', '`no-spares` loses most.']
    """
    return SENTENCE_END.split(text.strip())


def take_title(output: NotebookNode) -> str:
    """Return the title of a figure as HTML, taken out of its drawing; empty where there is none."""
    svg = output.get("data", {}).get("image/svg+xml", "")
    found = FIGURE_TITLE.search(svg)
    if not found:
        return ""
    output.data["image/svg+xml"] = svg.replace(found[0], "")
    return " ".join(re.sub(r"<!--.*?-->|<[^>]+>", " ", found[2]).split())


def fit_tables(html: str, where: str) -> str:
    """Return HTML with its tables in one row of headings, as words; a table too large for a slide is refused."""
    if "<table" not in html:
        return html
    soup = BeautifulSoup(html, "html.parser")
    for table in soup("table"):
        join_headings(table)
        rows = table("tr")
        size = len(rows) - 1, max(len(row(["th", "td"])) for row in rows)
        if size[0] > MOST_ROWS or size[1] > MOST_COLUMNS:
            rule = f"at most {MOST_ROWS} rows and {MOST_COLUMNS} columns, to be read from the back row"
            raise BadInput(f"{where}: a table of {size[0]} rows and {size[1]} columns must have {rule}")
    return str(soup)


def join_headings(table: BeautifulSoup) -> None:
    """Put the name of the index, which pandas writes below the headings, beside them; part words at underscores."""
    rows = table.thead("tr") if table.thead else []
    if len(rows) == 2 and not any(cell.get_text(strip=True) for cell in rows[1]("th")[1:]):
        rows[0].th.string = rows[1].th.get_text()
        rows[1].decompose()
    for cell in table.thead("th") if table.thead else []:
        cell.string = cell.get_text().replace("_", " ").replace("gpu hours", "GPU-hours")
    for cell in table("td") + table("th"):
        cell.string = as_read(cell.get_text())


def as_read(text: str) -> str:
    """Return a cell of a table as a person writes it: thousands apart, a true minus, a category in words.

    >>> as_read("-101387"), as_read("-0.50"), as_read("lost_work"), as_read("True")
    ('−101,387', '−0.50', 'lost work', 'yes')
    """
    if re.fullmatch(r"-?\d{4,}", text):
        text = f"{int(text):,}"
    words = {"True": "yes", "False": "no", **{name: as_words(name) for name in CATEGORIES}}
    return words.get(text, re.sub(r"^-(?=\d)", "−", text))


def reveal(name: str) -> str:
    """Return a file of reveal.js as the package sphinx-revealjs carries it, without what it would fetch.

    The package itself is not imported: only its files are of use here.
    """
    package = find_spec("sphinx_revealjs")
    if package is None:
        raise BadInput("deck: sphinx-revealjs must be installed; `make setup` does it")
    text = (Path(package.origin).parent / "_static/revealjs" / name).read_text(encoding="utf-8")
    return re.sub(r"^//# sourceMappingURL=.*", "", text, flags=re.MULTILINE)


def write_deck(executed_notebooks: list[Path], out: Path) -> Path:
    """Return `out`, one HTML file with the slides of all notebooks; the same notebooks give the same bytes."""
    talks = [Talk(Path(path)) for path in executed_notebooks]
    css = [reveal("dist/reset.css"), reveal("dist/reveal.css"), (TEMPLATES / "deck.css").read_text(encoding="utf-8")]
    page = {"slides": [slide for talk in talks for slide in talk.slides], "css": "\n".join(css)}
    page["title"] = " · ".join(unescape(re.sub("<[^>]+>", "", talk.title or talk.name)) for talk in talks)
    # The programs are reveal.js's own and fetch nothing; what the notebooks bring is looked through without them.
    check_offline(template("deck.html.j2").render(page, programs=[]))
    programs = [reveal("dist/reveal.js"), reveal("plugin/notes/notes.js")]
    return store_page(template("deck.html.j2").render(page, programs=programs), Path(out))


app = typer.Typer(add_completion=False, help=(__doc__ or "").splitlines()[0])


@app.command()
def slides(
    names: Annotated[list[str] | None, typer.Argument(help="Notebooks, as 30 or 30_the_seven_scenarios.")] = None,
    out: Out = None,
) -> None:
    """Run notebooks and write their slides as build/slides.html."""
    there, folder = [name for name in TALK if any(NOTEBOOKS.glob(f"{name}_*.ipynb"))], out or BUILD
    done = []
    for path in find_notebooks(names or there):
        with announced(path.name):
            done.append(run_notebook(path, folder / "slides" / path.name, figure_hooks=[FIGURE_HOOK]))
    deck = write_deck(done, folder / "slides.html")
    typer.echo(f"{short(deck)}  {deck.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    run_app(app)
