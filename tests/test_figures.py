"""The figures show what the frames say: right lengths, right places, one colour a category, units on the axes."""

import itertools
import xml.etree.ElementTree as ET
from io import BytesIO

import matplotlib
import numpy as np
import pandas as pd
import pytest

from goodput import drawing, figures
from goodput.attribution import CATEGORIES, interruptions, ledger, spans
from goodput.checkpoint import daly_interval, expected_goodput, first_order_goodput, optimal_interval, young_interval
from goodput.experiment import cause_means, compare, experiment, sweep
from goodput.figures.saves import valley_of
from goodput.metrics import by_cause
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.slo import slo_windows

BASE = load_scenario("baseline")
STRETCHES = spans(LOG := simulate(BASE, seed=7))
CAUSES = by_cause(STRETCHES, interruptions(LOG))
RUNS = experiment([load_scenario(name) for name in ("baseline", "daly-interval", "no-spares")], seeds=3)
TABLE = compare(RUNS)
SWEEP = sweep(BASE, "checkpoint.interval_minutes", [20, 60, 180], seeds=3)
MINUTES = np.geomspace(5, 300, 400)
VALLEYS = pd.DataFrame(
    {f"{save:g} min": expected_goodput(MINUTES, BASE.nominal_mtbi_hours * 60, save, 34.3) for save in (5, 0.5)},
    index=MINUTES,
)
DEAREST = int(ledger(STRETCHES, "interruption").drop(-1).idxmax())

FIGURES = {
    "timeline": (lambda ax: figures.draw_timeline(STRETCHES, ax), "Hours", None),
    "interruption": (lambda ax: figures.draw_interruption(STRETCHES, DEAREST, ax), "Hours", None),
    "ledger": (lambda ax: figures.draw_ledger(ledger(STRETCHES), ax), "GPU-hours", None),
    "causes": (lambda ax: figures.draw_causes(CAUSES, STRETCHES, ax), "GPU-hours", None),
    "burn": (lambda ax: figures.draw_burn(slo_windows(STRETCHES, 0.8, 168), ax), "Days", "waste / budget"),
    "waste": (lambda ax: figures.draw_waste(TABLE, ax), "% of GPU-hours", None),
    "goodput": (lambda ax: figures.draw_goodput(TABLE, ax), "%", None),
    "differences": (lambda ax: figures.draw_differences(TABLE, ax), "percentage points", None),
    "pairs": (lambda ax: figures.draw_pairs(RUNS, "daly-interval", ax), "%", "%"),
    "intervals": (lambda ax: figures.draw_intervals(SWEEP, BASE, ax), "minutes", "% of GPU-hours"),
    "build_up": (lambda ax: figures.draw_build_up(SWEEP, BASE, ax=ax), "minutes", "% of GPU-hours"),
    "valleys": (lambda ax: figures.draw_valleys(VALLEYS, ax), "minutes", "% of GPU-hours"),
    "two_sides": (lambda ax: figures.draw_two_sides(SWEEP, ax), "minutes", "% of GPU-hours"),
}


pytestmark = pytest.mark.usefixtures("drawn")


def area(patch) -> float:
    """Return the area of all boxes in one patch, in the units of the axes: hours, as a box is 0.84 high."""
    corners = patch.get_path().vertices.reshape(-1, 5, 2)[:, :4]
    return float(np.ptp(corners[..., 0], axis=1).sum())


def bars_by_colour(axes) -> pd.Series:
    found = [(matplotlib.colors.to_hex(bar.get_facecolor()).upper(), bar.get_width()) for bar in axes.patches]
    return pd.DataFrame(found, columns=["colour", "width"]).groupby("colour")["width"].sum()


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("name", FIGURES)
def test_units_stand_on_the_axes_and_the_title_says_something(name, ax):
    draw, x_unit, y_unit = FIGURES[name]
    assert draw(ax) is ax
    assert x_unit in ax.get_xlabel()
    assert y_unit is None or y_unit in ax.get_ylabel()
    assert any(char.isdigit() for char in ax.get_title(loc="left"))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_its_own_axes_and_leaves_matplotlibs_settings_alone(name):
    before = dict(matplotlib.rcParams)
    axes = FIGURES[name][0](None)
    assert axes.figure.axes == [axes]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["interruption", "intervals"])
