"""What does a line of a log cost, to read and to attribute? A log of half a million lines."""

import pyarrow.json
import pytest
from worlds import saves_every

from goodput.attribution import ledger, spans
from goodput.logfile import read_log
from goodput.logtext import write_log
from goodput.simulate import simulate_many

RUNS = 7
ONE_THREAD = pyarrow.json.ReadOptions(use_threads=False)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "log.jsonl"
    write_log(simulate_many(saves_every(1), range(1, RUNS + 1)), path)
    return path


def test_attribution_against_reading(bench, path):
    log, _ = read_log(path)

    def attribute():
        ledger(spans(log), ["job", "category"])

    def parse():
        pyarrow.json.read_json(path, ONE_THREAD)

    note = f"{len(log):,} lines, {path.stat().st_size / 1e6:.0f} MB"
    bench.ratio("attribution / reading the bytes of the log", attribute, path.read_bytes, note=note)
    bench.ratio("attribution / pyarrow.json.read_json of the log", attribute, parse, at_most=1)
    bench.ratio("read_log / pyarrow.json.read_json of the log", lambda: read_log(path), parse, at_most=4)
