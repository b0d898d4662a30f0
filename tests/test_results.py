"""Golden result: the seven scenarios with 20 seeds are those of the CSV file and of the README."""

import io

import pandas as pd
import pytest

from goodput.results import CSV, README, seven_scenarios, with_table


@pytest.fixture(scope="module")
def fresh() -> pd.DataFrame:
    return seven_scenarios()


def test_the_golden_csv_is_what_a_fresh_run_gives(fresh):
    stored = CSV.read_text("utf-8")
    # to the last digit kept: another numpy may differ in the last bit of a double, which rounding may turn over
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(stored)), fresh, rtol=0, atol=2e-6)


def test_the_readme_table_is_made_of_the_golden_csv():
    text = README.read_text("utf-8")
    assert with_table(text, pd.read_csv(CSV)) == text
