"""How does a result look on one page? Tiles, tables and figures, in one HTML file that needs no network.

Like the sheet at the foot of a bed: the few numbers that matter on top, what they rest on below.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
from markupsafe import Markup
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from goodput.drawing import COLOURS, INK, SOFT
from goodput.logtext import written_whole
from goodput.page import check_offline, draw_svg, page_css, template
from goodput.text import printable

# A fixed salt: the same figure gives the same bytes. Text stays text, and a name with a $ in it is no formula.
STYLE = {"svg.hashsalt": "goodput", "svg.fonttype": "none", "text.parse_math": False}
# Colours that the page sets, for light and dark screens; the others read well on both.
THEMED = {
    INK: "ink",
    SOFT: "soft",
    "#000000": "ink",
    COLOURS["productive"]: "productive",
    COLOURS["checkpoint"]: "checkpoint",
    COLOURS["unattributed"]: "unattributed",
}
ON_COLOUR = "#101418"  # letters on a bar keep their colour when the page turns dark
LONGEST_NAME = 34  # of a row in a figure


class Tile(NamedTuple):
    """A headline number: what it is, how much, in which unit, and how sure that is: an interval or a count."""

    label: str
    value: str
    unit: str
    sure: str
    tone: str = ""  # good or bad


class Table(NamedTuple):
    """Rows of text; the first `texts` columns to the left, numbers to the right; `more` is said below.

    A row of one cell is a heading of those that follow.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: str = ""
    texts: int = 1


class Part(NamedTuple):
    """A part of a page: paragraphs (text, or Markup), figures (Markup) and tables."""

    anchor: str
    heading: str
    pieces: Sequence[Any]


class Figures:
    """Draws the figures of one page as SVG, numbered; a unit other than GPU-hours takes their place."""

    def __init__(self, slug: str, unit: str = "GPU-hours"):
        self.slug, self.unit, self.figures = slug, unit, 0

    def count_figure(self) -> int:
        """Return the number of the next figure of this page."""
        self.figures += 1
        return self.figures

    def draw(self, draw: Callable[..., Axes], *frames: Any, **options: Any) -> Markup:
        """Return what `draw(*frames)` draws, as a figure in the page's own colours; its title is its label."""
        # in the default style, whatever the reader's own: a figure is of the same bytes everywhere
        with matplotlib.style.context(["default", STYLE]):
            ax = draw(*frames, **options)
            svg, title = _svg(ax), ax.get_title(loc="left")
        svg, title = (text.replace("GPU-hours", self.unit) for text in (svg, title))
        return Markup(draw_svg(_themed(svg), self, printable(title)).replace("<figure", '<figure class="themed"', 1))


def _svg(ax: Axes) -> str:
    for text in ax.texts:
        if text.get_ha() == "center" and text.get_color() == INK:
            text.set_color(ON_COLOUR)
    out = BytesIO()
    ax.figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight", transparent=True)
    plt.close(ax.figure)
    return out.getvalue().decode()


def _themed(svg: str) -> str:
    for colour, name in THEMED.items():
        svg = re.sub(rf"(fill|stroke): {colour}\b", rf"\1: var(--{name})", svg, flags=re.IGNORECASE)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    # a hundredth of a point is more than an eye sees
    return re.sub(r'\bd="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)


def short_names(names: Iterable[str]) -> list[str]:
    """Return names as a figure can show them: the long ones cut, with their number, so that no two become one.

    >>> short_names(["a", "b" * 99])
    ['a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb… (2)']
    """
    whole = [printable(name) for name in names]
    cut = LONGEST_NAME - 4
    return [f"{name[:cut]}… ({at})" if len(name) > LONGEST_NAME else name for at, name in enumerate(whole, 1)]


def paragraph(text: str) -> Markup:
    """Return text as a paragraph; what came from a log is no markup."""
    return Markup("<p>{}</p>").format(printable(text))


def unbroken(text: str) -> str:
    """Return text that stays on one line of a table, as an interval should."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def codes(lines: Iterable[str]) -> Markup:
    """Return lines as code, one below the other."""
    return Markup("<br>").join(Markup("<code>{}</code>").format(line) for line in lines)


def write_sheet(out: Path, name: str, **content: Any) -> Path:
    """Return `out`, the page of a template; it appears whole or not at all, and asks the network for nothing."""
    html = template(name, autoescape=True).render(css=page_css(), **content)
    check_offline(html)
    with written_whole(Path(out)) as file:
        file.write(html.encode("utf-8", "replace"))
    return out
