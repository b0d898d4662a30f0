"""Does the model agree with Llama 3's run? Its causes as a scenario, what the paper leaves open, ours against theirs.

Counts are those of Table 5 of arXiv 2407.21783, as `published` has them. The paper counts elapsed time, so rates go by
the wall clock: faults strike always, also while the job is down.
"""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.experiment import wide_runs
from goodput.metrics import mean_interval, mean_time
from goodput.published import cited, figure, published
from goodput.scenario import Scenario

PLANNED = "planned stop"
NODES, GPUS_PER_NODE = 2048, 8  # 16,384 GPUs in servers of eight
# A switch or a cable serves many nodes, and no watchdog, bug or dependency says which node was to blame: such a stop is
# the job's. What sits in a server is the node's, and the node goes to repair; a host under maintenance is away as well.
OF_THE_JOB = ("Software Bug", "Dependency", "Network Switch/Cable", "NCCL Watchdog Timeouts", PLANNED)
# Seen only when a collective runs into its time limit. Of silent data corruption that is kind: what was saved after it
# is bad, too, and the model has no bad saves.
HANGS = ("Network Switch/Cable", "NIC", "NCCL Watchdog Timeouts", "Silent Data Corruption")

# None of these is in the paper: `assumed` says between which published figures each of them lies.
LOG_MINUTES, HANG_MINUTES, RESTART_MINUTES = 1.0, 10.0, 5.0
INTERVAL_MINUTES, SAVE_MINUTES, ASYNC_SAVE_MINUTES = 10.0, 0.22, 0.01
REPAIR_HOURS, SPARES = 48.0, 41


class _Assumed(NamedTuple):
    """A value that the paper does not give, and the two published figures between which it may lie."""

    value: str
    taken: float
    unit: str
    scale: float  # of the published figures, to get the unit
    low: str
    high: str


_SECOND = 1 / 60
_ASSUMED = (
    _Assumed(
        "detection, seen in a log",
        LOG_MINUTES,
        "minutes",
        _SECOND,
        "GPU driver hang / high temperature / GPU lost, with inspection",
        "Meta RSC periodic health check",
    ),
    _Assumed(
        "detection, a hang",
        HANG_MINUTES,
        "minutes",
        _SECOND,
        "switch down, with inspection",
        "NCCL collective timeout default, PyTorch < 2.2",
    ),
    _Assumed(
        "restart", RESTART_MINUTES, "minutes", _SECOND, "in-place hot update, 16,384 GPUs", "restart overhead u0 high"
    ),
    _Assumed(
        "compute between saves",
        INTERVAL_MINUTES,
        "minutes",
        _SECOND,
        "DeepSeek Fire-Flyer",
        "Meta RSC large jobs, typical",
    ),
    _Assumed(
        "save, training waits",
        SAVE_MINUTES,
        "minutes",
        _SECOND,
        "ByteCheckpoint 405B Megatron: blocking, 8,960 GPUs",
        "GPT 175B to HDFS before ByteCheckpoint, 4,096 GPUs",
    ),
    _Assumed("repair", REPAIR_HOURS, "hours", 1, "GB200 compute tray swap low", "Delta worst GSP reboot case"),
    _Assumed("spares", SPARES, "nodes", NODES, "top-tier cloud spare pool low", "top-tier cloud spare pool high"),
)


def components() -> pd.DataFrame:
    """Return the 18 components of Table 5 and the planned stops, most frequent first.

    Columns: `component`, `group`, `interruptions` (the paper's), and what the paper does not say: `scope`,
    `needs_repair`, `detection_minutes`; `cause` is the component's name in the scenario.

    >>> int(components()["interruptions"].sum())  # 419 unexpected ones and 47 planned
    466
    """
    paper = published("llama3_interruptions")
    table = paper[paper["quantity"] == "interruptions"][["what", "group", "value"]]
    table.loc[len(paper)] = [PLANNED, "planned", figure(paper, "planned_interruptions")]
    table = table.set_axis(["component", "group", "interruptions"], axis=1).astype({"interruptions": int})
    of_the_job, hangs = (table["component"].isin(names) for names in (OF_THE_JOB, HANGS))
    minutes = np.where(hangs, HANG_MINUTES, LOG_MINUTES) * (table["component"] != PLANNED)
    return table.assign(
        scope=np.where(of_the_job, "job", "node"),
        needs_repair=~of_the_job,
        detection_minutes=minutes,
        cause=[re.sub("[^a-z0-9]+", "_", name.lower()) for name in table["component"]],
    ).sort_values("interruptions", ascending=False, kind="stable", ignore_index=True)


