"""A denial: EC2 does not launch from an EC2NodeClass for one cause, so launches avoid it for a while.

Without a record (closed), launches proceed as planned. While it is paused, no plan uses offerings in its scope. After the pause
it is half open: one claim may retry, and the others wait for the answer. A launch in its scope closes it; for instances that
ended while they started, only a node that joins does. A further denial pauses it for twice as long. A changed EC2NodeClass may
be tried at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.launch.denials.codes import LaunchErrorRule, Remembered, rule_of
from core.launch.denials.ec2_message import shortened
from core.launch.denials.instance_ends import rule_of_end
from core.launch.denials.scope import EVERYTHING, DenialScope
from core.model.catalogue import OfferingKey
from core.model.values.vcpu_quotas import BY_NAME

FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""The longest pause, and so the longest delay until a repair outside of the cluster is noticed."""

PATIENCE: Final = 3
"""Requests in a row without any capacity before a pause.

Offerings are remembered one by one, but 180 instance types in a row without capacity have one cause.
"""

DENIALS_OF_A_PART: Final = 4
"""After this many denials in a row, the whole EC2NodeClass counts as denied."""

IN_A_ROW: Final = timedelta(minutes=30)
"""Denials farther apart than this, and than the pause, are unrelated."""

PROBE: Final = timedelta(seconds=90)
"""How long one claim that retries blocks the others; more than a launch may take, and than most nodes need to join."""


def revision_of(node_class: Mapping[str, Any]) -> str:
    """Return the identity and spec version of an EC2NodeClass manifest."""
    metadata = node_class.get("metadata") or {}
    return f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}"


class DeniedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One failed launch.

    Attributes:
        call: The action that was denied, `ec2:CreateFleet`.
        message: EC2's message.
        offerings: The denied offerings.
        revision: The revision of the EC2NodeClass.
        is_confined: Whether it requested only part of an offering's capacity (`core.launch.placement`).
    """

    node_class: str
    code: str
    call: str
    message: str
    offerings: tuple[OfferingKey, ...]
    node_pool: str
    revision: str
    is_confined: bool = False

    @property
    def scope(self) -> DenialScope:
        """The offerings to avoid because of this denial."""
        remembered = _rule(self.code).remembered
        if remembered is Remembered.NODE_CLASS:
            return EVERYTHING
        if remembered is Remembered.QUOTA:
            return DenialScope.of_quotas(self.offerings)
        if remembered is Remembered.CAPACITY_TYPE:
            return DenialScope.of_capacity_types(self.offerings)
        return DenialScope.of(self.offerings)


class LaunchDenial(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the denials of one EC2NodeClass and one code.

    Attributes:
        in_a_row: Denials in a row; rows name it `in_vain`.
        pauses: How often it was paused in a row.
        until: When its pause ends; None while it has not been paused.
        denied_at: The last denial.
        probing_until: Until when other claims wait for the result of a retry.
        node_pools: The NodePools whose launches failed.
    """

    node_class: str
    code: str
    call: str = ""
    message: str = ""
    scope: DenialScope = EVERYTHING
    node_pools: tuple[str, ...] = ()
    revision: str = ""
    in_a_row: int = msgspec.field(default=0, name="in_vain")
    pauses: int = 0
    until: datetime | None = None
    denied_at: datetime | None = None
    probing_until: datetime | None = None
    version: int = 0

    def after(self, found: DeniedLaunch, now: datetime) -> LaunchDenial:
        """Return the denial after one more failure.

        A pause in progress is not extended: the failure is a late report of the same cause.
        """
        before = self if self._continues(found, now) else LaunchDenial(node_class=self.node_class, code=self.code)
        in_a_row = before.in_a_row + 1
        until, pauses = before.until, before.pauses
        if (until is None or now >= until) and in_a_row >= _patience(found):
            until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(pauses, 10))
            pauses += 1
        return LaunchDenial(
            node_class=self.node_class,
            code=self.code,
            call=found.call,
            message=found.message,
            scope=_scope(before, found, in_a_row),
            node_pools=tuple(sorted({*before.node_pools, found.node_pool})),
            revision=found.revision,
            in_a_row=in_a_row,
            pauses=pauses,
            until=until,
            denied_at=now,
            version=self.version,
        )

    def probed(self, now: datetime) -> LaunchDenial:
        """Return the denial after a claim has begun a retry."""
        return msgspec.structs.replace(self, probing_until=now + PROBE)

    @property
    def is_engaged(self) -> bool:
        """Whether it prevents launches, by a pause or until a retry succeeds."""
        return self.until is not None

    def is_paused(self, now: datetime, revision: str) -> bool:
        """Whether no launch may try: the pause of this very EC2NodeClass is not over, or a retry is in progress."""
        if self.until is None:
            return False
        if self.probing_until is not None and now < self.probing_until:
            return True
        return now < self.until and revision == self.revision

    @property
    def is_of_starts(self) -> bool:
        """Whether EC2 launches instances and ends them while they start, so that only a node that joins disproves it."""
        return rule_of_end(self.code) is not None

    def names_capacity(self) -> bool:
        """Whether only capacity is missing, so that no person need act."""
        return _rule(self.code).remembered is Remembered.OFFERINGS

    def refusal(self) -> str:
        """Return what EC2 answered, in the form of the error of a call."""
        return f"{self.call}: {self.code}: {self.message}"

    def explanation(self) -> str:
        """Return code, action and advice, always in the same words."""
        said = f"{shortened(self.message)}. " if self.message else ""
        what = f"{self.code} from {self.call} for EC2NodeClass {self.node_class}"
        return f"{what}: {said}{_rule(self.code).advice}{self._quotas()}"

    def _quotas(self) -> str:
        """The quotas that are short, by Service Quotas' names."""
        names, capacity_types = self.scope.quotas or (), self.scope.capacity_types or ()
        found = [BY_NAME[name].described(capacity_type) for name in names for capacity_type in capacity_types]
        return f" ({'; '.join(found)})" if found else ""

    def _continues(self, found: DeniedLaunch, now: datetime) -> bool:
        last = max((moment for moment in (self.until, self.denied_at) if moment is not None), default=None)
        return last is not None and now - last < IN_A_ROW and found.revision == self.revision


def _rule(code: str) -> LaunchErrorRule:
    """Return the rule for EC2's answer to a launch, or for the end of what it launched."""
    return rule_of_end(code) or rule_of(code)


def _patience(found: DeniedLaunch) -> int:
    """Return how many denials in a row cause a pause. Offerings are remembered one by one, unless the launch was confined."""
    is_of_offerings = _rule(found.code).remembered is Remembered.OFFERINGS
    return PATIENCE if is_of_offerings and not found.is_confined else 1


def _scope(before: LaunchDenial, found: DeniedLaunch, in_a_row: int) -> DenialScope:
    """Return the scope after one more denial, the `in_a_row`-th in a row."""
    if _rule(found.code).remembered is Remembered.REQUEST and in_a_row >= DENIALS_OF_A_PART:
        return EVERYTHING
    return found.scope if before.in_a_row == 0 else before.scope.widened(found.scope)