def test_a_figure_draws_as_svg(name, ax):
    FIGURES[name][0](ax).figure.savefig(out := BytesIO(), format="svg")
    assert ET.fromstring(out.getvalue()).tag.endswith("svg")


def test_a_title_may_be_given(ax):
    assert figures.draw_ledger(ledger(STRETCHES), ax, title="Mine").get_title(loc="left") == "Mine"


# --- colours ---


def as_seen(colour: str, by: str) -> np.ndarray:
    """Return a colour in CIE Lab as seen by an eye; matrices of Machado, Oliveira and Fernandes (2009)."""
    eyes = {
        "all": np.eye(3),
        "no red": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
        "no green": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
        "no blue": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
    }
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(eyes[by]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_category_has_its_own_colour():
    assert tuple(drawing.COLOURS) == CATEGORIES
    assert len(set(drawing.COLOURS.values())) == len(CATEGORIES)


@pytest.mark.parametrize("eye", ["all", "no red", "no green", "no blue"])
def test_colours_differ_also_to_a_colour_blind_reader(eye):
    seen = {name: as_seen(colour, eye) for name, colour in drawing.COLOURS.items()}
    nearest = min(itertools.combinations(seen, 2), key=lambda two: np.linalg.norm(seen[two[0]] - seen[two[1]]))
    # 2 is what an eye can just tell apart side by side
    assert np.linalg.norm(seen[nearest[0]] - seen[nearest[1]]) > 15, nearest


# --- one run ---


def test_the_boxes_of_a_timeline_add_up_to_the_ledger(ax):
    figures.draw_timeline(STRETCHES, ax)
    gpus = BASE.job.nodes * BASE.job.gpus_per_node
    drawn = {patch.get_label().replace(" ", "_"): area(patch) * gpus for patch in ax.patches}
    for name, hours in ledger(STRETCHES).items():
        assert drawn.get(name, 0) == pytest.approx(hours)


@pytest.mark.parametrize(("row_hours", "rows"), [(24, 28), (168, 4), (672, 1), (500, 2)])
def test_a_timeline_has_a_row_for_each_stretch_of_row_hours(row_hours, rows, ax):
    figures.draw_timeline(STRETCHES, ax, row_hours=row_hours)
    assert len(ax.get_yticks()) == rows
    assert sum(map(area, ax.patches)) == pytest.approx(28 * 24)


def test_a_part_of_a_timeline_says_goodput_of_that_part_alone(ax):
    start = STRETCHES["start"].min()
    figures.draw_timeline(STRETCHES, ax, start=start, hours=0.5, row_hours=0.5)
    assert sum(map(area, ax.patches)) == pytest.approx(0.5)
    assert ax.get_title(loc="left").startswith("0.5 hours with 1 interruption: 0.0 %")


def test_the_title_of_a_timeline_rounds_its_length(ax):
    """52.65 hours are 2.19375 days."""
    figures.draw_timeline(STRETCHES, ax, hours=52.65)
    assert ax.get_title(loc="left").startswith("2.194 days with ")


def test_an_interruption_is_drawn_from_its_fault_and_says_its_minutes(ax):
    figures.draw_interruption(STRETCHES, DEAREST, ax)
    waited = STRETCHES[(STRETCHES["interruption"] == DEAREST) & (STRETCHES["category"] == "waiting")]
    hours = ((waited["end"] - waited["start"]) / pd.Timedelta(hours=1)).item()
    assert f"{hours:.1f} h" in texts(ax)
    assert {"30 min", "3 min", "20 min"} < set(texts(ax))
    left, right = ax.get_xlim()
    assert left < -1.5 and right == pytest.approx(hours + 23 / 60 + 1.5)


def test_bars_of_the_ledger_are_its_gpu_hours(ax):
    figures.draw_ledger(ledger(STRETCHES), ax)
    expected = ledger(STRETCHES)
    assert [bar.get_width() for bar in ax.patches] == expected[expected > 0].tolist()
    assert "547,328 h  (79.5 %)" in texts(ax)


def test_causes_are_ranked_by_cost_and_split_without_a_rest(ax):
    figures.draw_causes(CAUSES, STRETCHES, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == CAUSES["cause"].tolist()
    charged = STRETCHES[STRETCHES["cause"].notna()].groupby("category", observed=True)["gpu_hours"].sum()
    drawn = bars_by_colour(ax)
    assert [drawn[drawing.COLOURS[name]] for name in charged.index] == pytest.approx(charged.tolist())
    assert drawn.sum() == pytest.approx(CAUSES["gpu_hours"].sum())


def test_a_cause_that_struck_once_says_so(ax):
    figures.draw_causes(CAUSES.assign(count=range(1, len(CAUSES) + 1)), STRETCHES, ax)
    assert "14,192 h  (once)" in texts(ax) and "9,148 h  (2 times)" in texts(ax)


def test_mean_causes_of_an_experiment_are_drawn_too(ax):
    mine = cause_means(RUNS).query("scenario == 'baseline'")
    figures.draw_causes(mine, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == mine["gpu_hours"].tolist()


def test_a_run_without_interruptions_says_so(ax):
    assert "Nothing" in figures.draw_causes(CAUSES.iloc[:0], ax=ax).get_title(loc="left")


def test_burn_is_coloured_by_what_used_most_and_the_title_counts_what_was_missed(ax):
    windows = slo_windows(STRETCHES, 0.8, 24)
    figures.draw_burn(windows, ax)
    assert sorted(bar.get_height() for bar in ax.patches) == sorted(windows["burn"])
    assert ax.get_title(loc="left").startswith(f"{(windows['met'] == False).sum()} of 28")  # noqa: E712
    tallest = max(ax.patches, key=lambda bar: bar.get_height())
    assert matplotlib.colors.same_color(tallest.get_facecolor(), drawing.COLOURS["waiting"])


def test_no_window_over_its_budget_is_said_without_a_count_of_none(ax):
    figures.draw_burn(slo_windows(STRETCHES, 0.5, 168), ax)
    assert ax.get_title(loc="left") == "4 windows, none over its error budget"


# --- scenarios ---


def test_stacked_waste_adds_up_to_all_that_is_not_goodput(ax):
    figures.draw_waste(TABLE, ax)
    ends = pd.DataFrame([(bar.get_y(), bar.get_x() + bar.get_width()) for bar in ax.patches]).groupby(0)[1].max()
    assert ends.tolist() == pytest.approx((100 - 100 * TABLE["goodput"]).tolist())


@pytest.mark.parametrize(
    ("draw", "name"), [(figures.draw_goodput, "goodput"), (figures.draw_differences, "difference")]
)
def test_intervals_of_scenarios_reach_from_low_to_high(draw, name, ax):
    draw(TABLE, ax)
    shown = TABLE if name == "goodput" else TABLE.iloc[1:]  # a baseline does not differ from itself
    thick = max(ax.collections, key=lambda lines: lines.get_linewidth()[0])
    ends = [segment[:, 0].tolist() for segment in thick.get_segments()]
    assert ends == (100 * shown[[f"{name}_low", f"{name}_high"]]).to_numpy().tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == shown["scenario"].tolist()


def test_thin_lines_reach_from_p10_to_p90(ax):
    figures.draw_goodput(TABLE, ax)
    thin = min(ax.collections, key=lambda lines: lines.get_linewidth()[0])
    ends = [segment[:, 0].tolist() for segment in thin.get_segments()]
    assert ends == (100 * TABLE[["goodput_p10", "goodput_p90"]]).to_numpy().tolist()


def test_a_difference_left_of_the_axis_is_an_arrow_and_keeps_its_number(ax):
    figures.draw_differences(TABLE, ax, from_points=-15)
    assert ax.get_xlim()[0] == -15
    arrow = next(line for line in ax.lines if line.get_marker() == "<")
    assert arrow.get_ydata().tolist() == [1]  # no-spares, the second row
    assert any(text.startswith("−") for text in texts(ax))


def test_where_nothing_gains_the_title_does_not_say_so(ax):
    assert "loses least" in figures.draw_differences(compare(RUNS, baseline="daly-interval"), ax).get_title(loc="left")


def test_a_baseline_alone_differs_from_nothing(ax):
    assert "Nothing differs" in figures.draw_differences(TABLE.iloc[:1], ax).get_title(loc="left")


def test_a_single_seed_has_no_interval_but_a_figure(ax):
    alone = compare(RUNS[RUNS["seed"] == 1])
    figures.draw_goodput(alone, ax)
    assert sum("(-)" in text for text in texts(ax)) == 3


def test_a_pair_is_one_point_a_seed(ax):
    figures.draw_pairs(RUNS, "daly-interval", ax)
    points = next(line for line in ax.lines if line.get_marker() == "o")
    assert (points.get_ydata() - points.get_xdata()).mean() == pytest.approx(100 * TABLE["difference"].iloc[1])
    assert len(points.get_xdata()) == 3


# --- how often to save ---


def test_the_sweep_marks_each_formula_at_its_value(ax):
    figures.draw_intervals(SWEEP, BASE, ax)
    job = BASE.nominal_mtbi_hours * 60, BASE.checkpoint.blocking_minutes
    marks = {line.get_label(): line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2}
    assert marks["_Daly"] == daly_interval(*job) == pytest.approx(90.86, abs=0.01)
    assert marks["_Young"] == young_interval(*job)
    assert marks["_optimum"] == optimal_interval(*job)
    assert any("Daly 90.9 min" in text for text in texts(ax))


def test_the_sweep_shows_both_models_and_the_simulated_intervals(ax):
    figures.draw_intervals(SWEEP, BASE, ax)
    job = BASE.nominal_mtbi_hours * 60, BASE.checkpoint.blocking_minutes, BASE.overhead_minutes
    curves = {line.get_label(): line for line in ax.lines}
    for label, model in (("exact model", expected_goodput), ("first-order model", first_order_goodput)):
        x, y = curves[label].get_data()
        assert y == pytest.approx(100 * model(x, *job))
    ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    assert ends == pytest.approx(100 * SWEEP[["goodput_low", "goodput_high"]].to_numpy())


def test_the_axis_of_intervals_is_logarithmic_and_labels_what_was_asked(ax):
    figures.draw_two_sides(SWEEP, ax)
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["20", "60", "180"]


def test_both_sides_add_up(ax):
    figures.draw_two_sides(SWEEP, ax)
    y = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert y["both"] == pytest.approx(y["saves"] + y["lost work"])
    assert y["saves"] == pytest.approx(100 * SWEEP["share_checkpoint"])


def test_each_step_adds_to_the_one_before_on_the_same_axes():
    drawn = [figures.draw_build_up(SWEEP, BASE, steps=steps) for steps in (1, 2, 3, 4)]
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in drawn}) == 1
    lines = [{line.get_label(): list(line.get_ydata()) for line in axes.lines} for axes in drawn]
    for before, after in itertools.pairwise(lines):
        assert before.items() < after.items()
    assert set(lines[2]) - set(lines[1]) == {"overhead", "all"}
    assert {"_Young", "_Daly", "_optimum"} < set(lines[3])
    assert len({axes.get_title(loc="left") for axes in drawn}) == 4


def test_the_points_of_the_last_step_are_what_the_sweep_wasted(ax):
    figures.draw_build_up(SWEEP, BASE, ax=ax)
    ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    waste = 100 - 100 * SWEEP[["goodput_low", "goodput_high"]].to_numpy()
    assert np.sort(ends, axis=1) == pytest.approx(np.sort(waste, axis=1))
    assert ends.max() < ax.get_ylim()[1]
    assert "60 minutes cost least" in ax.get_title(loc="left")


def test_a_cheaper_save_moves_the_valley_to_the_left_and_widens_it():
    dear, cheap = (valley_of(VALLEYS[name]) for name in VALLEYS)
    assert cheap.high < dear.high and cheap.low < dear.low and cheap.width > 1.5 * dear.width
    for save, found in ((5, dear), (0.5, cheap)):
        assert found.best == pytest.approx(optimal_interval(BASE.nominal_mtbi_hours * 60, save), rel=0.02)


def test_valleys_are_thick_where_they_are_within_a_point_of_their_best(ax):
    figures.draw_valleys(VALLEYS, ax)
    thick = [line for line in ax.lines if line.get_linewidth() == 5]
    for line, name in zip(thick, VALLEYS, strict=True):
        near = VALLEYS.index[VALLEYS[name] > VALLEYS[name].max() - 0.01]
        assert line.get_xdata().tolist() == near.tolist()
    assert ax.get_title(loc="left").startswith("The valley moves from 91 to 30 minutes and widens")
    assert {"5", "90", "300"} <= {tick.get_text() for tick in ax.get_xticklabels()}


def test_a_name_with_dollar_signs_is_no_formula():
    causes = pd.DataFrame({"cause": ["$a_{$", "$\\foo$"], "count": [1, 2], "gpu_hours": [2.0, 1.0]})
    ax = figures.draw_causes(causes)
    ax.figure.savefig(BytesIO())
    assert ax.get_title(loc="left").startswith("$a_{$ cost most")
