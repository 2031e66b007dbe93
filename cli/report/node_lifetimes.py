"""The lifetime of every node: launched, ready, disrupted, gone, and its pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cli.report.series import Events


class NodeLifetime:
    """One instance and its node, from launch to end; events that did not happen are None or empty.

    Attributes:
        reason: Why it was disrupted, a code of `core.reasons`.
        pods: Pods that were bound to it, DaemonSets' left out, in order; `evicted` those of them that were evicted.
    """

    def __init__(self, at: datetime, fields: Mapping[str, Any]) -> None:
        self.launched = at
        self.instance: str = fields["instance"]
        self.instance_type = str(fields.get("instanceType") or "")
        self.zone = str(fields.get("zone") or "")
        self.capacity_type = str(fields.get("capacityType") or "on-demand")
        self.price = float(fields.get("price") or 0)
        self.pool = str((fields.get("tags") or {}).get("karpenter.sh/nodepool") or "")
        self.claim = ""
        self.node = ""
        self.reason = ""
        self.joined: datetime | None = None
        self.ready: datetime | None = None
        self.noticed: datetime | None = None
        self.disrupted: datetime | None = None
        self.ended: datetime | None = None
        self.deleted: datetime | None = None
        self.pods: list[str] = []
        self.evicted: list[tuple[datetime, str]] = []

    @property
    def name(self) -> str:
        """Its name for people: its node, or its instance before it has joined."""
        return self.node or self.instance

    def cost(self, end: datetime) -> float:
        """Return its cost in dollars until it ended, or until `end`."""
        return self.price * ((self.ended or end) - self.launched).total_seconds() / 3600


def lives(events: Events) -> tuple[NodeLifetime, ...]:
    """Return every instance of the record, in order of launch."""
    found = _Lives()
    for at, event, fields in events:
        found.see(at, event, fields)
    return tuple(found.by_instance.values())


class _Lives:
    def __init__(self) -> None:
        self.by_instance: dict[str, NodeLifetime] = {}
        self._by_node: dict[str, NodeLifetime] = {}
        self._daemons: set[str] = set()

    def see(self, at: datetime, event: str, fields: Mapping[str, Any]) -> None:
        if event == "instanceLaunched":
            self.by_instance[fields["instance"]] = NodeLifetime(at, fields)
        elif event == "podCreated" and str(fields.get("owner") or "").startswith("DaemonSet/"):
            self._daemons.add(fields["pod"])
        elif event == "nodeJoined":
            self._joined(at, fields)
        elif fields.get("instance") in self.by_instance:
            self._of_instance(at, event, self.by_instance[fields["instance"]])
        elif fields.get("node") in self._by_node:
            self._of_node(at, event, fields, self._by_node[fields["node"]])

    def _joined(self, at: datetime, fields: Mapping[str, Any]) -> None:
        life = self.by_instance.get(str(fields.get("providerID") or "").rpartition("/")[2])
        if life is not None:
            life.node, life.claim, life.joined = fields["node"], str(fields.get("nodeClaim") or ""), at
            self._by_node[life.node] = life

    def _of_instance(self, at: datetime, event: str, life: NodeLifetime) -> None:
        if event == "instanceTerminated":
            life.ended = at
        elif event == "interruptionNotice":
            life.noticed = life.noticed or at

    def _of_node(self, at: datetime, event: str, fields: Mapping[str, Any], life: NodeLifetime) -> None:
        if event == "nodeReady":
            life.ready = life.ready or at
        elif event == "nodeTainted" and fields.get("key") == "karpenter.sh/disrupted":
            life.disrupted, life.reason = at, str(fields.get("reason") or "")
        elif event == "nodeUntainted" and fields.get("key") == "karpenter.sh/disrupted":
            life.disrupted, life.reason = None, ""
        elif event == "nodeDeleted":
            life.deleted = at
        elif event == "podBound" and fields["pod"] not in self._daemons:
            life.pods.append(fields["pod"])
        elif event == "podEvicted" and fields["pod"] not in self._daemons:
            life.evicted.append((at, fields["pod"]))
