"""How does a gain depend on what was drawn? A smooth law through noisy answers, so that luck stays out of the spread.

Each draw of a bootstrap is played a few times only, and its answer is mostly luck. What all draws say together of how
the gain goes with each drawn value is not.
"""

import numpy as np

RIDGE = 3.0  # as if each drawn value had been seen so often not to matter
OTHER_WAY = 0.1  # share of draws that may have the other sign and the gain still be taken to have one
STEPS = 60
FAR = 6.0  # logarithm of the largest and smallest factor from the mean


def smoothed(gains: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the gain of each draw as a law of its drawn values says, from noisy gains; `drawn` has a row a draw.

    Log-linear in the logarithms of the drawn values, fitted by quasi-likelihood with a variance in proportion to the
    mean (McCullagh and Nelder, Generalized Linear Models, 1989, ch. 9), where all but one draw in ten have one sign;
    else linear in them. A light ridge keeps values that say nothing from fitting luck. The law of p values that n draws
    are fitted with keeps p / n of the luck's variance: it errs on the wide side, less so with more draws.

    >>> smoothed(np.array([1.0, 1.0, 1.0]), np.array([[2.0], [3.0], [4.0]])).tolist()
    [1.0, 1.0, 1.0]
    """
    mean, features = float(gains.mean()), _features(drawn)
    if not mean or not features.shape[1]:
        return np.full(len(gains), mean)
    relative, design = gains / mean, np.column_stack([np.ones(len(gains)), features])
    if (relative < 0).mean() > OTHER_WAY:
        return mean * (design @ _solved(design, np.ones(len(gains)), relative))
    return mean * np.exp(_log_linear(design, relative))


def _features(drawn: np.ndarray) -> np.ndarray:
    """Return the logarithms of drawn values, each with mean 0 and deviation 1; what never varies is left out."""
    logs = np.log(np.maximum(drawn, 1e-12))
    spread = logs.std(axis=0)
    varies = spread > 1e-9
    return (logs[:, varies] - logs[:, varies].mean(axis=0)) / spread[varies]


def _log_linear(design: np.ndarray, relative: np.ndarray) -> np.ndarray:
    """Return the logarithm of the fitted mean; steps are halved, so that they never run away."""
    found = np.zeros(design.shape[1])
    for _ in range(STEPS):
        log_mean = np.clip(design @ found, -FAR, FAR)
        mean = np.exp(log_mean)
        found = (found + _solved(design, mean, log_mean + (relative - mean) / mean)) / 2
    return np.clip(design @ found, -FAR, FAR)


def _solved(design: np.ndarray, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    penalty = np.diag([0.0, *[RIDGE] * (design.shape[1] - 1)])
    weighted = (design * weights[:, None]).T
    return np.linalg.solve(weighted @ design + penalty, weighted @ values)
