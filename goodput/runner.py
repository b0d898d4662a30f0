"""Run one notebook with nobody watching: its own settings, its parameters, a limit of time, and what failed on top.

Like a night shift: it does the work as written down, stops what takes too long, and leaves a note where it stopped.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import nbformat
import papermill
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from papermill.execute import ERROR_MARKER_TAG

from goodput.errors import BadInput, RunFailed
from goodput.parameters import check_name, check_types, plain_type

# What a shell may carry that changes a result: a backend without inline figures, a style, another kernel.
FOREIGN_SETTINGS = ("MPLBACKEND", "MATPLOTLIBRC", "JUPYTER_PATH", "PYTHONPATH", "PYTHONHOME")

# A fixed salt and no date: the same figure gives the same bytes.
PROFILE = """\
c = get_config()
c.IPKernelApp.log_level = 50
c.HistoryManager.enabled = False
c.InlineBackend.figure_formats = {{"{figure_format}"}}
c.InlineBackend.print_figure_kwargs = {{"bbox_inches": "tight", "metadata": {{"Date": None}}}}
c.InlineBackend.rc = {{"figure.dpi": 100, "svg.hashsalt": "goodput", "svg.fonttype": "none", "figure.hooks": {hooks}}}
"""


class Limits(NamedTuple):
    """How many seconds a kernel may take to start, a cell to run, and a notebook in all."""

    start: int = 120
    cell: int = 600
    run: int = 1200


LIMITS = Limits()


def check_parameters(path: Path, parameters: dict | None) -> None:
    """Refuse what is no notebook, and a parameter that it does not declare; papermill would only warn of that."""
    try:
        nbformat.validate(nbformat.read(path, as_version=4))
        known = papermill.inspect_notebook(path) if parameters else {}
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path.name}: must be a notebook that can be run: {said[:200]}") from None
    if not parameters:
        return
    for name, value in parameters.items():
        check_name(name, value, list(known), path.name)
    check_types({name: plain_type(known[name]["inferred_type_name"]) for name in parameters}, parameters, path.name)


def run_notebook(
    path: Path,
    out: Path,
    parameters: dict | None = None,
    figure_format: str = "svg",
    limits: Limits = LIMITS,
    cwd: Path | None = None,
    figure_hooks: Sequence[str] = (),
) -> Path:
    """Return `out`, the notebook at `path` run in its own folder (or in `cwd`), with its outputs.

    `figure_hooks` are functions, as `module:function`, to which matplotlib hands each new figure.
    A failed run leaves only `NAME.failed.ipynb` beside `out`, the error at its top, and raises `RunFailed`. Raises
    BadInput for a parameter that the notebook does not declare, and for a folder that cannot be written.
    """
    path, out = Path(path).resolve(), Path(out).resolve()
    check_parameters(path, parameters)
    with _beside(out) as folder:
        aside, failed = folder / out.name, out.with_suffix(".failed.ipynb")
        if failed != path:
            failed.unlink(missing_ok=True)
        try:
            _execute(path, aside, parameters, kernel_settings(figure_format, figure_hooks), limits, cwd or path.parent)
        except Exception as error:
            notebook = nbformat.read(aside if aside.exists() else path, as_version=4)
            said = _what_failed(error, notebook)
            _keep_failed(notebook, failed, said)
            if out != path:
                out.unlink(missing_ok=True)
            raise RunFailed(f"{path.name}: {said} (see {failed})") from error
        aside.replace(out)
    return out


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".running-", dir=out.parent)
    except OSError as error:
        raise BadInput(
            f"{out.parent}: folder must be writable: {error.strerror} (make OUT=FOLDER, or --out, names another)"
        ) from None
    with folder as name:
        yield Path(name)


def _execute(path: Path, out: Path, parameters, settings, limits: Limits, cwd: Path) -> None:
    deadline = time.monotonic() + limits.run
    with settings:
        papermill.execute_notebook(
            path,
            out,
            parameters,
            kernel_name="python3",
            cwd=cwd,
            progress_bar=False,
            start_timeout=limits.start,
            # A limit of zero would mean none.
            timeout_func=lambda cell: max(1, min(limits.cell, deadline - time.monotonic())),
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
        # A home that cannot be written, as in a container of another user, is no reason to fail.
        os.environ.update(
            IPYTHONDIR=folder, JUPYTER_RUNTIME_DIR=f"{folder}/runtime", PYDEVD_DISABLE_FILE_VALIDATION="1"
        )
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _what_failed(error: Exception, notebook: NotebookNode) -> str:
    if isinstance(error, PapermillExecutionError):
        said = error.evalue.splitlines() or [""]
        return f"cell [{error.exec_count}] raised {error.ename}: {said[0]}"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    begun = [at for at, cell in enumerate(code, 1) if cell.metadata.get("papermill", {}).get("start_time")]
    where = f"cell [{begun[-1]}]: " if begun else ""
    return f"{where}{type(error).__name__}: {str(error).splitlines()[0]}"


def _keep_failed(notebook: NotebookNode, failed: Path, message: str) -> None:
    top = nbformat.v4.new_markdown_cell(f"**This run failed:** `{message}`")
    top.metadata["tags"] = [ERROR_MARKER_TAG]  # papermill takes it away where the notebook is run again
    notebook.cells.insert(0, top)
    nbformat.write(notebook, failed)
