"""Computes the cost of moving pods, by Karpenter's formula: 1 + deletion cost / 2^27 + priority / 2^25, within ±10."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core import labels
from core.model.pod import Pod

UNIT: Final = 2**27
"""The cost of evicting one ordinary pod."""

_BOUND: Final = 10 * UNIT
_INT32: Final = 2**31


def eviction_cost(pod: Pod) -> int:
    """Return the cost of evicting the pod. A deletion cost that is not a 32-bit number counts as none, as in Kubernetes."""
    text = pod.annotations.get(labels.POD_DELETION_COST, "")
    digits = text[1:] if text[:1] in ("-", "+") else text
    deletion_cost = int(text) if digits.isascii() and digits.isdigit() else 0
    if not -_INT32 <= deletion_cost < _INT32:
        deletion_cost = 0
    return max(-_BOUND, min(_BOUND, UNIT + deletion_cost + 4 * pod.spec.priority))


def reschedule_cost(pods: Iterable[Pod]) -> int:
    """Return the cost of moving all pods of a node: one unit for the node plus each pod's cost, at least zero each.

    A cost of one unit or less means that the node counts as empty: pods that cost nothing to evict do not keep it.
    """
    return UNIT + sum(max(0, eviction_cost(pod)) for pod in pods)
