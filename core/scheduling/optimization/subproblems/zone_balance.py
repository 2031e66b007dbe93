"""Gives every zone the same mix of resources, by the pods that may run in several zones.

Pods that rules hold to a zone may want more memory for their CPU than its machines have, and pods of another zone less. The
fluid program does not see that whole pods fill such machines badly.
"""

from __future__ import annotations

import numpy as np

from core.packing.problem import Bools, Floats, Ints


def balanced_shares(shares: Floats, *, sizes: Floats, counts: Ints, may: Bools, weights: Floats, rounds: int) -> Floats:
    """The shares nearest to those given under which each zone gets as much of every resource as its weight says.

    Args:
        shares: [group, zone], which part of the group each zone gets, before.
        sizes: [group, resource], what one pod requests, over all that is requested.
        counts: [group], pods.
        may: [group, zone], whether the group's pods may run there.
        weights: [zone], which part of every resource each zone should get.
        rounds: Corrections: where one would give a zone less than nothing, the next spreads what is left of it.
    """
    # Least squares over the pods of free groups: minimise Σ counts[g] d[g, z]² subject to Σ_g counts[g] sizes[g] d[g, z] =
    # lacking[z]. Its solution is d[g, z] = sizes[g] · M⁺ lacking[z] with M = Σ_g counts[g] sizes[g] sizes[g]ᵀ. What zones lack
    # sums to nothing, so the changes of a group do, too. lacking: [zone, resource].
    free = may.sum(axis=1) > 1
    pods = counts.astype(float)
    inverse = np.linalg.pinv((sizes[free] * pods[free, None]).T @ sizes[free])
    for _ in range(rounds):
        lacking = weights[:, None] - (shares * pods[:, None]).T @ sizes
        changed = np.clip(shares + sizes @ inverse @ lacking.T, 0.0, 1.0) * may
        total = changed.sum(axis=1, keepdims=True)
        is_kept = ~free[:, None] | (total <= 0)
        shares = np.where(is_kept, shares, changed / np.where(total > 0, total, 1.0))
    return shares


def whole_pods(shares: Floats, *, sizes: Floats, counts: Ints, slack: float) -> Ints:
    """[group, zone], shares in whole pods: what rounding leaves over goes where the most of what it requests is lacking.

    Args:
        shares: [group, zone], which part of the group each zone gets.
        sizes: [group, resource], what one pod requests, over all that is requested.
        counts: [group], pods.
        slack: How far below a whole number a product counts as that number.
    """
    wanted = shares * counts[:, None]
    pods: Ints = np.floor(wanted + slack).astype(np.int64)
    lacking = (wanted - pods).T @ sizes
    left = counts - pods.sum(axis=1)
    for group in np.argsort(-sizes.max(axis=1), kind="stable"):
        for _ in range(int(left[group])):
            zone = int(np.where(shares[group] > 0, lacking @ sizes[group], -np.inf).argmax())
            pods[group, zone] += 1
            lacking[zone] -= sizes[group]
    return pods
