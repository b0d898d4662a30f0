"""Every notebook has the shape that makes a set readable; where one has not, the test says what to do about it."""

import ast
import re
from pathlib import Path
from statistics import median, quantiles

import nbformat
import pytest
from nbformat import NotebookNode

from goodput.report import NOTEBOOKS, find_notebooks

PATHS = find_notebooks()
LONGEST_CELL, LONG_CELL, MIDDLE_CELL = 15, 10, 4  # lines of code: the most, the 90th percentile, the median
LEAST_PROSE = 0.45  # of the lines that are not empty
CHECK = "check_parameters(globals())"


def read(path: Path) -> NotebookNode:
    """Return a notebook."""
    return nbformat.read(path, as_version=4)


def lines(text: str) -> int:
    """Return how many lines are not empty."""
    return sum(bool(line.strip()) for line in text.splitlines())


def of_kind(notebook: NotebookNode, kind: str) -> list[NotebookNode]:
    """Return the cells of a kind, `code` or `markdown`."""
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def prose_share(notebook: NotebookNode) -> float:
    """Return the share of prose in the lines that are not empty."""
    prose, code = (sum(lines(cell.source) for cell in of_kind(notebook, kind)) for kind in ("markdown", "code"))
    return prose / (prose + code)


def code_lines(notebook: NotebookNode) -> list[int]:
    """Return the length of each code cell but the imports and parameters, which are lists."""
    return [lines(cell.source) for cell in of_kind(notebook, "code") if not is_list(cell)]


def is_list(cell: NotebookNode) -> bool:
    """Return whether a cell is the imports or the parameters."""
    return "parameters" in cell.metadata.get("tags", []) or bool(re.match(r"(import|from) ", cell.source))


def what_to_do(notebook: NotebookNode) -> list[str]:
    """Return a sentence for each thing that is not as it should be."""
    return [*opening(notebook), *parameters(notebook), *length(notebook), *style(notebook), *ending(notebook)]


def opening(notebook: NotebookNode):
    """The first cell says what is asked and what was found."""
    first = notebook.cells[0]
    headings = [h for cell in of_kind(notebook, "markdown") for h in re.findall(r"^# .+", cell.source, re.MULTILINE)]
    if len(headings) != 1 or not first.source.startswith("# "):
        yield f"give it one heading of the first level, in its first cell; it has {headings}"
    for word in ("**Question.**", "**Answer.**", "*After this:*"):
        if word not in first.source:
            yield f"let the first cell say {word}"
    spec = notebook.metadata.get("kernelspec", {})
    if (spec.get("name"), spec.get("language")) != ("python3", "python"):
        yield "set its kernel to python3 with language python: `make notebooks` writes it so"


def parameters(notebook: NotebookNode):
    """One cell declares what can be changed, the next one checks it."""
    code = of_kind(notebook, "code")
    found = [at for at, cell in enumerate(code) if "parameters" in cell.metadata.get("tags", [])]
    if len(found) != 1:
        yield f"tag one cell `parameters`; {len(found)} are"
        return
    for node in ast.parse(code[found[0]].source).body:
        if not (isinstance(node, ast.AnnAssign) and node.value and is_literal(node.value)):
            yield f"declare the parameter with its type and a plain value: `{ast.unparse(node)}`"
    if found[0] + 1 >= len(code) or code[found[0] + 1].source != CHECK:
        yield f"let the code cell after the parameters be `{CHECK}`"


def is_literal(node: ast.expr) -> bool:
    """Return whether a value is plain, so that papermill can replace it."""
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def length(notebook: NotebookNode):
    """Short cells, and as much prose as code."""
    code = code_lines(notebook)
    for cell in of_kind(notebook, "code"):
        if lines(cell.source) > LONGEST_CELL:
            yield f"move lines of cell {cell.id} into the package: {lines(cell.source)} are more than {LONGEST_CELL}"
    if median(code) > MIDDLE_CELL or quantiles(code, n=10, method="inclusive")[-1] > LONG_CELL:
        rule = f"median at most {MIDDLE_CELL}, nine of ten at most {LONG_CELL}"
        yield f"shorten its cells: their lines are {sorted(code)}, {rule}"
    if prose_share(notebook) < LEAST_PROSE:
        yield f"say more: {prose_share(notebook):.0%} of its lines are prose, at least {LEAST_PROSE:.0%} should be"


