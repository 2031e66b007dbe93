"""The judges' knowledge of the world, derived from the record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from simulator.record import Event

DISRUPTED: Final = "karpenter.sh/disrupted"
POOL: Final = "karpenter.sh/nodepool"
CLAIM: Final = "karpenter.sh/nodeclaim"
LAUNCH: Final = "fleetwright.dev/launch"
INITIALIZED: Final = "karpenter.sh/initialized"

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_GRACE: Final = 30
"""The default grace period of pods, in seconds."""

AppliedObject = Mapping[str, Any]
"""An applied object; read-only for checkers."""


def claim_of(tags: Mapping[str, str]) -> str:
    """Return the claim that an instance's tags name, empty if none: instances of a shared launch have its name first."""
    claim = tags.get(CLAIM, "")
    return "" if claim == tags.get(LAUNCH) else claim


class PodFacts(msgspec.Struct, kw_only=True):
    """One pod."""

    namespace: str
    owner: str
    labels: dict[str, str]
    annotations: dict[str, str]
    grace_seconds: int
    created_at: datetime
    node: str = ""
    bound_at: datetime | None = None
    is_ready: bool = False
    is_finished: bool = False
    is_leaving: bool = False


class NodeFacts(msgspec.Struct, kw_only=True):
    """One node; `disrupted_for` is the reason on its taint, None while it carries none."""

    pool: str
    instance: str
    is_initialized: bool = False
    disrupted_for: str | None = None
    disrupted_at: datetime | None = None


