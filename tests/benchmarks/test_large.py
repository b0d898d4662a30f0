"""How far does it reach? Long and large runs, each in a process of its own: figures of this machine."""

from statistics import median

import pytest
from child import in_child

A_MINUTE = 1_048_576 / 60  # node MTBF in hours at which a million nodes fail once a minute
YEAR = 365


def said(found: dict) -> str:
    return f"{found['failures']:,} failures, {found['rows']:,} rows, {median(found['seconds']):.2f} s"


def a_failure_us(found: dict) -> list[float]:
    return [1e6 * took / found["failures"] for took in found["seconds"]]


@pytest.mark.parametrize("nodes", [4096, 16_384])
def test_long_and_large(bench, nodes):
    found = in_child("large", nodes=nodes, rounds=7)
    events = [took / bare / 1e6 for took, bare in zip(a_failure_us(found), found["bare_seconds"], strict=True)]
    bench.found(f"{nodes:,} nodes, 256 days, apart: a failure / a bare SimPy event", events, "times", at_most=40)
    bench.found(f"{nodes:,} nodes, 256 days, apart: CPU a failure", a_failure_us(found), "us", note=said(found))
    bench.figure(f"{nodes:,} nodes, 256 days, apart: peak memory", found["peak_mib"], "MiB", note=imports(found))


def imports(found: dict) -> str:
    return f"{found['before_mib']:.0f} with imports alone"


@pytest.mark.parametrize(
    ("case", "scenario"),
    [
        ("1,048,576 nodes, 28 days, a failure a minute", {"nodes": 1_048_576, "days": 28, "mtbf_hours": A_MINUTE}),
        ("131,072 nodes, a year", {"nodes": 131_072, "days": YEAR}),
    ],
)
@pytest.mark.parametrize(("clock", "strike"), [("running clock", "running"), ("wall clock", "always")])
def test_a_million(bench, case, scenario, clock, strike):
    found = in_child("large", strike=strike, **scenario)
    bench.found(f"{case}, {clock}: CPU a failure", a_failure_us(found), "us", note=said(found))
    bench.figure(f"{case}, {clock}: peak memory", found["peak_mib"], "MiB", note=imports(found))
