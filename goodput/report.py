"""Run notebooks, make the pages: each notebook headless through papermill, all of them as one HTML file.

Like a night shift: it runs every notebook with nobody watching, sets aside what failed with the error on top,
and leaves one report on the desk.
"""

import contextlib
import faulthandler
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import nbformat
import papermill
import typer
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from goodput.errors import BadInput
from goodput.page import write_report
from goodput.parameters import check_name

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"

START_SECONDS = 120
CELL_SECONDS = 600
RUN_SECONDS = 1200

# What a shell may carry that changes a result: a backend without inline figures, a style, another kernel.
FOREIGN_SETTINGS = ("MPLBACKEND", "MATPLOTLIBRC", "JUPYTER_PATH", "PYTHONPATH", "PYTHONHOME")

# A fixed salt and no date: the same figure gives the same bytes.
PROFILE = """\
c = get_config()
c.IPKernelApp.log_level = 40
c.HistoryManager.enabled = False
c.InlineBackend.figure_formats = {{"{figure_format}"}}
c.InlineBackend.print_figure_kwargs = {{"bbox_inches": "tight", "metadata": {{"Date": None}}}}
c.InlineBackend.rc = {{"figure.dpi": 100, "svg.hashsalt": "goodput", "svg.fonttype": "none", "figure.hooks": {hooks}}}
"""

VOLATILE_CELL_KEYS = ("papermill", "execution", "ExecuteTime", "trusted", "collapsed", "scrolled")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class RunFailed(RuntimeError):
    """A notebook that did not run to its end; its text is one line: which, what happened, where to look."""


