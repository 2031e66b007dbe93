"""A denial: EC2 does not launch from an EC2NodeClass for one cause, so launches keep away from it for a while.

Closed (no record): launches go as planned. Paused: offerings in its scope are planned with by nobody. When the pause is over
it is half open: one claim may ask again, the others wait for the answer. A launch in its scope closes it; one more denial
pauses it for twice as long. A changed EC2NodeClass may be asked about at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.launch.denials.codes import Remembered, rule_of
from core.launch.denials.scope import EVERYTHING, DenialScope
from core.launch.quotas import BY_NAME
from core.model.catalogue import OfferingKey

FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""What a person mends outside of the cluster is noticed as late as that."""

PATIENCE: Final = 3
"""Requests in a row that found no capacity at all before a pause: offerings are remembered one by one, and 180 instance types
without capacity in a row are one cause."""

DENIALS_OF_A_PART: Final = 4
"""Denials in a row from which on the EC2NodeClass as a whole is taken for denied."""

IN_A_ROW: Final = timedelta(minutes=30)
"""Denials that lie farther apart than this, and than the pause, have nothing to do with each other."""

PROBE: Final = timedelta(seconds=90)
"""How long one claim that asks again holds the others off; more than a launch may take."""


def revision_of(node_class: Mapping[str, Any]) -> str:
    """Which object and which of its specs an EC2NodeClass manifest is."""
    metadata = node_class.get("metadata") or {}
    return f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}"


class DeniedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One launch in vain.

    Attributes:
        call: The action that was denied, `ec2:CreateFleet`.
        message: What EC2 said.
        offerings: For which it was denied.
        revision: Of the EC2NodeClass that was launched from.
    """

    node_class: str
    code: str
    call: str
    message: str
    offerings: tuple[OfferingKey, ...]
    node_pool: str
    revision: str

    @property
    def scope(self) -> DenialScope:
        """What is kept away from because of this one."""
        remembered = rule_of(self.code).remembered
        if remembered is Remembered.NODE_CLASS:
            return EVERYTHING
        if remembered is Remembered.QUOTA:
            return DenialScope.of_quotas(self.offerings)
        if remembered is Remembered.CAPACITY_TYPE:
            return DenialScope.of_capacity_types(self.offerings)
        return DenialScope.of(self.offerings)


class LaunchDenial(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one EC2NodeClass and one code.

    Attributes:
        in_vain: Denials in a row.
        pauses: How often it was paused in a row.
        until: When its pause ends; None while it has not been paused.
        denied_at: The last denial.
        probing_until: Until when the claim that asks again is waited for.
        node_pools: Those that launched in vain.
    """

    node_class: str
    code: str
    call: str = ""
    message: str = ""
    scope: DenialScope = EVERYTHING
    node_pools: tuple[str, ...] = ()
    revision: str = ""
    in_vain: int = 0
    pauses: int = 0
    until: datetime | None = None
    denied_at: datetime | None = None
    probing_until: datetime | None = None
    version: int = 0

    def after(self, found: DeniedLaunch, now: datetime) -> LaunchDenial:
        """As it is after one more denial. While it is paused the pause stays: late news of the same cause."""
        before = self if self._goes_on(found, now) else LaunchDenial(node_class=self.node_class, code=self.code)
        in_vain = before.in_vain + 1
        until, pauses = before.until, before.pauses
        if (until is None or now >= until) and in_vain >= _patience(found.code):
            until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(pauses, 10))
            pauses += 1
        return LaunchDenial(
            node_class=self.node_class,
            code=self.code,
            call=found.call,
            message=found.message,
            scope=_scope(before, found, in_vain),
            node_pools=tuple(sorted({*before.node_pools, found.node_pool})),
            revision=found.revision,
            in_vain=in_vain,
            pauses=pauses,
            until=until,
            denied_at=now,
            version=self.version,
        )

    def probed(self, now: datetime) -> LaunchDenial:
        """As it is once a claim asks again."""
        return msgspec.structs.replace(self, probing_until=now + PROBE)

    @property
    def is_engaged(self) -> bool:
        """Whether it keeps launches back, by a pause or until one has asked again."""
        return self.until is not None

    def is_paused(self, now: datetime, revision: str) -> bool:
        """Whether nobody may ask: the pause of this very EC2NodeClass goes on, or somebody asks right now."""
        if self.until is None:
            return False
        if self.probing_until is not None and now < self.probing_until:
            return True
        return now < self.until and revision == self.revision

    def names_capacity(self) -> bool:
        """Whether EC2 would launch and cannot, so that no person need do anything."""
        return rule_of(self.code).remembered is Remembered.OFFERINGS

    def told(self) -> str:
        """Code, action and what to do, the same words each time."""
        said = f"{self.message.rstrip('.')}. " if self.message else ""
        what = f"{self.code} from {self.call} for EC2NodeClass {self.node_class}"
        return f"{what}: {said}{rule_of(self.code).advice}{self._quotas()}"

    def _quotas(self) -> str:
        """The quotas that are short, as Service Quotas names them."""
        names, capacity_types = self.scope.quotas or (), self.scope.capacity_types or ()
        found = [BY_NAME[name].described(capacity_type) for name in names for capacity_type in capacity_types]
        return f" ({'; '.join(found)})" if found else ""

    def _goes_on(self, found: DeniedLaunch, now: datetime) -> bool:
        last = max((moment for moment in (self.until, self.denied_at) if moment is not None), default=None)
        return last is not None and now - last < IN_A_ROW and found.revision == self.revision


def _patience(code: str) -> int:
    """How many denials in a row bring a pause."""
    return PATIENCE if rule_of(code).remembered is Remembered.OFFERINGS else 1


def _scope(before: LaunchDenial, found: DeniedLaunch, in_vain: int) -> DenialScope:
    """What is kept away from after one more denial, the `in_vain`-th in a row."""
    if rule_of(found.code).remembered is Remembered.REQUEST and in_vain >= DENIALS_OF_A_PART:
        return EVERYTHING
    return found.scope if before.in_vain == 0 else before.scope.widened(found.scope)
