"""A scenario held against a log: inside where it is the log's own, outside where it is not, and what is left out."""

import pytest
from naive import events_of, frame_of, log_of
from test_calibrate import CHOSEN, LOG, PLAIN

from goodput.attribution import CATEGORIES
from goodput.calibrate import calibrate
from goodput.errors import BadInput
from goodput.replay import replay, replay_text
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many

BASE = load_scenario("baseline")
MONTH = simulate(BASE, 3)


def row_of(table, what: str):
    return table.set_index("what").loc[what]


def test_a_log_lies_among_runs_of_its_own_scenario_about_nine_times_in_ten():
    """Eight months against their own scenario, nine measures each."""
    tables = [replay(BASE, simulate(BASE, seed), range(101, 141)) for seed in range(1, 9)]
    share = sum(table["inside"].mean() for table in tables) / len(tables)
    assert 0.82 <= share <= 0.98


def test_a_log_lies_among_runs_of_the_scenario_that_is_fitted_to_it():
    assert replay(calibrate(MONTH).scenario, MONTH, 60)["inside"].all()


@pytest.mark.parametrize(
    ("changes", "what", "below"),
    [
        ({"pool.spares": 0}, "waiting", True),
        ({"checkpoint.blocking_minutes": 1.0}, "checkpoint", False),
        ({"job.restart_minutes": 60.0}, "restart", True),
        ({"cohorts.default.mtbf_hours": 600}, "interruptions", True),
        ({"cohorts.default.mtbf_hours": 600}, "goodput", False),
    ],
)
def test_what_is_wrong_in_a_scenario_shows_where_it_is_wrong(changes, what, below):
    row = row_of(replay(BASE.but(changes), MONTH, 40), what)
    assert not row["inside"]
    assert (row["log"] < row["p5"]) if below else (row["log"] > row["p95"])


def test_the_measures_are_those_of_the_ledger_and_their_bands_are_in_order():
    table = replay(BASE, MONTH, 20)
    assert list(table["what"]) == ["goodput", *CATEGORIES[1:], "interruptions", "mtbi_hours"]
    assert (table["p5"] <= table["median"]).all() and (table["median"] <= table["p95"]).all()
    assert table["log"][: len(CATEGORIES)].sum() == pytest.approx(1)


def test_the_logs_own_column_by_hand():
    """397 min held: 9 in saves, 3 x 16 of restart, 50 waited; 14 + 17 + 60 of compute lost; 9 of detection."""
    told = replay(calibrate(log_of(LOG)).scenario, log_of(LOG), 5).set_index("what")["log"]
    minutes = {"checkpoint": 9, "lost_work": 14 + 17 + 60, "detection": 9, "waiting": 50, "restart": 48}
    assert {what: told[what] * 397 for what in minutes} == pytest.approx(minutes)
    assert told["goodput"] * 397 == pytest.approx(397 - sum(minutes.values()))
    assert (told["interruptions"], told["mtbi_hours"]) == (3, pytest.approx(290 / 60 / 3))


def test_what_somebody_chose_and_the_first_start_are_left_out():
    chosen, launched = log_of(CHOSEN), log_of(LOG.replace("   0 start", "-60 launch nodes=4 gpus_per_node=2\n 0 start"))
    assert replay(calibrate(chosen).scenario, chosen, 3).set_index("what")["log"]["interruptions"] == 3
    plain = replay(calibrate(log_of(LOG)).scenario, log_of(LOG), 3)
    assert replay(calibrate(launched).scenario, launched, 3)["log"].tolist() == pytest.approx(plain["log"].tolist())


def test_a_restart_that_fails_is_no_interruption_on_either_side():
    failing = BASE.but({"restart.failure_share": 0.4})
    log = simulate(failing, 3)
    row = row_of(replay(failing, log, 40), "interruptions")
    assert row["log"] < (log["event"] == "interrupt").sum() and row["inside"]
    assert row["median"] < 50  # with failed restarts it would be 70


def test_where_nobody_knows_when_a_fault_struck_lost_work_and_detection_are_one_measure():
    """The last sign of life before the crash at 80 came at 70: of 10 min nobody knows what they were."""
    log = log_of(PLAIN.replace("cause=boom", "cause=boom after=70"))
    told = replay(calibrate(log).scenario, log, 5).set_index("what")["log"]
    assert "lost_work" not in told and told["lost_work + detection + unattributed"] == pytest.approx(1)


def test_jobs_of_a_log_are_played_together_each_as_long_as_it_was():
    """Two jobs of four nodes, one of them twice as long: the bands are of both, so narrower than of one."""
    one, two = simulate_many(BASE, [1]), simulate_many(BASE, range(1, 9))
    narrow, wide = (row_of(replay(BASE, log, 40), "goodput") for log in (two, one))
    assert narrow["p95"] - narrow["p5"] < 0.6 * (wide["p95"] - wide["p5"])
    short = frame_of([*events_of(LOG), *events_of("0 start nodes=4 gpus_per_node=2\n60 end", "b")])
    assert row_of(replay(calibrate(short).scenario, short, 5), "goodput")["log"] > 0


def test_the_same_each_time_whatever_the_number_of_processes():
    assert replay(BASE, MONTH, 21, jobs=1).equals(replay(BASE, MONTH, 21, jobs=2))


def test_the_text_says_how_many_lie_inside():
    table = replay(BASE.but({"pool.spares": 0}), MONTH, 10)
    inside = int(table["inside"].sum())
    text = replay_text(table, 10)
    assert text.endswith(f"{inside} of 9 measures lie where 90 % of 10 simulated runs do.")
    assert text.count("OUTSIDE") == 9 - inside > 0


@pytest.mark.parametrize("changes", [{"job.nodes": 64}, {"job.gpus_per_node": 4}])
def test_a_scenario_of_another_size_is_refused(changes):
    with pytest.raises(BadInput, match=r"baseline: job\.\w+=\d+ must be the log's, "):
        replay(BASE.but(changes), MONTH, 3)


def test_no_seeds_are_refused():
    with pytest.raises(BadInput, match="must be 1 or more"):
        replay(BASE, MONTH, 0)