def find_notebooks(names: list[str] | None = None, folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of `folder` in order, or those that `names` mean: `07`, `07_spares` or a path."""
    known = sorted(folder.glob("*.ipynb"))
    if not known:
        raise BadInput(f"{folder.name}: must hold at least one notebook")
    return [_find_one(name, known) for name in names] if names else known


def _find_one(name: str, known: list[Path]) -> Path:
    stem = Path(name).name.removesuffix(".ipynb")
    for path in known:
        if path.stem == stem or path.stem.startswith(f"{stem}_"):
            return path
    raise BadInput(f"notebooks: name={name!r} must be one of: {', '.join(path.stem for path in known)}")


def parameter_names(path: Path) -> list[str]:
    """Return the names that the notebook's cell tagged `parameters` declares."""
    return list(papermill.inspect_notebook(path))


def check_parameters(path: Path, parameters: dict | None) -> None:
    """Refuse a parameter that the notebook does not declare; papermill would only warn and run without it."""
    if not parameters:
        return
    known = parameter_names(path)
    for name, value in parameters.items():
        check_name(name, value, known, path.name)


def run_notebook(
    path: Path,
    out: Path,
    parameters: dict | None = None,
    figure_format: str = "svg",
    figure_hooks: Sequence[str] = (),
) -> Path:
    """Return `out`, the notebook at `path` run in its own folder, with its outputs.

    `figure_hooks` are functions, as `module:function`, to which matplotlib hands each new figure.
    A failed run leaves only `NAME.failed.ipynb` beside `out`, the error at its top, and raises `RunFailed`.
    """
    path, out = Path(path).resolve(), Path(out).resolve()
    check_parameters(path, parameters)
    out.parent.mkdir(parents=True, exist_ok=True)
    failed = out.with_suffix(".failed.ipynb")
    for stale in (out, failed):
        stale.unlink(missing_ok=True)
    with TemporaryDirectory(prefix=".running-", dir=out.parent) as folder:
        aside = Path(folder) / out.name
        try:
            _execute(path, aside, parameters, kernel_settings(figure_format, figure_hooks))
        except Exception as error:
            _keep_failed(aside if aside.exists() else path, failed, _one_line(error))
            raise RunFailed(f"{path.name}: {_one_line(error)} (see {failed})") from error
        aside.replace(out)
    return out


def _execute(path: Path, out: Path, parameters: dict | None, settings: contextlib.AbstractContextManager) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    with settings:
        papermill.execute_notebook(
            path,
            out,
            parameters,
            kernel_name="python3",
            cwd=path.parent,
            progress_bar=False,
            start_timeout=START_SECONDS,
            # A limit of zero would mean none.
            timeout_func=lambda cell: max(1, min(CELL_SECONDS, deadline - time.monotonic())),
            # Streams come in pieces whose number depends on timing; merged, they are the same in every run.
            coalesce_streams=True,
        )


@contextlib.contextmanager
def kernel_settings(figure_format: str, hooks: Sequence[str] = ()) -> Iterator[None]:
    """Let kernels started inside draw figures in `figure_format`, untouched by the caller's own settings."""
    before = dict(os.environ)
    with TemporaryDirectory(prefix="goodput-ipython-") as folder:
        profile = Path(folder) / "profile_default"
        profile.mkdir()
        (profile / "ipython_kernel_config.py").write_text(
            PROFILE.format(figure_format=figure_format, hooks=list(hooks))
        )
        for name in FOREIGN_SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(IPYTHONDIR=folder, PYDEVD_DISABLE_FILE_VALIDATION="1")
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _one_line(error: Exception) -> str:
    if isinstance(error, PapermillExecutionError):
        return f"cell [{error.exec_count}] raised {error.ename}: {error.evalue}".splitlines()[0]
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _keep_failed(source: Path, failed: Path, message: str) -> None:
    notebook = nbformat.read(source, as_version=4)
    top = nbformat.v4.new_markdown_cell(f"**This run failed:** `{message}`")
    notebook.cells.insert(0, top)
    nbformat.write(notebook, failed)


def write_committed(path: Path) -> None:
    """Run the notebook at `path` and write it back with PNG outputs, byte-identical from run to run."""
    path = Path(path).resolve()
    done = run_notebook(path, BUILD / "committed" / path.name, figure_format="png")
    notebook = drop_volatile(nbformat.read(done, as_version=4))
    nbformat.write(notebook, done)
    done.replace(path)


def drop_volatile(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without what changes from run to run or from machine to machine; cell ids stay."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        _clean_cell(cell)
    return notebook


def _clean_cell(cell: NotebookNode) -> None:
    for key in VOLATILE_CELL_KEYS:
        cell.metadata.pop(key, None)
    if not cell.metadata.get("tags", True):  # papermill gives every cell an empty list
        del cell.metadata["tags"]
    for output in cell.get("outputs", []):
        # A widget's id is drawn anew in each run, and without the live kernel nothing can show it.
        output.get("data", {}).pop(WIDGET_VIEW, None)


app = typer.Typer(add_completion=False, no_args_is_help=True, help=(__doc__ or "").splitlines()[0])
Names = Annotated[list[str] | None, typer.Argument(help="Notebooks, as 07 or 07_spares; all when left out.")]


@app.command()
def run(names: Names = None) -> None:
    """Run notebooks into build/notebooks/ and write build/report.html."""
    done = []
    for path in find_notebooks(names):
        with announced(path):
            done.append(run_notebook(path, BUILD / "notebooks" / path.name))
    report = write_report(done, BUILD / "report.html")
    typer.echo(f"{report.relative_to(ROOT)}  {report.stat().st_size / 1e6:.1f} MB")


@app.command()
def notebooks(names: Names = None) -> None:
    """Run the committed notebooks and store their outputs in place."""
    for path in find_notebooks(names):
        with announced(path):
            write_committed(path)


@contextlib.contextmanager
def announced(path: Path) -> Iterator[None]:
    """Say when the work on a notebook is done and how long it took, and end it if it never is."""
    # A kernel can hang where no limit of a cell reaches it: then the process ends, and says where it stood.
    faulthandler.dump_traceback_later(START_SECONDS + RUN_SECONDS + 60, exit=True)
    began = time.monotonic()
    yield
    faulthandler.cancel_dump_traceback_later()
    typer.echo(f"{path.relative_to(ROOT)}  {time.monotonic() - began:.1f} s")


def main() -> None:
    """Run the command line of this module; an error is one line and exit code 1."""
    try:
        app()
    except (BadInput, RunFailed) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
