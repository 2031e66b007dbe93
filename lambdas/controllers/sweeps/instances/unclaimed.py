"""Finds instances that carry our claim tag and belong to no known claim, and what can be done about each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.model.node import Node
from lambdas.observation.cluster_state import ClusterState
from lambdas.ports import Instance


class UnclaimedInstance(msgspec.Struct, frozen=True):
    """An instance with our claim tag and no known claim.

    Attributes:
        node: Its node, None where none has joined or several carry its provider id.
        problem: Why no claim can be rebuilt for it, empty where one can.
    """

    instance: Instance
    node: Node | None
    problem: str


class UnclaimedInstances(msgspec.Struct, frozen=True):
    """The instances with our claim tag and no known claim, each by id.

    Attributes:
        awaited: Their claim is stored and waits for the answer to its launch.
        strangers: Instances whose claim's row is lost, or that never had a claim of ours.
        tagged: How many instances carry the tag, known ones included.
    """

    awaited: tuple[Instance, ...]
    strangers: tuple[UnclaimedInstance, ...]
    tagged: int

    @property
    def rebuildable(self) -> tuple[UnclaimedInstance, ...]:
        """Return the strangers for which a claim can be rebuilt now."""
        return tuple(found for found in self.strangers if not found.problem)


def untracked(
    instances: Iterable[Instance], view: ClusterState, now: datetime, *, min_age: timedelta
) -> UnclaimedInstances:
    """Classify the instances. They must be listed before the view's claims are read: then a missing claim is really gone.

    Args:
        instances: All of this cluster.
        view: The observation.
        now: The moment of the observation.
        min_age: Strangers that were launched more recently are left out.
    """
    tagged = [found for found in instances if found.is_alive and labels.CLAIM in found.tags]
    known = {record.instance_id for record in view.claims.values()}
    found = sorted((found for found in tagged if found.instance_id not in known), key=lambda found: found.instance_id)
    nodes = _by_provider_id(view.snapshot.nodes)
    return UnclaimedInstances(
        awaited=tuple(instance for instance in found if _is_awaited(instance, view)),
        strangers=tuple(
            UnclaimedInstance(instance, nodes.get(instance.provider_id), _problem(instance, nodes, view, now))
            for instance in found
            if not _is_awaited(instance, view) and now - instance.launched_at >= min_age
        ),
        tagged=len(tagged),
    )


def _problem(found: Instance, nodes: Mapping[str, Node], view: ClusterState, now: datetime) -> str:
    """Return why no claim can be rebuilt for it now, empty where one can."""
    name, pool = found.tags[labels.CLAIM], found.tags.get(labels.NODEPOOL, "")
    if name in view.claims:
        return f"claim {name} has another instance, {view.claims[name].instance_id}"
    if pool not in view.node_pools:
        return f"its NodePool {pool or '(none)'} does not exist"
    # A rebuilt claim that is older would be ended at once as not having joined: an empty list of nodes would end the
    # fleet.
    if found.provider_id not in nodes and now - found.launched_at >= REGISTRATION_TIMEOUT:
        return f"claim {name} is not in the table and no node of it has joined"
    return ""


def _is_awaited(found: Instance, view: ClusterState) -> bool:
    record = view.claims.get(found.tags[labels.CLAIM])
    return record is not None and record.machine is None


def _by_provider_id(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    """Return the nodes that are the only ones with their provider id."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.provider_id, []).append(node)
    return {provider_id: same[0] for provider_id, same in found.items() if provider_id and len(same) == 1}
