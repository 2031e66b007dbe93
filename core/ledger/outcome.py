"""Outcomes of the parts of a decision."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from core.errors import InvalidInputError


class OutcomeState(StrEnum):
    """How a part of a decision ended."""

    DONE = "done"
    ABANDONED = "abandoned"
    REFUSED = "refused"


class InstanceLife(msgspec.Struct, frozen=True, kw_only=True, order=True, omit_defaults=True):
    """An instance that a decision launched, for the report.

    Attributes:
        instance: Its id.
        price: Nano-dollars per hour when it was launched.
        ended_at: When it was terminated or found gone; None while it runs.
    """

    instance: str
    claim: str
    node_pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: int
    launched_at: datetime
    ended_at: datetime | None = None


class DecisionOutcome(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The outcome of one part of a decision.

    Attributes:
        decision: The decision's id.
        part: The claim's name or the command's id; `approval_part` of it where a person approved the command.
        reason: A code of `core.reasons`.
        instance: The lifetime of an instance; `part` is then its id. Older releases ignore the field.
    """

    decision: str
    part: str
    state: OutcomeState
    at: datetime
    reason: str = ""
    message: str = ""
    instance: InstanceLife | None = None


def approval_part(command_id: str) -> str:
    """Return the part under which a command's approval is stored. Older releases ignore unknown parts."""
    return f"approval/{command_id}"


def encode_outcomes(outcomes: list[DecisionOutcome]) -> bytes:
    """Encode the outcomes that one run reports."""
    return msgspec.json.encode(outcomes, order="sorted")


def decode_outcomes(raw: bytes) -> list[DecisionOutcome]:
    """Decode outcomes.

    Raises:
        InvalidInputError: If `raw` does not encode outcomes.
    """
    try:
        return msgspec.json.decode(raw, type=list[DecisionOutcome])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="outcomes of decisions") from error
