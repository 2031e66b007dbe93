"""Describes how a plan may differ from the first one, and which changes may help pods without a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from core.scheduling.greedy.guided_steps import BarredDomain, ScatteredPods
from core.scheduling.pods.pod_group import PendingGroup
from core.scheduling.replanning.topology_conflicts import TopologyConflicts


class PlanVariation(NamedTuple):
    """Changes to the order of the queue and to the choice of domains, by the numbers of signatures.

    Attributes:
        first: Signatures that go before the others, in this order.
        last: Signatures that go after them, in this order.
        barred: Domains that signatures leave to others until all had their turn.
        scattered: Signatures whose pods take the domains of a key in turn.
    """

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    barred: frozenset[BarredDomain] = frozenset()
    scattered: frozenset[ScatteredPods] = frozenset()

    def rank(self, pending_group: PendingGroup) -> int:
        """Return a group's rank in the queue, which precedes all other criteria."""
        signature = pending_group.pod_group.signature.index
        if signature in self.first:
            return self.first.index(signature) - len(self.first)
        return self.last.index(signature) + 1 if signature in self.last else 0

    def neighbours(self, signature: int, conflicts: TopologyConflicts) -> Iterator[PlanVariation]:
        """Variations with one change more that may help pods of a signature, the most promising first."""
        ahead = self._ahead(signature)
        yield ahead
        for key, others in conflicts.followed.items():
            everywhere = [(other, key, conflicts.values[key]) for other in others]
            yield self._replace(scattered=self.scattered | {*everywhere})
            for one in everywhere:
                yield self._replace(scattered=self.scattered | {one})
        for key, others in conflicts.repelled.items():
            for value in conflicts.values[key]:
                barred = self.barred | {(other, key, value) for other in others}
                yield ahead._replace(barred=barred)
                yield self._replace(barred=barred)
        for other in conflicts.signatures:
            yield self._behind(other)
            for key, values in conflicts.values.items():
                for value in values:
                    yield self._replace(barred=self.barred | {(other, key, value)})
        for key, values in conflicts.values.items():
            for value in values:
                yield self._replace(barred=self.barred | {(signature, key, one) for one in values if one != value})

    def _ahead(self, signature: int) -> PlanVariation:
        return self._replace(first=(signature, *_without(self.first, signature)), last=_without(self.last, signature))

    def _behind(self, signature: int) -> PlanVariation:
        return self._replace(first=_without(self.first, signature), last=(*_without(self.last, signature), signature))


def _without(signatures: tuple[int, ...], signature: int) -> tuple[int, ...]:
    return tuple(one for one in signatures if one != signature)
