"""EC2's answer about launches from an EC2NodeClass, stored in an annotation of the class, and when to ask again.

EC2 is asked when the rendered launch changes. It is not asked again about a launch that it allowed, and at growing intervals
about one that it denied, since a permission may be granted without a change of the class.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.launch.denials.codes import OF_CAPACITY, rule_of
from core.launch.denials.denial import FIRST_PAUSE, LONGEST_PAUSE
from core.launch.denials.ec2_message import encoded_part, shortened

DRY_RUN: Final = "DryRunOperation"
"""EC2's code of the answer that the request would have succeeded."""

MESSAGE_MAX: Final = 2000
"""The most characters of EC2's message that are stored; the longest are encoded authorization failures."""

_UNAUTHORIZED: Final = ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
_DOUBLINGS_MAX: Final = 10


class LaunchValidation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last answer.

    Attributes:
        fields: Digests of the fields of the checked launch, as rendered (`template_fields`).
        asked_at: When EC2 was asked last.
        call, code, message: The call that EC2 denied and its answer; empty if it was allowed.
        denials: How often in a row it denied these fields.
    """

    fields: dict[str, str]
    asked_at: datetime
    call: str = ""
    code: str = ""
    message: str = ""
    denials: int = 0

    @property
    def agrees(self) -> bool:
        """Whether EC2 allows the launch."""
        return not self.code

    def answers(self, fields: dict[str, str], now: datetime) -> bool:
        """Whether it answers for these fields, and EC2 need not be asked again yet."""
        if self.fields != fields:
            return False
        return self.agrees or now < self.asked_at + self._pause()

    def _pause(self) -> timedelta:
        doublings = min(max(self.denials - 1, 0), _DOUBLINGS_MAX)
        return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << doublings))

    def reason(self) -> str:
        """The condition's reason: Karpenter's for a missing permission, else EC2's code; empty if the launch is allowed."""
        if self.code.startswith(_UNAUTHORIZED):
            return f"{self.call.rpartition(':')[2]}AuthCheckFailed"
        return self.code.replace(".", "_")

    def explanation(self) -> str:
        """Return EC2's code and message, what to do, and last the encoded part of the message; empty if EC2 agrees."""
        if self.agrees:
            return ""
        how = "" if self.call.endswith("CreateLaunchTemplate") else " (DryRun)"
        said = f"{self.call}{how}: {self.code}: {shortened(self.message)}. {rule_of(self.code).advice}"
        return f"{said} {encoded_part(self.message)}".rstrip()


def concerns_the_class(code: str) -> bool:
    """Whether an answer with this code means that the class cannot be launched, not that capacity is missing just now."""
    return code != DRY_RUN and rule_of(code).remembered not in OF_CAPACITY


def next_validation(
    before: LaunchValidation | None, fields: dict[str, str], denied: tuple[str, str, str] | None, now: datetime
) -> LaunchValidation:
    """Return the answer to keep; `denied` is the call that EC2 denied, its code and its message."""
    if denied is None:
        return LaunchValidation(fields=fields, asked_at=now)
    call, code, message = denied
    in_a_row = before.denials if before is not None and before.fields == fields else 0
    return LaunchValidation(
        fields=fields, asked_at=now, call=call, code=code, message=message[:MESSAGE_MAX], denials=in_a_row + 1
    )


def written_validation(validation: LaunchValidation) -> str:
    """Return the value of the annotation `labels.LAUNCH_VALIDATION`."""
    return msgspec.json.encode(validation, order="deterministic").decode()


def read_validation(text: str) -> LaunchValidation | None:
    """Return the annotation's content; None where it cannot be read, so that EC2 is asked again."""
    try:
        return msgspec.json.decode(text, type=LaunchValidation) if text else None
    except msgspec.DecodeError:
        return None
