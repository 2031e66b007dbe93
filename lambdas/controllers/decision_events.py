"""Writes Kubernetes events about decisions on pods, nodes and claims: the sentence of `fleetwright log`, with its id.

There is one event for each object and decision: its name is derived from the decision's id, so the API server rejects
duplicates of a repeated step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from adapters.ports import Clock, JsonObject, Kubernetes
from adapters.runtime.parallel_tasks import RunTasks
from core.approval.proposal import Proposal
from core.ledger.summary import DecisionSummary, command_sentence
from core.lifecycle.commands import replacement_names
from core.lifecycle.records import CommandRecord
from core.reasons.claim import ClaimReason
from core.reasons.command import CommandReason
from lambdas.controllers.kube_events import about_node, about_node_claim, about_pod, normal, write_together

EVENTS_AT_MOST: Final = 200
"""The most events of one decision: they are for people, and each takes a call. The ledger has the complete decision."""


class DecisionEvents:
    """Writes the events of decisions. An event that cannot be written is logged: nothing depends on it."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def launches(self, decision: str, summary: DecisionSummary) -> None:
        """Write events on the launched claims, on the pods that they are for, and on pods that have room elsewhere.

        Args:
            decision: Its id, empty where no ledger is kept.
            summary: The ledger's summary of the decision.
        """
        pods = {pod: part.id for part in summary.parts for pod in part.pods} | dict(summary.bindings)
        self._write(
            [
                *(
                    self._event(about_node_claim(part.id), ClaimReason.LAUNCHED, summary.what, decision)
                    for part in summary.parts
                ),
                *(
                    self._event(_pod(pod), summary.reason, f"{summary.what}; this pod is expected on {place}", decision)
                    for pod, place in pods.items()
                ),
            ]
        )

    def command(self, record: CommandRecord) -> None:
        """Write events on the nodes that go, on their claims, and on the pods that move."""
        command, sentence = record.command, command_sentence(record.command)
        named = zip(command.replacements, replacement_names(record), strict=True)
        launched = {planned.name: name for planned, name in named}

        def events() -> Iterator[JsonObject]:
            for node in command.nodes:
                yield self._event(about_node(node), command.reason, sentence, record.decision)
            for claim in command.claims:
                yield self._event(about_node_claim(claim), command.reason, sentence, record.decision)
            for move in command.moves:
                message = f"{sentence}; this pod is expected on {launched.get(move.to, move.to)}"
                yield self._event(_pod(move.pod), command.reason, message, record.decision)

        self._write(list(islice(events(), EVENTS_AT_MOST)))

    def proposed(self, proposal: Proposal) -> None:
        """Write events on the nodes and claims of a command that waits for approval."""
        command = proposal.command
        message = f"{command_sentence(command)}: `fleetwright approve {proposal.id}`; {proposal.why}"
        about = [*map(about_node, command.nodes), *map(about_node_claim, command.claims)]
        self._write([self._event(found, CommandReason.AWAITS_APPROVAL, message, proposal.decision) for found in about])

    def _event(self, about: JsonObject, reason: str, message: str, decision: str) -> JsonObject:
        text = with_decision_id(message, decision)
        return normal(about, reason, text, self._clock.now(), identity=f"{about['kind']}/{reason}/{decision or text}")

    def _write(self, events: list[JsonObject]) -> None:
        write_together(self._kubernetes, events[:EVENTS_AT_MOST], self._run_tasks)


def with_decision_id(message: str, decision: str) -> str:
    """Return the sentence with the id by which `fleetwright explain --decision` finds the decision."""
    return f"{message} (decision {decision})" if decision else message


def _pod(key: str) -> JsonObject:
    namespace, _, name = key.partition("/")
    return about_pod(namespace, name)
