"""Show me: one function a figure, `draw_x(frame, ax=None) -> Axes`, with one colour for each category everywhere.

A figure takes a frame as the package makes it. Its title says what it found, made from the frame, so that it stays
true when a parameter changes; `title=` replaces it. Nothing here changes matplotlib's own settings.
"""

from goodput.figures.closeup import draw_minutes, draw_same_fault
from goodput.figures.run import draw_burn, draw_causes, draw_interruption, draw_ledger, draw_timeline
from goodput.figures.saves import draw_build_up, draw_intervals, draw_two_sides, draw_valleys
from goodput.figures.scenarios import draw_differences, draw_goodput, draw_pairs, draw_waste

__all__ = [
    "draw_build_up",
    "draw_burn",
    "draw_causes",
    "draw_differences",
    "draw_goodput",
    "draw_interruption",
    "draw_intervals",
    "draw_ledger",
    "draw_minutes",
    "draw_pairs",
    "draw_same_fault",
    "draw_timeline",
    "draw_two_sides",
    "draw_valleys",
    "draw_waste",
]
