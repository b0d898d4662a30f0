"""A scenario from a log: values worked out by hand, what was simulated is found again, what cannot be told is said."""

import math
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest
from naive import events_of, frame_of, log_of

from goodput.assumptions import LINE
from goodput.calibrate import NEVER_HOURS, calibrate
from goodput.errors import BadInput
from goodput.fitted import duration, rate, repair_time, shape_of, share
from goodput.fitted_file import fit_text, fit_toml, read_cohorts
from goodput.importers import read_any
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

ROOT = Path(__file__).parents[1]
REAL = Path(os.environ.get("GOODPUT_REAL_LOG") or ROOT.parent / "shared" / "real" / "training_112_nodes.jsonl")
BASE = load_scenario("baseline")

# One spare: n1 breaks and it takes its place; n2 breaks and the job waits until n1 is mended; then the program crashes.
LOG = """
   0 start nodes=4 gpus_per_node=2 node_names=n[1-4]
  30 checkpoint_start
  33 checkpoint_end
  63 checkpoint_start
  66 checkpoint_end
  80 interrupt cause=xid node=n1
  84 detected
  84 node_down node=n1
  84 repair_start node=n1
  84 nodes_ready joined=n5 left=n1
 100 running
 130 checkpoint_start
 133 checkpoint_end
 150 interrupt cause=xid node=n2
 154 detected
 154 node_down node=n2
 154 repair_start node=n2
 204 node_repaired node=n1
 204 nodes_ready joined=n1 left=n2
 220 running
 280 interrupt cause=crash
 281 detected
 281 nodes_ready
 297 running
 397 end"""


def values_of(text: str, **options) -> dict:
    """Return the values that a log written by hand is fitted with, by path."""
    return {row.path: row.value for row in calibrate(log_of(text), **options).rows}


def test_a_log_by_hand_gives_the_scenario_worked_out_by_hand():
    """Running 80 + 50 + 60 + 100 = 290 min: 19.33 node-hours for two failures, 4.83 h for one of the job.

    A repair of 2 h ended, one of 243 min is open: 6.05 h for one. When n1 came back two nodes were out: one spare.
    """
    assert values_of(LOG) == {
        "days": pytest.approx(397 / 1440, rel=1e-5),
        "job.nodes": 4,
        "job.gpus_per_node": 2,
        "job.restart_minutes": 16,
        "pool.spares": 1,
        "cohorts.default.mtbf_hours": pytest.approx(4 * 290 / 60 / 2, rel=1e-5),
        "causes.xid.scope": "node",
        "causes.xid.share": 1,
        "causes.xid.detection_minutes": 4,
        "causes.xid.needs_repair": True,
        "causes.crash.scope": "job",
        "causes.crash.share": 1,
        "causes.crash.detection_minutes": 1,
        "job_failures.mtbi_hours": pytest.approx(290 / 60, rel=1e-5),
        "failures.strike": "running",
        "checkpoint.interval_minutes": 30,
        "checkpoint.blocking_minutes": 3,
        "repair.mean_hours": pytest.approx(6.05),
        "repair.crews": None,
    }


def test_the_intervals_are_the_exact_ones_for_so_few_events():
    """Chi-square: 95 % of 6 degrees of freedom is 12.592, 5 % of 4 is 0.7107; two events in 19.333 node-hours."""
    row = calibrate(log_of(LOG)).row("cohorts.default.mtbf_hours")
    assert (row.low, row.high) == pytest.approx((2 * 19.3333 / 12.592, 2 * 19.3333 / 0.71072), rel=1e-4)
    assert (row.events, row.how) == (2, "fitted") and "few events" in row.note


def test_each_cause_has_its_rate_over_its_own_exposure():
    causes = calibrate(log_of(LOG)).causes.set_index("cause")
    assert causes["exposure_hours"].to_dict() == pytest.approx({"xid": 4 * 290 / 60, "crash": 290 / 60})
    assert causes["count"].to_dict() == {"xid": 2, "crash": 1}


# --- stops that are no failures ------------------------------------------------------------------------------------

