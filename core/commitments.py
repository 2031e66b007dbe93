"""Divides commitments among running nodes: each node's remaining cost, and the amounts that new nodes can still use.

EC2 decides hour by hour which instances a commitment covers; the total bill is the same for every choice. Here the nodes that
consolidation is least likely to remove are covered first, and a covered node costs nothing. Consolidation therefore saves only
what is still paid, and never frees a commitment that nothing uses afterwards (docs/engineering/handbook/prices.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from core import labels
from core.interpreter import ByIdentity
from core.model.plan import NodeClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.commitment import Commitment
from core.model.values.quantity import CPU, MEMORY, PPM
from core.pools import PoolTypes, node_price, pool_types, type_of

SNAPSHOTS_REMEMBERED: Final = 4


class NodeCoverage(msgspec.Struct, frozen=True):
    """The coverage of one node.

    Attributes:
        price: Nano-dollars per hour that commitments do not cover.
        taken: Name of a commitment → how much of its amount it takes.
    """

    price: int
    taken: dict[str, int] = {}


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The commitments of a cluster, divided.

    Attributes:
        commitments: The commitments in force, in the order in which EC2 applies them.
        nodes: Node name → its coverage, for every on-demand node that is not being deleted.
        left: Commitment name → the amount that neither nodes nor launching claims use.
    """

    commitments: tuple[Commitment, ...] = ()
    nodes: dict[str, NodeCoverage] = {}
    left: dict[str, int] = {}

    def without(self, gone: Iterable[str]) -> dict[str, int]:
        """Return the unused amount of each commitment after these nodes are removed."""
        remaining_amount = dict(self.left)
        for name in gone:
            for commitment, amount in self.nodes[name].taken.items() if name in self.nodes else ():
                remaining_amount[commitment] += amount
        return remaining_amount


NO_COVERAGE: Final = Coverage()


def paid_price(state: StateNode, snapshot: Snapshot) -> int:
    """Return a node's price less the part that commitments cover, in nano-dollars per hour; 0 if its price is unknown."""
    covered = coverage_of(snapshot).nodes.get(state.name)
    if covered is not None:
        return covered.price
    return node_price(state.labels, type_of(state.labels, pool_types(snapshot).by_name(state.node_pool)))


def _coverage(snapshot: Snapshot) -> Coverage:
    current = (
        commitment
        for commitment in snapshot.options.commitments
        if commitment.ends_at is None or snapshot.now < commitment.ends_at
    )
    commitments = tuple(sorted(current, key=lambda commitment: (commitment.breadth, commitment.name)))
    if not commitments:
        return NO_COVERAGE
    remaining_amount = {commitment.name: commitment.amount for commitment in commitments}
    states, types = state_nodes(snapshot), pool_types(snapshot)
    staying = [state for state in states if not state.is_marked_for_deletion(snapshot) and _is_on_demand(state)]
    nodes = {
        state.name: _covered(state, types, commitments, remaining_amount)
        for state in sorted(staying, key=_removed_last)
    }
    launched = {state.claim_name for state in states}
    for claim in sorted(snapshot.node_claims, key=lambda claim: claim.name):
        if claim.name not in launched and claim.deleted_at is None:
            _hold(claim, types, commitments, remaining_amount)
    return Coverage(commitments=commitments, nodes=nodes, left=remaining_amount)


coverage_of: Final = ByIdentity(_coverage, size=SNAPSHOTS_REMEMBERED)
"""The coverage of a snapshot's nodes."""


def _is_on_demand(state: StateNode) -> bool:
    """Whether commitments can cover the node: on-demand and shared hardware. Nodes of EKS node groups have EKS' own label."""
    kind = state.labels.get(labels.CAPACITY_TYPE) or state.labels.get(labels.EKS_CAPACITY_TYPE, labels.ON_DEMAND)
    is_shared = state.labels.get(labels.TENANCY, labels.SHARED_TENANCY) == labels.SHARED_TENANCY
    return is_shared and kind.lower().replace("_", "-") == labels.ON_DEMAND


def _removed_last(state: StateNode) -> tuple[bool, int, str]:
    """Sort key: nodes that we do not manage first, then the fullest."""
    requested = {name: sum(pod.spec.requests.get(name, 0) for pod in state.pods) for name in (CPU, MEMORY)}
    shares = (amount * PPM // (state.allocatable.get(name) or PPM * amount or 1) for name, amount in requested.items())
    return state.is_managed, -max(shares), state.name


def _covered(
    state: StateNode, types: PoolTypes, commitments: Sequence[Commitment], remaining_amount: dict[str, int]
) -> NodeCoverage:
    """Cover a node from the unused amounts and reduce these; several commitments may share one node."""
    node_labels = {**state.labels, labels.CAPACITY_TYPE: labels.ON_DEMAND}
    name, zone = node_labels.get(labels.INSTANCE_TYPE, ""), node_labels.get(labels.ZONE, "")
    price = node_price(node_labels, type_of(node_labels, types.by_name(state.node_pool)))
    full_price = uncovered = price or 1  # an instance of unknown price uses reserved instances, too
    taken: dict[str, int] = {}
    for commitment in commitments:
        wanted = -(-commitment.charge(name, zone, price) * uncovered // full_price)
        amount = min(wanted, remaining_amount[commitment.name])
        if amount:
            taken[commitment.name] = amount
            remaining_amount[commitment.name] -= amount
            uncovered -= uncovered * amount // wanted
    return NodeCoverage(min(price, uncovered), taken)


def _hold(
    claim: NodeClaim, types: PoolTypes, commitments: Sequence[Commitment], remaining_amount: dict[str, int]
) -> None:
    """Reserve the charge of a launching claim's largest type, if the claim can only become on-demand capacity."""
    admitted: Mapping[str, tuple[str, ...]] = {r.key: r.values for r in claim.requirements if not r.complement}
    is_shared = labels.SHARED_TENANCY in admitted.get(labels.TENANCY, (labels.SHARED_TENANCY,))
    if not is_shared or admitted.get(labels.CAPACITY_TYPE) != (labels.ON_DEMAND,):
        return
    node_class = claim.node_class.name if claim.node_class is not None else ""
    types_by_name = types.by_name(claim.labels.get(labels.NODEPOOL, ""), node_class)
    offers = [
        offering
        for name in admitted.get(labels.INSTANCE_TYPE, ())
        for offering in (types_by_name[name].offerings if name in types_by_name else ())
        if offering.capacity_type == labels.ON_DEMAND and offering.zone in admitted.get(labels.ZONE, (offering.zone,))
    ]
    for commitment in commitments:
        wanted = max((commitment.charge(o.instance_type, o.zone, o.price) for o in offers), default=0)
        if wanted and remaining_amount[commitment.name]:
            remaining_amount[commitment.name] -= min(wanted, remaining_amount[commitment.name])
            return
