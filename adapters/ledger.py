"""Writes decisions to the ledger: bases, differences to them, and entries. Reads the snapshots of a period back.

The base of a function's decisions: a complete document, then differences to it and to each other, as the cluster changes.

All that an entry needs is written before it, and within a day. Bases need no entries, so none is missed if it was not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.observability import CODE, MISSING_PERMISSIONS, RUNNING
from adapters.ports import Clock, ListedObjects, NotFoundError, ObjectStore, PortError, TransientError
from adapters.run_report import RunReport
from core import codec
from core.errors import InvalidInputError
from core.ledger.encoding import encode_catalogue, read_form, written_form
from core.ledger.entry import (
    PROVISION,
    SCHEMA_VERSION,
    DecisionSummary,
    LedgerDocuments,
    LedgerEntry,
    encode_entry,
    joined,
)
from core.ledger.outcome import DecisionOutcome, catalogue_digest, decision_id, digest_of, encode_outcomes
from core.ledger.reading import (
    DECISIONS,
    DecisionKey,
    LedgerReader,
    base_key,
    day_prefix,
    days,
    decision_key,
    decode_base,
    encode_base,
    encode_decision_base,
    needed_base,
    outcome_key,
    pointer_key,
    read_decision_key,
)
from core.model.catalogue import Catalogue
from core.model.plan import DisruptionPlan, Plan
from core.model.snapshot import Snapshot
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import LEDGER_FAILURES

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
        whole_base = self._whole
        if whole_base is None or is_old(whole_base.written_at, now):
            whole_base = self._write_whole(document, now)
        return (self._links or (whole_base,))[-1].digest, self._document

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
        whole_base, near = _pointed(self._whole), _pointed(self._links[-1] if self._links else None)
        return DecisionBasesState(whole_base, near, self._smallest, self._spent, self._beyond, self._is_doubted)

    def read_back(self, state: DecisionBasesState, now: datetime) -> None:
        """Load the bases of an earlier sandbox, unless they are old. Raises PortError, InvalidInputError."""
        for digest, written_at in state.snapshot.items():
            if is_old(written_at, now):
                return
            whole_base = self._read(digest, written_at)
            links = [self._read(*near) for near in state.near.items()]
            while links and (needed := needed_base(links[0].written)) != digest:
                if len(links) >= LINKS_MAX:
                    raise InvalidInputError("needs too many other documents", subject=f"ledger base {links[-1].digest}")
                links.insert(0, self._read(needed, written_at))
            document, before = decode_base(whole_base.written), None
            for number, link in enumerate(links):
                before = _Present(tuple(links[:number]), document)
                document = decode_base(link.written, document)
            self._whole, self._links, self._document, self._before = whole_base, tuple(links), document, before
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
        whole_base = self._whole = self._write(document, encode_base(document), now)
        self._links, self._before = (), None
        self._document = document
        self._smallest = self._spent = self._beyond = 0
        self._is_doubted = False
        return whole_base

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


# What the entries of a function share: the base of its decisions, and the catalogue of each.
#
# A new sandbox reads them once; they are renewed before they expire.


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
        whole_catalogue = self._catalogue
        if whole_catalogue is not None and not is_old(whole_catalogue.written_at, now):
            difference = encode_base(raw, whole_catalogue.raw)
            if len(difference) <= whole_catalogue.size * DIFFERENCE_MAX:
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


# Stores decisions before they are carried out: first an entry that names the intended actions, then the actions.


TRIED_AGAIN_AFTER: Final = timedelta(minutes=1)
"""How long writes are skipped after a failure, so that pods do not wait for the bucket's timeout at each decision."""


class SearchBound(msgspec.Struct, frozen=True):
    """The bound that ended the search for a better plan; fields as in `LedgerEntry`."""

    improve_iterations: int | None = None
    elapsed: tuple[int, ...] = ()
    is_greedy: bool = False


class DecisionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that has an id but is not stored yet; without a ledger it has no id.

    Attributes:
        is_observed: Whether it is only recorded.
        is_unexplained: Whether the plan lacks the reasons of pods without a place.
    """

    id: str = ""
    function: str = ""
    plan: bytes = b""
    snapshot: Snapshot | None = None
    bound: SearchBound = SearchBound()
    is_observed: bool = False
    is_unexplained: bool = False

    def explained(self, plan: Plan) -> DecisionDraft:
        """Return the same decision with the plan that has the reasons."""
        return msgspec.structs.replace(self, plan=codec.encode_plan(plan) if self.id else b"", is_unexplained=False)


class LedgerWriter:
    """Stores the decisions of one sandbox.

    Args:
        objects: The bucket; None for no ledger.
    """

    def __init__(self, objects: ObjectStore | None, cluster: str, clock: Clock) -> None:
        self._objects = objects
        self._cluster = cluster
        self._clock = clock
        self._bases: dict[str, LedgerBases] = {}
        self._last_written: dict[tuple[str, bool], DecisionSummary] = {}
        self._failed_at: datetime | None = None

    @property
    def is_kept(self) -> bool:
        """Whether there is a ledger. Without one, nobody reads what only its entries contain."""
        return self._objects is not None

    def draft(
        self,
        function: str,
        snapshot: Snapshot,
        plan: Plan | DisruptionPlan,
        bound: SearchBound,
        *,
        is_observed: bool = False,
        is_unexplained: bool = False,
    ) -> DecisionDraft:
        """Give a decision its id.

        Args:
            function: The deciding function.
            snapshot: The input of the decision.
            plan: Its result.
            bound: What ended the search.
            is_observed: Whether it is only recorded; such a decision is stored even without news.
            is_unexplained: Whether the plan lacks the reasons of pods without a place.
        """
        if self._objects is None:
            return DecisionDraft()
        encode = codec.encode_plan if isinstance(plan, Plan) else codec.encode_disruption_plan
        at = snapshot.now.isoformat()
        written = encode(plan)  # type: ignore[arg-type]  # the line above chose by the type
        return DecisionDraft(
            id=decision_id(self._cluster, f"{function} observed" if is_observed else function, at, written),
            function=function,
            plan=written,
            snapshot=snapshot,
            bound=bound,
            is_observed=is_observed,
            is_unexplained=is_unexplained,
        )

    def write(self, draft: DecisionDraft, summary: DecisionSummary, *, is_interim: bool = False) -> None:
        """Store the decision; one that begins nothing and only repeats the last refusals is skipped.

        Args:
            draft: The decision.
            summary: What it begins, and whom it refuses.
            is_interim: Whether it is written again once its reasons are found: later entries do not build on this one.

        Raises:
            PortError: If it could not be stored.
        """
        if self._objects is None or draft.snapshot is None or self._is_old_news(draft, summary):
            return
        now = self._clock.now()
        if self._failed_at is not None and now - self._failed_at < TRIED_AGAIN_AFTER:
            raise TransientError("ledger", f"could not be written at {self._failed_at:%H:%M:%S}")
        try:
            self._put(self._objects, draft, draft.snapshot, summary, is_interim=is_interim)
        except PortError:
            self._failed_at = now
            raise
        self._failed_at = None
        if not is_interim:
            self._last_written[_series(draft)] = summary

    def try_write(
        self, draft: DecisionDraft, summary: DecisionSummary, report: RunReport, *, is_interim: bool = False
    ) -> bool:
        """Store the decision like `write`; return whether that succeeded, and report a failure."""
        try:
            self.write(draft, summary, is_interim=is_interim)
        except PortError as error:
            MISSING_PERMISSIONS.leave_out(error)  # the failure is the cause of an alarm
            report.count(LEDGER_FAILURES)
            report.decide(DecisionKind.SKIP, "ledger", RunReason.LEDGER_NOT_WRITTEN, str(error))
            return False
        return True

    def record_outcomes(self, function: str, outcomes: Sequence[DecisionOutcome]) -> None:
        """Store the outcomes of decisions and instances, with best effort: only the log and reports depend on them."""
        linked_outcomes = [outcome for outcome in outcomes if outcome.decision or outcome.instance is not None]
        if self._objects is None or not linked_outcomes:
            return
        written = encode_outcomes(linked_outcomes)
        key = outcome_key(self._cluster, self._clock.now(), function, digest_of(written)[:10])
        with suppress(PortError):
            self._objects.put(key, written)

    def _is_old_news(self, draft: DecisionDraft, summary: DecisionSummary) -> bool:
        return not summary.parts and not draft.is_observed and self._last_written.get(_series(draft)) == summary

    def _new_refusals(self, draft: DecisionDraft, summary: DecisionSummary) -> tuple[tuple[str, str], ...]:
        """Return the refusals that the last entry did not have: in a minute, few of a thousand nodes change their reason."""
        last = self._last_written.get(_series(draft))
        last_refusals = frozenset(last.refused) if last is not None else frozenset()
        return tuple(refusal for refusal in summary.refused if refusal[1] and refusal not in last_refusals)

    def _put(
        self,
        objects: ObjectStore,
        draft: DecisionDraft,
        snapshot: Snapshot,
        summary: DecisionSummary,
        *,
        is_interim: bool,
    ) -> None:
        now = self._clock.now()
        if draft.function not in self._bases:
            self._bases[draft.function] = LedgerBases(objects, self._cluster, draft.function)
        bases, documents = self._bases[draft.function], LedgerDocuments(written_form(snapshot), draft.plan)
        document = joined(documents)
        name, base = bases.for_document(document, now)
        entry = LedgerEntry(
            schema_version=SCHEMA_VERSION,
            id=draft.id,
            at=snapshot.now,
            cluster=self._cluster,
            function=draft.function,
            version=RUNNING,
            code=CODE,
            improve_iterations=draft.bound.improve_iterations,
            elapsed=draft.bound.elapsed,
            is_greedy=draft.bound.is_greedy,
            catalogue=bases.catalogue(snapshot.catalogue, now),
            base=name,
            plan_digest=digest_of(draft.plan),
            what=summary.what,
            reason=summary.reason,
            parts=summary.parts,
            bindings=summary.bindings,
            refused=self._new_refusals(draft, summary),
            is_observed=draft.is_observed,
            is_unexplained=draft.is_unexplained,
            is_unproven=draft.function == PROVISION,
        )
        written = encode_entry(entry, documents, base)
        objects.put(decision_key(self._cluster, snapshot.now, draft.function, draft.id), written)
        if not is_interim:
            bases.measure(document, len(written), now)


def _series(draft: DecisionDraft) -> tuple[str, bool]:
    """Return the draft's series in the ledger: observed decisions are separate from those that are carried out."""
    return draft.function, draft.is_observed


