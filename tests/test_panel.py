"""The panel: what a dial does is said in numbers, what does not go together in words, and later moves win."""

import asyncio
import re

import nbformat
import pytest

from goodput.errors import BadInput
from goodput.page import render_output
from goodput.panel import BY_HAND, Panel
from goodput.scenario import load_scenario


@pytest.fixture
def panel(tmp_path):
    return Panel(seeds=2, toml_file=tmp_path / "made" / "mine.toml")


def test_a_move_is_answered_paired_by_seed(panel):
    assert panel.answer.is_base
    panel.dials["pool.spares"].value = 8
    assert panel.changes == {"pool.spares": 8}
    assert "paired by seed" in panel.headline.value and "2 seeds" in panel.status.value


def test_a_move_back_is_the_scenario_again(panel):
    before = panel.headline.value
    panel.dials["job.restart_minutes"].value = 5
    assert panel.headline.value != before
    panel.dials["job.restart_minutes"].value = 20
    assert panel.answer.is_base and panel.headline.value == before


def test_a_formula_rules_the_interval_until_it_is_set_by_hand_again(panel):
    slider = panel.dials["checkpoint.interval_minutes"]
    panel.rule.value = "daly"
    assert panel.changes == {"checkpoint.interval_minutes": "daly"} and slider.disabled
    panel.rule.value = BY_HAND
    assert panel.changes == {} and not slider.disabled


def test_a_scenario_that_uses_a_formula_shows_it(panel):
    panel.scenario.value = "async-checkpoint"
    assert panel.rule.value == "daly" and panel.changes == {} and panel.answer.is_base
    assert panel.dials["checkpoint.interval_minutes"].disabled


def test_settings_that_do_not_go_together_are_said_in_place_and_the_last_answer_stays(panel):
    panel.scenario.value = "firmware-regression"
    last = panel.answer
    panel.dials["job.nodes"].value = 16
    assert "cohorts must hold 20 nodes (job and spares), not 32" in panel.status.value
    assert panel.answer is last
    panel.dials["job.nodes"].value = 128
    assert "2 seeds" in panel.status.value


def test_what_differs_from_the_scenario_at_the_start_is_a_change(tmp_path):
    panel = Panel("baseline", {"pool.spares": 8, "repair.mean_hours": 24}, seeds=2)
    assert panel.dials["pool.spares"].value == 8
    assert panel.changes == {"pool.spares": 8, "repair.mean_hours": 24} and not panel.answer.is_base
    panel.back.click()
    assert panel.changes == {} and panel.answer.is_base


@pytest.mark.parametrize("wrong", [{"scenario": "no-such"}, {"overrides": {"pool.sparse": 8}}, {"seeds": 0}])
def test_what_cannot_be_is_refused_at_the_start(wrong):
    with pytest.raises(BadInput):
        Panel(**{"seeds": 1} | wrong)


def test_the_file_that_the_button_writes_is_the_scenario_of_the_dials(panel):
    panel.dials["pool.spares"].value = 6
    panel.rule.value = "daly"
    panel.dials["detection"].value = 5
    panel.write.click()
    assert "Written to" in panel.status.value
    assert load_scenario(panel.toml_file) == panel.answer.changed


def test_a_file_that_cannot_be_written_is_said_in_place(panel, tmp_path):
    (tmp_path / "made").write_text("a file, not a folder")
    panel.write.click()
    assert "Nothing was written" in panel.status.value


def test_without_a_kernel_the_panel_is_a_picture_and_never_a_widget_alone(panel):
    data = panel._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(data)
    html = render_output(nbformat.v4.new_output("display_data", data=data), FakeProse())
    assert "data:image/png;base64," in html and "make lab" in html


class FakeProse:
    """Counts figures as the page does."""

    def count_figure(self) -> int:
        return 1


def test_a_later_move_cancels_an_earlier_one(panel):
    """On a running event loop moves are played in batches; only the last of three is ever shown."""
    shown = []
    panel._show = lambda answer, show=panel._show: (shown.append(answer), show(answer))

    async def move_thrice():
        for spares in (5, 6, 7):
            panel.dials["pool.spares"].value = spares
            await asyncio.sleep(0)
        await panel._task

    asyncio.run(move_thrice())
    assert [answer.changed.pool.spares for answer in shown] == [7]
    assert panel.answer.changed.pool.spares == 7


def test_moves_one_after_the_other_give_what_moves_at_once_give(panel):
    panel.dials["pool.spares"].value = 8
    panel.dials["job.restart_minutes"].value = 5
    at_once = Panel("baseline", {"pool.spares": 8, "job.restart_minutes": 5}, seeds=2)
    assert panel.headline.value == at_once.headline.value


@pytest.mark.parametrize(
    ("overrides", "toml_file"), [({"job_failures.mtbi_hours": None}, "mine.toml"), ({}, "a\0b.toml"), ({}, "")]
)
def test_what_cannot_be_written_is_said_and_leaves_no_file(tmp_path, monkeypatch, overrides, toml_file):
    monkeypatch.chdir(tmp_path)
    panel = Panel(overrides=overrides, seeds=1, toml_file=toml_file)
    panel.write.click()
    assert "Nothing was written" in panel.status.value and not list(tmp_path.iterdir())


def test_an_answer_without_bounds_shows_no_number():
    """A single seed has no interval, and a price that large no sum."""
    said = Panel(overrides={"pool.spares": 8}, seeds=1, price_per_gpu_hour=1e308).headline.value
    assert not re.search(r"\b(nan|inf)\b", said) and ">-<" in said
