"""Counts the pods that leave the nodes which a plan removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from core.model.pod import Pod
from core.scheduling.pods.pod_group import PodSignature

_NOBODY: Final[Mapping[int, int]] = {}


class Departures(msgspec.Struct, frozen=True, eq=False):
    """Which nodes a plan removes, and which of their pods it places elsewhere.

    All other pods of these nodes count where they are while the plan's pods are placed: DaemonSets' pods, mirror pods, those
    that may not be evicted, and those that end without a successor (Karpenter).

    Attributes:
        positions: The nodes.
        active, ending: Index of a signature → node position → how many of its pods leave; apart, as in `PodSignature`.
    """

    positions: tuple[int, ...] = ()
    active: Mapping[int, Mapping[int, int]] = msgspec.field(default_factory=dict)
    ending: Mapping[int, Mapping[int, int]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, positions: Iterable[int], pods: Iterable[tuple[PodSignature, Pod, int]]) -> Departures:
        """Count pods that leave.

        Args:
            positions: The nodes that the plan removes.
            pods: Every pod that the plan places elsewhere, with the node where it is.
        """
        active: dict[int, dict[int, int]] = {}
        ending: dict[int, dict[int, int]] = {}
        for signature, pod, position in pods:
            counts = (ending if pod.is_terminating else active).setdefault(signature.index, {})
            counts[position] = counts.get(position, 0) + 1
        return cls(tuple(sorted(positions)), active, ending)

    def counted(self, signature: PodSignature, *, with_ending: bool) -> Iterator[tuple[int, int]]:
        """Return node and number of the pods that leave, terminating ones only if requested."""
        yield from self.active.get(signature.index, _NOBODY).items()
        if with_ending:
            yield from self.ending.get(signature.index, _NOBODY).items()


NO_DEPARTURES: Final = Departures()
"""A plan that removes no node."""
