"""Explains a pod or a node from the input of a decision in the ledger."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from cli.errors import InputError
from cli.ledger.decisions import entries, find
from cli.ledger.storage import LedgerStorage, open_ledger
from cli.terminal.output import rfc3339
from core import codec
from core.explain import Explanation, explain_node, explain_pod
from core.ledger.entry import DISRUPT, PROVISION, LedgerEntry
from core.ledger.log import concerns, log_entry
from core.ledger.object_keys import DecisionKey
from core.ledger.reading import LedgerReader
from core.ledger.search_time import played_back
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot

PAGE: Final = 32
"""Decisions that are read together while searching back in time."""


class PastExplanation(msgspec.Struct, frozen=True):
    """The explanation, and the decision that it is from."""

    explanation: Explanation
    entry: LedgerEntry


def explain_past(arguments: argparse.Namespace) -> PastExplanation:
    """Return what the decision of `--decision` says about the target, or the last one about it before `--at`.

    Raises:
        InputError: If there is none.
    """
    place = open_ledger(arguments.ledger)
    if arguments.decision:
        (key,) = find(place, arguments, [arguments.decision])
    else:
        key = _last_about(place, find(place, arguments), arguments)
    reader = LedgerReader(place.get)
    entry, raw = reader.entry(key.key)
    documents = reader.documents(entry, raw)
    snapshot = reader.snapshot(entry, documents)
    if entry.function == DISRUPT:
        found = _disruption(codec.decode_disruption_plan(documents.plan), snapshot, arguments.target)
    else:
        found = _provisioning(entry, snapshot, arguments.target)
    if found is None:
        hint = f"`fleetwright log --ledger {arguments.ledger}` lists what decisions are about"
        raise InputError(f"decision {entry.id} saw no {arguments.target!r}", hint=hint)
    return PastExplanation(_with_origin(found, entry), entry)


def _last_about(place: LedgerStorage, keys: Sequence[DecisionKey], arguments: argparse.Namespace) -> DecisionKey:
    earlier = [key for key in keys if arguments.at is None or key.at <= arguments.at]
    while earlier:
        page, earlier = earlier[-PAGE:], earlier[:-PAGE]
        for key, entry in reversed(list(entries(place, page))):
            line = log_entry(entry, ())
            if concerns(line, pod=arguments.target) or concerns(line, node=arguments.target):
                return key
    hint = (
        f"`fleetwright log --ledger {arguments.ledger}` lists what decisions are about; a pod is named NAMESPACE/NAME"
    )
    raise InputError(f"no decision of that time is about {arguments.target!r}", hint=hint)


def _disruption(plan: DisruptionPlan, snapshot: Snapshot, target: str) -> Explanation | None:
    nodes = {claim.name: claim.node_name or claim.name for claim in snapshot.node_claims}
    names = {node.name for node in snapshot.nodes} | set(nodes.values())
    name = target if target in names else nodes.get(target, "")
    if name:
        return explain_node(plan, name)
    for command in plan.commands:
        for move in command.moves:
            if move.pod == target:
                outcome = f"leaves {', '.join(command.nodes)} for {move.to}"
                return Explanation(subject=f"pod {target}", outcome=outcome, reason=command.reason)
    return None


def _provisioning(entry: LedgerEntry, snapshot: Snapshot, target: str) -> Explanation | None:
    """Plan with the same bound on steps; a clock's bound is not played back, so places are read instead of planned again."""
    options = msgspec.structs.replace(snapshot.options, improve_iterations=entry.improve_iterations)
    bounded = msgspec.structs.replace(snapshot, options=options)
    pod = next((pod for pod in snapshot.pods if pod.key == target), None)
    if pod is not None:
        clock = played_back(entry.elapsed) if entry.elapsed else None
        return _as_decided(explain_pod(bounded, pod, clock), entry, target)
    for part in entry.parts:
        if part.id == target:
            outcome = f"was launched for {', '.join(part.pods)}"
            return Explanation(subject=f"node {target}", outcome=outcome, reason=part.reason)
    return None


def _as_decided(found: Explanation, entry: LedgerEntry, pod: str) -> Explanation:
    """Return the explanation with the place that the pod got then, by its real name."""
    places = {key: f"needs a new node, {part.id}" for part in entry.parts for key in part.pods}
    places |= {key: f"fits on existing node {node}" for key, node in entry.bindings}
    if pod not in places:
        return found
    return msgspec.structs.replace(found, outcome=places[pod], reason="", has_no_place=False)


def _with_origin(found: Explanation, entry: LedgerEntry) -> Explanation:
    by = "provision" if entry.function == PROVISION else entry.function
    origin = f"decision {entry.id} of {by}, {rfc3339(entry.at)}, version {entry.version}: {entry.what}"
    return msgspec.structs.replace(found, details=(*found.details, origin))
