"""Narrows an answer to the pods of one namespace (`--namespace`). What is decided stays: pods of all namespaces share nodes."""

from __future__ import annotations

import difflib
from typing import Final

import msgspec

from cli.errors import InputError
from core.api.objects import JsonObject
from core.model.plan import Cost, DisruptionPlan, Plan
from core.model.snapshot import Snapshot

_NAMED_MAX: Final = 5
"""The most namespaces that an error names."""


class OneNamespace:
    """The pods of one namespace and the nodes on which they run."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        """Find the pods. Raises InputError if there is none: an empty answer would hide a misspelt name."""
        pods = [pod for pod in snapshot.pods if pod.namespace == name]
        if not pods:
            raise InputError(f"no pod is in the namespace {name!r}", hint=_others(snapshot, name))
        self.name = name
        self._pods = {pod.key for pod in pods}
        self._nodes = {pod.node_name for pod in pods if pod.node_name}

    def plan(self, plan: Plan) -> Plan:
        """Return the nodes to launch that get its pods, and the fate of its pods; the cost is that of these nodes."""
        claims = tuple(claim for claim in plan.claims if not self._pods.isdisjoint(claim.pods))
        return msgspec.structs.replace(
            plan,
            claims=claims,
            bindings=tuple(binding for binding in plan.bindings if binding.pod in self._pods),
            unschedulable=tuple(found for found in plan.unschedulable if found.pod in self._pods),
            buffers=tuple(room for room in plan.buffers if room.buffer.startswith(f"{self.name}/")),
            cost=plan.cost if claims == plan.claims else Cost(sum(claim.price for claim in claims)),
        )

    def disruption(self, plan: DisruptionPlan) -> DisruptionPlan:
        """Return the commands that end nodes with its pods or move them, and why its other nodes stay.

        The cost before is the whole cluster's, the one after that with these commands alone.
        """
        commands = tuple(
            command
            for command in plan.commands
            if not self._nodes.isdisjoint(command.nodes) or any(move.pod in self._pods for move in command.moves)
        )
        after = plan.cost.before - sum(command.savings for command in commands)
        return msgspec.structs.replace(
            plan,
            commands=commands,
            blocked=tuple(found for found in plan.blocked if found.node in self._nodes),
            cost=plan.cost if commands == plan.commands else msgspec.structs.replace(plan.cost, after=after),
        )

    def status(self, document: JsonObject) -> JsonObject:
        """Return the status with its pending pods and its nodes alone; NodePools, commands and costs stay the cluster's."""
        return document | {
            "pendingPods": [pod for pod in document["pendingPods"] if pod in self._pods],
            "claims": [claim for claim in document["claims"] if claim["node"] in self._nodes],
        }


def _others(snapshot: Snapshot, name: str) -> str:
    known = sorted({pod.namespace for pod in snapshot.pods})
    if near := difflib.get_close_matches(name, known):
        return f"did you mean {near[0]!r}?"
    more = f" and {len(known) - _NAMED_MAX} more" if len(known) > _NAMED_MAX else ""
    return f"namespaces with pods: {', '.join(known[:_NAMED_MAX])}{more}" if known else "there is no pod at all"
