"""Outcomes of the parts of a decision."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.model.catalogue import Catalogue, InstanceType

# Digests by which the ledger names documents.


_MARKETS_KEPT: Final = 16


def digest_of(raw: bytes) -> str:
    """The digest of a document."""
    return blake2b(raw, digest_size=16).hexdigest()


def catalogue_digest(catalogue: Catalogue) -> str:
    """Return a digest of all available types, class by class; the digests of unchanged parts are reused."""
    return digest_of("\n".join(market_digests(catalogue)).encode())


def market_digests(catalogue: Catalogue) -> list[str]:
    """Return digests of the default types, then of those of each EC2NodeClass by name."""
    by_class = catalogue.by_node_class
    return [_types_digest(catalogue.default), *(name + _types_digest(by_class[name]) for name in sorted(by_class))]


def decision_id(cluster: str, function: str, moment: str, plan: bytes) -> str:
    """Return the id of a decision: ten characters, derived from the cluster, the function, the snapshot's time and the plan."""
    text = "/".join((cluster, function, moment, digest_of(plan)))
    return blake2b(text.encode(), digest_size=5).hexdigest()


def _types_digest_of(types: tuple[InstanceType, ...]) -> str:
    return digest_of(msgspec.json.encode(types))


_types_digest: Final = ByIdentity(_types_digest_of, size=_MARKETS_KEPT)


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
