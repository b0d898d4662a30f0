"""Figures beside published ones: each point where its number is, marked by how well it is known; titles found."""

import matplotlib
import pandas as pd
import pytest

from goodput import drawing, figures
from goodput.beside import cases
from goodput.published import clusters, in_minutes, mttf_by_size, published

pytestmark = pytest.mark.usefixtures("drawn")

MTTF = mttf_by_size(second_hand=True)
FORMS = cases([128, 1024, 16_384], 6.5, 5, 5)
FORMS = FORMS.assign(
    simulated=FORMS["exact"], simulated_low=FORMS["exact"] - 0.01, simulated_high=FORMS["exact"] + 0.02
)
TIMES = in_minutes(published("detection_restart_times", second_hand=True))
ASSUMED = pd.Series({"requeue": 9, "hot_update": 60})


def points(axes) -> dict[str, list[tuple[float, float]]]:
    """Return by label the points of each line that has one."""
    lines = axes.get_lines()
    return {line.get_label(): [tuple(map(float, xy)) for xy in line.get_xydata()] for line in lines}


def title(axes) -> str:
    return axes.get_title(loc="left")


def test_the_mttf_is_drawn_where_it_was_published_on_the_law_of_the_rate(ax):
    figures.draw_mttf(MTTF, {"RSC-1": 6.5}, ax)
    assert points(ax)["measured"] == [(8, pytest.approx(47.7 * 24)), (1024, 7.9)]
    assert points(ax)["projected, second hand"] == [(16_384, 1.8), (131_072, 0.23)]
    law = ax.get_lines()[0].get_xydata()
    assert law[0] == pytest.approx([8, 24_000 / 6.5]) and law[-1] == pytest.approx([131_072, 0.2254], abs=0.0001)


def test_the_title_of_the_mttf_names_the_point_that_fits_worst(ax):
    figures.draw_mttf(MTTF, {"RSC-1": 6.5}, ax)
    assert title(ax) == "At 1,024 GPUs the rate gives 28.8 hours; measured were 7.9, a factor of 3.7"
    figures.draw_mttf(MTTF[MTTF["gpus"] > 10_000], {"RSC-1": 6.5}, ax)
    assert title(ax).startswith("At 131,072 GPUs the rate gives 0.2 hours; projected were 0.2")


def test_the_forms_are_drawn_in_percent_over_gpus(ax):
    figures.draw_forms(FORMS, ax)
    assert points(ax)["exact"] == [
        (8 * nodes, pytest.approx(100 * share)) for nodes, share in zip(FORMS["nodes"], FORMS["exact"])
    ]
    assert [x for x, _ in points(ax)["first order, as published"]] == [1024, 8192, 131_072]


def test_the_title_of_the_forms_says_from_where_the_first_order_is_off(ax):
    figures.draw_forms(FORMS, ax)
    assert title(ax) == "From 131,072 GPUs the first order is more than a point off, at 131,072 by 11.9"
    figures.draw_forms(FORMS.iloc[:2], ax)
    assert title(ax) == "The first order is within a point of the exact form; off at 8,192 by 0.3"


def test_each_system_has_a_row_and_the_mark_of_its_status(ax):
    table = clusters(second_hand=True)
    ours = pd.DataFrame([{"system": "ours", "per_1000_hours": 2.0, "status": "ours", "counted": "a", "counts": "b"}])
    figures.draw_clusters(pd.concat([table, ours], ignore_index=True), ax)
    found = points(ax)
    for mark, statuses in (("read or quoted", "VQ"), ("second hand", "S")):
        mine = table[table["status"].isin(list(statuses))]["per_1000_hours"].dropna()
        assert sorted(x for x, _ in found[mark] if x == x) == sorted(mine)
    assert [x for x, _ in found["ours"]] == [2.0]
    assert len(ax.get_yticks()) == len(table) + 1


def test_systems_without_a_time_come_last_and_say_so(ax):
    table = clusters()
    figures.draw_clusters(table, ax)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    silent = int(table["per_1000_hours"].isna().sum())
    assert {"Gemini 1.0 largest job (Google)", "MegaScale production run (ByteDance), 10,000 GPUs"} < set(
        labels[-silent:]
    )
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("no time between interruptions") == silent
    assert "reports >90% effective training time" in texts


def test_the_title_of_the_systems_gives_the_range_of_what_was_read_not_of_ours_nor_of_hearsay(ax):
    ours = pd.DataFrame([{"system": "ours", "per_1000_hours": 99.0, "status": "ours", "counted": "", "counts": ""}])
    figures.draw_clusters(pd.concat([clusters(second_hand=True), ours], ignore_index=True), ax)
    assert title(ax) == "1,000 nodes would be interrupted every 1.0 to 14.8 hours (read or quoted)"


def test_times_lie_in_the_row_of_their_group_beside_ours(ax):
    figures.draw_times(TIMES, ASSUMED, ax)
    found = points(ax)
    assert found["assumed here"] == [(9, 0), (60, 1)]
    assert sorted(x for x, y in found["read or quoted"] if abs(y) < 0.5) == sorted(
        TIMES.loc[TIMES["group"] == "requeue", "minutes"]
    )


def test_the_title_of_the_times_counts_what_lies_within(ax):
    """Requeued in 7.6 to 12.8 minutes, updated in 0.8 to 1.1: of 9 and 60 one lies within."""
    figures.draw_times(TIMES, ASSUMED, ax)
    assert title(ax) == "1 of 2 assumptions lie between the least and the most published"
    figures.draw_times(TIMES, ASSUMED.replace(60, 1), ax)
    assert title(ax).startswith("2 of 2")


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax, **more: figures.draw_mttf(MTTF, {"RSC-1": 6.5}, ax, **more),
        lambda ax, **more: figures.draw_forms(FORMS, ax, **more),
        lambda ax, **more: figures.draw_clusters(clusters(), ax, **more),
        lambda ax, **more: figures.draw_times(TIMES, ASSUMED, ax, **more),
    ],
    ids=["mttf", "forms", "clusters", "times"],
)
def test_a_figure_makes_its_own_axes_takes_a_title_and_leaves_matplotlibs_settings_alone(draw):
    before = dict(matplotlib.rcParams)
    axes = draw(None)
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    assert axes.get_xlabel() and any(char.isdigit() for char in title(axes))
    assert title(draw(drawing.plt.figure().add_subplot(), title="mine")) == "mine"