class InstanceFacts(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        grace: Its NodePool's terminationGracePeriod at its launch.
        claim: The last claim that its tags named.
        launch: The shared launch; empty if the claim was launched alone.
    """

    instance_type: str
    pool: str
    token: str
    launched_at: datetime
    grace: str = ""
    claim: str = ""
    launch: str = ""
    ended_at: datetime | None = None


class Writer(msgspec.Struct, frozen=True):
    """The function that writes a claim's row.

    Attributes:
        since: When the function started; everything that it read is from this time or later.
        asked: When it made the writing call, before its retries and delays.
    """

    since: datetime
    asked: datetime


class Place(msgspec.Struct, kw_only=True):
    """A place in a NodePool's count of leaving nodes, taken by a claim (docs/adr/0026).

    Attributes:
        since: When the function that took it started.
        asked: When that function made the call.
        at: When the place was taken.
        number: How many nodes of the NodePool were leaving then, including this one.
        total: How many nodes the NodePool had then.
    """

    pool: str
    since: datetime
    asked: datetime
    at: datetime
    number: int = 0
    total: int = 0


class Places:
    """The places by instance, derived from rows of claims and taints of nodes."""

    def __init__(self, nodes: Mapping[str, NodeFacts], instances: Mapping[str, InstanceFacts]) -> None:
        self._nodes = nodes
        self._instances = instances
        self._holders: dict[str, tuple[str, str]] = {}
        self._taken: dict[str, Place] = {}
        self._latest: list[Place] = []

    def claim_written(self, now: datetime, writer: Writer | None, name: str, row: Mapping[str, Any] | None) -> None:
        """Take a change of a claim's row. `writer` is None if no function wrote it: the row was lost or restored."""
        before = self._holders.pop(name, None)
        holder = None
        if row is not None and row.get("is_disrupting"):
            holder = row["plan"]["node_pool"], (row.get("machine") or {}).get("instance_id", "")
            self._holders[name] = holder
        if before is not None and holder is None:
            self._taken.pop(before[1], None)
        elif before is None and holder is not None and writer is not None:
            self._latest = [place for place in self._latest if place.at == now]
            place = self._taken[holder[1]] = Place(pool=holder[0], since=writer.since, asked=writer.asked, at=now)
            self._latest.append(place)
        # A transaction writes its rows one by one at the same moment: all of its places count the nodes after the last row.
        for place in self._latest:
            if place.at == now:
                place.number, place.total = self.count(place.pool, place.since)

    def of(self, instance: str) -> Place | None:
        """Return the place that the instance's claim holds, None if no function took one."""
        return self._taken.get(instance)

    def count(self, pool: str, since: datetime) -> tuple[int, int]:
        """Return how many initialized nodes of the NodePool are leaving, and how many it has or had at `since`."""
        holding = {instance for of_pool, instance in self._holders.values() if of_pool == pool}
        # An uninitialized node does not count (Karpenter).
        found = [node for node in self._nodes.values() if node.pool == pool and node.is_initialized]
        alive = [node for node in found if self._ended(node.instance) is None]
        ended = [moment for node in found if (moment := self._ended(node.instance)) is not None]
        going = sum(node.instance in holding or bool(node.disrupted_for) for node in alive)
        return going, len(alive) + sum(moment >= since for moment in ended)

    def _ended(self, instance: str) -> datetime | None:
        """Return when the instance ended, None if it runs; long ago for an unknown instance."""
        facts = self._instances.get(instance)
        return facts.ended_at if facts is not None else _LONG_AGO


class Ledger:
    """Pods, nodes, instances, and the objects that users applied."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.instances: dict[str, InstanceFacts] = {}
        self.places = Places(self.nodes, self.instances)
        self.applied: dict[tuple[str, str, str], AppliedObject] = {}
        self._graces: dict[str, str] = {}
        self._handlers: dict[str, Callable[[datetime, Mapping[str, Any]], None]] = {
            "podCreated": self._pod_created,
            "podBound": self._pod_bound,
            "podReady": lambda _, f: self._set_ready(f["pod"], ready=True),
            "podUnready": lambda _, f: self._set_ready(f["pod"], ready=False),
            "podFinished": self._pod_finished,
            "podEvicted": self._pod_leaving,
            "podDeleted": lambda _, f: self._drop(self.pods, f["pod"]),
            "nodeJoined": self._node_joined,
            "nodeTainted": self._node_tainted,
            "nodeUntainted": self._node_untainted,
            "nodeDeleted": lambda _, f: self._drop(self.nodes, f["node"]),
            "objectApplied": self._object_applied,
            "objectDeleted": lambda _, f: self._drop(self.applied, (f["kind"], f["namespace"], f["name"])),
            "instanceLaunched": self._instance_launched,
            "instanceTagged": self._instance_tagged,
            "instanceTerminated": self._instance_terminated,
        }

    def see(self, moment: datetime, event: Event) -> None:
        """Update from one event."""
        handler = self._handlers.get(event.event)
        if handler is not None:
            handler(moment, event.fields)

    def spec_of(self, kind: str, name: str, namespace: str = "") -> AppliedObject:
        """The spec of an object that was applied, empty where there is none."""
        return self.applied.get((kind, namespace, name), {}).get("spec") or {}

    def of_kind(self, kind: str) -> Iterator[AppliedObject]:
        """The objects of a kind, by name."""
        for key in sorted(self.applied):
            if key[0] == kind:
                yield self.applied[key]

    def pods_on(self, node: str) -> Iterator[tuple[str, PodFacts]]:
        """The pods that run on a node."""
        return ((name, pod) for name, pod in self.pods.items() if pod.node == node and not pod.is_finished)

    def running(self, since: datetime) -> int:
        """How many instances ran at `since` or later."""
        return sum(facts.ended_at is None or facts.ended_at >= since for facts in self.instances.values())

    def node_of(self, instance: str) -> tuple[str, NodeFacts] | None:
        """The node that runs on an instance, with its name."""
        return next(((name, node) for name, node in self.nodes.items() if node.instance == instance), None)

    def _pod_created(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        metadata, spec = fields["object"]["metadata"], fields["object"].get("spec") or {}
        self.pods[fields["pod"]] = PodFacts(
            namespace=metadata.get("namespace", "default"),
            owner=fields["owner"],
            labels=dict(metadata.get("labels") or {}),
            annotations=dict(metadata.get("annotations") or {}),
            grace_seconds=spec.get("terminationGracePeriodSeconds", _GRACE),
            created_at=moment,
        )

    def _pod_bound(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        pod = self.pods.get(fields["pod"])
        if pod is not None:
            pod.node, pod.bound_at = fields["node"], moment

    def _set_ready(self, name: str, *, ready: bool) -> None:
        if name in self.pods:
            self.pods[name].is_ready = ready

    def _pod_finished(self, _: datetime, fields: Mapping[str, Any]) -> None:
        pod = self.pods.get(fields["pod"])
        if pod is not None:
            pod.is_finished, pod.is_ready = True, False

    def _pod_leaving(self, _: datetime, fields: Mapping[str, Any]) -> None:
        if fields["pod"] in self.pods:
            self.pods[fields["pod"]].is_leaving = True

    def _node_joined(self, _: datetime, fields: Mapping[str, Any]) -> None:
        found = (fields["object"]["metadata"].get("labels")) or {}
        instance = str(fields["providerID"]).rpartition("/")[2]
        known = self.instances.get(instance)
        pool = found.get(POOL) or (known.pool if known is not None else "")
        self.nodes[fields["node"]] = NodeFacts(pool=pool, instance=instance)

    def _node_tainted(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        node = self.nodes.get(fields["node"])
        if node is not None and fields["key"] == DISRUPTED:
            node.disrupted_for, node.disrupted_at = fields.get("reason") or "", moment

    def _node_untainted(self, _: datetime, fields: Mapping[str, Any]) -> None:
        node = self.nodes.get(fields["node"])
        if node is not None and fields["key"] == DISRUPTED:
            node.disrupted_for = node.disrupted_at = None

    def _object_applied(self, _: datetime, fields: Mapping[str, Any]) -> None:
        if fields["kind"] == "Node":
            node, metadata = self.nodes.get(fields["name"]), fields["object"]["metadata"]
            if node is not None:
                node.is_initialized = (metadata.get("labels") or {}).get(INITIALIZED) == "true"
            return
        self.applied[fields["kind"], fields["namespace"], fields["name"]] = fields["object"]
        if fields["kind"] == "NodePool":
            # Kept after the NodePool's deletion: an instance that is launching then still gets this grace period.
            template = (fields["object"].get("spec") or {}).get("template") or {}
            self._graces[fields["name"]] = str((template.get("spec") or {}).get("terminationGracePeriod") or "")

    def _instance_launched(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        self.instances[fields["instance"]] = InstanceFacts(
            instance_type=fields["instanceType"],
            pool=fields["tags"].get(POOL, ""),
            token=fields["clientToken"],
            launched_at=moment,
            claim=claim_of(fields["tags"]),
            launch=fields["tags"].get(LAUNCH, ""),
            grace=self._graces.get(fields["tags"].get(POOL, ""), ""),
        )

    def _instance_tagged(self, _: datetime, fields: Mapping[str, Any]) -> None:
        instance = self.instances.get(fields["instance"])
        if instance is not None:
            instance.claim = claim_of(fields["tags"]) or instance.claim
            instance.pool = fields["tags"].get(POOL, instance.pool)

    def _instance_terminated(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        if fields["instance"] in self.instances:
            self.instances[fields["instance"]].ended_at = moment

    @staticmethod
    def _drop(rows: dict[Any, Any], key: Any) -> None:
        rows.pop(key, None)
