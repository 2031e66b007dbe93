"""Gives every zone the same mix of resources, by distributing the pods that may run in several zones.

The pods that rules hold to one zone may need more memory per CPU than its machines have, and those of another zone less. Whole
pods then fill the machines badly, which the fluid program does not see.
"""

from __future__ import annotations

import numpy as np

from core.packing.problem import Bools, Floats, Ints


def balanced_shares(shares: Floats, *, sizes: Floats, counts: Ints, may: Bools, weights: Floats, rounds: int) -> Floats:
    """Return the shares nearest to the given ones at which each zone gets its part (`weights`) of every resource.

    Args:
        shares: [group, zone], the part of the group in each zone, before the correction.
        sizes: [group, resource], one pod's request divided by the total requests.
        counts: [group], pods.
        may: [group, zone], whether the group's pods may run there.
        weights: [zone], the part of every resource that each zone should get.
        rounds: The most corrections: if one would make a share negative, the next distributes the remaining imbalance.
    """
    # Least squares over the pods of free groups: minimise Σ counts[g] d[g, z]² subject to Σ_g counts[g] sizes[g] d[g, z] =
    # lacking[z]. Its solution is d[g, z] = sizes[g] · M⁺ lacking[z] with M = Σ_g counts[g] sizes[g] sizes[g]ᵀ. The lacking
    # amounts sum to zero over zones, so the changes of each group do too. lacking: [zone, resource].
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
    """Return [group, zone], shares in whole pods; each pod left over goes to the zone that lacks most of what it requests.

    Args:
        shares: [group, zone], the part of the group in each zone.
        sizes: [group, resource], one pod's request divided by the total requests.
        counts: [group], pods.
        slack: A product this little below a whole number counts as that number.
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
