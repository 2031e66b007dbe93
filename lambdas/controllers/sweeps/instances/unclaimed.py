"""Finds instances with our claim tag that belong to no known claim, and classifies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Instance
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.launching.shared_launch import is_unnamed, launch_name
from core.model.node import Node


class UnclaimedInstance(msgspec.Struct, frozen=True):
    """An instance with our claim tag and no known claim.

    Attributes:
        node: Its node, None if none has joined or several have its provider id.
        problem: Why no claim can be rebuilt for it, empty if one can.
    """

    instance: Instance
    node: Node | None
    problem: str


class UnclaimedInstances(msgspec.Struct, frozen=True):
    """The instances with our claim tag and no known claim, each by id.

    Attributes:
        awaited: Instance → name of the stored claim that waits for it because its launch response was lost.
        unnamed: Instance of a shared launch → name of its claim, after which it is not named yet.
        unclaimed: Instances whose claim's row is lost, or that never had a claim of ours.
        tagged: How many instances have the tag, including known ones.
    """

    awaited: tuple[tuple[Instance, str], ...]
    unnamed: tuple[tuple[Instance, str], ...]
    unclaimed: tuple[UnclaimedInstance, ...]
    tagged: int

    @property
    def rebuildable(self) -> tuple[UnclaimedInstance, ...]:
        """Return the unclaimed instances for which a claim can be rebuilt now."""
        return tuple(found for found in self.unclaimed if not found.problem)


def untracked(
    instances: Iterable[Instance], view: ClusterState, now: datetime, *, min_age: timedelta
) -> UnclaimedInstances:
    """Classify the instances. They must be listed before the view's claims are read, so that a missing claim is really gone.

    Args:
        instances: All of this cluster.
        view: The observation. Instances of claims whose rows cannot be read are left out: those claims are not gone.
        now: The time of the observation.
        min_age: Unclaimed instances that were launched more recently are left out.
    """
    tagged = [found for found in instances if found.is_alive and labels.CLAIM in found.tags]
    known = {record.instance_id: record.name for record in view.claims.values()}
    missing = (found for found in tagged if found.instance_id not in known and not _may_be_unreadable(found, view))
    found = sorted(missing, key=lambda found: found.instance_id)
    nodes, awaited = _by_provider_id(view.snapshot.nodes), _awaited(found, view)
    return UnclaimedInstances(
        awaited=tuple(
            (instance, awaited[instance.instance_id]) for instance in found if instance.instance_id in awaited
        ),
        unnamed=tuple(
            (instance, known[instance.instance_id])
            for instance in sorted(tagged, key=lambda found: found.instance_id)
            if instance.instance_id in known and is_unnamed(instance.tags)
        ),
        unclaimed=tuple(
            UnclaimedInstance(instance, nodes.get(instance.provider_id), _problem(instance, nodes, view, now))
            for instance in found
            if instance.instance_id not in awaited and now - instance.launched_at >= min_age
        ),
        tagged=len(tagged),
    )


def _may_be_unreadable(found: Instance, view: ClusterState) -> bool:
    """Whether the instance may belong to a claim whose row cannot be read.

    Names of claims that share a launch differ in what follows the last hyphen only.
    """
    if not is_unnamed(found.tags):
        return found.tags[labels.CLAIM] in view.unreadable_claims
    launched = [record for record in view.claims.values() if launch_name(record) == found.tags[labels.LAUNCH]]
    if launched and len(launched) >= launched[0].shares:
        return False
    prefix = launched[0].name.rpartition("-")[0] if launched else found.tags.get(labels.NODEPOOL, "")
    return any(name.startswith(f"{prefix}-") for name in view.unreadable_claims)


def _problem(found: Instance, nodes: Mapping[str, Node], view: ClusterState, now: datetime) -> str:
    """Return why no claim can be rebuilt for it now, empty if one can."""
    name, pool = found.tags[labels.CLAIM], found.tags.get(labels.NODEPOOL, "")
    if name in view.claims:
        return f"claim {name} has another instance, {view.claims[name].instance_id}"
    if pool not in view.node_pools and labels.MADE_BY_HAND not in found.tags:
        return f"its NodePool {pool or '(none)'} does not exist"
    # An older rebuilt claim would be removed at once as not having joined: an empty list of nodes would remove the whole
    # fleet.
    if found.provider_id not in nodes and now - found.launched_at >= REGISTRATION_TIMEOUT:
        return f"claim {name} is not in the table and no node of it has joined"
    return ""


def _awaited(instances: Iterable[Instance], view: ClusterState) -> Mapping[str, str]:
    """Return instance id → the name of the claim that waits for it; those of a shared launch are assigned in order."""
    waiting: dict[str, list[str]] = {}
    for record in sorted(view.claims.values(), key=lambda record: (record.share, record.name)):
        if record.machine is None:
            waiting.setdefault(launch_name(record), []).append(record.name)
            if record.shares > 1:
                waiting.setdefault(record.name, []).append(record.name)
    found: dict[str, str] = {}
    for instance in instances:
        names = waiting.get(instance.tags[labels.CLAIM], [])
        if names:
            found[instance.instance_id] = names.pop(0) if is_unnamed(instance.tags) else names[0]
    return found


def _by_provider_id(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    """Return the nodes that are the only ones with their provider id."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.provider_id, []).append(node)
    return {provider_id: same[0] for provider_id, same in found.items() if provider_id and len(same) == 1}
