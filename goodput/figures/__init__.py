"""Show me: one function a figure, `draw_x(frame, ax=None) -> Axes`, with one colour for each category everywhere.

A figure takes a frame as the package makes it. Its title says what it found, made from the frame, so that it stays
true when a parameter changes; `title=` replaces it. Nothing here changes matplotlib's own settings.
"""

from goodput.figures.closeup import draw_minutes, draw_same_fault
from goodput.figures.envelope import draw_envelope, draw_shop_envelope
from goodput.figures.fit import draw_gains, draw_replay
from goodput.figures.llama import draw_components, draw_effective, draw_flattery
from goodput.figures.nodes import (
    draw_crew_waits,
    draw_grid,
    draw_monthly_means,
    draw_sizes,
    draw_spare_gains,
    draw_spares,
    draw_waiting,
)
from goodput.figures.promise import (
    draw_alerts,
    draw_budget,
    draw_burns,
    draw_cohorts,
    draw_evidence,
    draw_known,
    draw_targets,
)
from goodput.figures.published import draw_clusters, draw_forms, draw_mttf, draw_times
from goodput.figures.run import draw_burn, draw_causes, draw_interruption, draw_ledger, draw_timeline
from goodput.figures.saves import draw_build_up, draw_intervals, draw_two_sides, draw_valleys
from goodput.figures.scale import draw_dials, draw_goodput_by_size, draw_kept, draw_mtbi_by_size
from goodput.figures.scenarios import draw_differences, draw_goodput, draw_pairs, draw_waste
from goodput.figures.study import draw_sobol, draw_tornado
from goodput.figures.what_if import draw_answer, draw_valley

__all__ = [
    "draw_alerts",
    "draw_answer",
    "draw_budget",
    "draw_build_up",
    "draw_burn",
    "draw_burns",
    "draw_causes",
    "draw_clusters",
    "draw_cohorts",
    "draw_components",
    "draw_crew_waits",
    "draw_dials",
    "draw_differences",
    "draw_effective",
    "draw_envelope",
    "draw_evidence",
    "draw_flattery",
    "draw_forms",
    "draw_gains",
    "draw_goodput",
    "draw_goodput_by_size",
    "draw_grid",
    "draw_interruption",
    "draw_intervals",
    "draw_kept",
    "draw_known",
    "draw_ledger",
    "draw_minutes",
    "draw_monthly_means",
    "draw_mtbi_by_size",
    "draw_mttf",
    "draw_pairs",
    "draw_replay",
    "draw_same_fault",
    "draw_shop_envelope",
    "draw_sizes",
    "draw_sobol",
    "draw_spare_gains",
    "draw_spares",
    "draw_targets",
    "draw_timeline",
    "draw_times",
    "draw_tornado",
    "draw_two_sides",
    "draw_valley",
    "draw_valleys",
    "draw_waiting",
    "draw_waste",
]