CHOSEN = LOG.replace("397 end", "397 interrupt cause=preemption\n400 detected\n460 nodes_ready\n476 running\n500 end")


def test_what_somebody_chose_is_left_out_with_its_time_and_said():
    """The preemption takes 100 min of work since the restart, and 79 min until it runs again; 24 min follow."""
    fit = calibrate(log_of(CHOSEN))
    assert fit.row("days").value == pytest.approx((297 + 24) / 1440, rel=1e-5)
    assert "preemption: 1 stop left out: somebody chose that" in fit.notes
    assert not any("preemption" in row.path for row in fit.rows)


def test_the_time_before_it_was_time_in_which_something_could_have_failed():
    assert values_of(CHOSEN)["job_failures.mtbi_hours"] == pytest.approx((290 + 24) / 60, rel=1e-5)


PLANNED = LOG.replace(
    "397 end",
    "320 checkpoint_start\n323 checkpoint_end\n323 interrupt cause=upgrade planned\n323 detected\n323 nodes_ready\n"
    "339 running\n397 end",
)


def test_a_planned_stop_becomes_a_planned_cause_and_its_closing_save_is_no_interval():
    """Stops of the job: one crash, one upgrade, in 290 - 16 = 274 min of running. The save before it came 23 min on."""
    values = values_of(PLANNED)
    assert values["causes.upgrade.planned"] is True
    assert (values["causes.upgrade.share"], values["causes.upgrade.detection_minutes"]) == (0.5, 0)
    assert values["job_failures.mtbi_hours"] == pytest.approx(274 / 60 / 2, rel=1e-5)
    assert values["checkpoint.interval_minutes"] == 30


def test_a_fault_while_the_job_waits_says_that_faults_strike_always():
    """Rates are over all 397 min then: the second crash strikes at 160, while the job waits."""
    log = log_of(LOG.replace(" 204 node_repaired", " 160 interrupt cause=crash\n 160 detected\n 204 node_repaired"))
    fit = calibrate(log)
    assert fit.scenario.failures.strike == "always"
    assert fit.scenario.job_failures.mtbi_hours == pytest.approx(397 / 60 / 2, rel=1e-5)
    assert any("strike is always" in note for note in fit.notes)


def test_a_fault_while_the_job_restarts_is_a_restart_that_failed():
    """Of four starts one was struck before it ran; the exact 90 % interval is that of Clopper and Pearson."""
    log = log_of(LOG.replace(" 220 running", " 210 interrupt cause=xid\n 214 detected\n 214 nodes_ready\n 230 running"))
    row = calibrate(log).row("restart.failure_share")
    assert (row.value, row.events) == (0.25, 1)
    assert (row.low, row.high) == pytest.approx((0.01274, 0.75139), abs=1e-5)
    assert calibrate(log).row("restart.failure_detection_minutes").value == 4
    assert calibrate(log).row("causes.xid.share").events == 2  # it is no failure of its own


def test_where_a_cause_names_a_node_only_at_times_it_is_said():
    mixed = LOG.replace("cause=crash", "cause=xid")
    fit = calibrate(log_of(mixed))
    assert fit.row("causes.xid.scope").value == "node" and fit.row("cohorts.default.mtbf_hours").events == 3
    assert "xid: 2 of 3 stops name a node; taken as scope node" in fit.notes


def test_where_no_failure_names_a_node_all_are_failures_of_the_job():
    text = LOG.replace("xid node=n1", "xid").replace("xid node=n2", "xid")
    fit = calibrate(log_of(text))
    assert fit.scenario.cohorts["default"].mtbf_hours == NEVER_HOURS
    assert fit.row("job_failures.mtbi_hours").events == 3
    assert "no failure names a node" in fit.row("cohorts.default.mtbf_hours").note
    assert fit.scenario.nominal_mtbi_hours == pytest.approx(290 / 60 / 3, rel=1e-4)


