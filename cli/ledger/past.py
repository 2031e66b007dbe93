"""Explains a pod or a node from the input of a decision in the ledger."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from cli.errors import InputError
from cli.ledger.decisions import entries, find, refuse_none
from cli.ledger.opening import opened_ledger
from cli.ledger.storage import LedgerStorage
from cli.terminal.output import rfc3339
from core import codec
from core.explain import Explanation, explain_node, explain_pod
from core.ledger.entry import DISRUPT, LedgerEntry
from core.ledger.log import concerns, log_entry
from core.ledger.object_keys import DecisionKey
from core.ledger.reading import LedgerReader
from core.ledger.search_time import recorded_clock
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.values.node_name import names_node

_NODE_KINDS: Final = ("node", "nodes", "nodeclaim", "nodeclaims")
_POD_KINDS: Final = ("po", "pod", "pods")

PAGE: Final = 32
"""How many decisions are read together while searching back in time."""


class PastExplanation(msgspec.Struct, frozen=True):
    """The explanation, and its decision."""

    explanation: Explanation
    entry: LedgerEntry


class PastTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A name as typed, in the forms that decisions have: `NAMESPACE/NAME` of a pod, the name of a node or claim; or empty."""

    pod: str = ""
    node: str = ""

    def __str__(self) -> str:
        return repr(self.pod or self.node)

    def is_in(self, entry: LedgerEntry) -> bool:
        """Whether a decision is about it."""
        line = log_entry(entry, ())
        of_pod = bool(self.pod) and concerns(line, pod=self.pod)
        return of_pod or (bool(self.node) and concerns(line, node=self.node))


def explain_past(arguments: argparse.Namespace) -> PastExplanation:
    """Explain the target by the decision of `--decision`, or by the last one about it before `--at`.

    Raises:
        InputError: If there is none.
    """
    place, target = opened_ledger(arguments), _target(arguments)
    if arguments.decision:
        (key,) = find(place, arguments, [arguments.decision])
    else:
        key = _last_about(place, find(place, arguments), arguments, target)
    reader = LedgerReader(place.get)
    entry, raw = reader.entry(key.key)
    documents = reader.documents(entry, raw)
    snapshot = reader.snapshot(entry, documents)
    if entry.function == DISRUPT:
        found = _disruption(codec.decode_disruption_plan(documents.plan), snapshot, target)
    else:
        found = _provisioning(entry, snapshot, target)
    if found is None:
        hint = f"`fleetwright log --ledger {place.name}` lists what decisions are about"
        raise InputError(f"decision {entry.id} saw no {target}", hint=hint)
    return PastExplanation(_with_origin(found, entry), entry)


def _target(arguments: argparse.Namespace) -> PastTarget:
    kind, _, name = arguments.target.rpartition("/")
    if kind.lower() in _NODE_KINDS:
        return PastTarget(node=name)
    if arguments.namespace and kind.lower() in ("", *_POD_KINDS):
        return PastTarget(pod=f"{arguments.namespace}/{name}", node="" if kind else name)
    return PastTarget(pod=arguments.target, node=arguments.target)


def _last_about(
    place: LedgerStorage, keys: Sequence[DecisionKey], arguments: argparse.Namespace, target: PastTarget
) -> DecisionKey:
    refuse_none(keys, place, arguments)
    earlier = [key for key in keys if arguments.at is None or key.at <= arguments.at]
    while earlier:
        page, earlier = earlier[-PAGE:], earlier[:-PAGE]
        for key, entry in reversed(list(entries(place, page))):
            if target.is_in(entry):
                return key
    hint = f"`fleetwright log --ledger {place.name}` lists what decisions are about; a pod is named NAMESPACE/NAME"
    raise InputError(f"no decision of that time is about {target}", hint=hint)


def _disruption(plan: DisruptionPlan, snapshot: Snapshot, target: PastTarget) -> Explanation | None:
    nodes = {claim.name: claim.node_name or claim.name for claim in snapshot.node_claims}
    names = {node.name for node in snapshot.nodes} | set(nodes.values())
    name = next((name for name in sorted(names) if names_node(target.node, name)), nodes.get(target.node, ""))
    if name:
        return explain_node(plan, name)
    for command in plan.commands:
        for move in command.moves:
            if move.pod == target.pod:
                outcome = f"leaves {', '.join(command.nodes)} for {move.to}"
                return Explanation(subject=f"pod {move.pod}", outcome=outcome, reason=command.reason)
    return None


def _provisioning(entry: LedgerEntry, snapshot: Snapshot, target: PastTarget) -> Explanation | None:
    """Return the explanation of a decision of `provision`; None if it is not about the target.

    A pod is planned for again, under the recorded bounds on steps and time; a node's pods are read from the entry.
    """
    options = msgspec.structs.replace(snapshot.options, improve_iterations=entry.improve_iterations)
    bounded = msgspec.structs.replace(snapshot, options=options)
    pod = next((pod for pod in snapshot.pods if pod.key == target.pod), None)
    if pod is not None:
        return _as_decided(explain_pod(bounded, pod, recorded_clock(entry)), entry, pod.key)
    for part in entry.parts:
        if part.id == target.node:
            outcome = f"was launched for {', '.join(part.pods)}"
            return Explanation(subject=f"node {part.id}", outcome=outcome, reason=part.reason)
    expected: dict[str, list[str]] = {}
    for key, node in entry.bindings:
        expected.setdefault(node, []).append(key)
    node = next((name for name in sorted(expected) if names_node(target.node, name)), "")
    return Explanation(subject=f"node {node}", outcome=f"takes {', '.join(expected[node])}") if node else None


def _as_decided(found: Explanation, entry: LedgerEntry, pod: str) -> Explanation:
    """Return the explanation with the place that the pod got then, by its real name."""
    places = {key: f"needs a new node, {part.id}" for part in entry.parts for key in part.pods}
    places |= {key: f"fits on existing node {node}" for key, node in entry.bindings}
    if pod not in places:
        return found
    return msgspec.structs.replace(found, outcome=places[pod], reason="", has_no_place=False)


def _with_origin(found: Explanation, entry: LedgerEntry) -> Explanation:
    origin = f"decision {entry.id} of {entry.function}, {rfc3339(entry.at)}, version {entry.version}: {entry.what}"
    return msgspec.structs.replace(found, details=(*found.details, origin))
