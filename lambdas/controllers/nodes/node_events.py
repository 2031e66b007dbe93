"""Writes Kubernetes events about a node's problem: on the node, on the pods that wait for it, or on a claim without node."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from adapters.ports import Clock, Kubernetes
from adapters.run_report import Decision
from core.launch.denials.ec2_message import shortened
from core.lifecycle.steps import ReportNode
from core.model.pod import Pod
from core.reasons.decision import DecisionKind
from lambdas.controllers.kube_events import about_node, about_node_claim, about_pod, in_time, warning, write

PODS_WITH_EVENT_MAX: Final = 10
"""The most pods that get an event; the node's event covers the others."""


class NodeEvents:
    """Writes an event for the node, and one for each pod."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def publish(self, step: ReportNode, waiting: Iterable[Pod]) -> None:
        """Write the events; `waiting` are the pods that wait for the node."""
        now = self._clock.now()
        pods = list(islice(waiting, PODS_WITH_EVENT_MAX))
        about = [about_node(step.node), *(about_pod(pod.namespace, pod.name, pod.uid) for pod in pods)]
        identity = f"{step.reason}/{step.message}"
        events = [warning(found, step.reason, step.message, now, identity=identity) for found in about]
        write(self._kubernetes, in_time(events, self._clock))

    def not_launched(self, claim: str, decisions: Iterable[Decision]) -> None:
        """Write an event on why a hand-made NodeClaim is not launched: its object is deleted with the claim (Karpenter)."""
        found = [one for one in decisions if one.kind is DecisionKind.FORGET and one.subject == claim]
        for one in found[-1:]:
            message = f"{one.reason.clause}: {shortened(one.message)}" if one.message else one.reason.meaning
            identity = f"{one.reason}/{one.message}"
            write(
                self._kubernetes,
                [warning(about_node_claim(claim), one.reason, message, self._clock.now(), identity=identity)],
            )
