"""The benchmarks share one table: printed when all are done, and written to build/bench.md."""

import pytest
from measure import Bench

BENCH = pytest.StashKey[Bench]()


def pytest_configure(config):
    config.stash[BENCH] = Bench()


@pytest.fixture
def bench(pytestconfig) -> Bench:
    """The table that lines are added to."""
    return pytestconfig.stash[BENCH]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a benchmark after its last line, so that one that does not hold hides none behind it."""
    lines = item.config.stash[BENCH].lines
    before = len(lines)
    result = yield
    broken = [f"{line.name}: {line.value:.3g}, at most {line.at_most:g}" for line in lines[before:] if not line.holds]
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter, config):
    bench = config.stash[BENCH]
    if not bench.lines:
        return
    page = config.rootpath / "build" / "bench.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(bench.page(), encoding="utf-8")
    terminalreporter.section("bench")
    terminalreporter.write_line(bench.table("simple"))
    if bench.missing():
        terminalreporter.write_line(f"not measured: {'; '.join(bench.missing())}")
    terminalreporter.write_line(f"also in {page.relative_to(config.rootpath)}")
