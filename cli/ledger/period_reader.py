"""The recorded observations of a period in a ledger, in order of time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from cli.errors import InputError
from cli.ledger.decisions import find, refuse_none
from cli.ledger.storage import LedgerStorage
from core import codec
from core.ledger.encoding.form_reader import FormReader, SnapshotForm
from core.ledger.entry import DISRUPT, LedgerDocuments, LedgerEntry, decode_entry
from core.ledger.object_keys import DecisionKey
from core.ledger.reading import LedgerReader
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot


class RecordedDecision(NamedTuple):
    """One decision; `plan` is set for those of `disrupt`."""

    entry: LedgerEntry
    snapshot: Snapshot
    plan: DisruptionPlan | None


READ_AHEAD: Final = 64
"""How many entries are read at a time: a bucket takes 30 ms for one, and for sixteen in parallel."""

REACHED_BACK: Final = timedelta(days=1)
"""How long before the period the snapshot that was current at its start may have been recorded."""


class PeriodReader:
    """The selected observations.

    With `reaches_back` it begins with the snapshot that was current at the requested time: an unchanged cluster is not
    recorded.

    Attributes:
        since: When the first observation was made.
        until: When the period ends: as requested, or with the last observation.
        place: Where the ledger is.

    Raises:
        InputError: If there are none, or they are of several clusters.
    """

    def __init__(self, place: LedgerStorage, arguments: argparse.Namespace, *, reaches_back: bool = False) -> None:
        found = find(place, arguments)
        if reaches_back and arguments.since is not None:
            earlier = find(place, argparse.Namespace(**{**vars(arguments), "since": arguments.since - REACHED_BACK}))
            found = [*[key for key in earlier if key.at < arguments.since][-1:], *found]
        self._keys = [key for key in found if arguments.until is None or key.at <= arguments.until]
        refuse_none(self._keys, place, arguments)
        clusters = {key.cluster for key in self._keys}
        if len(clusters) > 1:
            raise InputError(
                f"the ledger has several clusters: {', '.join(sorted(clusters))}", hint="--cluster says which"
            )
        self.place = place
        self._reader = LedgerReader(place.get)
        self.since: datetime = max(self._keys[0].at, arguments.since or self._keys[0].at)
        self.until: datetime = arguments.until or self._keys[-1].at

    def __len__(self) -> int:
        return len(self._keys)

    def read_from(self, place: LedgerStorage) -> PeriodReader:
        """Return the same period of a copy of its ledger, of which nothing has been read yet."""
        other = copy(self)
        other.place, other._reader = place, LedgerReader(place.get)  # noqa: SLF001 - a copy of our own kind
        return other

    def __iter__(self) -> Iterator[Snapshot]:
        """Yield the observations. Raises InvalidInputError if one cannot be read."""
        reader = FormReader()
        return (self.within(reader.read(form)) for form in self.forms())

    def forms(self) -> Iterator[SnapshotForm]:
        """Yield the observations as they are stored. Raises InvalidInputError if one cannot be read."""
        for entry, documents in self._stored():
            yield self._reader.form(entry, documents)

    def decisions(self) -> Iterator[RecordedDecision]:
        """Yield the snapshots with the decisions. Raises InvalidInputError if one cannot be read."""
        reader = FormReader()
        for entry, documents in self._stored():
            plan = codec.decode_disruption_plan(documents.plan) if entry.function == DISRUPT else None
            yield RecordedDecision(entry, self.within(reader.read(self._reader.form(entry, documents))), plan)

    def within(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot, not older than the period."""
        return msgspec.structs.replace(snapshot, now=self.since) if snapshot.now < self.since else snapshot

    def _stored(self) -> Iterator[tuple[LedgerEntry, LedgerDocuments]]:
        """Yield entries with their documents; those of a bucket are read several at a time."""
        for keys in _batched(self._keys, READ_AHEAD):
            for raw in self.place.get_all(key.key for key in keys):
                entry = decode_entry(raw)
                yield entry, self._reader.documents(entry, raw)


def _batched(keys: Sequence[DecisionKey], size: int) -> Iterator[Sequence[DecisionKey]]:
    """Yield the keys in parts of this size."""
    return (keys[start : start + size] for start in range(0, len(keys), size))
