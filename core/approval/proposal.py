"""Which commands of `disrupt` wait for approval and why, and the row of one that waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.model.values.quantity import NANODOLLARS
from core.pods import is_reschedulable
from core.reasons.code import Refusal, TerminationReason
from core.reasons.runs import NeedsApproval

EXPIRES_AFTER: Final = timedelta(days=1)
"""One day, so that a proposal lasts into the next working morning. After that, a command that still pays is proposed again."""

PROPOSALS_MAX: Final = 10
"""The most proposals that may wait at once. Each is planned as if the other proposals' nodes stayed."""


def namespaces_by_node(snapshot: Snapshot) -> dict[str, set[str]]:
    """Return node → the namespaces of its pods that need a new place when it goes."""
    by_node: dict[str, set[str]] = {}
    for pod in snapshot.pods:
        if pod.node_name and is_reschedulable(pod):
            by_node.setdefault(pod.node_name, set()).add(pod.namespace)
    return by_node


def moved_namespaces(command: Command, by_node: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the namespaces of the pods that the command moves, or that are on its nodes (`namespaces_by_node`).

    A command need not name the move of each pod on its nodes: the places of those that it cannot evict yet, or of a static
    NodePool's, are found once the nodes go.
    """
    return namespaces_of(command).union(*(by_node.get(node, ()) for node in command.nodes))


def namespaces_of(command: Command) -> frozenset[str]:
    """Return the namespaces of the pods whose moves the command names."""
    return frozenset(move.pod.partition("/")[0] for move in command.moves)


class ProposalVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict.

    Attributes:
        by: The unique id of the person's AWS identity (`aws:userid`): IAM lets nobody write under another's.
        at: When, as the person's computer said; nothing depends on it.
    """

    is_approved: bool
    by: str
    at: datetime


class ProposalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the wait ended: `reason` is a code of `core.reasons.runs`."""

    reason: str
    message: str
    at: datetime


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed command and its outcome. It keeps its id when it is carried out.

    Attributes:
        namespaces: Those whose pods it moves (`moved_namespaces`) as announced: an approval is for no others that are guarded.
        decision: Id of its decision in the ledger, empty where none is kept.
        why: Why it waits.
        text: The explanation that was announced.
        announced_at: When the topic took the announcement; None before that.
        verdict: Of one that has ended what decided it; of one that waits what stores read from the verdicts, never the row.
        end: None while it waits.
    """

    id: str
    command: Command
    namespaces: tuple[str, ...] = ()
    decision: str = ""
    why: str
    text: str
    proposed_at: datetime
    announced_at: datetime | None = None
    verdict: ProposalVerdict | None = None
    end: ProposalEnd | None = None
    version: int = 0

    @property
    def expires_at(self) -> datetime:
        """When the proposal expires, whatever happens."""
        return self.proposed_at + EXPIRES_AFTER

    @property
    def digest(self) -> str:
        """Return a digest of the id, the date and the command. A verdict applies to exactly this digest."""
        content = msgspec.json.encode((self.id, self.proposed_at, self.command), order="deterministic")
        return blake2b(content, digest_size=16).hexdigest()

    def keeps_nodes(self, now: datetime) -> bool:
        """Whether other commands must not touch its nodes: while it waits, and from a rejection until it expires."""
        return self.end is None or (self.is_rejected and now < self.expires_at)

    @property
    def is_approved(self) -> bool:
        """Whether a person has approved it."""
        return self.verdict is not None and self.verdict.is_approved

    @property
    def is_rejected(self) -> bool:
        """Whether a person has rejected it."""
        return self.verdict is not None and not self.verdict.is_approved


def deciding(verdicts: Iterable[ProposalVerdict]) -> ProposalVerdict | None:
    """Return the verdict that counts: a rejection before any approval, then by the writer's id; None if there is none."""
    return min(verdicts, key=lambda verdict: (verdict.is_approved, verdict.by, verdict.at), default=None)


# Decides which commands of `disrupt` wait for approval, and why.


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True):
    """A command waits if it exceeds one of the configured bounds; without bounds every command waits.

    The limit on shrinking is a bound of its own: what exceeds it waits in any case, see `core.disruption.shrink_limit`.

    Attributes:
        above_dollars: Nano-dollars per hour that the nodes of a command may cost together.
        above_nodes: How many nodes may go together.
        namespaces: Namespaces whose pods are moved only with approval; `*` and `?` as in file names.
        shrink_percent: What share of a NodePool's vCPUs commands may remove in an hour without approval.
    """

    above_dollars: int | None = None
    above_nodes: int | None = None
    namespaces: tuple[str, ...] = ()
    shrink_percent: int = 100

    def guarded(self, namespaces: Iterable[str]) -> list[str]:
        """Return those of the namespaces whose pods are moved only with approval, by name."""
        return sorted(name for name in namespaces if any(fnmatchcase(name, pattern) for pattern in self.namespaces))

    def reason_to_wait(self, command: Command, namespaces: Iterable[str]) -> Refusal | None:
        """Return why the command, which moves pods of these namespaces, waits; None if it need not.

        Unhealthy nodes are replaced without approval: their pods are down already.
        """
        if command.reason == TerminationReason.UNHEALTHY:
            return None
        price = command.savings + sum(claim.price for claim in command.replacements)
        is_expensive = self.above_dollars is not None and price > self.above_dollars
        is_large = self.above_nodes is not None and len(command.nodes) > self.above_nodes
        guarded = self.guarded(namespaces)
        is_unbounded = self.above_dollars is None and self.above_nodes is None and not self.namespaces
        if not (is_expensive or is_large or guarded or is_unbounded):
            return None
        return NeedsApproval(
            price=price,
            above_price=self.above_dollars if is_expensive else None,
            nodes=len(command.nodes),
            above_nodes=self.above_nodes if is_large else None,
            namespaces=tuple(guarded),
        )


def rule_from(*, above_dollars: str, above_nodes: int | None, namespaces: str) -> ApprovalRule:
    """Read the rule from the settings' texts.

    Args:
        above_dollars: A decimal number of dollars per hour, or empty.
        above_nodes: As in the rule.
        namespaces: Names or patterns with commas between them.

    Raises:
        InvalidInputError: If `above_dollars` is not a non-negative number.
    """
    price: int | None = None
    if above_dollars:
        try:
            price = int(Decimal(above_dollars) * NANODOLLARS)
        except (InvalidOperation, ValueError, OverflowError):
            price = -1
        if price < 0:
            raise InvalidInputError(
                f"{above_dollars!r} is not a number of dollars per hour", field="APPROVE_ABOVE_DOLLARS"
            )
    names = tuple(filter(None, (name.strip() for name in namespaces.split(","))))
    return ApprovalRule(above_dollars=price, above_nodes=above_nodes, namespaces=names)