def test_silence_before_a_fault_is_half_running_and_half_detection():
    """Last seen at 70, gone at 80: it ran 5 min more, and 5 + 4 min passed unnoticed; the other one is seen: 4 min."""
    fit = calibrate(log_of(LOG.replace("cause=xid node=n1", "cause=xid node=n1 after=70")))
    assert fit.row("causes.xid.detection_minutes").value == pytest.approx((9 + 4) / 2)
    assert fit.row("job_failures.mtbi_hours").value == pytest.approx(285 / 60, rel=1e-5)
    assert any("silence" in note for note in fit.notes)


# --- the pool ------------------------------------------------------------------------------------------------------


def test_a_job_that_never_waits_has_at_least_as_many_spares_as_were_out_at_once():
    row = calibrate(
        log_of(LOG.replace(" 204 nodes_ready", " 154 nodes_ready").replace("204 node_r", "155 node_r"))
    ).row("pool.spares")
    assert (row.value, row.how) == (2, "counted") and row.note.startswith("at least")


def test_a_node_that_waits_for_a_crew_tells_how_many_there_are():
    """n2 is brought at 154 and its repair begins at 204, as n1 leaves: one crew."""
    one_crew = LOG.replace(
        " 154 repair_start node=n2\n 204 node_repaired node=n1", " 204 node_repaired node=n1\n 204 repair_start node=n2"
    )
    row = calibrate(log_of(one_crew)).row("repair.crews")
    assert (row.value, row.how, row.events) == (1, "counted", 1)


def test_what_is_given_is_taken_and_marked():
    fit = calibrate(log_of(LOG), spares=7, crews=3)
    assert [fit.row(path)[1:6:4] for path in ("pool.spares", "repair.crews")] == [(7, "given"), (3, "given")]
    assert (fit.scenario.pool.spares, fit.scenario.repair.crews) == (7, 3)


PLAIN = """
   0 start nodes=4 gpus_per_node=2
  80 interrupt cause=boom
  90 end"""


def test_what_a_log_cannot_tell_is_the_baselines_with_the_reason():
    fit = calibrate(log_of(PLAIN))
    assumed = {row.path: row.value for row in fit.rows if row.how == "assumed"}
    assert assumed["pool.spares"] == BASE.pool.spares
    assert assumed["repair.mean_hours"] == BASE.repair.mean_hours
    assert assumed["checkpoint.interval_minutes"] == BASE.checkpoint.interval_minutes
    assert assumed["job.restart_minutes"] == BASE.job.restart_minutes
    assert all(row.note for row in fit.rows if row.how == "assumed")


def test_a_log_without_a_failure_bounds_the_rates_from_below():
    """No failure in 4 x 1.5 node-hours: at least 6 / 2.996 h with 95 %; half a failure is taken."""
    fit = calibrate(log_of("0 start nodes=4 gpus_per_node=2\n90 end"))
    row = fit.row("cohorts.default.mtbf_hours")
    assert (row.value, row.low, row.high) == pytest.approx((12, 6 / 2.9957, math.inf), rel=1e-4)
    assert (row.how, fit.scenario.job_failures.mtbi_hours) == ("assumed", None)


def test_jobs_of_another_size_are_left_out_and_said():
    small = events_of("0 start nodes=2 gpus_per_node=2\n60 interrupt cause=crash\n90 end", "small")
    fit = calibrate(frame_of([*events_of(LOG), *small]))
    assert fit.row("job.nodes").value == 4 and fit.row("job_failures.mtbi_hours").events == 1
    assert "1 job of another size left out: small" in fit.notes


def test_jobs_of_one_size_are_pooled():
    fit = calibrate(frame_of([*events_of(LOG), *events_of(LOG, "b")]))
    one = calibrate(log_of(LOG))
    for path in ("cohorts.default.mtbf_hours", "days", "pool.spares", "repair.mean_hours"):
        assert fit.row(path).value == one.row(path).value
    assert fit.row("cohorts.default.mtbf_hours").events == 4
    assert fit.row("cohorts.default.mtbf_hours").high < one.row("cohorts.default.mtbf_hours").high


