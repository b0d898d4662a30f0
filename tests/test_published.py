"""Published figures: each has its unit, source and status, and our arithmetic on them is right; whether they are true
is for their sources to say."""

import numpy as np
import pytest

from goodput.errors import BadInput
from goodput.metrics import mean_time
from goodput.published import (
    COUNTED,
    STATUS,
    cited,
    clusters,
    counted_jobs,
    figure,
    in_minutes,
    mttf_by_size,
    names,
    published,
    ranges,
)

LLAMA = published("llama3_interruptions")
META = published("meta_rsc", second_hand=True)
COLUMNS = ["group", "what", "quantity", "value", "bound", "unit", "source", "where", "status", "note"]


@pytest.mark.parametrize("name", names())
def test_each_figure_has_a_value_a_unit_a_source_and_a_status(name):
    table = published(name, second_hand=True)
    assert list(table.columns) == COLUMNS and table["value"].notna().all()
    for column in ("what", "quantity", "unit", "source"):
        assert (table[column] != "").all(), column
    assert set(table["status"]) <= set(STATUS)
    assert set(table["bound"]) <= {"", "at least", "at most", "about"}
    assert not table.duplicated(["group", "what", "quantity", "unit"]).any()


@pytest.mark.parametrize("name", names())
def test_second_hand_figures_come_only_when_asked_for_and_are_marked(name):
    assert "S" not in set(published(name)["status"])
    assert len(published(name, second_hand=True)) >= len(published(name))


def counts(group: str | None = None):
    """Return the counts of Llama 3's Table 5, of one category or of all."""
    mine = LLAMA[LLAMA["quantity"] == "interruptions"]
    return mine[mine["group"] == group]["value"] if group else mine["value"]


def test_the_18_rows_of_llama_3_add_up_to_what_its_text_says():
    assert len(counts()) == 18
    assert counts().sum() == figure(LLAMA, "unexpected_interruptions") == 419
    assert 419 + figure(LLAMA, "planned_interruptions") == 466


def test_the_printed_shares_of_llama_3_do_not_add_up_and_the_counts_say_why():
    """148 of 419 are 35.3 %, not 30.1 %: with that one row mended the printed shares add up to 100.1, by rounding."""
    printed = LLAMA[(LLAMA["quantity"] == "printed_share") & (LLAMA["where"] == "Table 5")].set_index("what")["value"]
    assert printed.sum() == pytest.approx(94.9)
    share = 100 * figure(LLAMA, "interruptions", "Faulty GPU") / 419
    assert share == pytest.approx(35.3, abs=0.05) and printed["Faulty GPU"] == 30.1
    assert printed.sum() - 30.1 + share == pytest.approx(100.1, abs=0.1)
    others = printed.drop("Faulty GPU")
    counted = LLAMA[LLAMA["quantity"] == "interruptions"].set_index("what")["value"].drop("Faulty GPU")
    assert ((100 * counted / 419 - others).abs() < 0.051).all()


def test_gpus_are_64_percent_of_llama_3s_causes_by_counts_where_its_text_says_58_7():
    assert 100 * counts("GPU").sum() / 419 == pytest.approx(64.0, abs=0.05)
    assert figure(LLAMA, "printed_share", "GPU causes") == 58.7


def test_llama_3_was_interrupted_once_in_3_09_elapsed_hours():
    hours = 24 * figure(LLAMA, "days") / 419
    goodput = published("published_goodput")
    assert hours == pytest.approx(3.09, abs=0.005)
    assert hours == pytest.approx(figure(goodput, "mtbi_hours", "Llama 3 405B (Meta)"), abs=0.005)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.80), (131_072, 0.23)])
def test_metas_rate_gives_its_projected_mttf(gpus, hours):
    """24 h / (nodes x 6.50 / 1,000) with eight GPUs a node."""
    assert 24 / (gpus / 8 * figure(META, "r_f_rsc1") / 1000) == pytest.approx(hours, abs=0.005)


def test_metas_rate_does_not_give_what_it_measured_at_1024_gpus():
    """28.8 h by the rate, 7.9 h measured: a factor of 3.7, which is shown and not bent away."""
    by_rate = 24 / (128 * figure(META, "r_f_rsc1") / 1000)
    assert by_rate == pytest.approx(28.8, abs=0.05)
    assert by_rate / figure(META, "mttf_1024gpu") == pytest.approx(3.65, abs=0.01)


def test_byterobusts_incidents_give_their_printed_shares():
    table = published("byterobust_incidents")
    found = table[table["quantity"] == "incidents"].set_index("what")["value"]
    printed = table[table["quantity"] == "printed_share"].set_index("what")["value"]
    assert ((100 * found / found.sum()) - printed).abs().max() < 0.06


