"""EC2's answer to one request for the claims that share a launch."""

from __future__ import annotations

from typing import Final

import msgspec

from adapters.ports import Instance, Launched, PortError
from core.lifecycle.records import ClaimRecord
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal

ONE_TRIES: Final = "instances of its EC2NodeClass ended while they started: one is launched again first"


class LaunchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """EC2's answer: exactly one of held back, an error, or launched.

    Attributes:
        held_back: Why EC2 was not asked.
        asked: The requested claims by name, as stored before the request.
        error: EC2's refusal, or why its answer is unknown.
        is_try: Whether only one instance was requested for all claims, to test whether its node joins.
        launched: The launched instances, fewer than requested if capacity was short.
    """

    held_back: Refusal | None = None
    asked: dict[str, ClaimRecord] = {}
    error: PortError | None = None
    launched: Launched | None = None
    is_try: bool = False

    def left_out(self, record: ClaimRecord) -> Refusal | None:
        """Return why the claim waits if another claim of its launch is tried first; None if it was requested."""
        waits = self.is_try and record.name not in self.asked
        return Refusal(ClaimReason.LAUNCH_HELD_BACK, ONE_TRIES) if waits else None

    def instance_of(self, record: ClaimRecord) -> Instance | None:
        """Return the claim's instance, None where EC2 launched fewer."""
        instances = self.launched.instances if self.launched is not None else ()
        return instances[record.share] if record.share < len(instances) else None

    def shortage(self) -> str:
        """Return, for people, why a claim has no instance although others of its launch have one."""
        if self.launched is None:
            return ""
        said = dict.fromkeys(f"{refused.code}: {refused.message}" for refused in self.launched.refused)
        few = (
            f"EC2 launched {len(self.launched.instances)} of the {max(r.shares for r in self.asked.values())} asked for"
        )
        return "; ".join([few, *said])[:500]
