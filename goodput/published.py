"""What was published? Figures of real clusters, a row each, with the unit, the source and how well it is known.

Nothing here is ours: a figure is as good as its source, and `status` says how it came to us. Where a source does not
add up, the note beside the figure says so.
"""

from pathlib import Path

import pandas as pd

from goodput.checkpoint import mtbi_of_nodes
from goodput.errors import BadInput, nearest
from goodput.metrics import mean_time

FOLDER = Path(__file__).parents[1] / "data" / "published"
STATUS = {"V": "read in the source", "Q": "quoted from the source", "S": "second hand"}

GPUS_PER_NODE = 8  # of every machine here whose size is given; a system of another size is scaled as if it were so
HOURS = {"days": 24, "h": 1, "hours": 1, "seconds": 1 / 3600}
# What a system counts as an interruption, from its note: few count the same.
COUNTED = {
    "Llama 3 405B (Meta)": "unexpected interruptions of a job",
    "ByteRobust dense 70B+ (ByteDance)": "incidents of a job, code changes too",
    "ByteRobust MoE 200B+ (ByteDance)": "incidents of a job, code changes too",
    "ByteDance 1000-GPU job (Fig. 2)": "restarts of a job, by hand too",
    "OPT-175B (Meta)": "restarts of a job, by hand too; two thirds estimated",
    "Lablup/SKT/Upstage cluster": "GPU failures of a cluster, no job",
    "Meta RSC-1, rate of jobs > 128 GPUs": "hardware failures of jobs",
    "Meta RSC-2, rate of jobs": "hardware failures of jobs",
    "Meta RSC, jobs of 1,024 GPUs": "failures of a job, measured",
    "MPT-7B (MosaicML)": "failures of a job",
    "FT-HSDP baseline (Meta, synchronous)": "failures of a job, a round MTBF",
    "FT-HSDP (Meta, 12 replicas)": "failures of a job, a round MTBF",
    "Meta 32K H100 production training": "interruptions of a job",
    "Crusoe H200 cluster (GTC25)": "inferred from notes on a talk",
    "Delta A100 partition (NCSA)": "errors of a cluster, no job",
    "Delta GH200 partition (NCSA)": "errors of a cluster, no job",
}


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


def clusters(second_hand: bool = False) -> pd.DataFrame:
    """Return one row a system: size, time between interruptions, what it reports, and where that stands.

    Columns: `system`, `gpus`, `nodes` (of eight GPUs), `days`, `interruptions`; `mtbi_hours` with `_low` and `_high`
    (elapsed hours over interruptions with the exact 95 % interval; as printed, without one, where those are not
    given); the three again as `per_1000_hours`, what a job of 1,000 such nodes would have: times nodes / 1,000;
    `counted` as an interruption; `reported` (0 to 1) with its `bound` and what it `counts`; `stands` (source,
    where in it, how well known), and those three.
    Three rows are of the rates and the measured MTTF of `meta_rsc`. Failures are taken to grow with the nodes.
    """
    long = published("published_goodput", second_hand)
    wide = long.pivot(index="what", columns="quantity", values="value").reindex(long["what"].unique())
    table = pd.concat([wide.rename_axis("system").reset_index(), _research_clusters(second_hand)], ignore_index=True)
    table["nodes"] = table["nodes"].fillna(table["gpus"] / GPUS_PER_NODE)
    table["reported"] /= 100
    said = long[long["quantity"] == "reported"].set_index("what")
    table["bound"] = table["system"].map(said["bound"]).fillna("")
    table["counts"] = table["system"].map(said["note"].str.split(";").str[0]).fillna("")
    table["counted"] = table["system"].map(COUNTED).fillna("")
    for name in ("source", "where", "status"):
        table[name] = table[name].fillna(table["system"].map(long.groupby("what")[name].first()))
    return _with_times(table.assign(stands=cited(table)))