def style(notebook: NotebookNode):
    """Calls and readings; what needs a definition belongs into the package, where it is tested."""
    for cell in of_kind(notebook, "code"):
        tree = ast.parse(re.sub(r"^[%!].*", "", cell.source, flags=re.MULTILINE))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                yield f"move the definition in cell {cell.id} into the package"
            if isinstance(node, ast.For | ast.While):
                yield f"replace the loop in cell {cell.id} by a call"
            if isinstance(node, ast.Name) and node.id == "plt":
                yield f"draw in cell {cell.id} with a function of goodput.figures, not with plt"
            if isinstance(node, ast.Import | ast.ImportFrom) and not is_list(cell):
                yield f"move the import in cell {cell.id} to the first code cell"
    for cell in of_kind(notebook, "markdown"):
        if r"\$" in cell.source:
            yield f"write the price in cell {cell.id} in words: two dollar signs may be read as a formula"
        for link in re.findall(r"\]\((\w+\.ipynb)", cell.source):
            if not (NOTEBOOKS / link).is_file():
                yield f"mend the link to {link} in cell {cell.id}: there is no such notebook"


def ending(notebook: NotebookNode):
    """It says what to take along and checks what it claims; outputs are stored, pictures among them as PNG."""
    titles = [cell.source for cell in of_kind(notebook, "markdown")]
    if not any(re.search(r"^## Takeaways", source, re.MULTILINE) for source in titles):
        yield "end it with a section `## Takeaways`"
    if notebook.cells[-1].cell_type != "code" or "assert " not in notebook.cells[-1].source:
        yield "let its last cell assert what the Answer claims"
    for cell in of_kind(notebook, "code"):
        if cell.execution_count is None:
            yield f"store its outputs with `make notebooks`: cell {cell.id} has not run"
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"mend cell {cell.id}: it ends in an error or a warning"
            if "image/svg+xml" in output.get("data", {}):
                yield f"store its outputs with `make notebooks`: cell {cell.id} has a figure that is no PNG"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_has_the_shape_of_the_set(path):
    assert re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem), "name it NN_short_claim"
    assert what_to_do(read(path)) == []


def test_the_set_is_complete_and_each_notebook_can_be_reached_from_the_start():
    stems = {path.stem for path in PATHS}
    start = next(path for path in PATHS if path.stem.startswith("00_"))
    linked = set(re.findall(r"\((\w+)\.ipynb\)", " ".join(cell.source for cell in read(start).cells)))
    assert linked >= stems - {start.stem}


def dropped(notebook, at):
    """Leave a cell out."""
    del notebook.cells[at]


def changed(notebook, at, source):
    """Give a cell another source."""
    notebook.cells[at].source = source


def at_of(notebook, text: str) -> int:
    """Return the place of the first cell with a text."""
    return next(at for at, cell in enumerate(notebook.cells) if text in cell.source)


BREAKS = {
    "one heading": lambda nb: changed(nb, -2, "# Another"),
    "**Answer.**": lambda nb: changed(nb, 0, nb.cells[0].source.replace("**Answer.**", "")),
    "kernel": lambda nb: nb.metadata.kernelspec.update(name="conda-env-old-py"),
    "tag one cell": lambda nb: nb.cells[at_of(nb, "seeds: int")].metadata.pop("tags"),
    "declare the parameter": lambda nb: changed(nb, at_of(nb, "seeds: int"), "seeds = 20"),
    "code cell after the parameters": lambda nb: dropped(nb, at_of(nb, CHECK)),
    "into the package: 16": lambda nb: changed(nb, -1, "assert True\n" * 16),
    "shorten its cells": lambda nb: [changed(nb, at, "x = 1\n" * 6) for at in code_places(nb)],
    "say more": lambda nb: [changed(nb, at, "Short.") for at in range(1, len(nb.cells)) if at not in code_places(nb)],
    "the definition": lambda nb: changed(nb, -1, "assert (lambda: True)()"),
    "the loop": lambda nb: changed(nb, -1, "for x in (1, 2):\n    assert x"),
    "not with plt": lambda nb: changed(nb, -1, "assert plt.gcf()"),
    "the import": lambda nb: changed(nb, -1, "assert True\nimport os"),
    "the price": lambda nb: changed(nb, -2, r"## Takeaways" + "\n" + r"from \$2 to \$3"),
    "the link": lambda nb: changed(nb, -2, "## Takeaways\n[no](99_nothing.ipynb)"),
    "Takeaways": lambda nb: dropped(nb, at_of(nb, "## Takeaways")),
    "last cell assert": lambda nb: dropped(nb, -1),
    "has not run": lambda nb: nb.cells[-1].update(execution_count=None),
    "error or a warning": lambda nb: nb.cells[-1].outputs.append(
        nbformat.v4.new_output("stream", name="stderr", text="Warning")
    ),
    "no PNG": lambda nb: nb.cells[-1].outputs.append(
        nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg/>"})
    ),
}


def code_places(notebook) -> list[int]:
    """Return where the code cells are."""
    return [at for at, cell in enumerate(notebook.cells) if cell.cell_type == "code"]


@pytest.mark.parametrize("said", BREAKS)
def test_what_is_not_in_shape_is_told_what_to_do(said):
    notebook = read(next(path for path in PATHS if path.stem.startswith("30_")))
    BREAKS[said](notebook)
    assert any(said in sentence for sentence in what_to_do(notebook))
