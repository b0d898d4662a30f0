"""What does the reader of the report see? Executed notebooks as one HTML file that needs no network.

Like a printed booklet: contents first, one chapter a notebook, workings folded away, figures glued in.
"""

import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import jinja2
import latex2mathml.converter
import nbformat
from bs4 import BeautifulSoup
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from goodput.errors import BadInput
from goodput.logtext import written_whole

TEMPLATES = Path(__file__).resolve().parent / "templates"

CODE_LABELS = {"parameters": "Parameters", "injected-parameters": "Parameters of this run"}
NUMBER = re.compile(r"[-+−]?[\d,_]*\.?\d+(e[-+]?\d+)?\s?%?|[-+]?(nan|inf)|<NA>|None|\.\.\.|…|", re.IGNORECASE)
# Metadata nobody sees, and a style that would reach beyond the figure; report.css has it for all figures.
SVG_EXTRAS = re.compile(r'<metadata>.*?</metadata>|<style type="text/css">.*?</style>', re.DOTALL)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
LIVE_NOTE = '<p class="note">Interactive: open this notebook in JupyterLab (<code>make lab</code>) to move it.</p>'


def write_report(executed_notebooks: list[Path], out: Path) -> Path:
    """Return `out`, one HTML file with all notebooks as sections; the same notebooks give the same bytes."""
    paths = [Path(path) for path in executed_notebooks]
    slugs = [slugify(path.stem) for path in paths]
    sections = [render_section(path, slugs) for path in paths]
    html = template("report.html.j2").render(sections=sections, css=page_css())
    check_offline(html)
    return store_page(html, Path(out))


def store_page(html: str, out: Path) -> Path:
    """Return `out` with a page in it, whole or not at all; its folder is made."""
    make_folder(out.parent)
    with written_whole(out) as file:
        file.write(html.encode("utf-8", "replace"))
    return out


def make_folder(folder: Path) -> None:
    """Make a folder, or refuse a place where none can be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: folder must be writable: {error.strerror} (--out names another)") from None


def template(name: str, autoescape: bool = False) -> jinja2.Template:
    """Return one of the package's templates for a page."""
    loader = jinja2.FileSystemLoader(TEMPLATES)
    shape = {"trim_blocks": True, "lstrip_blocks": True, "autoescape": autoescape}
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, **shape).get_template(name)


def page_css() -> str:
    """Return the style of the page, with the colours of code for light and dark screens."""
    light = HtmlFormatter(style="friendly").get_style_defs(".code")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".code")
    own = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n{own}"


def render_section(path: Path, slugs: list[str]) -> dict:
    """Return a notebook's section: `slug`, `title` and `cells`, each cell as HTML."""
    notebook = nbformat.read(path, as_version=4)
    prose = Prose(slugify(path.stem), slugs)
    cells = [render_cell(cell, prose) for cell in notebook.cells if cell.source.strip()]
    return {"slug": prose.slug, "title": prose.title or path.stem, "cells": cells}


def render_cell(cell: NotebookNode, prose: "Prose") -> dict:
    """Return a cell as `kind` (prose or code) and HTML; code also with its outputs and its fold's label."""
    if cell.cell_type == "markdown":
        return {"kind": "prose", "html": prose.render(cell.source, cell.get("attachments"))}
    if cell.cell_type == "raw":
        return {"kind": "prose", "html": f"<pre>{escape(cell.source)}</pre>"}
    labels = [CODE_LABELS[tag] for tag in cell.metadata.get("tags", []) if tag in CODE_LABELS]
    return {
        "kind": "code",
        "label": labels[0] if labels else "Code",
        "html": highlight(cell.source, PythonLexer(), HtmlFormatter(cssclass="code")),
        "outputs": [render_output(output, prose) for output in cell.outputs],
    }


def render_output(output: NotebookNode, prose: "Prose") -> str:
    """Return one output of a cell as HTML, in the richest form that a page without a kernel can show."""
    if output.output_type == "stream":
        return f"<pre>{escape(strip_ansi(output.text))}</pre>"
    if output.output_type == "error":
        return f'<pre class="error">{escape(strip_ansi(chr(10).join(output.traceback)))}</pre>'
    live = WIDGET_VIEW in output.data
    for mime, draw in OUTPUT_FORMS.items():
        if mime in output.data and not (live and mime == "text/plain"):
            return draw(output.data[mime], prose) + LIVE_NOTE * live
    return LIVE_NOTE * live


