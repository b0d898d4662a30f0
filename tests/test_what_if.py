"""What if: dials stand where the scenario has them, change only what they say, and the answer is that of `compare`."""

import pytest

from goodput.errors import BadInput
from goodput.experiment import compare, experiment
from goodput.figures import draw_answer, draw_valley
from goodput.scenario import SEVEN, load_scenario
from goodput.what_if import DIALS, UNLIMITED, Question, ask, changes_of, settings_of, stops_of

BASE = load_scenario("baseline")
ASKED = {"pool.spares": 8, "checkpoint.interval_minutes": "daly"}


@pytest.fixture(scope="module")
def answer():
    return ask(BASE, ASKED, seeds=4, price_per_gpu_hour=2.0)


@pytest.mark.parametrize("name", SEVEN)
def test_dials_that_stand_where_the_scenario_has_them_change_nothing(name):
    scenario = load_scenario(name)
    assert changes_of(scenario, settings_of(scenario)) == {}


@pytest.mark.parametrize("dial", DIALS, ids=lambda dial: dial.path)
def test_each_dial_has_a_stop_where_each_scenario_stands_and_each_stop_is_a_scenario(dial):
    here = settings_of(BASE)[dial.path]
    stops = stops_of(dial, here)
    assert here in stops and len(set(stops)) == len(stops)
    for stop in stops:
        BASE.but(changes_of(BASE, {dial.path: stop}))


def test_a_stop_between_two_others_is_put_in_order():
    spares = next(dial for dial in DIALS if dial.path == "pool.spares")
    assert stops_of(spares, 18)[16:19] == [16, 18, 20]


def test_a_shorter_detection_caps_only_the_causes_that_take_longer():
    """Three causes take 30 minutes; `host` takes 5, the memory errors 3, crashes 1."""
    slow = ["fabric_link", "collective_hang", "storage_stall"]
    assert changes_of(BASE, {"detection": 5}) == {f"causes.{name}.detection_minutes": 5 for name in slow}
    assert len(changes_of(BASE, {"detection": 2})) == 6
    assert changes_of(BASE, {"detection": 5}) == changes_of(BASE, {"detection": 5.0})


def test_capping_detection_at_five_minutes_is_the_scenario_fast_hang_detection():
    fast = load_scenario("fast-hang-detection")
    assert BASE.but(changes_of(BASE, {"detection": 5})).causes == fast.causes


def test_a_longer_detection_moves_the_slowest_causes_only():
    changed = BASE.but(changes_of(BASE, {"detection": 60}))
    assert sorted(cause.detection_minutes for cause in changed.causes.values()) == [1, 3, 3, 5, 60, 60, 60]


def test_unlimited_crews_play_as_no_limit_does():
    few = BASE.but({"repair.crews": 1})
    back = few.but(changes_of(few, {"repair.crews": UNLIMITED}))
    assert settings_of(back)["repair.crews"] == settings_of(BASE)["repair.crews"] == UNLIMITED
    assert ask(back, {}, seeds=2).table["goodput"].tolist() == ask(BASE, {}, seeds=2).table["goodput"].tolist()


def test_the_answer_is_that_of_compare(answer):
    theirs = compare(experiment([BASE, BASE.but(ASKED, name="what if")], seeds=4))
    assert answer.table.equals(theirs)


def test_an_answer_in_batches_is_the_same_as_in_one_piece():
    question = Question(BASE, seeds=7)  # batches of 5 and 2
    assert list(question.play(BASE.but(ASKED))) == [0, 25, 50, 75]
    assert question.answer(BASE.but(ASKED)).table.equals(ask(BASE, ASKED, 7).table)


def test_the_same_question_is_played_once(monkeypatch):
    question = Question(BASE, seeds=2)
    first = question.answer(BASE.but(ASKED)).table
    monkeypatch.setattr("goodput.what_if.experiment", None)  # playing again would fail
    assert question.answer(BASE.but(ASKED)).table.equals(first)


def test_money_counts_the_spares_and_the_job(answer):
    """128 nodes x 8 GPUs x 672 h = 688,128 GPU-hours; 8 spares hold 8 x 8 x 672 = 43,008 more; a GPU-hour costs 2."""
    money = answer.money().loc["what if"]
    assert (money["held_gpu_hours"], money["spare_gpu_hours"]) == (688_128, 43_008)
    assert money["paid"] == 2 * (688_128 + 43_008)
    assert money["productive_gpu_hours"] + money["waste_gpu_hours"] == pytest.approx(688_128)
    assert money["paid_per_productive_gpu_hour"] == pytest.approx(money["paid"] / money["productive_gpu_hours"])


def test_the_waste_saved_is_the_difference_of_goodput_in_gpu_hours(answer):
    assert answer.saved_gpu_hours.mean == pytest.approx(answer.table["difference"].iloc[1] * 688_128)


@pytest.mark.parametrize(
    ("changes", "higher"),
    [
        ({"job.restart_minutes": 5}, True),
        ({"checkpoint.blocking_minutes": 15}, False),
        ({"cohorts.default.mtbf_hours": 600}, False),
        ({"repair.crews": 1}, False),
        ({"pool.spares": 0}, False),
    ],
)
def test_goodput_moves_the_way_it_must(changes, higher):
    assert (ask(BASE, changes, seeds=4).table["difference"].iloc[1] > 0) == higher


def test_a_price_that_cannot_be_is_refused():
    with pytest.raises(BadInput, match=r"price_per_gpu_hour=-1 must be 0 or more"):
        ask(BASE, {}, seeds=1, price_per_gpu_hour=-1)


def test_the_figure_says_the_difference_and_how_far_from_the_best_interval(answer):
    above, below = draw_answer(answer)
    shift = 100 * answer.table["difference"].iloc[1]
    assert f"{shift:+.2f} points against baseline" in above.get_title(loc="left")
    assert "as good as the best" in below.get_title(loc="left")


def test_a_point_of_the_valley_lies_on_its_curve_where_no_node_is_waited_for():
    """64 spares: none is waited for; the exact model then holds within four standard errors."""
    plenty = ask(BASE.but({"pool.spares": 64}), {}, seeds=20)
    row, said = plenty.table.iloc[0], 100 * plenty.base.expected_goodput()
    error = 100 * (row["goodput_high"] - row["goodput_low"]) / 2 / 2.093  # t of 19 degrees of freedom
    assert abs(100 * row["goodput"] - said) < 4 * error
    ax = draw_valley(plenty)
    assert ax.get_ylim()[0] == 0 and "gives away" in ax.get_title(loc="left")


def test_a_path_that_is_no_text_is_refused():
    with pytest.raises(BadInput, match="scenario: 1 must be a dotted path"):
        ask(BASE, {1: 2}, seeds=1)


def test_a_repair_longer_than_any_clock_is_one_that_never_ends():
    """A mean of a billion hours is past what 64 bits of microseconds hold: the node stays away, as with a million."""
    ages, longer = (ask(BASE.but({"repair.mean_hours": hours}), {}, seeds=1).table for hours in (1e7, 1e12))
    assert ages["goodput"].equals(longer["goodput"])
