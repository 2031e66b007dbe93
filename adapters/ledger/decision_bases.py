"""The base of a function's decisions: a complete document, then differences to it and to each other, as the cluster changes.

All that an entry needs is written before it, and within a day. Bases need no entries, so none is missed if it was not stored.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.ports import ObjectStore, PortError
from core.errors import InvalidInputError
from core.ledger.bases import decode_base, encode_base, encode_decision_base, needed_base
from core.ledger.digests import digest_of
from core.ledger.object_keys import base_key

RENEWED_AFTER: Final = timedelta(days=1)
"""The bucket keeps bases two days longer than decisions, so none expires before the entries that need it."""

LINKS_MAX: Final = 4
"""How many differences may follow a complete document, each to the one before; the next is a difference to the complete one. A
new sandbox reads them one after the other."""

LARGE_DIFFERENCE: Final = 0.5
"""An entry that is larger than the smallest one by this share of a renewal's cost is followed by a new base."""

DOUBTED: Final = 4
"""After a renewal that did not pay, differences add up to the cost of so many before the next one. Otherwise, two states that
alternate renew the base at each decision."""

RENEWAL_COST: Final = 8 << 10
"""What a renewal costs beside its bytes, in bytes: two writes, for which pods wait some 40 ms."""


class DecisionBasesState(msgspec.Struct, frozen=True, rename="camel"):
    """What the next sandbox has to know: bases as digest → time.

    Attributes:
        snapshot: The complete base. Releases that know no `near` use it alone.
        near: The present base, if it is a difference.
        smallest: Bytes of the smallest entry; 0 if unknown.
        spent: Bytes of all bases that are differences to the complete one.
        beyond: Bytes by which entries exceeded the smallest one since the last renewal, as far as it was stored.
        is_doubted: Whether the last renewal did not pay.
    """

    snapshot: dict[str, datetime] = {}
    near: dict[str, datetime] = {}
    smallest: int = 0
    spent: int = 0
    beyond: int = 0
    is_doubted: bool = False


class _Stored(msgspec.Struct, frozen=True):
    """A base as it is stored."""

    digest: str
    written: bytes
    written_at: datetime


class _Present(msgspec.Struct, frozen=True):
    """The base that was present before the last renewal: its document, and the differences that lead to it."""

    links: tuple[_Stored, ...]
    document: bytes


class DecisionBases:
    """The bases of one function's decisions. A complete one is written again each day, and when the differences outgrow it."""

    def __init__(self, objects: ObjectStore, cluster: str) -> None:
        self._objects = objects
        self._cluster = cluster
        self._whole: _Stored | None = None
        self._links: tuple[_Stored, ...] = ()
        self._document = b""
        self._before: _Present | None = None
        self._smallest = self._spent = self._beyond = 0
        self._is_doubted = False

    def for_document(self, document: bytes, now: datetime) -> tuple[str, bytes]:
        """Return digest and content of this document's base. Raises PortError."""
        whole = self._whole
        if whole is None or is_old(whole.written_at, now):
            whole = self._write_whole(document, now)
        return (self._links or (whole,))[-1].digest, self._document

    def measure(self, document: bytes, size: int, now: datetime) -> bool:
        """Record the size of this document's entry; the document becomes the next base if the differences have grown.

        Differences count beyond the smallest entry: once they add up to the cost of a renewal, or one of them is large, since a
        sandbox that makes few decisions never adds up. If the cluster is again as before the last renewal, that one did not
        pay: the base before it is the present one again.

        Returns:
            Whether the next sandbox has to know something new.
        """
        is_first = not self._smallest
        self._smallest = min(size, self._smallest or size)
        beyond = size - self._smallest
        self._beyond += beyond
        cost = RENEWAL_COST + size
        is_large = beyond > cost * LARGE_DIFFERENCE
        if is_large and self._before is not None and _is_near(self._before, document, size):
            self._return(self._before)
            return True
        is_first_or_doubted = is_first or (is_large and self._is_doubted)
        is_due = (is_large and self._beyond > cost * DOUBTED) if self._is_doubted else (is_large or self._beyond > cost)
        if is_due:
            with suppress(PortError):  # the present base remains, and each later entry tries again
                self._renew(document, now)
        return is_first_or_doubted or is_due

    def state(self) -> DecisionBasesState:
        """Return what the next sandbox has to know."""
        whole, near = _pointed(self._whole), _pointed(self._links[-1] if self._links else None)
        return DecisionBasesState(whole, near, self._smallest, self._spent, self._beyond, self._is_doubted)

    def read_back(self, state: DecisionBasesState, now: datetime) -> None:
        """Load the bases of an earlier sandbox, unless they are old. Raises PortError, InvalidInputError."""
        for digest, written_at in state.snapshot.items():
            if is_old(written_at, now):
                return
            whole = self._read(digest, written_at)
            links = [self._read(*near) for near in state.near.items()]
            while links and (needed := needed_base(links[0].written)) != digest:
                if len(links) >= LINKS_MAX:
                    raise InvalidInputError("needs too many other documents", subject=f"ledger base {links[-1].digest}")
                links.insert(0, self._read(needed, written_at))
            document, before = decode_base(whole.written), None
            for number, link in enumerate(links):
                before = _Present(tuple(links[:number]), document)
                document = decode_base(link.written, document)
            self._whole, self._links, self._document, self._before = whole, tuple(links), document, before
            self._smallest, self._spent = state.smallest, state.spent
            self._beyond, self._is_doubted = state.beyond, state.is_doubted

    def _return(self, before: _Present) -> None:
        self._links, self._document, self._before = before.links, before.document, None
        self._beyond, self._is_doubted = 0, True

    def _renew(self, document: bytes, now: datetime) -> None:
        assert self._whole is not None  # noqa: S101 - an entry has just been written against it
        links, against = self._links, self._document
        if len(links) >= LINKS_MAX:
            links, against = (), decode_base(self._whole.written)
        difference = encode_decision_base(document, against)
        spent = self._spent + (0 if links else len(difference))
        if spent > len(self._whole.written):
            self._write_whole(document, now)
            return
        link = self._write(document, difference, now)
        self._before = _Present(self._links, self._document)
        self._links, self._document, self._spent = (*links, link), document, spent
        self._beyond, self._is_doubted = 0, False

    def _write_whole(self, document: bytes, now: datetime) -> _Stored:
        whole = self._whole = self._write(document, encode_base(document), now)
        self._links, self._before = (), None
        self._document = document
        self._smallest = self._spent = self._beyond = 0
        self._is_doubted = False
        return whole

    def _write(self, document: bytes, written: bytes, now: datetime) -> _Stored:
        digest = digest_of(document)
        self._objects.put(base_key(self._cluster, digest), written)
        return _Stored(digest, written, now)

    def _read(self, digest: str, written_at: datetime) -> _Stored:
        return _Stored(digest, self._objects.get(base_key(self._cluster, digest)), written_at)


def is_old(written_at: datetime, now: datetime) -> bool:
    """Whether a base was written so long ago that no new entry may need it."""
    return now - written_at >= RENEWED_AFTER


def _is_near(base: _Present, document: bytes, size: int) -> bool:
    """Whether the document's entry, which has this size, has less than half of it against this base."""
    return 2 * len(encode_decision_base(document, base.document)) < size


def _pointed(base: _Stored | None) -> dict[str, datetime]:
    return {} if base is None else {base.digest: base.written_at}
