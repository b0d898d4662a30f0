"""The sample logs in `data/logs`, against the answers that `data/README.md` works out by hand."""

from pathlib import Path

import pytest

from goodput.attribution import interruptions, ledger, spans
from goodput.events import EVENTS
from goodput.importers.resiliency import read_resiliency
from goodput.logfile import mended, read_log
from goodput.metrics import per_job, reference_steps

LOGS = Path(__file__).parents[1] / "data" / "logs"
README = (LOGS.parent / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def native():
    return read_log(LOGS / "every_event.jsonl")


def test_the_native_sample_has_every_event_and_is_clean(native):
    log, findings = native
    assert set(log["event"]) == set(EVENTS) - {"pause", "resume", "gap"}
    assert findings == []


def test_the_native_sample_adds_up_to_the_ledger_worked_out_by_hand(native):
    minutes = ledger(spans(native[0])) * 60
    by_hand = {
        "productive": (60 + 60 + 60) * 16,
        "checkpoint": (5 + 1) * 16 + 3 * 8,
        "lost_work": (30 + 60) * 16 + (40 + 60) * 8,
        "detection": 3 * 16 + 1 * 8,
        "waiting": 30 * 16 + (3 + 4) * 8,
        "restart": (10 + 20 + 10) * 16,
        "unattributed": (20 + 10) * 8,
    }
    assert minutes.to_dict() == pytest.approx(by_hand, rel=1e-12)


def test_the_table_in_the_readme_lists_the_spans_of_the_native_sample(native):
    table = README.partition("| from | to |")[2].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    ours = [
        [f"{s.start:%H:%M}", f"{s.end:%H:%M}", f"{s.gpu_hours:.3f}", s.category, s.cause if s.cause == s.cause else ""]
        for s in spans(native[0]).itertuples()
    ]
    assert ours == [[row[0], row[1], row[3], row[4], row[5]] for row in rows]


def test_three_of_the_four_interruptions_are_failures_and_two_name_a_node(native):
    log = native[0]
    job = per_job(spans(log), interruptions(log)).iloc[0]
    assert (job["interruptions"], job["failures"], job["node_failures"]) == (4, 3, 2)


def test_the_resiliency_sample_leaves_its_holes_unattributed():
    """2 nodes x 8 GPUs, 50 minutes.

    00:00 launched, 00:02 loaded step 0; saved at 00:12 and 00:22; a new start at 00:30: the fault lies between 00:22
    and 00:30. The start of 00:30 loads nothing (failed restart), that of 00:34 loads step 120 at 00:36; saved at
    00:46; terminated at 00:50. Productive 20 + 10, unattributed 8 + 4, restart 2 (first) + 6 minutes. Kept steps 180.
    """
    path = LOGS / "resiliency_sample.jsonl"
    log, findings = mended([read_resiliency(path)], str(path), gpus_per_node=8)
    parts = spans(log)
    minutes = (ledger(parts) * 60 / 16).round(9)
    assert minutes[minutes > 0].to_dict() == {"productive": 30, "restart": 8, "unattributed": 12}
    assert ledger(parts, "cause").round(9).to_dict() == {"not_logged": 4.8, "first_start": round(2 * 16 / 60, 9)}
    assert reference_steps(log, parts, step_seconds=8) == (180, 180 * 8 / 3000)
    assert "failed-restarts" in {finding.code for finding in findings}