def test_a_published_rate_is_pooled_only_on_request_and_both_numbers_are_shown():
    """Two failures in 19.33 node-hours, and three in 3 x 24,000 / 6.5 h."""
    row = calibrate(log_of(LOG), prior="rsc-1").row("cohorts.default.mtbf_hours")
    assert (row.value, row.how) == (pytest.approx((19.3333 + 3 * 24_000 / 6.5) / 5, rel=1e-4), "pooled")
    assert "9.66667 h" in row.note and "3,692 h" in row.note and row.low < row.value < row.high


def test_the_heavier_the_published_rate_the_nearer_to_it():
    values = [
        calibrate(log_of(LOG), prior="llama3", pseudo_events=weight).row("cohorts.default.mtbf_hours").value
        for weight in (1, 10, 1000)
    ]
    assert values == sorted(values) and values[-1] == pytest.approx(2048 * 54 * 24 / 287, rel=0.01)


# --- cohorts -------------------------------------------------------------------------------------------------------


def test_cohorts_have_their_own_failures_over_their_own_node_hours():
    """n1 and n2, labelled bad, fail once each. n1 runs 80 + 60 + 100 min, n2 80 + 50, n3 and n4 290, n5 210."""
    fit = calibrate(log_of(LOG), {"n[1-2]": "bad", "n[3-5]": "good"})
    assert fit.row("cohorts.bad.mtbf_hours").value == pytest.approx((240 + 130) / 60 / 2, rel=1e-5)
    assert fit.row("cohorts.good.mtbf_hours").exposure == pytest.approx((2 * 290 + 210) / 60)
    # four nodes and a spare: the cohort that the spare is of comes last, and takes the rest
    assert fit.scenario.cohort_sizes == {"bad": 2, "good": 3}
    assert fit.scenario.but({"pool.spares": 3}).cohort_sizes == {"bad": 2, "good": 5}


def test_nodes_that_no_label_names_are_other():
    assert calibrate(log_of(LOG), {"n[1-2]": "bad"}).scenario.cohort_sizes.keys() == {"bad", "other"}


def test_cohorts_need_a_log_that_names_its_nodes():
    with pytest.raises(BadInput, match="must give node_names"):
        calibrate(log_of(LOG.replace(" node_names=n[1-4]", "")), {"n1": "bad"})


def test_the_firmware_regression_is_found_in_one_month():
    bad = load_scenario("firmware-regression")
    labels = {names: label for label, names in cohort_names(bad).items()}
    fit = calibrate(simulate(bad, 1), labels)
    assert fit.scenario.cohort_sizes == bad.cohort_sizes
    assert fit.row("cohorts.batch_b.mtbf_hours").high < fit.row("cohorts.default.mtbf_hours").low


def test_a_cohorts_file_is_read(tmp_path):
    (tmp_path / "c.csv").write_text('node,cohort\n"node[0-3,7]",old\n\nnode4,new\n')
    assert read_cohorts(tmp_path / "c.csv") == {"node[0-3,7]": "old", "node4": "new"}


@pytest.mark.parametrize(
    "text",
    ["", "node;cohort\n", "node,cohort\n", "node,cohort\nn1\n", "node,cohort\nn1,\n", "node,cohort\nn1,a\nn1,b\n"],
)
def test_a_cohorts_file_that_cannot_be_used_is_refused(tmp_path, text):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(BadInput, match=r"c\.csv"):
        read_cohorts(tmp_path / "c.csv")


# --- durations -----------------------------------------------------------------------------------------------------

LUCK = np.random.Generator(np.random.PCG64(1))
SAMPLES = {
    "exponential": LUCK.exponential(3, 100),
    "lognormal": LUCK.lognormal(1, 0.5, 100),
    "empirical": np.concatenate([LUCK.normal(3, 0.1, 50), LUCK.normal(30, 1, 50)]),
}


@pytest.mark.parametrize("law", SAMPLES)
def test_durations_are_told_apart_and_keep_their_mean(law):
    scenario = BASE.but({"job.restart_minutes": duration("x", SAMPLES[law]).value})
    assert scenario.job.restart_minutes.distribution == law
    assert scenario.job.restart_minutes.expected == pytest.approx(SAMPLES[law].mean(), rel=1e-4)


