"""What the entries of a function share: the base of its decisions, and the catalogue of each.

A new sandbox reads them once; they are renewed before they expire.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from adapters.ledger.decision_bases import DecisionBases, DecisionBasesState, is_old
from adapters.ports import NotFoundError, ObjectStore, PortError
from core.errors import InvalidInputError
from core.ledger.bases import decode_base, encode_base
from core.ledger.digests import catalogue_digest, digest_of
from core.ledger.object_keys import base_key, pointer_key
from core.ledger.written_form import encode_catalogue
from core.model.catalogue import Catalogue

DIFFERENCE_MAX: Final = 0.5
"""A catalogue whose difference is larger than this share of its size is stored completely."""

CATALOGUES_KEPT: Final = 16
"""How many digests of stored catalogues are cached; prices change at most every few minutes."""


class _Whole(msgspec.Struct, frozen=True):
    """A completely stored catalogue. `size`: its stored bytes."""

    digest: str
    raw: bytes
    written_at: datetime
    size: int


class _Pointer(DecisionBasesState, frozen=True, rename="camel"):
    """The last bases of a function, for its next sandbox: digest → time."""

    whole_catalogue: dict[str, datetime] = {}
    catalogues: dict[str, datetime] = {}


class LedgerBases:
    """The bases of one function's entries."""

    def __init__(self, objects: ObjectStore, cluster: str, function: str) -> None:
        self._objects = objects
        self._cluster = cluster
        self._pointer_key = pointer_key(cluster, function)
        self._is_read = False
        self._decisions = DecisionBases(objects, cluster)
        self._catalogue: _Whole | None = None
        self._catalogues: dict[str, datetime] = {}

    def for_document(self, document: bytes, now: datetime) -> tuple[str, bytes]:
        """Return name and content of the base of a decision's document. Raises PortError."""
        self._read_back(now)
        return self._decisions.for_document(document, now)

    def measure(self, document: bytes, size: int, now: datetime) -> None:
        """Record the size of the stored entry of this document, which may become the base of later ones."""
        if self._decisions.measure(document, size, now):
            with suppress(PortError):  # the entry is stored; at worst the next sandbox uses an older base
                self._point()

    def catalogue(self, catalogue: Catalogue, now: datetime) -> str:
        """Store the catalogue if it is new, and return its digest. Raises PortError."""
        self._read_back(now)
        digest = catalogue_digest(catalogue)
        written_at = self._catalogues.get(digest)
        if written_at is None or is_old(written_at, now):
            self._write_catalogue(encode_catalogue(catalogue), digest, now)
            self._catalogues[digest] = now
            newest = sorted(self._catalogues.items(), key=lambda item: (item[1], item[0]))[-CATALOGUES_KEPT:]
            self._catalogues = dict(newest)
            self._point()
        return digest

    def _write_catalogue(self, raw: bytes, digest: str, now: datetime) -> None:
        whole = self._catalogue
        if whole is not None and not is_old(whole.written_at, now):
            difference = encode_base(raw, whole.raw)
            if len(difference) <= whole.size * DIFFERENCE_MAX:
                self._objects.put(base_key(self._cluster, digest), difference)
                return
        written = encode_base(raw)
        self._objects.put(base_key(self._cluster, digest_of(raw)), written)
        self._catalogue = _Whole(digest_of(raw), raw, now, len(written))
        self._objects.put(base_key(self._cluster, digest), encode_base(raw, raw))

    def _point(self) -> None:
        catalogue = {} if self._catalogue is None else {self._catalogue.digest: self._catalogue.written_at}
        decisions = msgspec.structs.asdict(self._decisions.state())
        pointer = _Pointer(**decisions, whole_catalogue=catalogue, catalogues=self._catalogues)
        self._objects.put(self._pointer_key, msgspec.json.encode(pointer, order="sorted"))

    def _read_back(self, now: datetime) -> None:
        """Load the bases of an earlier sandbox; those that are old, gone or unreadable are stored again."""
        if self._is_read:
            return
        with suppress(NotFoundError, InvalidInputError, msgspec.MsgspecError, UnicodeDecodeError):
            pointer = msgspec.json.decode(self._objects.get(self._pointer_key), type=_Pointer)
            self._decisions.read_back(pointer, now)
            self._catalogue = self._whole_catalogue(pointer, now)
            self._catalogues = dict(pointer.catalogues)
        self._is_read = True

    def _whole_catalogue(self, pointer: _Pointer, now: datetime) -> _Whole | None:
        for digest, written_at in pointer.whole_catalogue.items():
            if not is_old(written_at, now):
                written = self._objects.get(base_key(self._cluster, digest))
                return _Whole(digest, decode_base(written), written_at, len(written))
        return None
