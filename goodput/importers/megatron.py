"""Training log text of Megatron-LM, with the watchdog lines of PyTorch's NCCL process group in it.

Raw: any text; read are the lines below, wherever in a line they begin (launchers put ranks and hosts before them).
Stamps are local times without a zone; older releases cut them to whole seconds, and give saves none.

| raw | ours |
|---|---|
| `[stamp] iteration N/M` with `elapsed time per iteration (ms)` | none: the END of an interval of mean x iterations |
| the first of them after a start | `start`, later `running`: what it takes longer than usual is start-up |
| `saving checkpoint at iteration N` | `checkpoint_start`, at its stamp or behind the iteration line before it |
| `save-checkpoint ...: (min, max)` | `checkpoint_end`, the maximum over ranks later |
| `scheduled an async checkpoint save` | its `async` |
| `successfully saved checkpoint from iteration N` | it is durable; if async, `checkpoint_durable` |
| `loading checkpoint`, `[before ...] datetime:`, iterations that do not grow | `interrupt`, `detected`, `nodes_ready` |
| `exiting program after X minutes`, `CANCELLED AT ... DUE TO ...`, `CUDA out of memory` | the `cause` of that |
| `Watchdog caught ... ran for X milliseconds`, `watchdog got stuck for X seconds` | one `interrupt`, X before |
| `validation loss at ...`, and a stretch that no line explains | `pause`, `resume` |
| `[after training is done] datetime:` | `end` |
| `using world size: N` | N GPUs |

A fault that no line tells of lies `after` the last sign of life. A hang has the cause `collective_hang`, is `detected`
at the first watchdog line, and its `suspect_rank` is the one whose sequence number is behind. Saves, `start` and
`running` carry the iteration as `step`. A save newer than the one that was loaded is not durable.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from goodput.errors import BadInput, printable
from goodput.events import Imported, make_log
from goodput.importers.megatron_lives import hangs_of, lives_of
from goodput.importers.megatron_story import Story
from goodput.importers.megatron_text import Text
from goodput.line import zone_of

_NO_TIME = -(2**63)


def looks_like_megatron(head: bytes) -> bool:
    """Return whether the first bytes are surely of such a log: an iteration line is in them, or a watchdog's."""
    iteration = re.search(rb"\] +iteration +\d+/ *\d+ \|[^\n]*elapsed time per iteration \(ms\):", head)
    return bool(iteration or re.search(rb"ProcessGroupNCCL\.cpp:\d+\][^\n]*[Ww]atchdog (?:caught|got stuck)", head))


def read_megatron(path: str | Path, timezone: str | None = None) -> Imported:
    """Return the events of a training log and what it leaves open; lines that could not be read are findings here.

    Times have no zone: they are read in `timezone`, or as UTC. The job is named like the file. A log in several parts
    is to be given as one (`-` reads standard input). Raises BadInput for a file without an iteration or watchdog line.
    """
    path = Path(path)
    text = Text(path, zone_of(timezone))
    text.read()
    alarms = text.dated_alarms()
    hangs = hangs_of(alarms)
    lives, rest = lives_of(text, [hang.detected for hang in hangs])
    if not hangs and not lives:
        why = ": those in it have no time" if text.has_unstamped else ""
        raise BadInput(f"{path}: must hold iteration lines or NCCL watchdog lines of a Megatron-LM log{why}")
    story = Story(text, lives, rest, hangs)
    story.tell()
    return Imported(_log(story.rows, path), text.findings, [])


def _log(rows: list[dict[str, Any]], path: Path) -> pd.DataFrame:
    rows = sorted(rows, key=lambda row: row["time"])  # stable; only checkpoint_durable stands out of order
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in ("time", "event", "line")}
    columns |= {name: [row.get(name) for row in rows] for name in ("cause", "id", "outcome")}
    columns |= {name: pd.array([row.get(name) for row in rows], "Int32") for name in ("nodes", "gpus_per_node")}
    columns["job"] = [_job(path)] * len(rows)
    columns["file"] = pd.Categorical.from_codes([0] * len(rows), [printable(path)])
    columns["after"] = [row.get("after", _NO_TIME) for row in rows]
    columns["async"] = [bool(row.get("async")) for row in rows]
    columns["step"] = [float("nan") if row.get("step") is None else float(row["step"]) for row in rows]
    columns["suspect_rank"] = pd.Series([row.get("suspect_rank") for row in rows], dtype=object).array
    return make_log(columns)


def _job(path: Path) -> str:
    return "megatron" if str(path) == "-" else path.name.removesuffix(".gz").removesuffix(".log") or "megatron"
