"""The architecture holds: one direction of imports, SimPy in three modules, a silent package, files one can read."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "goodput"
# Each module imports only from those above it; `importers` and `figures` stand for their files.
LAYOUT = [
    "errors",
    "shell",
    "checkpoint",
    "outage",
    "parameters",
    "scenario_file",
    "parts",
    "scenario",
    "queueing",
    "assumptions",
    "streams",
    "events",
    "saves",
    "order",
    "walk",
    "mend",
    "lines",
    "line",
    "logfile",
    "logtext",
    "alarms",
    "incidents",
    "causes",
    "importers",
    "folder",
    "cluster",
    "training",
    "simulate",
    "attribution",
    "tally",
    "window",
    "metrics",
    "cycles",
    "lifetimes",
    "definitions",
    "cohorts",
    "repeats",
    "shop",
    "slo",
    "burn",
    "published",
    "kept",
    "store",
    "remote",
    "workers",
    "experiment",
    "beside",
    "envelope",
    "effective",
    "llama",
    "scale",
    "dials",
    "adaptive",
    "text",
    "study",
    "design",
    "sensitivity",
    "study_text",
    "episodes",
    "shelf",
    "evidence",
    "fitted",
    "fitted_pool",
    "fitted_stops",
    "calibrate",
    "fitted_file",
    "smoothing",
    "bootstrap",
    "changes",
    "truth",
    "replay",
    "digest",
    "analysis",
    "many_logs",
    "what_if",
    "drawing",
    "figures",
    "panel",
    "projector",
    "page",
    "runner",
    "sheet",
    "headline",
    "logpage",
    "report",
    "deck",
    "results",
    "summary",
    "options",
    "commands_fit",
    "commands_study",
    "cli",
]
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
by_name = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))


def place(path: Path) -> str:
    """Return the name that a file has in the layout."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    """Return all modules that a file imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def ours(tree: ast.AST) -> set[str]:
    """Return the names in the layout of what a file imports from this package."""
    return {name.split(".")[1] for name in imports(tree) if name.startswith("goodput.")} & set(LAYOUT)


def test_every_module_has_its_place_in_the_layout():
    assert {place(path) for path in FILES} <= set(LAYOUT)


@by_name
def test_a_module_imports_only_from_those_before_it(path):
    at = LAYOUT.index(place(path))
    later = {name for name in ours(TREES[path]) if LAYOUT.index(name) >= at}
    assert later - ({"importers", "figures"} & {place(path)}) == set()  # files of one folder may share


@by_name
def test_no_module_imports_relatively(path):
    """So that the test above sees every import."""
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(TREES[path]))


def test_only_cluster_training_and_simulate_know_simpy():
    users = {
        place(path) for path, tree in TREES.items() if any(name.split(".")[0] == "simpy" for name in imports(tree))
    }
    assert users == {"cluster", "training", "simulate"}


READING = {"events", "order", "walk", "mend", "lines", "line", "logfile", "logtext", "causes", "importers", "folder"}
ANALYSIS = READING | {
    "attribution",
    "saves",
    "tally",
    "window",
    "metrics",
    "cycles",
    "lifetimes",
    "definitions",
    "cohorts",
    "repeats",
    "shop",
    "slo",
    "burn",
    "digest",
    "analysis",
    "many_logs",
    "episodes",
    "shelf",
    "evidence",
}


@by_name
def test_the_analysis_knows_nothing_that_the_simulator_knows(path):
    """It reads the event log alone, so the same code measures a real job."""
    if place(path) in ANALYSIS:
        assert not ours(TREES[path]) & {"scenario", "streams", "cluster", "training", "simulate"}


@by_name
def test_the_package_never_prints_and_never_logs(path):
    """But for the command line, and the commands of the report, the deck and the results."""
    if place(path) in ("shell", "cli", "options", "commands_fit", "commands_study", "report", "deck", "results"):
        return
    called = {ast.unparse(node.func) for node in ast.walk(TREES[path]) if isinstance(node, ast.Call)}
    assert "print" not in called
    assert not attributes(TREES[path]) & {"sys.stdout", "sys.stderr"}
    assert not {name.split(".")[0] for name in imports(TREES[path])} & {"logging", "warnings"}


def attributes(tree: ast.AST) -> set[str]:
    """Return all attributes that a file speaks of, as `sys.stdout`."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_only_lines_reads_standard_input():
    assert {place(path) for path, tree in TREES.items() if "sys.stdin" in attributes(tree)} == {"lines"}


def test_the_random_generators_of_a_process_are_never_used():
    for path, tree in TREES.items():
        assert "random" not in imports(tree), path
        allowed = {"np.random", "np.random.Generator", "np.random.PCG64"}
        assert {name for name in attributes(tree) if name.startswith("np.random")} <= allowed, path


def loaded_by(code: str, *watched: str) -> list[str]:
    """Return which modules a fresh process has loaded after some code."""
    tell = f"import sys\n{code}\nsys.stderr.write(' '.join(sorted({set(watched)!r} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", tell], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stderr.split()


def test_the_command_line_starts_without_anything_heavy():
    """Each command loads what it needs; `goodput --help` needs nothing of the kind."""
    heavy = ("pandas", "numpy", "scipy", "scipy.stats", "matplotlib", "simpy", "joblib", "pyarrow", "pydantic")
    assert loaded_by("import goodput.cli", *heavy) == []


def test_analyzing_a_log_never_loads_what_draws_a_page():
    code = """
from goodput import cli
sys.argv = ["goodput", "analyze", "data/logs/every_event.jsonl"]
try:
    cli.main()
except SystemExit:
    pass"""
    assert loaded_by(code, "pandas", "matplotlib", "jinja2", "nbconvert", "goodput.logpage") == ["pandas"]


def test_comparing_scenarios_never_loads_what_draws_or_doubles_its_start():
    code = """
from goodput import cli
sys.argv = ["goodput", "compare", "baseline", "--seeds", "1", "--set", "days=1"]
try:
    cli.main()
except SystemExit:
    pass"""
    # pandas is there to show that the command ran
    assert loaded_by(code, "pandas", "scipy.stats", "matplotlib", "IPython", "papermill") == ["pandas"]


@by_name
def test_a_module_opens_with_what_it_is_for(path):
    first = (ast.get_docstring(TREES[path]) or "").splitlines()
    assert first and first[0].strip()


@by_name
def test_what_is_public_says_what_it_returns(path):
    """Functions, classes and their public methods; a docstring opens with one whole sentence."""
    bare = []
    for node in _public(TREES[path]):
        text = ast.get_docstring(node) or ""
        if not text.split("\n\n")[0].rstrip().endswith((".", ":", "?")):
            bare.append(node.name)
    assert bare == []


def _public(tree: ast.AST):
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


@by_name
def test_no_file_is_longer_than_can_be_held_in_the_head(path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


@by_name
def test_no_module_is_a_drawer_for_the_rest(path):
    assert path.stem not in ("utils", "util", "helpers", "core", "common", "misc")


@by_name
def test_no_exception_is_swallowed_whole(path):
    """A bare `except`, or `except Exception` that does not raise again, hides faults of ours."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            again = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert again or caught not in ("everything", "Exception", "BaseException")
