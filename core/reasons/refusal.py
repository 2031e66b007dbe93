"""Why something that was asked for does not come about."""

from __future__ import annotations

import msgspec

from core.reasons.code import ReasonCode


class Refusal(msgspec.Struct, frozen=True):
    """Returned in place of what was asked for: a reason code, and one sentence for people."""

    reason: ReasonCode
    message: str
