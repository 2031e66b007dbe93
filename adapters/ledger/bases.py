"""Bases: documents to which entries are stored as differences.

A new sandbox reads them once; they are renewed before they expire.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.ports import NotFoundError, ObjectStore, PortError
from core.errors import InvalidInputError
from core.ledger.bases import decode_base, encode_base
from core.ledger.digests import catalogue_digest, digest_of
from core.ledger.object_keys import base_key, pointer_key
from core.ledger.written_form import encode_catalogue
from core.model.catalogue import Catalogue

RENEWED_AFTER: Final = timedelta(days=1)
"""The bucket keeps bases two days longer than decisions, so none expires before the entries that need it."""

DIFFERENCE_MAX: Final = 0.5
"""A catalogue whose difference is larger than this share of its size is stored completely."""

LARGE_DIFFERENCE: Final = 0.25
"""An entry that is larger than the smallest one by this share of the base is followed by a new base."""

CATALOGUES_KEPT: Final = 16
"""How many digests of stored catalogues are cached; prices change at most every few minutes."""


class _Whole(msgspec.Struct, frozen=True):
    """A completely stored document. `size`: its stored bytes."""

    digest: str
    raw: bytes
    written_at: datetime
    size: int


class _Pointer(msgspec.Struct, frozen=True, rename="camel"):
    """The last bases of a function, for its next sandbox: digest → time.

    `smallest`: bytes of the smallest entry against the snapshot; 0 if unknown, as for older releases.
    """

    snapshot: dict[str, datetime] = {}
    smallest: int = 0
    whole_catalogue: dict[str, datetime] = {}
    catalogues: dict[str, datetime] = {}


class LedgerBases:
    """The bases of one function's entries."""

    def __init__(self, objects: ObjectStore, cluster: str, function: str) -> None:
        self._objects = objects
        self._cluster = cluster
        self._pointer_key = pointer_key(cluster, function)
        self._is_read = False
        self._snapshot: _Whole | None = None
        self._smallest = 0
        self._excess = 0
        self._catalogue: _Whole | None = None
        self._catalogues: dict[str, datetime] = {}

    def for_snapshot(self, raw: bytes, now: datetime) -> tuple[str, bytes]:
        """Return digest and bytes of this document's base. Raises PortError."""
        self._read_back(now)
        if self._snapshot is None or _is_old(self._snapshot.written_at, now):
            self._snapshot = self._write_whole(raw, digest_of(raw), now)
            self._smallest = self._excess = 0
        return self._snapshot.digest, self._snapshot.raw

    def measure(self, size: int) -> None:
        """Record the size of each entry against the present base.

        The next entry gets a new base once the differences add up to its cost, or one of them is large: a sandbox that makes
        few decisions never adds up. Differences count beyond the first entry of the base, which later sandboxes know, too.
        """
        if self._snapshot is None:
            return
        is_first = not self._smallest
        self._smallest = min(size, self._smallest or size)
        excess = size - self._smallest
        self._excess += excess
        is_large = self._excess > self._snapshot.size or excess > self._snapshot.size * LARGE_DIFFERENCE
        if is_large:
            self._snapshot = None
        if is_first or is_large:
            with suppress(PortError):  # the entry is stored; at worst the next sandbox uses an older base
                self._point()

    def catalogue(self, catalogue: Catalogue, now: datetime) -> str:
        """Store the catalogue if it is new, and return its digest. Raises PortError."""
        self._read_back(now)
        digest = catalogue_digest(catalogue)
        written_at = self._catalogues.get(digest)
        if written_at is None or _is_old(written_at, now):
            self._write_catalogue(encode_catalogue(catalogue), digest, now)
            self._catalogues[digest] = now
            newest = sorted(self._catalogues.items(), key=lambda item: (item[1], item[0]))[-CATALOGUES_KEPT:]
            self._catalogues = dict(newest)
            self._point()
        return digest

    def _write_catalogue(self, raw: bytes, digest: str, now: datetime) -> None:
        whole = self._catalogue
        if whole is not None and not _is_old(whole.written_at, now):
            difference = encode_base(raw, whole.raw)
            if len(difference) <= whole.size * DIFFERENCE_MAX:
                self._objects.put(base_key(self._cluster, digest), difference)
                return
        self._catalogue = self._write_whole(raw, digest_of(raw), now)
        self._objects.put(base_key(self._cluster, digest), encode_base(raw, raw))

    def _write_whole(self, raw: bytes, digest: str, now: datetime) -> _Whole:
        written = encode_base(raw)
        self._objects.put(base_key(self._cluster, digest), written)
        return _Whole(digest, raw, now, len(written))

    def _point(self) -> None:
        def of(whole: _Whole | None) -> dict[str, datetime]:
            return {} if whole is None else {whole.digest: whole.written_at}

        pointer = _Pointer(of(self._snapshot), self._smallest, of(self._catalogue), self._catalogues)
        self._objects.put(self._pointer_key, msgspec.json.encode(pointer, order="sorted"))

    def _read_back(self, now: datetime) -> None:
        """Load the bases of an earlier sandbox; those that are old, gone or unreadable are stored again."""
        if self._is_read:
            return
        try:
            pointer = msgspec.json.decode(self._objects.get(self._pointer_key), type=_Pointer)
            self._snapshot = self._whole(pointer.snapshot, now)
            self._catalogue = self._whole(pointer.whole_catalogue, now)
            self._catalogues = dict(pointer.catalogues)
            self._smallest = pointer.smallest
        except (NotFoundError, InvalidInputError, msgspec.MsgspecError, UnicodeDecodeError):
            self._snapshot = self._catalogue = None
        self._is_read = True

    def _whole(self, pointed: dict[str, datetime], now: datetime) -> _Whole | None:
        for digest, written_at in pointed.items():
            if not _is_old(written_at, now):
                written = self._objects.get(base_key(self._cluster, digest))
                return _Whole(digest, decode_base(written), written_at, len(written))
        return None


def _is_old(written_at: datetime, now: datetime) -> bool:
    return now - written_at >= RENEWED_AFTER
