"""The judges' knowledge of the world, derived from the record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from simulator.checkers.facts import LAUNCH, POOL, AppliedObject, InstanceFacts, NodeFacts, PodFacts, claim_of
from simulator.checkers.places import Places
from simulator.record import Event

DISRUPTED: Final = "karpenter.sh/disrupted"
INITIALIZED: Final = "karpenter.sh/initialized"

_GRACE: Final = 30
"""The default grace period of pods, in seconds."""


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

    def leaving_pods(self) -> int:
        """How many pods run on nodes with the disrupted taint."""
        leaving = {name for name, node in self.nodes.items() if node.disrupted_for is not None}
        return sum(pod.node in leaving and not pod.is_finished for pod in self.pods.values())

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
