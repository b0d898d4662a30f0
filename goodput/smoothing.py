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
    else linear in them. A light ridge keeps values that say nothing from fitting luck, and the variance that luck
    gives to the law all the same is taken off it.

    >>> smoothed(np.array([1.0, 1.0, 1.0]), np.array([[2.0], [3.0], [4.0]])).tolist()
    [1.0, 1.0, 1.0]
    """
    mean, features = float(gains.mean()), _features(drawn)
    if not mean or not features.shape[1]:
        return np.full(len(gains), mean)
    relative, design = gains / mean, np.column_stack([np.ones(len(gains)), features])
    if (relative < 0).mean() > OTHER_WAY:
        weights = np.ones(len(gains))
        law = design @ _solved(design, weights, relative)
        return mean * _without_luck(design, weights, law, relative - law)
    law = _log_linear(design, relative)
    return mean * np.exp(_without_luck(design, np.exp(law), law, relative / np.exp(law) - 1))


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


def _without_luck(design: np.ndarray, weights: np.ndarray, law: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return a fitted law, drawn towards its mean by what of its spread is fitted luck.

    The variance that luck gives to a law of so many values follows from what the law leaves over, `errors` on its own
    scale: as of a regression's fitted values, with a ridge.
    """
    gram = (design * weights[:, None]).T @ design
    inverse = np.linalg.inv(gram + _penalty(design))
    effective = np.trace(inverse @ gram)
    left_over = float((weights * errors**2).sum()) / max(1.0, len(law) - effective)
    covariance = left_over * inverse @ gram @ inverse
    centred = design - np.average(design, axis=0)
    luck = float(np.einsum("ij,jk,ik->i", centred, covariance, centred).mean())
    kept = np.sqrt(max(0.0, 1 - luck / law.var())) if law.var() else 0.0
    return law.mean() + kept * (law - law.mean())


def _penalty(design: np.ndarray) -> np.ndarray:
    return np.diag([0.0, *[RIDGE] * (design.shape[1] - 1)])


def _solved(design: np.ndarray, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    weighted = (design * weights[:, None]).T
    return np.linalg.solve(weighted @ design + _penalty(design), weighted @ values)
