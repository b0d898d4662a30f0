"""What does one run take, in a process of its own? Processor time a round, bare SimPy beside it, and peak memory."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def in_child(kind: str, rounds: int = 1, seeds: int = 1, traced: bool = False, **scenario: Any) -> dict[str, Any]:
    """Return what a child process measured of `worlds.large(**scenario)`, or of the baseline.

    `failures`, `rows`; of each round `seconds` and `bare_seconds` (one bare SimPy event); `peak_mib` of the process
    after the first round, `before_mib` before it; `traced_bytes`, the peak of what Python and numpy held (if `traced`).
    """
    asked = json.dumps({"kind": kind, "rounds": rounds, "seeds": seeds, "traced": traced, "scenario": scenario})
    path = os.pathsep.join([str(ROOT), str(HERE)])
    done = subprocess.run(
        [sys.executable, __file__, asked], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def peak_mib() -> float:
    """Return the peak memory of this process; not `ru_maxrss`, which a child takes over from its parent."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measured(kind: str, rounds: int, seeds: int, traced: bool, scenario: dict) -> dict[str, Any]:
    """Return what is measured here; see `in_child`."""
    from measure import seconds
    from worlds import BARE_EVENTS, bare_simpy, large, play

    from goodput.attribution import interruptions
    from goodput.scenario import load_scenario

    world = large(**scenario) if kind == "large" else load_scenario(kind)
    play(load_scenario("baseline").but({"days": 1}), [1])  # imports, and what is made once
    out = {"before_mib": peak_mib(), "seconds": [], "bare_seconds": []}
    logs = []
    for _ in range(rounds):
        logs.clear()
        out["seconds"].append(seconds(lambda: logs.append(play(world, range(1, seeds + 1)))))
        out.setdefault("peak_mib", peak_mib())
        out["bare_seconds"].append(seconds(lambda: bare_simpy(BARE_EVENTS)) / BARE_EVENTS)
    out |= {"failures": len(interruptions(logs[0])), "rows": len(logs.pop())}
    if traced:
        tracemalloc.start()
        play(world, range(1, seeds + 1))
        out["traced_bytes"] = tracemalloc.get_traced_memory()[1]
    return out


if __name__ == "__main__":
    print(json.dumps(measured(**json.loads(sys.argv[1]))))
