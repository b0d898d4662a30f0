"""Notebooks that nobody watches: what goes wrong ends in time, in one line with the cell; run again it is the same."""

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from goodput.errors import BadInput, RunFailed
from goodput.runner import Limits, run_notebook

ROOT = Path(__file__).parents[1]


def write(path: Path, *cells, kernel: str = "python3") -> Path:
    """Write a notebook of code cells; a pair is a source with its tag."""
    made = [
        new_code_cell(cell) if isinstance(cell, str) else new_code_cell(cell[0], metadata={"tags": [cell[1]]})
        for cell in cells
    ]
    spec = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
    nbformat.write(new_notebook(cells=made, metadata=spec), path)
    return path


def command(*arguments: str, cwd: Path = ROOT, **settings) -> subprocess.CompletedProcess:
    """Run `python -m goodput.report` with arguments, as `make` does."""
    line = [sys.executable, "-m", "goodput.report", *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env=os.environ | settings, timeout=300)


def said(done: subprocess.CompletedProcess) -> str:
    """Return the one line that a refused command says."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("goodput: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr
    return lines[0]


def test_a_parameter_for_a_notebook_without_a_parameters_cell_is_refused_and_not_lost(tmp_path):
    notebook = write(tmp_path / "E01.ipynb", "spares = 2", "print('spares', spares)")
    done = command("notebook", notebook, "spares=9", "--out", tmp_path / "out")
    assert done.returncode == 2 and "spares=9 must be left out" in said(done)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("pair", "rule"),
    [
        ("sedes=5", "sedes=5 must be one of: scenarios, overrides, example, seeds, many_seeds"),
        ("seeds=ten", "30_the_seven_scenarios.ipynb: seeds='ten' must be a whole number"),
        ("scenarios=[baseline, no-such]", "scenario: 'no-such' must be a file or known"),
    ],
)
def test_a_misspelt_or_ill_typed_parameter_and_a_scenario_that_does_not_exist_end_in_one_line(tmp_path, pair, rule):
    done = command("notebook", "30", pair, "--out", tmp_path)
    assert done.returncode != 0 and rule in said(done)
    assert not [path for path in tmp_path.rglob("*.ipynb") if not path.name.endswith(".failed.ipynb")]


def test_a_kernel_that_dies_ends_the_run_soon_with_the_number_of_its_cell(tmp_path):
    notebook = write(tmp_path / "E04.ipynb", "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)")
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"cell \[2\]: DeadKernelError"):
        run_notebook(notebook, tmp_path / "out.ipynb")
    assert time.monotonic() - began < 120
    assert [path.name for path in tmp_path.glob("out*")] == ["out.failed.ipynb"]


def test_a_run_that_is_too_long_in_all_is_ended_though_no_cell_is(tmp_path):
    notebook = write(tmp_path / "slow.ipynb", *["import time; time.sleep(2)"] * 9)
    with pytest.raises(RunFailed, match=r"cell \[\d\]: CellTimeoutError"):
        run_notebook(notebook, tmp_path / "out.ipynb", limits=Limits(cell=60, run=3))


def test_a_notebook_that_remembers_another_kernel_runs_on_this_one(tmp_path):
    done = run_notebook(write(tmp_path / "E05.ipynb", "print(1)", kernel="conda-env-old-py"), tmp_path / "out.ipynb")
    assert nbformat.read(done, 4).cells[0].outputs[0].text == "1\n"


def test_an_output_run_again_holds_one_cell_of_parameters_with_the_second_values(tmp_path):
    notebook = write(tmp_path / "E11.ipynb", ("spares: int = 2", "parameters"), "print(spares)")
    first = run_notebook(notebook, tmp_path / "first.ipynb", {"spares": 4})
    second = run_notebook(first, tmp_path / "second.ipynb", {"spares": 9})
    cells = nbformat.read(second, 4).cells
    injected = [cell.source for cell in cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert injected == ["# Parameters\nspares = 9\n"] and cells[-1].outputs[0].text == "9\n"


def test_an_output_run_again_in_its_place_gives_the_same_result(tmp_path):
    notebook = write(tmp_path / "once.ipynb", ("spares: int = 2", "parameters"), "print(spares)")
    out = run_notebook(notebook, tmp_path / "out.ipynb", {"spares": 4})
    sources = [cell.source for cell in nbformat.read(out, 4).cells]
    run_notebook(out, out)
    again = nbformat.read(out, 4).cells
    assert [cell.source for cell in again] == sources and again[-1].outputs[0].text == "4\n"


def test_a_failed_run_that_is_mended_and_run_again_carries_no_old_error(tmp_path):
    notebook = write(tmp_path / "once.ipynb", ("share: float = 0.0", "parameters"), "print(1 / share)")
    with pytest.raises(RunFailed):
        run_notebook(notebook, tmp_path / "out.ipynb")
    done = run_notebook(tmp_path / "out.failed.ipynb", tmp_path / "out.ipynb", {"share": 0.5})
    cells = nbformat.read(done, 4).cells
    assert not any("This run failed" in cell.source or "Exception" in cell.source for cell in cells)


def test_the_command_names_the_output_by_its_parameters(tmp_path):
    notebook = write(tmp_path / "once.ipynb", ("overrides: dict = {}", "parameters"), "print(overrides)")
    done = command("notebook", notebook, "overrides={pool.spares: 8}", "--out", tmp_path / "out")
    out = tmp_path / "out" / "notebooks" / "once__overrides=pool.spares-8.ipynb"
    assert done.returncode == 0 and str(out) in done.stdout
    assert nbformat.read(out, 4).cells[-1].outputs[0].text == "{'pool.spares': 8}\n"


AS_OTHER = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
HOMELESS = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def as_other(*arguments, **settings) -> subprocess.CompletedProcess:
    """Run a module as another user, who may not write this checkout and whose home does not exist."""
    line = [*AS_OTHER, *map(str, arguments)]
    return subprocess.run(line, cwd="/", capture_output=True, text=True, env=HOMELESS | settings, timeout=300)


def needs_another_user() -> None:
    """Skip where nobody else can be."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")


