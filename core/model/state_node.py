"""A node and its NodeClaim as one view: its pods, present and expected, and its room."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from core import labels
from core.model import plan
from core.model.plan import NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Node, Snapshot
from core.model.values.taints import LEAVING, REBOOTING, Taint, is_ephemeral
from core.reasons.code import ClaimReason

_key_of: Final = attrgetter("key")


class StateNode(msgspec.Struct, frozen=True, kw_only=True):
    """A Node, a launched NodeClaim whose Node has not joined, or both; never neither.

    Attributes:
        pods: Every pod bound to the node that has not finished, DaemonSet and mirror pods included, by key.
    """

    node: Node | None = None
    claim: NodeClaim | None = None
    pods: tuple[Pod, ...] = ()

    @property
    def name(self) -> str:
        """The node's name, or the claim's before its node has joined."""
        return self.node.name if self.node is not None else self.claim.name if self.claim is not None else ""

    @property
    def claim_name(self) -> str:
        """The claim's name, empty for a node that is not ours."""
        return self.claim.name if self.claim is not None else ""

    @property
    def provider_id(self) -> str:
        """The provider id of its instance, empty if unknown."""
        node_id = self.node.provider_id if self.node is not None else ""
        return node_id or (self.claim.provider_id if self.claim is not None else "")

    @property
    def is_managed(self) -> bool:
        """Whether it has a NodeClaim."""
        return self.claim is not None

    @property
    def is_proven(self) -> bool:
        """Whether there is more of it than a Node object, which anyone with the right to create Nodes can write.

        Either it has a claim, or a pod runs on it, for example that of a DaemonSet.
        """
        return self.claim is not None or any(p.phase == "Running" and p.is_ready is not False for p in self.pods)

    @property
    def is_registered(self) -> bool:
        """Whether its node has joined and has the claim's labels and taints; always true for nodes that we do not manage."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.labels.get(labels.REGISTERED) == "true"

    @property
    def has_vanished(self) -> bool:
        """Whether its node joined and is gone; the node of a launching claim has not joined yet."""
        return self.node is None and self.claim is not None and self.claim.is_true(plan.REGISTERED)

    @property
    def is_initialized(self) -> bool:
        """Whether it was once ready with all its resources; always true for nodes that we do not manage."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.labels.get(labels.INITIALIZED) == "true"

    @property
    def is_rebooting(self) -> bool:
        """Whether Karpenter is rebooting it: it comes back, and nothing else disrupts it until then."""
        return self.claim is not None and self.claim.is_true(plan.REBOOTING)

    @property
    def is_starting(self) -> bool:
        """Whether its initialization is still expected to complete; a late claim is judged by its node's present state."""
        if self.is_rebooting:
            return True
        if self.claim is None or self.is_initialized:
            return False
        condition = self.claim.conditions.get(plan.INITIALIZED)
        return condition is None or condition.reason != ClaimReason.INITIALIZATION_TIMEOUT

    @property
    def labels(self) -> Mapping[str, str]:
        """The claim's labels until it is registered, then the node's."""
        if self.node is not None and (self.is_registered or self.claim is None):
            return self.node.labels
        return self.claim.labels if self.claim is not None else {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The claim's annotations until it is registered, then the node's."""
        if self.node is not None and (self.is_registered or self.claim is None):
            return self.node.annotations
        return self.claim.annotations if self.claim is not None else {}

    @property
    def hostname(self) -> str:
        """Its `kubernetes.io/hostname`, or its name without such a label."""
        return self.labels.get(labels.HOSTNAME) or self.name

    @property
    def node_pool(self) -> str:
        """Name of its NodePool, empty if it has none."""
        return self.labels.get(labels.NODEPOOL, "")

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that count for scheduling: not `LEAVING`, nor those that a starting or rebooting node of ours loses."""
        if self.node is not None and (self.is_registered or self.claim is None):
            present = self.node.taints
        else:
            present = self.claim.taints if self.claim is not None else ()
        if LEAVING in present:
            present = tuple(taint for taint in present if taint != LEAVING)
        if self.claim is None or not self.is_starting:
            return present
        passing = (*self.claim.startup_taints, *([REBOOTING] if self.is_rebooting else []))
        return tuple(t for t in present if not is_ephemeral(t) and not any(t.matches(taint) for taint in passing))

    @property
    def capacity(self) -> Mapping[str, int]:
        """The machine's capacity; while it is starting, gaps are filled from the claim."""
        reported = self.node.capacity if self.node is not None else {}
        return self._filled(reported, self.claim.capacity if self.claim is not None else {})

    @property
    def allocatable(self) -> Mapping[str, int]:
        """What pods may request in total; while it is starting, gaps are filled from the claim."""
        reported = self.node.allocatable if self.node is not None else {}
        return self._filled(reported, self.claim.allocatable if self.claim is not None else {})

    def is_marked_for_deletion(self, snapshot: Snapshot) -> bool:
        """Whether it is leaving: its node or claim being deleted, its instance terminating, or named by a command in progress.

        A node that is being deleted leaves although its claim is not being deleted yet: Karpenter deletes the claim for it.
        """
        if self.node is not None and self.node.deleted_at is not None:
            return True
        if self.claim is None:
            return False
        going = self.claim.deleted_at is not None or self.claim.is_true(plan.INSTANCE_TERMINATING)
        return going or self.claim.name in snapshot.marked_for_deletion

    def _filled(self, reported: Mapping[str, int], promised: Mapping[str, int]) -> Mapping[str, int]:
        if not self.is_starting:
            return reported
        merged = dict(promised)
        merged.update({name: amount for name, amount in reported.items() if amount})
        return merged


def state_nodes(snapshot: Snapshot) -> tuple[StateNode, ...]:
    """Return every existing or launching node, by name.

    A claim and a node are joined if the claim names the node or both name one instance, which no other node may name. A claim
    without an instance is not a node yet: it offers no room.
    """
    return _state_nodes(snapshot, _state_node)


class KnownStateNodes:
    """The state nodes of one snapshot, for those that the next snapshot has unchanged, as the same objects."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Sequence[Pod], StateNode]] = {}

    def of(self, snapshot: Snapshot) -> tuple[StateNode, ...]:
        """Return `state_nodes` of the next snapshot."""
        before, self._known = self._known, {}

        def known_or_new(node: Node | None, claim: NodeClaim | None, pods: Sequence[Pod]) -> StateNode:
            # A state node keeps these objects alive, so no others have their identities.
            identity = id(node), id(claim)
            cached = before.get(identity)
            if cached is None or len(cached[0]) != len(pods) or not all(map(operator.is_, cached[0], pods)):
                cached = pods, _state_node(node, claim, pods)
            self._known[identity] = cached
            return cached[1]

        return _state_nodes(snapshot, known_or_new)


def _state_nodes(
    snapshot: Snapshot, view: Callable[[Node | None, NodeClaim | None, Sequence[Pod]], StateNode]
) -> tuple[StateNode, ...]:
    by_node: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node_name and not pod.is_terminal:
            by_node.setdefault(pod.node_name, []).append(pod)
    claims = _claims_by_node(snapshot)
    states = [view(node, claims.get(node.name), by_node.get(node.name, ())) for node in snapshot.nodes]
    taken = {state.claim_name for state in states}
    states += [
        view(None, claim, by_node.get(claim.node_name, ()) if claim.node_name else ())
        for claim in snapshot.node_claims
        if claim.name not in taken and claim.provider_id
    ]
    return tuple(sorted(states, key=lambda state: (state.name, state.claim_name)))


def _state_node(node: Node | None, claim: NodeClaim | None, pods: Sequence[Pod]) -> StateNode:
    return StateNode(node=node, claim=claim, pods=tuple(sorted(pods, key=_key_of)))


def _claims_by_node(snapshot: Snapshot) -> dict[str, NodeClaim]:
    ordered = sorted(snapshot.node_claims, key=lambda claim: claim.name)
    by_name = {claim.node_name: claim for claim in reversed(ordered) if claim.node_name}
    by_instance = {claim.provider_id: claim for claim in reversed(ordered) if claim.provider_id}
    times = Counter(node.provider_id for node in snapshot.nodes)
    by_node: dict[str, NodeClaim] = {}
    used: set[str] = set()
    for node in sorted(snapshot.nodes, key=lambda n: n.name):
        claim = by_instance.get(node.provider_id) if node.provider_id and times[node.provider_id] == 1 else None
        if claim is not None and claim.is_true(plan.REGISTERED) and claim.node_name not in ("", node.name):
            claim = None  # a copy of the id: the claim has registered another Node
        claim = claim or by_name.get(node.name)
        if claim is not None and claim.name not in used:
            by_node[node.name] = claim
            used.add(claim.name)
    return by_node