def draw_svg(svg: str, prose: "Prose", label: str | None = None) -> str:
    """Return an SVG figure to stand inside the page, with ids of its own and perhaps a label for those who hear it.

    matplotlib names clip paths and markers by their content, so two figures may share an id.
    """
    number = prose.count_figure()
    svg = SVG_EXTRAS.sub("", svg[svg.index("<svg") :])
    prefix = f"{prose.slug}-{number}-"
    # within tags only: a name in a figure may look like an id
    svg = re.sub(r"<[^<>]+>", lambda tag: re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", tag[0]), svg)
    return f'<figure role="img" aria-label="{escape(label or f"Figure {number}")}">{svg.strip()}</figure>'


def draw_image(mime: str, data: str, prose: "Prose") -> str:
    """Return a bitmap figure with its bytes inside the page."""
    packed = "".join(data.split())
    return f'<figure><img alt="Figure {prose.count_figure()}" src="data:{mime};base64,{packed}"></figure>'


def draw_html(html: str, _: "Prose") -> str:
    """Return HTML output without scripts and styles; in tables, columns of numbers are set flush right."""
    soup = BeautifulSoup(html, "html.parser")
    for element in soup(["script", "style", "link"]):
        element.decompose()
    for table in soup("table"):
        del table["border"]
        mark_numbers(table)
    return f'<div class="table">{soup}</div>'


def mark_numbers(table: BeautifulSoup) -> None:
    """Give the class `number` to each column of a table whose cells are all numbers, and to its heading."""
    rows = [cells for row in table("tr") if (cells := row("td"))]
    columns = list(zip(*rows)) if rows else []
    headings = (table("tr")[0]("th") if rows else [])[-len(columns) :]
    for position, cells in enumerate(columns):
        if all(NUMBER.fullmatch(cell.get_text(strip=True)) for cell in cells):
            for cell in [*cells, *headings[position : position + 1]]:
                cell["class"] = "number"


def draw_formula(source: str, _: "Prose") -> str:
    """Return a LaTeX output as MathML."""
    return mathml(source.strip().strip("$"), "block")


OUTPUT_FORMS = {
    "image/svg+xml": draw_svg,
    "image/png": lambda data, prose: draw_image("image/png", data, prose),
    "image/jpeg": lambda data, prose: draw_image("image/jpeg", data, prose),
    "text/html": draw_html,
    "text/markdown": lambda text, prose: prose.render(text),
    "text/latex": draw_formula,
    "text/plain": lambda text, _: f"<pre>{escape(strip_ansi(text))}</pre>",
}


def mathml(formula: str, display: str) -> str:
    """Return a LaTeX formula as MathML, which browsers draw by themselves.

    >>> mathml("x", "inline")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>x</mi></mrow></math>'
    """
    try:
        return latex2mathml.converter.convert(formula, display=display)
    except Exception as error:
        raise BadInput(f"formula {formula!r} must be LaTeX that latex2mathml knows") from error


def slugify(text: str) -> str:
    """Return a text as an anchor.

    >>> slugify("How sure are we?")
    'how-sure-are-we'
    """
    return re.sub(r"\W+", "-", unquote(text)).strip("-").lower()


class Prose(IPythonRenderer):
    """Turns the Markdown of one notebook into HTML: headings one level down, links kept inside the report."""

    def __init__(self, slug: str, slugs: list[str]):
        super().__init__(escape=False, embed_images=True, path=str(TEMPLATES.parent.parent / "notebooks"))
        self.slug, self.slugs, self.title, self.figures = slug, slugs, "", 0

    def render(self, source: str, attachments: dict | None = None) -> str:
        """Return a Markdown cell as HTML."""
        self.attachments = attachments or {}
        return MarkdownWithMath(renderer=self).render(source)

    def _html_embed_images(self, html: str) -> str:
        """Return raw HTML with its images inside it; without images as it is, for a later piece may close its tags."""
        return super()._html_embed_images(html) if "<img" in html else html

    def count_figure(self) -> int:
        """Return the number of the next figure in this notebook."""
        self.figures += 1
        return self.figures

    def heading(self, text: str, level: int, **attrs: dict) -> str:
        """Return a heading; the first of level one names the section."""
        if level == 1 and not self.title:
            self.title = text
            return f'<h2><a href="#{self.slug}">{text}</a></h2>\n'
        anchor = f"{self.slug}--{slugify(re.sub('<[^>]+>', '', text))}"
        return f'<h{min(level + 1, 6)} id="{anchor}">{text}</h{min(level + 1, 6)}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link, for a notebook to its section; a file that does not travel along is only named."""
        if re.match(r"[a-z]+:", url):
            return super().link(text, url, title)
        file, _, part = url.partition("#")
        slug = slugify(Path(file).stem) if file else self.slug
        if file and not (file.endswith(".ipynb") and slug in self.slugs):
            return text
        return f'<a href="#{slug}{"--" + slugify(part) if part else ""}">{text}</a>'

    def inline_math(self, body: str) -> str:
        """Return a formula within a line."""
        return mathml(body, "inline")

    def block_math(self, body: str) -> str:
        """Return a formula on a line of its own."""
        return mathml(body, "block")

    def latex_environment(self, name: str, body: str) -> str:
        """Return a formula that brings its own environment."""
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")


def check_offline(html: str) -> None:
    """Refuse a page that would ask the network, or the folder it lies in, for anything."""
    found = Requests()
    found.feed(html)
    if found.requests:
        raise BadInput(f"page: {found.requests[0]} must be left out, the page has to open without a network")


class Requests(HTMLParser):
    """Collects what a browser would fetch on opening a page; a link that waits for a click is none."""

    FETCHING_TAGS = ("script", "link", "iframe", "object", "embed", "base")
    FETCHING_KEYS = ("src", "srcset", "href", "xlink:href", "data", "poster", "background")
    STYLING_KEYS = ("style", "clip-path", "fill", "stroke", "filter", "mask")

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that fetches."""
        self.in_style = tag == "style"
        fetched = [v or "" for k, v in attrs if k in self.FETCHING_KEYS and tag != "a"]
        self.requests += [f"<{tag}>"] if tag in self.FETCHING_TAGS else []
        self.requests += [f"<{tag}> {v[:80]}" for v in fetched if not v.startswith(("#", "data:"))]
        self.check_style(" ".join(v or "" for k, v in attrs if k in self.STYLING_KEYS))

    def handle_data(self, data: str) -> None:
        """Look into style sheets."""
        if self.in_style:
            self.check_style(data)

    def handle_endtag(self, tag: str) -> None:
        """Leave the style sheet."""
        self.in_style = False

    def check_style(self, css: str) -> None:
        """Note an import or an address in a style."""
        self.requests += re.findall(r"@import[^;]*|url\(\s*['\"]?(?!#|data:)[^)]*\)", css)