def counted_jobs(systems: pd.DataFrame) -> pd.DataFrame:
    """Return those of `clusters` that counted the interruptions of one job over known days, in whole `nodes`."""
    of_a_job = ~systems["counted"].str.contains("no job")
    return systems[of_a_job].dropna(subset=["days", "interruptions"]).astype({"nodes": int}).reset_index(drop=True)


def _research_clusters(second_hand: bool) -> pd.DataFrame:
    """Return rows of Meta's research clusters: the MTBI of 1,000 nodes by each rate, and the one measured."""
    found = published("meta_rsc", second_hand).set_index("quantity")
    rows = {
        "r_f_rsc1": ("Meta RSC-1, rate of jobs > 128 GPUs", 1000),
        "r_f_rsc2": ("Meta RSC-2, rate of jobs", 1000),
        "mttf_1024gpu": ("Meta RSC, jobs of 1,024 GPUs", 128),
    }
    found = found.loc[[name for name in rows if name in found.index]]
    system, nodes = zip(*(rows[name] for name in found.index), strict=True)
    hours = found["value"].where(found["unit"] == "h", 24 / found["value"])
    columns = {"system": system, "nodes": [float(count) for count in nodes], "mtbi_hours": hours}
    columns |= {name: found[name] for name in ("source", "where", "status")}
    return pd.DataFrame(columns).reset_index(drop=True)


def _with_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return systems with the interval of their MTBI, and with both scaled to 1,000 nodes."""
    counted = table["days"].notna() & table["interruptions"].notna()
    pairs = table.loc[counted, ["days", "interruptions"]].to_numpy()
    times = pd.DataFrame([mean_time(24 * days, int(count)) for days, count in pairs], table.index[counted])
    table["mtbi_hours"] = times["hours"].reindex(table.index).fillna(table["mtbi_hours"])
    for end in ("low", "high"):
        table[f"mtbi_hours_{end}"] = times[end].reindex(table.index)
    for end in ("", "_low", "_high"):
        table[f"per_1000_hours{end}"] = table[f"mtbi_hours{end}"] * table["nodes"] / 1000
    return table


def mttf_by_size(second_hand: bool = False) -> pd.DataFrame:
    """Return one row a size of job of Meta's research clusters: its published MTTF beside that of the published rate.

    Columns: `gpus`, `kind` (measured or projected), `theirs` and `ours` (hours; ours by the 6.50 failures per 1,000
    node-days of RSC-1, in nodes of eight), `ratio` of ours to theirs, `stands` (where, and how well known).
    """
    table = published("meta_rsc", second_hand)
    sizes = table["quantity"].str.extract(r"^mttf_(\d+)gpu")[0].astype(float)
    found = table[sizes.notna()].assign(gpus=sizes)
    rate = figure(table, "r_f_rsc1")
    ours = mtbi_of_nodes(found["gpus"] / GPUS_PER_NODE, rate)
    theirs = found["value"] * found["unit"].map(HOURS)
    kind = found["quantity"].str.contains("projected").map({True: "projected", False: "measured"})
    columns = {"gpus": found["gpus"].astype(int), "kind": kind, "theirs": theirs, "ours": ours, "ratio": ours / theirs}
    return pd.DataFrame(columns | {"stands": cited(found), "status": found["status"]}).reset_index(drop=True)


def in_minutes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table that are times, with a column `minutes`; counts and shares are left out."""
    times = table[table["unit"].isin(HOURS)]
    return times.assign(minutes=60 * times["value"] * times["unit"].map(HOURS))


def ranges(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a group of times: the number of `figures`, the `least`, the `median` and the `most`, in minutes.

    >>> ranges(published("detection_restart_times")).loc["requeue"].round(1).tolist()
    [4.0, 7.6, 9.8, 12.8]
    """
    groups = in_minutes(table).groupby("group", sort=False)["minutes"]
    return groups.agg(figures="size", least="min", median="median", most="max")
