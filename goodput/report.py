"""Run notebooks, make the pages: each notebook headless, all of them as one HTML file; also the committed ones."""

import contextlib
import faulthandler
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from nbformat import NotebookNode

from goodput.errors import BadInput
from goodput.page import WIDGET_VIEW, write_report
from goodput.parameters import name_of_run, parse_parameters
from goodput.runner import LIMITS, Limits, run_notebook
from goodput.shell import run_app

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"


VOLATILE_CELL_KEYS = ("papermill", "execution", "ExecuteTime", "trusted", "collapsed", "scrolled")


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
Out = Annotated[Path | None, typer.Option(help="Where to write; else build/.")]


@app.command()
def run(names: Names = None, out: Out = None) -> None:
    """Run notebooks into build/notebooks/ and write build/report.html."""
    folder = out or BUILD
    done = []
    for path in find_notebooks(names):
        with announced(path.name):
            done.append(run_notebook(path, folder / "notebooks" / path.name))
    report = write_report(done, folder / "report.html")
    typer.echo(f"{short(report)}  {report.stat().st_size / 1e6:.1f} MB")


@app.command()
def notebook(
    name: Annotated[str, typer.Argument(help="A notebook, as 07 or 07_spares; or the path of one, as of an output.")],
    pairs: Annotated[list[str] | None, typer.Argument(help="Parameters, name=value; values read as YAML.")] = None,
    out: Out = None,
    start_seconds: Annotated[int, typer.Option(min=1, help="Limit for a kernel to start.")] = LIMITS.start,
    cell_seconds: Annotated[int, typer.Option(min=1, help="Limit of a cell.")] = LIMITS.cell,
    run_seconds: Annotated[int, typer.Option(min=1, help="Limit of the notebook.")] = LIMITS.run,
) -> None:
    """Run one notebook with parameters into build/notebooks/, the parameters in its name."""
    parameters, limits = parse_parameters(pairs or []), Limits(start_seconds, cell_seconds, run_seconds)
    path = Path(name) if Path(name).is_file() else find_notebooks([name])[0]
    target = (out or BUILD) / "notebooks" / f"{name_of_run(path.stem, parameters)}.ipynb"
    # An output that is run again finds its files where the notebook did.
    home = NOTEBOOKS if (NOTEBOOKS / f"{path.stem.split('__')[0]}.ipynb").is_file() else path.parent
    with announced(path.name, limits):
        run_notebook(path, target, parameters, "png", limits, home)
    typer.echo(short(target))


@app.command()
def notebooks(names: Names = None) -> None:
    """Run the committed notebooks and store their outputs in place."""
    for path in find_notebooks(names):
        with announced(path.name):
            write_committed(path)


def short(path: Path) -> Path:
    """Return a path as it is read from the top of the project, where it lies below that."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


@contextlib.contextmanager
def announced(what: str, limits: Limits = LIMITS) -> Iterator[None]:
    """Say when some work is done and how long it took, and end it if it never is."""
    # A kernel can hang where no limit of a cell reaches it: then the process ends, and says where it stood.
    faulthandler.dump_traceback_later(limits.start + limits.run + 60, exit=True)
    began = time.monotonic()
    yield
    faulthandler.cancel_dump_traceback_later()
    typer.echo(f"{what}  {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    run_app(app)
