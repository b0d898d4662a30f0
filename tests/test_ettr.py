"""The expected ETTR, the exact form and the played job: where they agree, and which of two the third is with."""

import pytest

from goodput.ettr import cases, one_cause, played

WORKED = cases([1500] * 3, [6.5, 1, 6.5], [1 / 6, 5, 5], 5)


def test_the_worked_points_of_the_paper_and_what_is_exact_there():
    assert WORKED["first_order"].round(3).tolist() == [0.921, 0.898, 0.740]
    assert WORKED["exact"].round(3).tolist() == [0.922, 0.897, 0.736]


def test_a_first_order_is_one_where_little_is_lost_and_off_where_much_is():
    table = cases([16, 128, 1024, 16_384], 6.5, 5, 5)
    off = (table["first_order"] - table["exact"]).abs()
    assert table["lost_share"].is_monotonic_increasing and off.is_monotonic_increasing
    assert off.iloc[0] < 0.001 and off.iloc[-1] > 0.1


@pytest.mark.parametrize("row", range(3))
def test_the_scenario_of_a_case_has_its_mtbi_its_interval_and_its_exact_goodput(row):
    case = WORKED.iloc[row]
    scenario = one_cause(case, days=1)
    assert 60 * scenario.nominal_mtbi_hours == pytest.approx(case["mtbi_minutes"])
    assert scenario.but({"checkpoint.interval_minutes": "young"}).interval_minutes == case["interval_minutes"]
    assert scenario.expected_goodput() == pytest.approx(case["exact"])


def test_where_the_two_forms_differ_the_played_job_is_with_the_exact_one():
    """131,072 GPUs: an MTBI of 13.5 minutes, of which a restart and half an interval take 80 %. 20 runs of 10 days."""
    table = played(cases([16_384], 6.5, 5, 5), seeds=20, days=10).iloc[0]
    half = (table["simulated_high"] - table["simulated_low"]) / 2
    assert abs(table["simulated"] - table["exact"]) < 3 * half
    assert table["simulated"] - table["first_order"] > 10 * half


def test_a_played_case_keeps_its_row():
    table = played(WORKED.iloc[[2, 0]], seeds=2, days=2)
    assert table.index.tolist() == [2, 0] and table["simulated"].is_monotonic_increasing
    assert list(table.columns[: len(WORKED.columns)]) == list(WORKED.columns)
