"""How long an outage may last, and what is hidden where faults while down are left out: exact, played, by hand."""

import numpy as np
import pytest

from goodput.effective import at_mtbi, flattery, flattery_played, most_overhead, on_the_map, with_overhead
from goodput.errors import BadInput
from goodput.experiment import experiment, wide_runs
from goodput.scenario import load_scenario

# 20 minutes of save and overhead matter at an MTBI of 3 h; nothing is planned, no node is waited for
SMALL = load_scenario("baseline").but(
    {
        "days": 200,
        "failures.strike": "always",
        "pool.spares": 500,
        "cohorts.default.mtbf_hours": 600,
        "job_failures.mtbi_hours": 11.49,
        "checkpoint.interval_minutes": 15.0,
        "checkpoint.blocking_minutes": 1.0,
    }
)


# noticed at once: an outage is the restart alone, and each fault begins it anew
NOTICED = SMALL.but({f"causes.{name}.detection_minutes": 0.0 for name in SMALL.causes})


@pytest.mark.parametrize("minutes", [15.0, 20.0, 60.0])
def test_the_overhead_is_the_one_asked_for_and_detection_stays(minutes):
    other = with_overhead(SMALL, minutes)
    assert other.overhead_minutes == pytest.approx(minutes) and other.causes == SMALL.causes


def test_an_outage_shorter_than_its_detection_is_refused():
    with pytest.raises(BadInput, match="restart_minutes"):
        with_overhead(SMALL, 5.0)


def test_with_the_longest_outage_the_exact_goodput_is_the_share():
    limit = most_overhead(NOTICED, [10.0, 20.0], share=0.7)["kept"]
    found = [with_overhead(NOTICED, minutes).expected_goodput(interval) for interval, minutes in limit.items()]
    assert found == pytest.approx([0.7, 0.7], rel=1e-9)


def test_a_wider_reading_allows_a_longer_outage_and_running_does_not_depend_on_the_interval():
    limits = most_overhead(SMALL, np.geomspace(5, 60, 12), share=0.7)
    assert (limits["kept"] < limits["computed"]).all() and (limits["computed"] < limits["running"]).all()
    assert limits["running"].nunique() == 1
    assert limits["running"].iloc[0] == pytest.approx(SMALL.nominal_mtbi_hours * 60 * np.log(1 / 0.7))


def test_where_saves_and_lost_work_alone_take_too_much_no_outage_is_short_enough():
    assert most_overhead(SMALL, [1.0, 600.0], share=0.9)["kept"].isna().all()


def test_the_three_readings_are_what_is_played():
    """At the longest outage of each reading, 12 runs of 100 days are within 4 standard errors of the share."""
    limits = most_overhead(SMALL, [15.0], share=0.75).iloc[0]
    parts = {"kept": ["productive"], "computed": ["productive", "lost_work"]}
    parts["running"] = [*parts["computed"], "checkpoint"]
    for reading, categories in parts.items():
        scenario = NOTICED.but({"days": 100, "job.restart_minutes": limits[reading]})
        wide = wide_runs(experiment([scenario], 12, jobs=1))
        share = wide[categories].sum(axis=1) / wide["held_gpu_hours"]
        assert abs(share.mean() - 0.75) < 4 * share.std(ddof=1) / np.sqrt(12), reading


def test_the_map_has_each_pair_and_its_exact_goodput():
    table = on_the_map(SMALL.but({"days": 20}), [20.0, 40.0], [10.0, 30.0], seeds=2)
    pairs = list(zip(table["overhead_minutes"], table["interval_minutes"], strict=True))
    assert pairs == [(20, 10), (20, 30), (40, 10), (40, 30)]
    assert table.loc[1, "exact"] == pytest.approx(with_overhead(SMALL, 20.0).expected_goodput(30.0))
    assert (table["goodput_low"] < table["goodput"]).all() and (table["goodput"] < table["goodput_high"]).all()


def test_an_mtbi_is_the_one_asked_for_and_the_shares_of_causes_stay():
    other = at_mtbi(SMALL, 1.4)
    assert other.nominal_mtbi_hours == pytest.approx(1.4)
    assert other.node_failures_per_hour / other.job_failures_per_hour == pytest.approx(
        SMALL.node_failures_per_hour / SMALL.job_failures_per_hour
    )
    assert at_mtbi(SMALL.but({"job_failures.mtbi_hours": None}), 1.4).nominal_mtbi_hours == pytest.approx(1.4)


def test_what_is_hidden_is_the_difference_of_the_exact_formulas():
    table = flattery(SMALL, [20.0, 40.0], [1.4, 3.0])
    for hours in (1.4, 3.0):
        always = with_overhead(at_mtbi(NOTICED, hours), 40.0)
        running = always.but({"failures.strike": "running"})
        assert table.loc[40.0, hours] == pytest.approx(running.expected_goodput() - always.expected_goodput())


def test_a_detection_under_way_is_not_begun_anew_so_that_less_is_hidden():
    always = with_overhead(at_mtbi(SMALL, 1.4), 40.0)
    hidden = always.but({"failures.strike": "running"}).expected_goodput() - always.expected_goodput()
    assert 0.5 < hidden / flattery(SMALL, [40.0], [1.4]).iloc[0, 0] < 1


def test_for_short_outages_half_the_square_of_outage_over_mtbi_is_hidden():
    """x = 3 / 180, of the goodput of 0.9 or so; ten times the outage hides nearly a hundred times as much."""
    hidden = flattery(SMALL, [0.3, 3.0], [3.0])[3.0]
    goodput = with_overhead(at_mtbi(NOTICED, 3.0), 20.0).expected_goodput() * np.exp(20 / 180)  # with no outage at all
    assert hidden[3.0] == pytest.approx(goodput * (3 / 180) ** 2 / 2, rel=0.03)
    assert hidden[3.0] / hidden[0.3] == pytest.approx(100, rel=0.03)


def test_what_is_hidden_grows_with_the_outage_and_with_the_rate():
    table = flattery(SMALL, np.arange(5, 60, 5), [1.4, 3.0])
    assert (table.diff().iloc[1:] > 0).all().all() and (table[1.4] > table[3.0]).all()


def test_what_is_hidden_when_played_is_what_the_formulas_say():
    """Outages of one length: detection takes none. 4 runs of 200 days, within 4 standard errors."""
    played = flattery_played(NOTICED, [30.0], [1.4], seeds=4).iloc[0]
    error = (played["difference_high"] - played["difference"]) / 3.182  # t(0.975, 3)
    assert abs(played["difference"] - flattery(SMALL, [30.0], [1.4]).iloc[0, 0]) < 4 * error < 0.01
