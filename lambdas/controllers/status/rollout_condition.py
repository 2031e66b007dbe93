"""Condition RolloutStopped of NodePools: whether drifted nodes stay because their replacements do not become ready."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from adapters.ports import JsonObject, Kubernetes
from core.disruption.rollouts import Rollout
from core.reasons.node import NodeReason
from lambdas.controllers.kube_events import about_node_pool, warning, write
from lambdas.controllers.status.status_writer import condition

ROLLOUT_STOPPED: Final = "RolloutStopped"


def rollout_condition(rollout: Rollout, manifest: JsonObject, kubernetes: Kubernetes, now: datetime) -> JsonObject:
    """Return the condition of a NodePool; an event reports when the stop begins. Raises PortError."""
    if not rollout.is_stopped(now):
        return condition(ROLLOUT_STOPPED, "False", reason="NotStopped")
    message = f"drifted nodes stay until {rollout.stopped_until:%Y-%m-%dT%H:%M:%SZ}: {rollout.message}"
    present = (manifest.get("status") or {}).get("conditions") or ()
    if not any(c.get("type") == ROLLOUT_STOPPED and c.get("status") == "True" for c in present):
        event = warning(about_node_pool(manifest), NodeReason.ROLLOUT_STOPPED, message, now, identity=message)
        write(kubernetes, [event])
    return condition(ROLLOUT_STOPPED, "True", message, reason="ReplacementsNotReady")
