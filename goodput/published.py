"""What was published? Figures of real clusters, a row each, with the unit, the source and how well it is known.

Nothing here is ours: a figure is as good as its source, and `status` says how it came to us. Where a source does not
add up, the note beside the figure says so.
"""

from pathlib import Path

import pandas as pd

from goodput.errors import BadInput, nearest

FOLDER = Path(__file__).parents[1] / "data" / "published"
STATUS = {"V": "read in the source", "Q": "quoted from the source", "S": "second hand"}


def published(name: str, second_hand: bool = False) -> pd.DataFrame:
    """Return one table of `data/published`: a row a figure.

    Columns: `group` (a category, a phase), `what` (a component, a system), `quantity`, `value` (float64, in `unit`),
    `bound` (`at least`, `at most`, `about`, or empty), `unit`, `source`, `where` in the source, `status`, `note`.
    Second-hand figures, which nobody here read in their source, are left out unless asked for. Raises BadInput for a
    name that is not there.

    >>> table = published("llama3_interruptions")
    >>> int(table[table["quantity"] == "interruptions"]["value"].sum())
    419
    """
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        raise BadInput(f"published: {name!r} must be a known table; {nearest(name, names())}")
    table = pd.read_csv(path, keep_default_na=False, dtype={"value": "float64"})
    return table if second_hand else table[table["status"] != "S"].reset_index(drop=True)


def names() -> list[str]:
    """Return the names of the tables.

    >>> names()[:2]
    ['byterobust_incidents', 'detection_restart_times']
    """
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def figure(table: pd.DataFrame, quantity: str, what: str | None = None) -> float:
    """Return the one value of a quantity, of one system or component where several have it.

    Raises BadInput where there is none, or more than one.

    >>> figure(published("meta_rsc"), "r_f_rsc1")  # failures per 1,000 node-days
    6.5
    """
    found = table[(table["quantity"] == quantity) & (what is None or table["what"] == what)]
    if len(found) != 1:
        raise BadInput(f"published: {quantity} of {what or 'anything'} must be one figure, not {len(found)}")
    return float(found["value"].iloc[0])


def cited(table: pd.DataFrame) -> pd.Series:
    """Return for each row where it stands, as `arXiv 2407.21783, Table 5 (read in the source)`."""
    place = table["source"].where(table["where"] == "", table["source"] + ", " + table["where"])
    return place + " (" + table["status"].map(STATUS) + ")"
