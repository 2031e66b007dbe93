"""Reads decisions back from any storage of a ledger."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from core.errors import InvalidInputError
from core.identity_cache import ByIdentity
from core.ledger.bases import decode_base, needed_base
from core.ledger.digests import digest_of
from core.ledger.entry import LedgerDocuments, LedgerEntry, decode_documents, decode_entry
from core.ledger.form_reader import SnapshotForm
from core.ledger.object_keys import base_key
from core.ledger.written_form import decode_catalogue, read_form
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot

BASES_KEPT: Final = 8
"""How many bases are cached. Consecutive decisions share them; each has at most some tens of megabytes."""


class LedgerReader:
    """Reads entries. Bases are read once and cached for later entries.

    Args:
        get: Returns the bytes of an object by its key; raises InvalidInputError if there is none.
    """

    def __init__(self, get: Callable[[str], bytes]) -> None:
        self._get = get
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._catalogues: ByIdentity[bytes, Catalogue] = ByIdentity(decode_catalogue, size=BASES_KEPT)

    def documents(self, entry: LedgerEntry, raw: bytes) -> LedgerDocuments:
        """Return the snapshot and plan of an entry, still encoded.

        Raises:
            InvalidInputError: If a part of it is missing or damaged; the message names it.
        """
        found = decode_documents(raw, self._base(entry.cluster, entry.base))
        if digest_of(found.plan) != entry.plan_digest:
            raise InvalidInputError("its plan is not the one that its header names", subject=f"ledger entry {entry.id}")
        return found

    def snapshot(self, entry: LedgerEntry, documents: LedgerDocuments) -> Snapshot:
        """Return the snapshot with its catalogue.

        Raises:
            InvalidInputError: If the catalogue is missing or damaged.
        """
        return read_form(documents.snapshot, self._catalogues(self._base(entry.cluster, entry.catalogue)))

    def form(self, entry: LedgerEntry, documents: LedgerDocuments) -> SnapshotForm:
        """Return the snapshot as it is stored, for a `FormReader`.

        Raises:
            InvalidInputError: If the catalogue is missing.
        """
        return SnapshotForm(documents.snapshot, self._base(entry.cluster, entry.catalogue))

    def entry(self, key: str) -> tuple[LedgerEntry, bytes]:
        """Return an entry's header and the whole object.

        Raises:
            InvalidInputError: If there is none.
        """
        raw = self._get(key)
        return decode_entry(raw), raw

    def _base(self, cluster: str, digest: str) -> bytes:
        known = self._known.get(digest)
        if known is None:
            written = self._get(base_key(cluster, digest))
            needed = needed_base(written)
            known = decode_base(written, self._base(cluster, needed) if needed else b"")
            self._known[digest] = known
            if len(self._known) > BASES_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(digest)
        return known
