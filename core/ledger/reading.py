"""Reads decisions back from any storage of a ledger."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from core.errors import InvalidInputError
from core.identity_cache import ByIdentity
from core.ledger.bases import decode_base, needed_base
from core.ledger.digests import digest_of
from core.ledger.encoding.form_reader import SnapshotForm
from core.ledger.entry import LedgerDocuments, LedgerEntry, decode_documents, decode_entry
from core.ledger.object_keys import base_key
from core.ledger.written_form import decode_catalogue, read_form
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot

BASES_KEPT: Final = 8
"""How many bases are cached. Consecutive decisions share them; each has at most some tens of megabytes."""

CHAIN_MAX: Final = 16
"""How many documents are read for one. The functions need five (their `LINKS_MAX`, and the complete one), and more only if two
sandboxes of the same moment replaced each other's."""


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
        found = decode_documents(raw, self._base(entry, entry.base))
        if digest_of(found.plan) != entry.plan_digest:
            raise InvalidInputError("its plan is not the one that its header names", subject=f"ledger entry {entry.id}")
        return found

    def snapshot(self, entry: LedgerEntry, documents: LedgerDocuments) -> Snapshot:
        """Return the snapshot with its catalogue.

        Raises:
            InvalidInputError: If the catalogue is missing or damaged.
        """
        return read_form(documents.snapshot, self._catalogues(self._base(entry, entry.catalogue)))

    def form(self, entry: LedgerEntry, documents: LedgerDocuments) -> SnapshotForm:
        """Return the snapshot as it is stored, for a `FormReader`.

        Raises:
            InvalidInputError: If the catalogue is missing.
        """
        return SnapshotForm(documents.snapshot, self._base(entry, entry.catalogue))

    def entry(self, key: str) -> tuple[LedgerEntry, bytes]:
        """Return an entry's header and the whole object.

        Raises:
            InvalidInputError: If there is none.
        """
        raw = self._get(key)
        return decode_entry(raw), raw

    def _base(self, entry: LedgerEntry, digest: str) -> bytes:
        """Return the document of this digest, and those that it is the difference to before it."""
        found = list[tuple[str, bytes]]()
        while digest and digest not in self._known:
            if len(found) == CHAIN_MAX:
                problem = f"needs more than {CHAIN_MAX} documents, each the difference to another one"
                raise InvalidInputError(problem, subject=f"ledger entry {entry.id}")
            found.append((digest, self._needed(entry, digest)))
            digest = needed_base(found[-1][1])
        document = self._kept(digest, self._known[digest]) if digest else b""
        for name, written in reversed(found):
            document = self._kept(name, decode_base(written, document))
        return document

    def _needed(self, entry: LedgerEntry, digest: str) -> bytes:
        try:
            return self._get(base_key(entry.cluster, digest))
        except InvalidInputError as error:
            raise InvalidInputError(f"needs another document: {error}", subject=f"ledger entry {entry.id}") from error

    def _kept(self, digest: str, document: bytes) -> bytes:
        self._known[digest] = document
        self._known.move_to_end(digest)
        if len(self._known) > BASES_KEPT:
            self._known.popitem(last=False)
        return document