def test_durations_that_agree_within_five_per_cent_are_one_number():
    assert duration("x", [98, 100, 102] * 5).value == 100
    assert isinstance(duration("x", [95, 100, 105] * 5).value, dict)


def test_a_few_durations_are_their_mean_with_students_interval():
    """1, 2, 3: standard error 1 / sqrt(3), and t of 2 degrees at 95 % is 2.920."""
    row = duration("x", [1, 2, 3])
    assert (row.value, row.low, row.high) == pytest.approx((2, 2 - 2.92 / 3**0.5, 2 + 2.92 / 3**0.5), abs=1e-3)


def test_one_duration_has_no_interval():
    row = duration("x", [7])
    assert row.value == 7 and math.isnan(row.low) and "one event" in row.note


def test_a_sample_of_its_own_is_at_most_twenty_values():
    assert len(shape_of(SAMPLES["empirical"])["values"]) == 20


def test_open_repairs_count_for_as_long_as_they_took():
    """1 + 3 + 6 h for two that ended: 5 h each."""
    row = repair_time("x", [1.0, 3.0], [6.0])
    assert (row.value, row.events) == (5, 2) and row.low < 5 < row.high


def test_repairs_that_all_take_alike_are_not_exponential():
    assert repair_time("x", np.full(40, 48.0), []).value["distribution"] in ("lognormal", "empirical")
    assert isinstance(repair_time("x", LUCK.exponential(48, 40), []).value, float)


def test_the_exact_interval_of_a_share_at_both_ends():
    """0 of 10: up to 1 - 0.05^(1/10); 10 of 10: from 0.05^(1/10)."""
    none, all_ = share("x", 0, 10), share("x", 10, 10)
    assert (none.low, none.high) == pytest.approx((0, 1 - 0.05**0.1))
    assert (all_.low, all_.high) == pytest.approx((0.05**0.1, 1))


def test_more_of_the_same_narrows_the_interval():
    widths = [rate("x", 100 * n, 3 * n) for n in (1, 4, 16)]
    assert [row.value for row in widths] == [33.3333] * 3
    assert widths[0].high / widths[0].low > widths[1].high / widths[1].low > widths[2].high / widths[2].low


# --- the file ------------------------------------------------------------------------------------------------------

CHANGED = {
    "always": {"failures.strike": "always", "restart.failure_share": 0.3},
    "planned": {"causes.software_crash.planned": True, "causes.software_crash.detection_minutes": 0},
    "varied": {"job.restart_minutes": {"distribution": "lognormal", "median": 12.0, "sigma": 0.8}, "repair.crews": 2},
}


@pytest.mark.parametrize("name", [*SEVEN, *CHANGED])
def test_the_file_is_read_back_as_the_scenario_and_each_value_says_how_it_was_found(name, tmp_path):
    scenario = BASE.but(CHANGED[name]) if name in CHANGED else load_scenario(name)
    fit = calibrate(simulate_many(scenario, range(1, 4)), name="mine")
    (tmp_path / "mine.toml").write_text(fit_toml(fit))
    assert load_scenario(tmp_path / "mine.toml") == fit.scenario
    lines = [LINE.fullmatch(line.strip()) for line in fit_toml(fit).splitlines()]
    assert all(line["said"] for line in lines if line["key"] and line["key"] != "name")


def test_names_of_a_log_that_no_key_can_have_are_made_plain(tmp_path):
    """And a name that steers a terminal steers none."""
    events = events_of(LOG)
    for event in events:
        if event.get("cause") == "crash":
            event["cause"] = 'a "b".c\n[x] = 1 # é\x1b'
    fit = calibrate(frame_of(events), name='n"\x1b\x7f')
    assert fit.row("causes.a_b_c_x_1_.share").value == 1
    (tmp_path / "mine.toml").write_text(fit_toml(fit))
    assert load_scenario(tmp_path / "mine.toml").causes == fit.scenario.causes
    assert "\x1b" not in fit_toml(fit) + fit_text(fit)
    assert tomllib.loads(fit_toml(fit))["name"] == 'n"??'


