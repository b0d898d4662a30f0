"""The bench says what it measures: benchmarks.md and the benchmarks name the same lines, and a missed aim is seen."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "benchmarks"
SPEC = importlib.util.spec_from_file_location("measure", FOLDER / "measure.py")
measure = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measure)

MEANINGS = {
    row.split("`")[1]: row.split("|")[3].strip()
    for row in measure.MEANINGS.read_text("utf-8").splitlines()
    if "| `" in row
}


def calls() -> Iterator[ast.Call]:
    """Yield the calls in the benchmarks that add a line."""
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("bench.ratio", "bench.figure", "bench.found"):
                yield node


def name_of(call: ast.Call) -> str:
    """Return the name that a call gives to its line, with `{name}` for what is filled in.

    >>> name_of(ast.parse('bench.ratio(f"{nodes:,} nodes", ours)').body[0].value)
    '{nodes} nodes'
    """
    parts = getattr(call.args[0], "values", [call.args[0]])
    return "".join(
        part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}" for part in parts
    )


def test_each_line_is_explained_and_each_explanation_has_its_line():
    filled = {name_of(call) for call in calls()}
    explained = measure.names()
    assert len(explained) == len(set(explained))
    assert [name for name in filled if name not in explained and not fills(name, explained)] == []
    assert [name for name in explained if name not in filled and not fills(name, filled)] == []


def fills(name: str, others) -> bool:
    """Return whether a name that has braces covers one of the others, or is covered."""
    return any(measure.matches(other, name) or measure.matches(name, other) for other in others)


def test_an_aim_is_the_one_that_is_explained():
    aims = {name_of(call): word.value for call in calls() for word in call.keywords if word.arg == "at_most"}
    told = {name: float(why.split()[2].rstrip(":.,;")) for name, why in MEANINGS.items() if why.startswith("at most")}
    assert {name: float(ast.literal_eval(aim)) for name, aim in aims.items()} == told


@pytest.fixture
def bench():
    bench = measure.Bench()
    bench.known = ["{nodes} nodes", "one run"]
    return bench


def test_a_ratio_is_the_median_of_rounds_in_turn(bench, monkeypatch):
    """Ours 2, 4, 9 and the other 1, 1, 3: ratios 2, 4, 3; by 2 units of ours and 1 of the other 1, 2, 1.5."""
    took = iter([2, 1, 4, 1, 9, 3])
    monkeypatch.setattr(measure, "seconds", lambda work: next(took))
    work = [].copy
    assert bench.ratio("one run", work, work, per=(2, 1), rounds=3) == 1.5
    assert (bench.lines[0].low, bench.lines[0].high) == (1, 2)


def test_an_aim_is_missed_above_it_and_not_at_it(bench):
    bench.figure("one run", 3, "bytes", at_most=3)
    bench.figure("8 nodes", 3, "bytes", at_most=2.9)
    assert [line.holds for line in bench.lines] == [True, False]
    assert [row.split("|")[7].strip() for row in bench.table("github").splitlines()[2:]] == ["NO", "yes"]


def test_a_line_that_nobody_explains_is_refused(bench):
    with pytest.raises(LookupError, match=r"benchmarks\.md must say"):
        bench.figure("one month", 1, "bytes")


def test_the_table_follows_the_page_and_says_what_is_missing(bench):
    bench.figure("one run", 1, "bytes")
    assert bench.missing() == ["{nodes} nodes"]
    bench.figure("16 nodes", 2, "bytes")
    bench.figure("8 nodes", 3, "bytes")
    rows = bench.table("github").splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["16 nodes", "8 nodes", "one run"]


def test_work_in_children_counts():
    """A child that counts to some millions takes longer than one that does nothing."""
    import subprocess
    import sys

    def child(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    assert measure.seconds(child("sum(range(20_000_000))")) > 2 * measure.seconds(child("pass"))
