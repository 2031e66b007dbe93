"""The stored form of one decision: a header for queries, then the input and the result.

    magic | length of the header | header, compressed | snapshot and plan, compressed against a base

The snapshot is stored without its catalogue, which many decisions share and the header names.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.ledger.encoding.compression import compressed, compressed_by_elements, decompressed

SCHEMA_VERSION: Final = 2
"""What new entries name; incremented whenever older code could misread them. Since 2, differences are by elements (ADR 268)."""

PROVISION: Final = "provision"
DISRUPT: Final = "disrupt"

_MAGIC: Final = b"FLW1"
_LENGTH_BYTES: Final = 4


class LedgerPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One effect of a decision: a node to launch, or a command.

    Attributes:
        id: The claim's name, or the command's id.
        nodes: The nodes that go.
        pods: The pods that it is for, or that it moves.
        hourly: Nano-dollars per hour that it adds to the bill.
        waits: Why it waits for a person's approval; empty if it does not. Older releases treat it as started.
    """

    id: str
    reason: str
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    replacements: tuple[str, ...] = ()
    hourly: int = 0
    waits: str = ""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The header.

    Attributes:
        schema_version: Releases of schema 1 left it out, so 1 is the default; new entries name `SCHEMA_VERSION`.
        id: The decision's id in logs, events, annotations and tags.
        at: The snapshot's moment.
        version: The release that decided.
        code: Digest of the code that decided (`core.version.code_digest`); empty if unknown.
        improve_iterations: The bound on the steps of the search for cheaper nodes, or the steps taken if the clock ended it;
            None if only the clock bounded it, or without a search.
        elapsed: If a clock bounded the search: the elapsed share of its time at each check, in thousandths. A search that ends
            before its first check has none.
        is_greedy: Whether the search failed, so that the plan is the greedy one. Older releases ignore the field.
        catalogue: Digest of the catalogue, under which it is stored.
        base: Digest of the document that the rest is compressed against.
        plan_digest: Digest of the plan's bytes.
        what: The decision in one sentence.
        reason: Its reason code.
        parts: What it begins.
        bindings: Pods expected on existing nodes (`pod`, `node`).
        refused: Pods without a place or nodes that stay, with the reason code; only those that the previous entry did not list.
        is_observed: Whether the decision is only recorded, not carried out. Older releases ignore the field.
    """

    schema_version: int = 1
    id: str
    at: datetime
    cluster: str
    function: str
    version: str
    code: str = ""
    improve_iterations: int | None = None
    elapsed: tuple[int, ...] = ()
    is_greedy: bool = False
    catalogue: str
    base: str
    plan_digest: str
    what: str
    reason: str
    parts: tuple[LedgerPart, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    is_observed: bool = False

    @property
    def hourly(self) -> int:
        """Nano-dollars per hour that it adds to the bill if all of it is carried out."""
        return sum(part.hourly for part in self.parts)


class LedgerDocuments(msgspec.Struct, frozen=True):
    """The inputs to repeat a decision: the snapshot without its catalogue, and the plan, as `core.codec` encodes them."""

    snapshot: bytes
    plan: bytes


def joined(documents: LedgerDocuments) -> bytes:
    """Return both as one document, which later entries are compressed against: most of a plan is as in the one before."""
    return documents.snapshot + documents.plan + len(documents.snapshot).to_bytes(_LENGTH_BYTES, "big")


def encode_entry(entry: LedgerEntry, documents: LedgerDocuments, base: bytes) -> bytes:
    """Write a decision; `base` is the document that `entry.base` names."""
    header = compressed(msgspec.json.encode(entry, order="sorted"))
    body = compressed_by_elements(joined(documents), base)
    return b"".join((_MAGIC, len(header).to_bytes(_LENGTH_BYTES, "big"), header, body))


def decode_entry(raw: bytes) -> LedgerEntry:
    """Decode only the header.

    Raises:
        InvalidInputError: If it is not an entry, or has a newer schema.
    """
    header, _ = _divided(raw)
    try:
        entry = msgspec.json.decode(decompressed(header), type=LedgerEntry)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="ledger entry") from error
    if entry.schema_version > SCHEMA_VERSION:
        problem = f"{entry.schema_version} is of a newer release than this one, {SCHEMA_VERSION}: update fleetwright"
        raise InvalidInputError(problem, subject=f"ledger entry {entry.id}", field="schemaVersion")
    return entry


def decode_documents(raw: bytes, base: bytes) -> LedgerDocuments:
    """Decode the rest; `base` is the document that the header names.

    Raises:
        InvalidInputError: If it is damaged, or needs another base.
    """
    _, body = _divided(raw)
    whole = decompressed(body, base)
    end = len(whole) - _LENGTH_BYTES
    length = int.from_bytes(whole[end:], "big")
    return LedgerDocuments(snapshot=whole[:length], plan=whole[length:end])


def _divided(raw: bytes) -> tuple[bytes, bytes]:
    start = len(_MAGIC) + _LENGTH_BYTES
    end = start + int.from_bytes(raw[len(_MAGIC) : start], "big")
    if not raw.startswith(_MAGIC) or end > len(raw):
        raise InvalidInputError("is not an entry of a ledger, or only a part of one", subject="ledger entry")
    return raw[start:end], raw[end:]
