"""What 1/sqrt(c) is for: the claim of source 1, as an experiment with numbers.

The claim: where c is in the thousands, softmax acts like a step function and gradients get small; dividing the scores by
sqrt(c) cures it. The set-up: Q and K hold independent standard normal numbers, so a score q . k has standard deviation
sqrt(c). Each of 16 sequences has n = 64 queries and 64 keys. The gradient that arrives at A is random and has norm 1 in
every row (V is the identity, so that dA = dC), hence the norm of a row of dS is the factor by which the softmax shrinks
what passes through it.

At c = 4096, with the scale against without it (means over 30 seeds): entropy of A over log n 0.886 against 0.015; median
norm of a row of dS 2.1e-2 against 2.7e-9 (a single seed: 0.4e-9 to 8e-9); rows below 1e-3: none against 83 %. What does not
show it: the mean norm falls only from 2.2e-2 to 3.5e-3, since the few rows that hesitate between two keys keep a large
gradient; the mean norm at Omega and the mean |dQ| are ten times larger without the scale, which multiplies them too; and
up to c = 16 all norms are larger without it.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np

from reference_numpy import attention_stages

WIDTHS = (1, 4, 16, 64, 256, 1024, 4096)
KEYS = 64
SEQUENCES = 16
SMALL = 1e-3


class ScalingRow(TypedDict):
    """One width c, with or without the scale; norms are those of the rows of dS."""

    c: int
    scaled: bool
    entropy: float  # of the rows of A, mean, over log n: 1 is uniform, 0 is a step function
    median_norm: float
    mean_norm: float
    share_small: float  # of rows whose norm is below SMALL
    mean_dOmega: float  # mean norm of a row of dOmega, the gradient at the unscaled scores
    mean_dQ: float  # mean of |dQ|


def scaling_experiment(seed: int) -> list[ScalingRow]:
    """Two rows for each c of WIDTHS: the same Q, K and upstream gradient with the scale 1/sqrt(c), then with scale 1."""
    rng = np.random.default_rng(seed)
    identity = np.broadcast_to(np.eye(KEYS), (SEQUENCES, KEYS, KEYS))
    rows: list[ScalingRow] = []
    for c in WIDTHS:
        Q, K = rng.standard_normal((2, SEQUENCES, KEYS, c))
        dC = rng.standard_normal((SEQUENCES, KEYS, KEYS))
        dC /= np.linalg.norm(dC, axis=-1, keepdims=True)
        for scaled in (True, False):
            stages = attention_stages(Q, K, identity, dC, scale=1.0 / math.sqrt(c) if scaled else 1.0)
            assert stages.dS is not None
            assert stages.dOmega is not None
            assert stages.dQ is not None
            A = stages.A
            entropy = -(A * np.log(np.where(A > 0.0, A, 1.0))).sum(-1)
            norms = np.linalg.norm(stages.dS, axis=-1)
            rows.append(
                ScalingRow(
                    c=c,
                    scaled=scaled,
                    entropy=float(entropy.mean()) / math.log(KEYS),
                    median_norm=float(np.median(norms)),
                    mean_norm=float(norms.mean()),
                    share_small=float((norms < SMALL).mean()),
                    mean_dOmega=float(np.linalg.norm(stages.dOmega, axis=-1).mean()),
                    mean_dQ=float(np.abs(stages.dQ).mean()),
                )
            )
    return rows


def describe(rows: list[ScalingRow]) -> list[str]:
    """The result in four sentences, at the largest c; the last two say what does not show it."""
    c = max(row["c"] for row in rows)
    with_scale, without = (next(r for r in rows if r["c"] == c and r["scaled"] is scaled) for scaled in (True, False))
    ratio = without["mean_dQ"] / with_scale["mean_dQ"]
    return [
        f"At c = {c} the entropy of a row of A is {with_scale['entropy']:.2f} of its maximum with the scale 1/sqrt(c), "
        f"{without['entropy']:.3f} without it: there softmax is nearly a step function.",
        f"An upstream gradient of norm 1 leaves the softmax with a median norm of {with_scale['median_norm']:.1e} with the "
        f"scale and {without['median_norm']:.1e} without it, and below {SMALL:g} in {with_scale['share_small']:.0%} of the "
        f"rows against {without['share_small']:.0%}.",
        f"The mean hides this ({with_scale['mean_norm']:.1e} against {without['mean_norm']:.1e}): the few rows that "
        "hesitate between two keys keep a large gradient.",
        f"And at Omega it is the other way round: the mean norm is {without['mean_dOmega']:.1e} without the "
        f"scale and {with_scale['mean_dOmega']:.1e} with it, the mean |dQ| {without['mean_dQ']:.1e} and "
        f"{with_scale['mean_dQ']:.1e} ({ratio:.1f} times as large without it), since the scale multiplies these gradients.",
    ]
