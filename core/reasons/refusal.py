"""A refusal: why a requested object is not returned."""

from __future__ import annotations

import msgspec

from core.reasons.code import ReasonCode


class Refusal(msgspec.Struct, frozen=True):
    """Returned instead of the requested object: a reason code, and one sentence for people."""

    reason: ReasonCode
    message: str
