"""An interruption up close: each stretch where it was, as long as it was, with its own words."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from goodput import drawing, figures
from goodput.attribution import CATEGORIES, ledger, spans
from goodput.errors import BadInput
from goodput.events import make_log
from goodput.figures.closeup import MINUTE, RULES, fault_time, log_of_stories, spread, tell_lines

plt = drawing.plt
STORY = ["start", "checkpoint_start", "checkpoint_end", "interrupt", "detected", "nodes_ready", "running", "end"]


def log_of(stories: dict[str, dict]) -> pd.DataFrame:
    """Return the log of jobs of 6 nodes of 10 GPUs, so that a minute is a GPU-hour, each told as minute: event."""
    rows = [(job, minute, event) for job, told in stories.items() for minute, event in told.items()]
    job, minute, event = zip(*rows, strict=True)
    cause = [{"interrupt": "gpu"}.get(name) for name in event]
    size = {"nodes": [6] * len(rows), "gpus_per_node": [10] * len(rows)}
    time = [60_000_000 * at for at in minute]
    return make_log({"time": time, "job": job, "event": event, "cause": cause, "node": cause, **size})


def story(stories: dict[str, dict]) -> pd.DataFrame:
    return spans(log_of(stories))


PLAIN = dict(zip([0, 30, 35, 45, 48, 76, 96, 126], STORY, strict=True))
# the fault strikes one minute after the save; or the job is struck again while it waits
SOON = dict(zip([0, 30, 35, 36, 39, 67, 87, 117], STORY, strict=True))
AGAIN = PLAIN | {60: "interrupt", 63: "detected"}
AGAIN = {minute: AGAIN[minute] for minute in sorted(AGAIN)}
ONE = story({"a": PLAIN})


pytestmark = pytest.mark.usefixtures("drawn")


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def boxes(axes) -> dict[str, list[tuple[float, float]]]:
    """Return the (left, right) of each box of a category."""
    found = {}
    for patch in axes.patches:
        if patch.get_label().replace(" ", "_") in drawing.COLOURS:
            corners = patch.get_path().vertices.reshape(-1, 5, 2)[:, :4, 0]
            found[patch.get_label()] = [(each.min(), each.max()) for each in corners]
    return found


def test_each_stretch_lies_where_it_was_in_minutes_from_the_fault(ax):
    """Saved from 30 to 35, struck at 45, noticed at 48, a node at 76, training at 96: from the fault on −15 to +51."""
    figures.draw_minutes(ONE, 0, ax)
    found = boxes(ax)
    assert found["checkpoint"] == [(-15, -10)] and found["lost work"] == [(-10, 0)]
    assert found["detection"] == [(0, 3)] and found["waiting"] == [(3, 31)] and found["restart"] == [(31, 51)]
    assert found["productive"] == [(-30, -15), (51, 81)]


def test_a_band_is_cut_at_the_edges_but_says_the_whole_length(ax):
    figures.draw_minutes(ONE, 0, ax, before_minutes=8, after_minutes=12)
    assert ax.get_xlim() == (-18, 63)
    assert boxes(ax)["productive"] == [(-18, -15), (51, 63)]
    assert texts(ax).count("productive\n30 min\n30 GPU-h") == 2


def test_what_is_charged_stands_above_the_band_and_the_rest_below(ax):
    figures.draw_minutes(ONE, 0, ax)
    above = {text.get_text().split("\n")[0] for text in ax.texts if text.xyann[1] > 0}
    below = {text.get_text().split("\n")[0] for text in ax.texts if text.xyann[1] < 0}
    assert above == {"lost work", "detection", "waiting", "restart"}
    assert below == {"productive", "checkpoint", "fault"}


def test_the_title_says_how_long_and_how_dear_it_was(ax):
    """10 + 3 + 28 + 20 minutes, of a GPU-hour each; down for 51 of them."""
    title = figures.draw_minutes(ONE, 0, ax).get_title(loc="left")
    assert title == "gpu on gpu: 51 minutes until it trains again, 61 GPU-hours gone"
    assert ledger(ONE, "interruption")[0] == 61


def test_the_axis_tells_minutes_and_the_clock(ax):
    figures.draw_minutes(ONE, 0, ax)
    ax.figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert {"−10\n00:35", "0\n00:45", "+50\n01:35"} < set(labels)
    assert "UTC" in ax.get_xlabel() and "Minutes" in ax.get_xlabel()


def test_another_job_at_the_same_time_is_not_drawn(ax):
    both = story({"a": PLAIN, "b": SOON})
    figures.draw_minutes(both, 0, ax)
    alone = boxes(figures.draw_minutes(ONE, 0, plt.figure().add_subplot()))
    assert boxes(ax) == alone


def test_a_fault_while_down_begins_where_the_first_one_breaks_off(ax):
    spans = story({"a": AGAIN})
    figures.draw_minutes(spans, 1, ax)
    assert boxes(ax)["detection"] == [(-15, -12), (0, 3)]
    assert "35 minutes" not in ax.get_title(loc="left") and "36 minutes" in ax.get_title(loc="left")


def test_a_fault_that_cost_work_alone_is_where_the_work_ends():
    lost = ONE[ONE["category"] == "lost_work"]
    assert fault_time(lost) == fault_time(ONE[ONE["interruption"] == 0]) == pd.Timestamp(45 * MINUTE.value, tz="UTC")


def test_labels_keep_their_distance_their_order_and_the_figure():
    middles = np.sort(np.random.default_rng(3).exponential(20, (50, 6)).clip(0, 100), axis=1)
    for row in middles:
        at = spread(row, 0, 100, gap=0.15)
        assert np.diff(at).min() >= 15 - 1e-9 and at[0] >= 7.5 - 1e-9 and at[-1] <= 92.5 + 1e-9


def test_labels_that_have_room_stay_where_they_are():
    assert spread([20, 50, 80], 0, 100, gap=0.1).tolist() == [20, 50, 80]
    assert spread([], 0, 100, gap=0.1).tolist() == []


def test_bands_of_several_jobs_begin_at_their_own_first_fault(ax):
    figures.draw_same_fault(story({"plain": PLAIN, "soon": SOON, "again": AGAIN}), ax)
    assert boxes(ax)["lost work"] == [(-10, 0), (-10, 0), (-1, 0)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["again", "plain", "soon"]


def test_each_band_says_what_its_faults_took_and_the_title_the_extremes(ax):
    """Struck soon after the save: 9 minutes less is lost. Struck again: detection anew, the wait is as long."""
    figures.draw_same_fault(story({"plain": PLAIN, "soon": SOON}), ax)
    assert {"61 GPU-h gone", "52 GPU-h gone"} < set(texts(ax))
    assert ax.get_title(loc="left") == "The same fault takes 52 GPU-hours (soon) to 61 (plain)"


def test_a_stretch_too_narrow_for_its_number_has_none(ax):
    figures.draw_same_fault(story({"soon": SOON}), ax)
    inside = [text for text in texts(ax) if text.isdigit()]
    assert inside == ["30", "5", "3", "28", "20", "30"]  # but not the minute that was lost


@pytest.mark.parametrize(
    "draw", [lambda ax: figures.draw_minutes(ONE, 0, ax), lambda ax: figures.draw_same_fault(ONE, ax)]
)
def test_a_close_up_makes_its_own_axes_takes_a_title_and_leaves_matplotlibs_settings_alone(draw):
    before = dict(matplotlib.rcParams)
    axes = draw(None)
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    assert "Minutes" in axes.get_xlabel() and any(char.isdigit() for char in axes.get_title(loc="left"))


# --- what is told beside it ---


def test_lines_are_told_with_the_stretch_that_each_opens():
    """From the save at 30 to the end: eight lines, the last of which opens nothing."""
    told = tell_lines(log_of({"a": PLAIN}), ONE, 0)
    assert told["event"].tolist() == STORY[1:-1]
    assert told["minutes"].tolist() == [5, 10, 3, 28, 20, 30] == pytest.approx(told["gpu_hours"].tolist())
    assert told["category"].tolist() == [*list(CATEGORIES)[1:6], "productive"]
    assert [rule[0] for rule in told["rule"]] == list("234443")


def test_lines_of_another_job_are_not_told():
    both = {"a": PLAIN, "b": PLAIN}
    assert len(tell_lines(log_of(both), story(both), 1)) == len(tell_lines(log_of({"a": PLAIN}), ONE, 0))


def test_every_category_has_its_rule():
    assert tuple(RULES) == CATEGORIES


def test_a_story_is_the_log_that_its_minutes_add_up_to():
    minutes = np.diff([0, 30, 35, 45, 48, 76, 96, 126, 126])
    log = log_of_stories({"a": pd.DataFrame({"event": STORY, "minutes": minutes})}, nodes=6, gpus_per_node=10)
    same = ["job", "start", "end", "category", "interruption", "gpu_hours"]
    pd.testing.assert_frame_equal(spans(log)[same], ONE[same])


def test_stories_keep_their_order_and_a_line_goes_between_two():
    plain = pd.DataFrame({"event": ["start", "interrupt", "end"], "minutes": [10.0, 5.0, 0.0]})
    more = plain.copy()
    more.loc[1.5] = ["detected", 7.25]
    log = log_of_stories({"z": plain, "a": more}, nodes=1, gpus_per_node=1)
    assert log["job"].cat.categories.tolist() == ["z", "a"]
    assert log["event"].tolist() == ["start", "interrupt", "end", "start", "interrupt", "detected", "end"]
    assert (log["time"].astype("int64") // 60_000_000).tolist() == [0, 10, 15, 0, 10, 15, 22]


@pytest.mark.parametrize("interruption", [-1, 1])
def test_an_interruption_that_the_run_does_not_have_is_refused_with_those_it_has(interruption):
    one = pd.DataFrame({"interruption": [-1, 0, -1]})
    with pytest.raises(BadInput, match=f"interruption={interruption} must be 0 to 0, counted from 0"):
        figures.draw_minutes(one, interruption)