def test_a_figure_says_where_it_stands():
    row = LLAMA[LLAMA["what"] == "NIC"]
    assert cited(row).iloc[0] == "arXiv 2407.21783, Table 5 (read in the source)"


def test_what_is_not_there_is_refused():
    with pytest.raises(BadInput, match=r"did you mean 'meta_rsc'"):
        published("meta_rcs")
    with pytest.raises(BadInput, match="r_f of anything must be one figure, not 0"):
        figure(META, "r_f")


# --- systems side by side ---------------------------------------------------------------------------------------------


def test_the_time_between_interruptions_scales_with_the_nodes():
    """Llama 3: 1,296 hours / 419 = 3.09; on 2,048 nodes, so 1,000 of them would have 6.33."""
    table = clusters().set_index("system")
    llama = table.loc["Llama 3 405B (Meta)"]
    assert llama["per_1000_hours"] == pytest.approx(1296 / 419 * 2.048)
    assert llama[["mtbi_hours_low", "mtbi_hours_high"]].tolist() == list(mean_time(1296, 419)[1:3])
    # a rate per 1,000 node-days says it at once
    rate = figure(META, "r_f_rsc1")
    assert table.loc["Meta RSC-1, rate of jobs > 128 GPUs", "per_1000_hours"] == pytest.approx(24 / rate)


def test_the_times_of_counted_systems_are_those_that_are_printed():
    """Within 1 %: they are printed with two digits or three."""
    long = published("published_goodput", second_hand=True)
    printed = long[long["quantity"] == "mtbi_hours"].set_index("what")["value"]
    ours = clusters(second_hand=True).set_index("system")["mtbi_hours"].reindex(printed.index)
    assert (ours / printed - 1).abs().max() < 0.01


def test_what_metas_jobs_of_1024_gpus_had_is_3_7_times_as_often_as_by_its_rate():
    times = clusters().set_index("system")["per_1000_hours"]
    by_rate, measured = times["Meta RSC-1, rate of jobs > 128 GPUs"], times["Meta RSC, jobs of 1,024 GPUs"]
    assert by_rate / measured == pytest.approx(3.65, abs=0.01)


def test_systems_known_at_second_hand_come_only_when_asked_for():
    first, all_of_them = clusters(), clusters(second_hand=True)
    assert "S" not in set(first["status"]) and set(first["system"]) < set(all_of_them["system"])
    assert first["stands"].str.contains("read in the source|quoted from the source").all()
    assert first["source"].ne("").all() and set(all_of_them["status"]) <= set(STATUS)


def test_each_system_with_a_time_says_what_it_counts():
    table = clusters(second_hand=True)
    known = table[table["mtbi_hours"].notna()]
    assert set(known["system"]) == set(COUNTED)
    assert (table.loc[table["reported"].notna(), "counts"] != "").all()
    assert table["reported"].dropna().between(0, 1).all()


def test_what_metas_rate_gives_at_each_published_size():
    """The projections are the rate's; what was measured is 3.2 and 3.7 times as often."""
    table = mttf_by_size(second_hand=True).set_index("gpus")
    assert table["ratio"].loc[[8, 1024]].tolist() == pytest.approx([3.225, 3.651], abs=0.001)
    projected = table[table["kind"] == "projected"]
    assert projected.index.tolist() == [16_384, 131_072] and (projected["ours"].round(2) == projected["theirs"]).all()
    assert mttf_by_size()["gpus"].tolist() == [8, 1024]  # the others are second hand


def test_times_are_told_in_minutes_and_counts_are_no_times():
    table = published("detection_restart_times", second_hand=True)
    minutes = in_minutes(table).set_index("what")["minutes"]
    assert minutes["NCCL collective timeout default, PyTorch >= 2.2"] == pytest.approx(10)
    assert minutes["Delta worst GSP reboot case"] == pytest.approx(23 * 60)
    assert "spares" not in set(in_minutes(table)["group"])
    found = ranges(table)
    assert found["figures"].sum() == len(minutes) and (np.diff(found[["least", "median", "most"]]) >= 0).all()


def test_a_cluster_that_counted_errors_and_no_job_is_none_of_the_jobs():
    jobs = counted_jobs(clusters(second_hand=True))
    assert "Lablup/SKT/Upstage cluster" not in set(jobs["system"]) and not jobs["system"].str.contains("Delta").any()
    assert jobs["nodes"].tolist()[:2] == [2048, 1200]