def llama_3() -> Scenario:
    """Return the scenario of the 54 days: each cause at its published count by the wall clock, the rest as `assumed`.

    The MTBF of a node is 2,048 nodes x 1,296 h over the interruptions that a node is blamed for. No node of a spare
    fails, and none that is in repair, as everywhere in the model.

    >>> scenario = llama_3()
    >>> round(scenario.days * 24 / scenario.nominal_mtbi_hours)
    466
    """
    table = components()
    total = table.groupby("scope")["interruptions"].transform("sum")
    table = table.assign(share=table["interruptions"] / total, planned=table["component"] == PLANNED)
    fields = ["scope", "share", "detection_minutes", "needs_repair", "planned"]
    counts = table.groupby("scope")["interruptions"].sum()
    days = figure(published("llama3_interruptions"), "days")
    return Scenario.model_validate(
        {
            "name": "llama-3",
            "days": days,
            "job": {"nodes": NODES, "gpus_per_node": GPUS_PER_NODE, "restart_minutes": RESTART_MINUTES},
            "pool": {"spares": SPARES},
            "cohorts": {"default": {"mtbf_hours": NODES * days * 24 / int(counts["node"])}},
            "causes": table.set_index("cause")[fields].to_dict("index"),
            "job_failures": {"mtbi_hours": days * 24 / int(counts["job"])},
            "failures": {"strike": "always"},
            "checkpoint": {"interval_minutes": INTERVAL_MINUTES, "blocking_minutes": SAVE_MINUTES},
            "repair": {"mean_hours": REPAIR_HOURS},
        }
    )


def assumed() -> pd.DataFrame:
    """Return what the paper does not give, a row a value: `taken`, `low` and `high` of what was published, `sources`.

    All are in the `unit` of the row. Figures at second hand are among them, and marked.

    >>> assumed().set_index("value").loc["restart", ["low", "taken", "high"]].astype(float).round(1).tolist()
    [1.1, 5.0, 20.0]
    """
    times = published("detection_restart_times", second_hand=True)
    times = times.assign(cited=cited(times)).set_index("what")[["value", "cited"]]
    rows = [(each, times.loc[each.low], times.loc[each.high]) for each in _ASSUMED]
    return pd.DataFrame(
        {
            "value": each.value,
            "taken": each.taken,
            "low": each.scale * low["value"],
            "high": each.scale * high["value"],
            "unit": each.unit,
            "sources": " · ".join(dict.fromkeys([low["cited"], high["cited"]])),
        }
        for each, low, high in rows
    )


