"""Which nodes? Node lists as Slurm folds them, `gpu[001-128]`."""

import itertools
import math
import re

from goodput.importers.sacct_words import is_nothing, remembered

_MOST_NAMES = 200_000  # in one node list; it is unfolded


def expand_nodes(text: str) -> list[str]:
    """Return the names in a folded node list, in its order; the first number of a range gives the width of all.

    Raises ValueError for what is no node list, or one of over 200,000 nodes. This is not ClusterShell's NodeSet,
    which reads groups and set operators into a name: a name in a log is only a name.

    >>> expand_nodes("b04-[09-10],gpu[1-2]-ib0")
    ['b04-09', 'b04-10', 'gpu1-ib0', 'gpu2-ib0']
    """
    names = []
    for parts in _folds(text):
        each = [[part] if isinstance(part, str) else _numbers(part) for part in parts]
        names += map("".join, itertools.product(*each))
    return names


@remembered
def count_nodes(text: str) -> int:
    """Return how many nodes a folded list names, without unfolding it. Raises ValueError as `expand_nodes`.

    >>> count_nodes("rack[1-2]n[001-128]")
    256
    """
    return sum(map(_size, _folds(text)))


def _folds(text: str) -> list[list[str | list[tuple[int, int, int]]]]:
    """Return each word of a node list as its parts: plain text, or ranges of (first, last, width)."""
    if is_nothing(text):
        return []
    words = re.findall(r"(?:[^\[\],]|\[[^\[\]]*\])+", text)
    if ",".join(words) != text:
        raise ValueError("brackets must match")
    folds = [[_part(part) for part in re.findall(r"\[[^\]]*\]|[^\[\]]+", word)] for word in words]
    if sum(map(_size, folds)) > _MOST_NAMES:
        raise ValueError(f"a list must name at most {_MOST_NAMES:,} nodes")
    return folds


def _part(part: str) -> str | list[tuple[int, int, int]]:
    if not part.startswith("["):
        if not re.fullmatch(r"[\w.-]+", part, re.ASCII):
            raise ValueError("a name must be of letters, digits, '.', '_' and '-'")
        return part
    ranges = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", each, re.ASCII) for each in part[1:-1].split(",")]
    if not all(ranges) or any(int(each[1]) > int(each[2] or each[1]) for each in ranges):
        raise ValueError("a range must be as 001-128")
    return [(int(each[1]), int(each[2] or each[1]), len(each[1])) for each in ranges]


def _size(parts: list) -> int:
    return math.prod(1 if isinstance(part, str) else sum(last - first + 1 for first, last, _ in part) for part in parts)


def _numbers(ranges: list[tuple[int, int, int]]) -> list[str]:
    return [str(number).zfill(width) for first, last, width in ranges for number in range(first, last + 1)]
