"""How much memory does a run take? The peak of what Python and numpy hold, by rows of its log, in a child process."""

import pytest
from child import in_child

CASES = {
    "1 baseline run": {"kind": "baseline"},
    "20 baseline runs": {"kind": "baseline", "seeds": 20},
    "4,096 nodes, 256 days": {"kind": "large", "nodes": 4096},
}


@pytest.mark.parametrize("case", CASES)
def test_memory_by_row(bench, case):
    found = in_child(traced=True, **CASES[case])
    bench.figure(
        f"{case}: peak memory a row of log",
        found["traced_bytes"] / found["rows"],
        "bytes",
        at_most=400,
        note=f"{found['rows']:,} rows, {found['traced_bytes'] / 2**20:.1f} MiB",
    )