def test_crews_that_are_unlimited_are_a_comment():
    assert "\n# crews: counted: " in fit_toml(calibrate(log_of(LOG)))


def test_a_fit_is_the_same_each_time_and_in_any_order_of_jobs():
    logs = events_of(LOG), events_of(CHOSEN, "b")
    assert fit_toml(calibrate(frame_of([*logs[0], *logs[1]]))) == fit_toml(calibrate(frame_of([*logs[1], *logs[0]])))


# --- round trip ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEVEN)
def test_what_was_simulated_is_found_again(name):
    """Twenty months: what is fixed exactly, what is counted exactly, rates within an interval of 1 in 10,000."""
    scenario = load_scenario(name)
    labels = {names: label for label, names in cohort_names(scenario).items()} if len(scenario.cohorts) > 1 else None
    fit = calibrate(simulate_many(scenario, range(1, 21)), labels)
    found = fit.scenario
    for path in ("days", "job.nodes", "job.gpus_per_node", "job.restart_minutes", "checkpoint.blocking_minutes"):
        assert fit.row(path).value == _at(scenario, path)
    assert found.interval_minutes == pytest.approx(scenario.interval_minutes, rel=1e-5)
    assert found.pool.spares == (7 if name == "combined" else scenario.pool.spares)  # there the job never waited
    assert {key: (each.scope, each.detection_minutes, each.needs_repair) for key, each in found.causes.items()} == {
        key: (each.scope, each.detection_minutes, each.needs_repair) for key, each in scenario.causes.items()
    }
    _near(fit.row("job_failures.mtbi_hours"), scenario.job_failures.mtbi_hours)
    _near(fit.row("repair.mean_hours"), scenario.repair.mean_hours)
    for label, cohort in scenario.cohorts.items():
        _near(fit.row(f"cohorts.{label}.mtbf_hours"), cohort.mtbf_hours)
    assert found.expected_goodput() == pytest.approx(scenario.expected_goodput(), abs=0.01)


def _at(scenario, path: str):
    for key in path.split("."):
        scenario = getattr(scenario, key)
    return scenario


def _near(row, truth: float) -> None:
    """Four standard deviations of a Poisson count, about."""
    assert abs(math.log(row.value / truth)) < 4 / math.sqrt(row.events)


# --- bad input, and a real log -------------------------------------------------------------------------------------


def test_a_log_without_training_is_refused():
    with pytest.raises(BadInput, match="must hold a job that trained"):
        calibrate(log_of("0 launch nodes=4 gpus_per_node=2\n90 end"))


def test_a_rate_that_nobody_published_is_refused():
    with pytest.raises(BadInput, match=r"--prior=rsc1 must be a known rate; did you mean 'rsc-1'\?"):
        calibrate(log_of(LOG), prior="rsc1")


@pytest.mark.parametrize("options", [{"spares": -1}, {"crews": 0}])
def test_what_a_pool_cannot_be_is_refused(options):
    with pytest.raises(BadInput, match="must be"):
        calibrate(log_of(LOG), **options)


def test_a_value_that_a_fit_has_not_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"did you mean 'pool\.spares'\?"):
        calibrate(log_of(LOG)).row("pool.spare")


def test_the_real_log_tells_of_restarts_that_failed():
    """30 of 74 starts loaded no checkpoint; a recovery of 3.95 min in the mean is of 1 / (1 - 30/74) starts each."""
    if not REAL.is_file():
        pytest.skip("the real log is not ours to ship and is not here; GOODPUT_REAL_LOG may name it")
    log, findings = read_any(REAL, gpus_per_node=8)
    fit = calibrate(log, findings=findings)
    assert fit.row("restart.failure_share")[1:5] == pytest.approx((30 / 74, 0.3090, 0.5076, 30), abs=1e-4)
    assert fit.row("job.restart_minutes").value / (1 - 30 / 74) == pytest.approx(3.948, abs=0.001)
    assert fit.row("job_failures.mtbi_hours").events == 44
    assert fit.scenario.cohorts["default"].mtbf_hours == NEVER_HOURS