def changes(scenario: Scenario) -> list[Scenario]:
    """Return what the six changes of the workbench make of `llama_3`, each under the name of its scenario file.

    Where a file's value would be a step back here it is another one: hangs are noticed as soon as what a log tells,
    and an asynchronous save stops training for what ByteCheckpoint measured (0.59 s, 405B on 8,960 GPUs). A quarter of
    the pool gets the bad firmware, a fifth of the node MTBF; `combined` holds twice the spares.
    """
    fast = {f"causes.{cause}.detection_minutes": LOG_MINUTES for cause in _hangs()}
    asynchronous = {"checkpoint.interval_minutes": "daly", "checkpoint.blocking_minutes": ASYNC_SAVE_MINUTES}
    bad = {"nodes": scenario.pool_nodes // 4, "mtbf_hours": scenario.cohorts["default"].mtbf_hours / 5}
    changed = {
        "daly-interval": {"checkpoint.interval_minutes": "daly"},
        "async-checkpoint": asynchronous,
        "fast-hang-detection": fast,
        "no-spares": {"pool.spares": 0},
        "firmware-regression": {"cohorts.batch_b": bad},
        "combined": {**fast, **asynchronous, "pool.spares": 2 * scenario.pool.spares},
    }
    return [scenario.but(each, name=name) for name, each in changed.items()]


def _hangs() -> list[str]:
    table = components()
    return table.loc[table["component"].isin(HANGS), "cause"].tolist()


def poisson_band(mean: float, confidence: float = 0.95) -> tuple[int, int]:
    """Return the smallest and the largest count between which a Poisson count of this mean lies that often, or more.

    >>> poisson_band(419)
    (379, 460)
    """
    from scipy.stats import poisson

    low, high = poisson.interval(confidence, mean)
    return int(low), int(high)


def by_component(runs: pd.DataFrame) -> pd.DataFrame:
    """Return by component the published count, `low` and `high` of its exact 95 % interval, and `ours`, a mean a run.

    `runs` is an `experiment` of `llama_3`. The interval is that of the mean of a Poisson process that was seen once.
    """
    table = components()[["component", "group", "interruptions", "cause"]].rename(
        columns={"interruptions": "published"}
    )
    played = runs[runs["metric"] == "cause_count"].groupby("cause", observed=True)["value"].mean()
    exact = [mean_time(1, count) for count in table["published"]]
    low, high = zip(*((1 / each.high, 1 / each.low) for each in exact), strict=True)
    return table.assign(low=low, high=high, ours=table["cause"].map(played).astype(float)).drop(columns="cause")


def against(runs: pd.DataFrame) -> pd.DataFrame:
    """Return ours against theirs: `ours` (mean a run) with `low`, `high` (95 % interval), `theirs`, `ratio`, `source`.

    `runs` is an `experiment` of one scenario of the length of `llama_3`. Hours are elapsed ones, all of them over all
    unexpected interruptions. Effective training time is read as goodput.
    """
    paper, wide = published("llama3_interruptions"), wide_runs(runs)
    failures, planned = wide["failures"], wide["interruptions"] - wide["failures"]
    played = {
        "unexpected interruptions": mean_interval(failures),
        "planned stops": mean_interval(planned),
        "GPU causes, % of unexpected": mean_interval(100 * _of_gpus(runs) / failures),
        "effective training time, %": mean_interval(100 * wide["goodput"]),
    }
    table = pd.DataFrame({name: (ours.mean, ours.low, ours.high) for name, ours in played.items()}).T
    table.columns = ["ours", "low", "high"]
    table.loc["elapsed hours per unexpected interruption"] = (
        24 * figure(paper, "days") / table.loc["unexpected interruptions"].to_numpy()[[0, 2, 1]]
    )
    return _with_theirs(table, paper).rename_axis("quantity").reset_index()


def _of_gpus(runs: pd.DataFrame) -> pd.Series:
    """Return by run how many interruptions were those of GPUs."""
    of_gpus = runs["cause"].isin(components().query("group == 'GPU'")["cause"]) & (runs["metric"] == "cause_count")
    return runs[of_gpus].groupby(["scenario", "seed"], observed=True)["value"].sum()


def _with_theirs(table: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    unexpected = figure(paper, "unexpected_interruptions")
    gpu = paper.loc[(paper["quantity"] == "interruptions") & (paper["group"] == "GPU"), "value"].sum()
    found = {  # theirs, and the quantity from which it comes
        "unexpected interruptions": (unexpected, "unexpected_interruptions"),
        "elapsed hours per unexpected interruption": (
            24 * figure(paper, "days") / unexpected,
            "unexpected_interruptions",
        ),
        "planned stops": (figure(paper, "planned_interruptions"), "planned_interruptions"),
        "GPU causes, % of unexpected": (100 * gpu / unexpected, "interruptions"),
        "effective training time, %": (figure(paper, "effective_training_time"), "effective_training_time"),
    }
    sources = paper.assign(cited=cited(paper)).groupby("quantity")["cited"].first()
    theirs = pd.DataFrame(found, index=["theirs", "quantity"]).T
    table = table.reindex(theirs.index).assign(theirs=theirs["theirs"].astype(float))
    return table.assign(ratio=table["ours"] / table["theirs"], source=theirs["quantity"].map(sources))