@pytest.fixture
def shared():
    """A folder that everybody may write."""
    with tempfile.TemporaryDirectory(prefix="goodput-") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def test_another_user_runs_a_notebook_where_told_and_is_told_where_that_cannot_be(shared):
    """As in a container with --user 12345."""
    needs_another_user()
    starts_itself = "import papermill, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    if as_other(sys.executable, "-c", starts_itself).returncode:
        pytest.skip("this Python lies where no other user may run it")
    source = write(shared / "once.ipynb", ("spares: int = 2", "parameters"), "import matplotlib; print(spares)")
    line = [sys.executable, "-m", "goodput.report", "notebook", source, "spares=3"]
    done = as_other(*line, "--out", shared)
    assert done.returncode == 0, done.stderr
    made = list((shared / "notebooks").iterdir())
    assert [path.name for path in made] == ["once__spares=3.ipynb"] and {path.stat().st_uid for path in made} == {12345}
    refused = as_other(*line)
    assert refused.returncode == 2 and "folder must be writable" in said(refused)


def test_another_user_writes_a_report_where_told_and_nothing_anywhere_else(shared):
    """The same packages, run by this machine's own Python where ours lies in a folder that is closed to others."""
    needs_another_user()
    own, packages = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}", sysconfig.get_path("purelib")
    settings = {"PYTHONPATH": f"{packages}:{ROOT}"}
    python = next(
        (
            name
            for name in (sys.executable, own)
            if not as_other(name, "-c", "import pandas, goodput", **settings).returncode
        ),
        None,
    )
    if python is None:
        pytest.skip("no Python of this version that another user may run")
    log = ROOT / "data/logs/every_event.jsonl"
    done = as_other(python, "-m", "goodput", "report", log, "-o", shared / "log.html", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(path.name, path.stat().st_uid) for path in shared.iterdir()] == [("log.html", 12345)]
    refused = as_other(python, "-m", "goodput", "report", log, "-o", ROOT / "log.html", **settings)
    assert refused.returncode == 2 and "file must be writable" in said(refused) and not (ROOT / "log.html").exists()


@pytest.mark.parametrize("text", ["", "no notebook", "[1]", "{}"])
def test_what_is_no_notebook_is_refused_in_one_line_and_leaves_nothing(tmp_path, text):
    path = tmp_path / "E99.ipynb"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"^E99.ipynb: must be a notebook that can be run: [^\n]+$"):
        run_notebook(path, tmp_path / "out" / "E99.ipynb")
    assert not (tmp_path / "out").exists()


def test_a_notebook_that_names_no_kernel_is_refused_a_parameter_in_one_line(tmp_path):
    path = write(tmp_path / "E98.ipynb", ("seeds: int = 1", "parameters"))
    notebook = nbformat.read(path, as_version=4)
    del notebook.metadata["kernelspec"]
    nbformat.write(notebook, path)
    with pytest.raises(BadInput, match=r"^E98.ipynb: must be a notebook that can be run: No kernel name"):
        run_notebook(path, tmp_path / "out" / "E98.ipynb", {"seeds": 2})
