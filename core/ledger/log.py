"""Presents the ledger as a log: one line per decision, with its outcome, and each saving counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from core.ledger.entry import DISRUPT, LedgerEntry, LedgerPart
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part
from core.model.values.node_name import names_node

UNDER_WAY = "under way"
DECIDED = "decided"
PROPOSED = "waits for approval"
OBSERVED = "observed"


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One decision.

    Attributes:
        objects: What it is about, as `Kind/name` and `Pod/namespace/name`.
        moves: How many pods leave a node because of it.
        hourly: Nano-dollars per hour that it adds to the bill; negative for a saving, zero for a decision without effect.
        state: Its outcome.
    """

    id: str
    time: datetime
    function: str
    what: str
    reason: str
    objects: tuple[str, ...]
    moves: int
    hourly: int
    state: str


def log_entry(entry: LedgerEntry, outcomes: Iterable[DecisionOutcome]) -> LogEntry:
    """Return the line of one decision; `outcomes` are those of the decision, in order of time."""
    ended = {outcome.part: outcome for outcome in outcomes}
    came_about = [
        part
        for part in entry.parts
        if not entry.is_observed and not _came_to_nothing(ended.get(part.id)) and not _is_waiting(part, ended)
    ]
    moving = entry.function == DISRUPT
    return LogEntry(
        id=entry.id,
        time=entry.at,
        function=entry.function,
        what=entry.what,
        reason=entry.reason,
        objects=_objects(entry),
        moves=sum(len(part.pods) for part in came_about) if moving else 0,
        hourly=sum(part.hourly for part in came_about),
        state=_state(entry, ended),
    )


def concerns(entry: LogEntry, *, pod: str = "", node: str = "") -> bool:
    """Whether a decision concerns a pod (`namespace/name`) or a node, by its name (`names_node`) or its claim's."""
    if pod and f"Pod/{pod}" not in entry.objects:
        return False
    return not node or any(
        name == f"NodeClaim/{node}" or (name.startswith("Node/") and names_node(node, name.removeprefix("Node/")))
        for name in entry.objects
    )


def by_decision(outcomes: Iterable[DecisionOutcome]) -> dict[str, list[DecisionOutcome]]:
    """Return the outcomes by the decision's id, each list in order of time."""
    found: dict[str, list[DecisionOutcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.at, outcome)):
        found.setdefault(outcome.decision, []).append(outcome)
    return found


def _came_to_nothing(outcome: DecisionOutcome | None) -> bool:
    return outcome is not None and outcome.state is not OutcomeState.DONE


def _is_waiting(part: LedgerPart, ended: Mapping[str, DecisionOutcome]) -> bool:
    return bool(part.waits) and part.id not in ended and approval_part(part.id) not in ended


def _objects(entry: LedgerEntry) -> tuple[str, ...]:
    """Return the objects in the order of kinds, each kind by name."""
    disrupts = entry.function == DISRUPT
    pods = {pod for part in entry.parts for pod in part.pods} | {pod for pod, _ in entry.bindings}
    nodes = {node for part in entry.parts for node in part.nodes} | {node for _, node in entry.bindings}
    (nodes if disrupts else pods).update(subject for subject, _ in entry.refused)
    parts = {part.id for part in entry.parts}
    named = (("Command" if disrupts else "NodeClaim", parts), ("Node", nodes), ("Pod", pods))
    return tuple(f"{kind}/{name}" for kind, names in named for name in sorted(names))


def _state(entry: LedgerEntry, ended: Mapping[str, DecisionOutcome]) -> str:
    if entry.is_observed:
        return OBSERVED
    if not entry.parts:
        return DECIDED
    found = [ended.get(part.id) for part in entry.parts]
    reasons = sorted({outcome.reason for outcome in found if outcome is not None and _came_to_nothing(outcome)})
    if len([outcome for outcome in found if _came_to_nothing(outcome)]) == len(found):
        return f"came to nothing: {', '.join(reasons)}"
    if any(_is_waiting(part, ended) for part in entry.parts):
        return PROPOSED
    if any(outcome is None for outcome in found):
        return UNDER_WAY if entry.function == DISRUPT else DECIDED
    return f"done in part: {', '.join(reasons)}" if reasons else OutcomeState.DONE
