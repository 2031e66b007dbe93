"""Reads decisions back from any storage of a ledger."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec

from core import codec
from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.ledger.compression import compressed, compressed_by_elements, decompressed
from core.ledger.encoding import SnapshotForm, decode_catalogue, read_form
from core.ledger.entry import (
    DISRUPT,
    PROVISION,
    LedgerDocuments,
    LedgerEntry,
    decode_documents,
    decode_entry,
    recorded_clock,
)
from core.ledger.outcome import digest_of
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot
from core.scheduling import Planner

# Encodes the ledger's documents: complete, or as the difference to a complete one.


_DIGEST_LENGTH = len(digest_of(b""))


def encode_base(raw: bytes, against: bytes = b"") -> bytes:
    """Encode a document, as the difference to `against` if given. All releases read it."""
    return (digest_of(against) if against else "").encode().ljust(_DIGEST_LENGTH) + compressed(raw, against)


def encode_decision_base(raw: bytes, against: bytes) -> bytes:
    """Encode a document of decisions as the difference by elements to `against`, which only releases since 2 read.

    Catalogues are named by their content: a new one may replace the one that an entry of an older release needs.
    """
    return digest_of(against).encode() + compressed_by_elements(raw, against)


def needed_base(written: bytes) -> str:
    """Return the digest of the document that is needed to decode this one, empty if none is."""
    return written[:_DIGEST_LENGTH].decode("ascii", "replace").strip()


def decode_base(written: bytes, against: bytes = b"") -> bytes:
    """Decode a document.

    Raises:
        InvalidInputError: If it is damaged, or `against` is not the document that is needed.
    """
    if (digest_of(against) if against else "") != needed_base(written):
        raise InvalidInputError("is kept as the difference to another document", subject="ledger base")
    return decompressed(written[_DIGEST_LENGTH:], against)


# Object keys of a ledger below its folder: cluster, day and time, so that a listing is chronological.


PREFIX: Final = "ledger/"
"""Prefix of all keys in the functions' bucket, for lifecycle rules."""

DECISIONS: Final = "decisions"
BASES: Final = "bases"
OUTCOMES: Final = "outcomes"
_DAY: Final = "%Y/%m/%d"
_TIME: Final = "%H%M%S.%fZ"


class DecisionKey(msgspec.Struct, frozen=True, order=True):
    """The information in the key of a decision's object."""

    at: datetime
    function: str
    id: str
    key: str

    @property
    def cluster(self) -> str:
        """The cluster that the decision is about."""
        return self.key.split("/")[1]


def decision_key(cluster: str, at: datetime, function: str, decision: str) -> str:
    """Return the key of a decision: `decisions/CLUSTER/2026/11/22/053100.000000Z-disrupt-7f3a9c01de`."""
    return f"{day_prefix(DECISIONS, cluster, at)}{at.astimezone(UTC).strftime(_TIME)}-{function}-{decision}"


def outcome_key(cluster: str, at: datetime, function: str, digest: str) -> str:
    """Return the key under which a run stores outcomes of decisions."""
    return f"{day_prefix(OUTCOMES, cluster, at)}{at.astimezone(UTC).strftime(_TIME)}-{function}-{digest}"


def base_key(cluster: str, digest: str) -> str:
    """Return the key of a base document: others are stored as differences to it, or many decisions share it."""
    return f"{BASES}/{cluster}/{digest}"


def pointer_key(cluster: str, function: str) -> str:
    """Return the key under which a function records its last bases for its next sandbox."""
    return f"{BASES}/{cluster}/of-{function}"


def day_prefix(folder: str, cluster: str, day: datetime) -> str:
    """Return the common prefix of one day's keys."""
    return f"{folder}/{cluster}/{day.astimezone(UTC).strftime(_DAY)}/"


def days(since: datetime, until: datetime) -> list[datetime]:
    """Yield each day (UTC) from `since` to `until`, in order."""
    first = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [first + timedelta(days=n) for n in range((until.astimezone(UTC) - first).days + 1)]


def read_decision_key(key: str) -> DecisionKey | None:
    """Return the information in a decision's key; None for any other key."""
    parts = key.split("/")
    if len(parts) != 6 or parts[0] != DECISIONS:
        return None
    time, _, rest = parts[-1].partition("-")
    function, _, decision = rest.rpartition("-")
    try:
        at = datetime.strptime("/".join(parts[2:5]) + time, _DAY + _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return DecisionKey(at, function, decision, key)


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
        decoded = decode_documents(raw, self._base(entry, entry.base))
        if digest_of(decoded.plan) != entry.plan_digest:
            raise InvalidInputError("its plan is not the one that its header names", subject=f"ledger entry {entry.id}")
        return decoded

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
        differences = list[tuple[str, bytes]]()
        while digest and digest not in self._known:
            if len(differences) == CHAIN_MAX:
                problem = f"needs more than {CHAIN_MAX} documents, each the difference to another one"
                raise InvalidInputError(problem, subject=f"ledger entry {entry.id}")
            differences.append((digest, self._needed(entry, digest)))
            digest = needed_base(differences[-1][1])
        document = self._kept(digest, self._known[digest]) if digest else b""
        for name, written in reversed(differences):
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


# Repeats a recorded decision, and reports the differences.


DIFFERENCES_SHOWN: Final = 5


class UnknownFunctionError(InvalidInputError):
    """The entry is of a function that this release does not know."""


def decided_again(entry: LedgerEntry, snapshot: Snapshot) -> bytes:
    """Return the plan's bytes for the snapshot, decided by the same function under the same bound.

    Raises:
        UnknownFunctionError: If this release does not know the function.
    """
    options = msgspec.structs.replace(snapshot.options, improve_iterations=entry.improve_iterations)
    bounded = msgspec.structs.replace(snapshot, options=options)
    clock = recorded_clock(entry)
    if entry.function == PROVISION:
        planner = Planner(bounded)
        planner = planner.without_reasons() if entry.is_unexplained else planner
        return codec.encode_plan(planner.plan(clock, proves=not entry.is_unproven))
    if entry.function == DISRUPT:
        from core.disruption import disrupt  # the other users of a ledger decide nothing again

        return codec.encode_disruption_plan(disrupt(bounded, deadline=clock))
    raise UnknownFunctionError(f"{entry.function!r} is not a function that decides", subject=f"ledger entry {entry.id}")


def differences(before: bytes, after: bytes) -> list[str]:
    """Return the first few fields in which two plans differ."""
    return list(islice(_differing("", json.loads(before), json.loads(after)), DIFFERENCES_SHOWN))


def _differing(path: str, before: Any, after: Any) -> Any:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differing(f"{path}.{key}".lstrip("."), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path}: {len(before)} elements became {len(after)}"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differing(f"{path}[{number}]", old, new)
    else:
        yield f"{path}: {_short(before)} became {_short(after)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_SHOWN_MAX: Final = 120
