"""How does a figure look from the back row? Drawn on less paper, so that its letters fill more of a slide.

Like a poster beside the article: the same drawing with fewer inches around letters of the same size.
"""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.transforms import blended_transform_factory

# On a slide of 1280 x 720 pixels a figure has 1200 x 590: 3.1 pixels a point, so letters of 9 points stand 28 high.
INCHES = (5.2, 2.45)
LEAST_OF_HEIGHT = 0.6  # a figure of many rows stays taller, or they would run into each other
TITLE = "slide-title"  # the id that a title has in the SVG
LABEL_LETTERS = 60


def fit_to_slide(figure: Figure) -> None:
    """Make a new figure one for a slide; the dotted name of this function goes into matplotlib's `figure.hooks`."""
    figure.set_size_inches(INCHES[0], max(INCHES[1], LEAST_OF_HEIGHT * figure.get_figheight()))
    figure.set_layout_engine(SlideLayout())


class SlideLayout(ConstrainedLayoutEngine):
    """Gives all the room to the drawing: the title becomes the heading of the slide, and long labels break."""

    def execute(self, fig: Figure) -> None:
        """Take the title out of the layout and break long labels; then lay out, below a row of colours."""
        move_title(fig)
        for ax in fig.axes:
            ax.set_xlabel(break_label(ax.get_xlabel()))
        rows = [legend for legend in map(stand_at_left, fig.axes) if legend]
        above = max((legend.get_window_extent().height / fig.bbox.height for legend in rows), default=0)
        self.set(rect=(0, 0, 1, 1 - above))
        # Only its height counts: matplotlib would make the axes narrower than the row.
        for legend in rows:
            legend.set_in_layout(False)
        super().execute(fig)
        for legend in rows:
            legend.set_in_layout(True)


def move_title(figure: Figure) -> None:
    """Make the title of the only titled axes a text that takes no room; titles of several panels stay with them."""
    having = [ax for ax in figure.axes if ax.get_title(loc="left")]
    if len(having) == 1:
        figure.text(0, 0, having[0].get_title(loc="left"), gid=TITLE, in_layout=False)
        having[0].set_title("", loc="left")


def stand_at_left(ax: Axes) -> Legend | None:
    """Return the legend if it is a row above its axes, moved to the left edge of the figure."""
    legend = ax.get_legend()
    if legend is None or legend.get_bbox_to_anchor().y0 < ax.bbox.y1 - 1:
        return None
    legend.set_bbox_to_anchor((0, 1), blended_transform_factory(ax.figure.transFigure, ax.transAxes))
    return legend


def break_label(label: str) -> str:
    """Return a label in lines that fit below a figure, the first of them to the first semicolon.

    >>> break_label("Goodput, %")
    'Goodput, %'
    >>> break_label("Difference of goodput, percentage points; bar: 95 % interval, paired by seed")
    'Difference of goodput, percentage points;\\nbar: 95 % interval, paired by seed'
    """
    if len(label) <= LABEL_LETTERS or "\n" in label:
        return label
    return "\n".join(textwrap.fill(part, LABEL_LETTERS) for part in label.replace("; ", ";\n", 1).split("\n"))
