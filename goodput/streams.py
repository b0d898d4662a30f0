"""Whose luck is this? Every random number comes from a stream that is addressed by name.

A stream belongs to what it drives, not to the order of asking: another spare, crew or save policy draws from
the same streams the same numbers, so scenarios with the same seed meet the same failures (common random numbers).
"""

import hashlib
from collections.abc import Iterator

import numpy as np

_FIRST_BLOCK = 32


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return the generator of `names` in replication `seed`; the same in every process and on every machine.

    >>> stream(1, "default", "host").random() == stream(1, "default", "host").random()
    True
    >>> stream(1, "default", "host").random() == stream(1, "default", "fabric_link").random()
    False
    """
    # a slash within a name is told apart from the one between names
    path = "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)
    address = hashlib.blake2b(path.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64([seed, *np.frombuffer(address, "<u4").tolist()]))


def fates(generator: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield blocks of three fates for each failure: gap (exponential, mean 1), slot (0 to 1), repair (as gap).

    Blocks double in size, whatever is asked of them, so the numbers never depend on how many are used.
    """
    size = _FIRST_BLOCK
    while True:
        yield (
            generator.standard_exponential(size),
            generator.random(size),
            generator.standard_exponential(size),
        )
        size *= 2
