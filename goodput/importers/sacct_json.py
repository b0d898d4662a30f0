"""What does `sacct --json` say? Jobs of any release, one by one, as rows like those of the text."""

import json
import re
from collections.abc import Iterator
from typing import Any

_NO_VALUES = {2**bits - less for bits in (32, 64) for less in (1, 2)}  # how Slurm writes "infinite" and "not set"


def rows_of_json(job: Any) -> list[dict[str, Any]]:
    """Return a job of `sacct --json` as rows: its own, then its steps'. Raises ValueError for what is no job."""
    if not isinstance(job, dict):
        raise ValueError("a job must be a whole JSON object")
    name = _json_id(job)
    own = _json_row(job, name) | {
        "jobname": _text(job.get("name")),
        "cluster": _text(job.get("cluster")),
        "nnodes": _number(job.get("allocation_nodes")),
        "reqtres": _tres(_at(job, "tres", "requested")),
        "nodelist": _text(job.get("nodes")),
        "failednode": _text(job.get("failed_node")),
        "restarts": _number(job.get("restart_cnt")),
    }
    steps = job.get("steps") if isinstance(job.get("steps"), list) else []
    return [own, *(_json_row(each, f"{name}.{_json_step(each)}") | {"cluster": own["cluster"]} for each in steps)]


_JSON_TIMES = {
    "submit": "submission",
    "start": "start",
    "end": "end",
    "elapsedraw": "elapsed",
    "suspendedraw": "suspended",
}


def _json_row(job: Any, name: str) -> dict[str, Any]:
    return {key: _number(_at(job, "time", raw)) for key, raw in _JSON_TIMES.items()} | {
        "jobid": name,
        "state": _word(_at(job, "state")),
        "alloctres": _tres(_at(job, "tres", "allocated")),
        "exitcode": _json_exit(_at(job, "exit_code")),
        "derivedexitcode": _json_exit(_at(job, "derived_exit_code")),
    }


def _json_exit(code: Any) -> str:
    signal = _at(code, "signal")
    signal = _number(_at(signal, "id")) or _number(_at(signal, "signal_id"))
    return f"{_number(_at(code, 'return_code')) or 0}:{signal or 0}"


def _json_id(job: dict[str, Any]) -> str:
    array, task = _number(_at(job, "array", "job_id")), _number(_at(job, "array", "task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    if array and _at(job, "array", "task"):
        return f"{array}_[{_text(_at(job, 'array', 'task'))}]"
    if het := _number(_at(job, "het", "job_id")):
        return f"{het}+{_number(_at(job, 'het', 'job_offset')) or 0}"
    return str(_number(job.get("job_id")) or job.get("job_id"))


def _json_step(step: Any) -> str:
    """Return the name of a step: `batch`, `extern`, or its number; releases write it alone or behind the job."""
    number = _at(step, "step", "id")
    number = number.get("step_id") if isinstance(number, dict) and "step_id" in number else number
    name = number if isinstance(number, str) else _number(number)
    name = _at(step, "step", "name") if name is None else name
    return (_text(name) or "0").rpartition(".")[2].replace(" ", "_") or "0"


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> int | float | None:
    """Return a number of any release: plain, or `{"set": true, "infinite": false, "number": 8}`."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value in _NO_VALUES or not 0 <= value < 1e18:
        return None
    return int(value) if value == int(value) else value


def _text(value: Any) -> str | None:
    # one half of a surrogate pair, which JSON can write, is no text that a table can hold
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _word(state: Any) -> str:
    """Return the word that decides: newer releases list flags behind the state, REQUEUED behind PENDING."""
    state = state.get("current") if isinstance(state, dict) else state
    words = [_text(word) or "" for word in (state if isinstance(state, list) else [state])]
    return next((word for word in words if word and word != "PENDING"), (words or [""])[0])


def _tres(entries: Any) -> str:
    entries = entries if isinstance(entries, list) else []
    parts = [(_text(_at(each, "type")), _text(_at(each, "name")), _number(_at(each, "count"))) for each in entries]
    return ",".join(f"{kind}{f'/{name}' if name else ''}={count or 0}" for kind, name, count in parts)


JOBS = re.compile(r'"jobs"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_MOST_BAD_JOBS = 100


def jobs_of_json(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and the content of each job, null for one that is not whole; documents may follow each other."""
    decoder, at, line, counted, bad = json.JSONDecoder(), 0, 1, 0, 0
    while begins := JOBS.search(text, at):
        at, lead = begins.end(), None
        while not text.startswith("]", start := _BETWEEN.match(text, at).end()):
            lead = text[at:start] if lead is None else lead
            line, counted = line + text.count("\n", counted, start), start
            try:
                job, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                job, bad = None, bad + 1
                # jobs are all indented alike, and what is in them further
                at = text.find(f"{lead}{{", start) if "\n" in lead and bad < _MOST_BAD_JOBS else -1
            yield line, job
            if at < 0:
                return
        at = start
