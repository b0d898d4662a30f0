"""One run under several definitions: each by hand, and which way each moves."""

import pandas as pd
import pytest

from goodput.attribution import spans
from goodput.definitions import TEXTS, definitions
from goodput.errors import BadInput
from goodput.events import make_log

STORY = {
    0: "start",
    60: "checkpoint_start",
    65: "checkpoint_end",
    75: "interrupt",
    80: "detected",
    90: "nodes_ready",
    105: "running",
    150: "end",
}


def log_of(story: dict[int, str], after: int = 1, steps: dict[int, int] | None = None) -> pd.DataFrame:
    """Return the log of a job of 2 nodes that goes on with `after` nodes from `running`."""
    nodes = [{"start": 2, "running": after}.get(event) for event in story.values()]
    columns = {
        "time": [60_000_000 * minute for minute in story],
        "job": ["a"] * len(story),
        "event": list(story.values()),
        "cause": [{"interrupt": "gpu"}.get(event) for event in story.values()],
        "nodes": nodes,
        "gpus_per_node": [8] * len(story),
    }
    return make_log(columns | ({"step": [steps.get(minute) for minute in story]} if steps else {}))


def values(log: pd.DataFrame, step_seconds: float | None = None) -> dict[str, float]:
    return definitions(spans(log), log, step_seconds).set_index("definition")["value"].to_dict()


def test_each_definition_by_hand():
    """60 minutes on 2 nodes and 45 on 1 are productive: 165 of 255 node-minutes (75 x 2 + 30 x 2 + 45), 105 of 150
    minutes, 105 of 140 that were not waited; compute, save and lost work ran for 60 + 5 + 10 + 45 = 120. Of the
    steps, 60 at the save and 90 more at the end are kept: 150 x 30 s = 75 of 150 minutes."""
    log = log_of(STORY, steps={0: 0, 60: 60, 105: 60, 150: 150})
    assert values(log, step_seconds=30) == pytest.approx(
        {
            "goodput": 165 / 255,
            "ETTR": 105 / 150,
            "without rescheduling": 105 / 140,
            "running share": 120 / 150,
            "kept steps": 75 / 150,
        }
    )


def test_where_the_size_does_not_change_goodput_is_the_ettr():
    found = values(log_of(STORY, after=2))
    assert found["goodput"] == pytest.approx(found["ETTR"]) == pytest.approx(0.7)


def test_a_longer_wait_hurts_all_but_the_one_that_leaves_it_out():
    late = {minute + 60 * (minute >= 90): event for minute, event in STORY.items()}
    before, after = values(log_of(STORY)), values(log_of(late))
    assert after["without rescheduling"] == pytest.approx(before["without rescheduling"])
    assert all(after[name] < before[name] for name in ("goodput", "ETTR", "running share"))


def test_work_that_is_lost_does_not_lower_the_running_share():
    """The same fault, 5 minutes later: 15 minutes of work are lost in place of 10."""
    late = {minute + 5 * (minute >= 75): event for minute, event in STORY.items()}
    before, after = values(log_of(STORY)), values(log_of(late))
    assert after["running share"] > before["running share"] and after["ETTR"] < before["ETTR"]


def test_half_the_reference_step_is_half_the_share():
    log = log_of(STORY, steps={0: 0, 60: 60, 150: 150})
    assert values(log, 15)["kept steps"] == pytest.approx(values(log, 30)["kept steps"] / 2)


def test_a_run_without_a_fault_or_a_save_is_one_by_every_clock():
    log = log_of({0: "start", 60: "end"}, steps={0: 0, 60: 60})
    assert set(values(log, 60).values()) == {1.0}


def test_without_a_reference_step_its_row_is_left_out_and_without_steps_refused():
    assert "kept steps" not in values(log_of(STORY))
    with pytest.raises(BadInput, match="must carry a step"):
        values(log_of(STORY), step_seconds=30)


def test_several_jobs_are_sum_over_sum():
    """The second job trains for 30 minutes and no more: (105 + 30) / (150 + 30)."""
    other = make_log(
        {
            "time": [0, 30 * 60_000_000],
            "job": ["b"] * 2,
            "event": ["start", "end"],
            "nodes": [1] * 2,
            "gpus_per_node": [8] * 2,
        }
    )
    both = pd.concat([spans(log_of(STORY)), spans(other)], ignore_index=True)
    assert definitions(both).set_index("definition")["value"]["ETTR"] == pytest.approx(135 / 180)


def test_every_definition_says_who_uses_it_and_what_it_leaves_out():
    table = definitions(spans(log_of(STORY)))
    assert list(table.columns) == ["definition", "formula", "value", "used_by", "leaves_out"]
    assert list(TEXTS) == [*table["definition"], "kept steps"]
