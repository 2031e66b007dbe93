"""Computes how much of each commitment launches of each NodePool's instance types would use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.commitment import Commitment
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.threshold_index import ThresholdIndex


class TypeCharges:
    """The charges of one commitment for one NodePool's types, by position: the maximum over the type's zones."""

    def __init__(self, commitment: Commitment, types: Sequence[InstanceType]) -> None:
        charges = [
            max((commitment.charge(found.name, o.zone, o.price) for o in _on_demand(found)), default=0)
            for found in types
        ]
        self._index = ThresholdIndex(charges)
        self._uncovered = self._index.at_most(0)

    def within(self, amount: int) -> TypeMask:
        """Return the types that this amount covers completely."""
        return TypeMask(self._index.at_most(amount) & ~self._uncovered)

    def largest(self, among: TypeMask) -> int:
        """Return the most that any of these types uses."""
        return self._index.largest(among)


class CommitmentCharges:
    """The charges of all commitments for all NodePools.

    Attributes:
        commitments: The commitments in force, in the order in which EC2 applies them.
        of: Position of a commitment, index of a template → the charges of its types.
    """

    def __init__(self, commitments: Sequence[Commitment], templates: Sequence[NodeClaimTemplate]) -> None:
        self.commitments = commitments
        self._templates = templates
        self.of: Callable[[int, int], TypeCharges] = memo(partial(_of, commitments, templates))

    def worth(self, position: int, amount: int) -> int:
        """Return the most that this amount of a commitment can save on new nodes, in nano-dollars per hour."""
        commitment = self.commitments[position]
        offers = (o for template in self._templates for found in template.types.types for o in _on_demand(found))
        charged = ((o.price, commitment.charge(o.instance_type, o.zone, o.price)) for o in offers)
        return max((-(-price * amount // charge) for price, charge in charged if charge), default=0)


def _of(
    commitments: Sequence[Commitment], templates: Sequence[NodeClaimTemplate], position: int, index: int
) -> TypeCharges:
    return TypeCharges(commitments[position], templates[index].types.types)


def _on_demand(found: InstanceType) -> list[Offering]:
    return [o for o in found.offerings if o.capacity_type == labels.ON_DEMAND and o.available]