# The snapshots of stored decisions, for those who learn from them.


SPACED: Final = timedelta(minutes=1)
"""Of decisions that are closer to each other, only the first one's snapshot is read: a pod that stays is in the next one."""


LISTED_AFTER: Final = timedelta(minutes=15)
"""How long after its end a day has no further entries: those of its last run are stored by then."""


class RecordedSnapshots:
    """Reads them, without their markets. The names of days that are over are listed once for all their hours."""

    def __init__(self, objects: ListedObjects, cluster: str, clock: Clock) -> None:
        self._objects = objects
        self._cluster = cluster
        self._clock = clock
        self._listed: dict[datetime, tuple[DecisionKey, ...]] = {}
        self._reader = LedgerReader(self._get)

    def between(self, since: datetime, until: datetime) -> Iterator[Snapshot]:
        """Yield the snapshots of a period in order, those that can be read. Raises PortError."""
        last: datetime | None = None
        for key in self._keys(since, until):
            if last is not None and key.at - last < SPACED:
                continue
            try:
                entry, raw = self._reader.entry(key.key)
                documents = self._reader.documents(entry, raw)
                snapshot = read_form(documents.snapshot, Catalogue())
            except (InvalidInputError, msgspec.MsgspecError):  # a gap is no growth, and an hour has many others
                continue
            last = key.at
            yield snapshot

    def _keys(self, since: datetime, until: datetime) -> Iterator[DecisionKey]:
        for day in days(since, until):
            yield from (key for key in self._of_day(day, since) if since <= key.at < until)

    def _of_day(self, day: datetime, since: datetime) -> tuple[DecisionKey, ...]:
        """Return the keys of a day; of one that is not over, those from this moment on."""
        if day in self._listed:
            return self._listed[day]
        is_over = day + timedelta(days=1) + LISTED_AFTER <= self._clock.now()
        after = decision_key(self._cluster, since, "", "") if day <= since and not is_over else ""
        names = self._objects.keys(day_prefix(DECISIONS, self._cluster, day), after)
        keys = tuple(key for name in names if (key := read_decision_key(name)) is not None)
        if is_over:
            self._listed = {**dict(list(self._listed.items())[-1:]), day: keys}
        return keys

    def _get(self, key: str) -> bytes:
        try:
            return self._objects.get(key)
        except NotFoundError as error:
            raise InvalidInputError(str(error), subject=key) from error
