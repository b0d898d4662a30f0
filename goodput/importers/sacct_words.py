"""What does a word of sacct say? States, durations, counts and GPUs, each read on its own."""

import re
from functools import lru_cache
from typing import Any

ACTIVE, COMPLETED, OTHER = "active", "completed", "other"
# What a state says: the cause of an interruption, the worst first; that the job is done; or that it goes on.
KINDS = {
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "boot_fail",
    "LAUNCH_FAILED": "launch_fail",
    "RECONFIG_FAIL": "reconfig_fail",
    "OUT_OF_MEMORY": "out_of_memory",
    "FAILED": "program_error",
    OTHER: OTHER,
    "REVOKED": "revoked",
    "REQUEUED": "requeue",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preemption",
    "CANCELLED": "user_cancel",
    "COMPLETED": COMPLETED,
    **dict.fromkeys(("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STOPPED"), ACTIVE),
    **dict.fromkeys(("REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "STAGE_OUT", "SIGNALING"), ACTIVE),
}
SEVERITY = {kind: rank for rank, kind in enumerate(dict.fromkeys(KINDS.values()))}  # 0: the worst
_NOTHING = {"", "unknown", "none", "none assigned", "n/a", "null", "(null)", "invalid", "unlimited", "partition_limit"}
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?(\.\d+)?", re.ASCII)
_COUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGT]?)", re.ASCII)
# Neighbouring lines repeat each other. Few are kept: a field may be as long as a line, a mebibyte.
remembered = lru_cache(maxsize=128)


def is_nothing(value: Any) -> bool:
    """Return whether a field holds no value: empty, or one of the words that sacct writes instead."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds, None for a word or an empty field: `[days-]hours:minutes:seconds` or a part of it.

    As Slurm reads it: with days the first number is hours; a number alone is minutes.

    >>> [seconds_of(text) for text in ("1-02:03:04", "03:04.500", "14-0", "90", "UNLIMITED")]
    [93784.0, 184.5, 1209600.0, 5400.0, None]
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        return None
    days, *parts, fraction = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is None and len(numbers) < 3:  # minutes, or minutes:seconds
        numbers = [0, *numbers]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds + float(fraction or 0)


def count_of(text: Any) -> int | None:
    """Return a count, None for none; sacct shortens 2048 to `2K`.

    >>> count_of("1.50K"), count_of("32"), count_of("N/A")
    (1536, 32, None)
    """
    found = _COUNT.fullmatch(str(text).strip())
    return round(float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")) if found else None


@remembered
def kind_of(state: str) -> str:
    """Return `active`, `completed`, or the cause of an interruption; `other` for a word that is not known.

    The first word decides; a `+` at its end stands for letters that were cut off.

    >>> [kind_of(state) for state in ("CANCELLED by 54321", "OUT_OF_ME+", "COMPLETING", "LAUNCH_WEIRD")]
    ['user_cancel', 'out_of_memory', 'active', 'other']
    """
    word = (state.upper().split() or [""])[0]
    if word in KINDS or not word.endswith("+"):
        return KINDS.get(word, OTHER)
    kinds = {kind for known, kind in KINDS.items() if known.startswith(word[:-1])}
    return kinds.pop() if len(kinds) == 1 else OTHER


@remembered
def gpus_of_tres(text: str) -> int | None:
    """Return the GPUs of a list of resources, None where it lists nothing: the untyped count, else the sum of types.

    >>> gpus_of_tres("cpu=64,gres/gpu:a100=8,gres/gpu:h100=4,gres/shard=2"), gpus_of_tres("cpu=8"), gpus_of_tres("")
    (12, 0, None)
    """
    if is_nothing(text):
        return None
    counts = {name: count_of(count) or 0 for name, _, count in (entry.partition("=") for entry in text.split(","))}
    return counts.get("gres/gpu") or sum(count for name, count in counts.items() if name.startswith("gres/gpu:"))


def gpus_of_gres(text: str, nodes: int | None) -> int | None:
    """Return the GPUs of an older column, `gpu:h100:8`, None where it says nothing; `PER_NODE:` counts for each node.

    >>> gpus_of_gres("gpu:h100:8,craynetwork:0", 4), gpus_of_gres("PER_NODE:gpu:8", 4), gpus_of_gres("N/A", 4)
    (8, 32, None)
    """
    if is_nothing(text):
        return None
    total = 0
    for entry in re.sub(r"\([^()]*\)", "", text).split(","):  # (S:0-1) and (IDX:0,2) say which cards
        words = entry.removeprefix("PER_NODE:").removeprefix("gres:").split(":")
        if words[0] == "gpu":
            count = count_of(words[-1]) or 0 if len(words) > 1 else 1
            total += count * (nodes or 1) if entry.startswith("PER_NODE:") else count
    return total
