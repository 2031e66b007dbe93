"""Decides which commands of `disrupt` wait for approval, and why."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

import msgspec

from core.errors import InvalidInputError
from core.model.plan import Command
from core.model.values.quantity import NANODOLLARS, dollars
from core.reasons.code import TerminationReason


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

    def reason_to_wait(self, command: Command) -> str:
        """Return why the command waits, empty if it need not.

        Unhealthy nodes are replaced without approval: their pods are down already.
        """
        if command.reason == TerminationReason.UNHEALTHY:
            return ""
        price = command.savings + sum(claim.price for claim in command.replacements)
        moved = sorted({move.pod.partition("/")[0] for move in command.moves})
        guarded = [name for name in moved if any(fnmatchcase(name, pattern) for pattern in self.namespaces)]
        reasons = []
        if self.above_dollars is not None and price > self.above_dollars:
            reasons.append(
                f"its nodes cost ${dollars(price):.4f} an hour, more than ${dollars(self.above_dollars):.4f}"
            )
        if self.above_nodes is not None and len(command.nodes) > self.above_nodes:
            reasons.append(f"it has {len(command.nodes)} nodes, more than {self.above_nodes}")
        if guarded:
            reasons.append(f"it moves pods of {', '.join(guarded)}")
        is_unbounded = self.above_dollars is None and self.above_nodes is None and not self.namespaces
        return "every command waits" if is_unbounded else "; ".join(reasons)


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
