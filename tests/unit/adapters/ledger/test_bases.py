"""Entries stay small differences, also where each sandbox writes one, and each can be read whatever happened to the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

import msgspec
import pytest

from adapters.ledger.bases import LedgerBases
from adapters.ledger.decision_bases import LINKS_MAX, RENEWED_AFTER
from adapters.ports import NotFoundError, ObjectStore, TransientError
from core.errors import InvalidInputError
from core.ledger.bases import needed_base
from core.ledger.digests import digest_of
from core.ledger.entry import LedgerDocuments, LedgerEntry, encode_entry, joined
from core.ledger.object_keys import base_key, decision_key, pointer_key, read_decision_key
from core.ledger.reading import LedgerReader
from tests.builders import NOW, a_snapshot, a_type

MINUTE = timedelta(minutes=1)
POINTER = pointer_key("prod", "provision")
LENGTH = len(digest_of(b""))


class DeadError(BaseException):
    """The sandbox ended: nothing after this call runs."""


class Bucket:
    """Objects in memory; those under `broken` cannot be written, and a sandbox dies after so many more writes."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written_at: dict[str, datetime] = {}
        self.now = NOW
        self.broken = "-"
        self.dies_after = -1

    @property
    def store(self) -> ObjectStore:
        return self  # type: ignore[return-value]  # what bases use of it

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFoundError("s3:GetObject", key)
        return self.objects[key]

    def put(self, key: str, body: bytes) -> None:
        if key.startswith(self.broken):
            raise TransientError("s3:PutObject", "503")
        if self.dies_after == 0:
            raise DeadError
        self.dies_after -= 1
        self.objects[key], self.written_at[key] = body, self.now


def documents(number: int) -> list[LedgerDocuments]:
    """Snapshots of 200 objects, of which six are replaced from one to the next, and plans that name some."""
    random = Random(1)  # noqa: S311 - content that does not compress
    parts = [random.randbytes(250).hex().encode() for _ in range(200)]
    found = []
    for _ in range(number):
        parts = [*parts[6:], *(random.randbytes(250).hex().encode() for _ in range(6))]
        found.append(LedgerDocuments(b"},{".join(parts), b"},{".join(parts[:40])))
    return found


class Sandbox:
    """Writes entries as `LedgerWriter` does, without their catalogue."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.bases = LedgerBases(bucket.store, "prod", "provision")

    def write(self, found: LedgerDocuments, at: datetime) -> int:
        self.bucket.now = at
        document = joined(found)
        digest, base = self.bases.for_document(document, at)
        fixed = {"cluster": "prod", "function": "provision", "version": "1", "catalogue": "c", "what": "", "reason": ""}
        plan_digest = digest_of(found.plan)
        entry = LedgerEntry(id=f"d{at:%d%H%M}", at=at, base=digest, plan_digest=plan_digest, **fixed)
        raw = encode_entry(entry, found, base)
        self.bucket.put(decision_key("prod", at, "provision", entry.id), raw)
        self.bases.measure(document, len(raw), at)
        return len(raw)


def played(bucket: Bucket, number: int, sandbox_of: Callable[[int], Sandbox]) -> list[int]:
    """The sizes of entries, one a minute."""
    found = enumerate(documents(number))
    return [sandbox_of(minute).write(one, NOW + minute * MINUTE) for minute, one in found]


def base_size(bucket: Bucket) -> int:
    return sum(len(raw) for key, raw in bucket.objects.items() if key.startswith("bases/") and key != POINTER)


def reader_of(bucket: Bucket, reads: list[str]) -> LedgerReader:
    def get(key: str) -> bytes:
        reads.append(key)
        if key not in bucket.objects:
            raise InvalidInputError("is not there", subject=key)
        return bucket.objects[key]

    return LedgerReader(get)


def assert_each_is_readable(bucket: Bucket) -> int:
    """Each entry is read alone, without what was read for another, and without any other entry; return their number."""
    known = {joined(one): one for one in documents(200)}
    keys = sorted(key for key in bucket.objects if read_decision_key(key))
    for key in keys:
        reads: list[str] = []
        reader = reader_of(bucket, reads)
        entry, raw = reader.entry(key)
        assert joined(reader.documents(entry, raw)) in known
        assert sum(1 for one in reads if read_decision_key(one)) == 1
        assert len(reads) <= 1 + LINKS_MAX + 1
        for needed in reads[1:]:
            assert timedelta(0) <= bucket.written_at[key] - bucket.written_at[needed] < RENEWED_AFTER
    return len(keys)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_changing_cluster_gets_new_bases(restarts: bool) -> None:
    """Without new bases, entries would become as large as complete snapshots."""
    bucket = Bucket()
    only = Sandbox(bucket)
    sizes = played(bucket, 200, lambda _: Sandbox(bucket) if restarts else only)
    whole = len(encode_entry(msgspec.convert(an_entry(), LedgerEntry), documents(1)[0], b""))
    assert max(sizes) < whole / 3
    assert (sum(sizes) + base_size(bucket)) / 200 < whole / 5
    assert assert_each_is_readable(bucket) == 200


def an_entry() -> dict[str, object]:
    fixed = {"cluster": "prod", "function": "provision", "version": "1", "catalogue": "c", "what": "", "reason": ""}
    return {"id": "i", "at": NOW, "base": "", "planDigest": "", **fixed}


def test_an_unchanged_cluster_keeps_its_base() -> None:
    bucket = Bucket()
    (one,) = documents(1)
    for minute in range(50):
        Sandbox(bucket).write(one, NOW + minute * MINUTE)
    assert len([key for key in bucket.objects if key.startswith("bases/")]) == 2  # the base, and the pointer to it


def test_most_of_a_plan_is_as_in_the_one_before() -> None:
    """The reasons of nodes that stay were most of an entry of `disrupt`: only snapshots were bases."""
    bucket = Bucket()
    sandbox = Sandbox(bucket)
    first, second = documents(2)
    sandbox.write(LedgerDocuments(first.snapshot, second.snapshot), NOW)
    assert sandbox.write(LedgerDocuments(first.snapshot + b"}", second.snapshot), NOW + MINUTE) < 2000


def test_sandboxes_side_by_side_leave_entries_that_can_be_read() -> None:
    bucket = Bucket()
    both = Sandbox(bucket), Sandbox(bucket)
    played(bucket, 120, lambda minute: both[minute % 2])
    assert assert_each_is_readable(bucket) == 120


def test_sandboxes_of_the_same_moments_leave_entries_that_can_be_read() -> None:
    """Their bases have the same names, and each replaces what the other one stored."""
    bucket = Bucket()
    one, other = Sandbox(bucket), Sandbox(bucket)
    for minute, found in enumerate(documents(120)):
        one.write(found, NOW + minute * MINUTE)
        if minute % 3:
            other.write(found, NOW + minute * MINUTE)
    keys = [key for key in bucket.objects if read_decision_key(key)]
    for key in keys:
        reader = reader_of(bucket, [])
        reader.documents(*reader.entry(key))


@pytest.mark.parametrize("writes", range(60))
def test_a_sandbox_may_end_at_any_write(writes: int) -> None:
    """What was stored can be read, and the next sandbox goes on from there."""
    bucket = Bucket()
    bucket.dies_after = writes
    only = Sandbox(bucket)
    with pytest.raises(DeadError):
        played(bucket, 120, lambda _: only)
    before = assert_each_is_readable(bucket)
    bucket.dies_after = -1
    found, later = documents(120), Sandbox(bucket)
    for minute in range(60, 80):
        later.write(found[minute], NOW + minute * MINUTE)
    assert assert_each_is_readable(bucket) == before + 20


def test_an_entry_that_could_not_be_stored_is_not_missed() -> None:
    """The decision begins nothing, or pods do not wait for it; the entries after it do not need it."""
    bucket = Bucket()
    sandbox = Sandbox(bucket)
    for minute, found in enumerate(documents(120)):
        bucket.broken = "decisions/" if minute % 7 == 3 else "bases/" if minute % 7 == 5 else "-"
        if minute % 7 == 3:
            with pytest.raises(TransientError):
                sandbox.write(found, NOW + minute * MINUTE)
        else:
            sandbox.write(found, NOW + minute * MINUTE)
    assert assert_each_is_readable(bucket) == 120 - 17


def test_bases_are_written_within_a_day_before_each_entry_that_needs_them() -> None:
    """The bucket keeps them two days longer, so no entry loses one of them."""
    bucket = Bucket()
    sandbox = Sandbox(bucket)
    for number, found in enumerate(documents(100)):
        sandbox.write(found, NOW + number * 47 * MINUTE)
    assert assert_each_is_readable(bucket) == 100  # three days


def test_a_new_sandbox_begins_again_where_a_base_is_gone() -> None:
    bucket = Bucket()
    only = Sandbox(bucket)
    played(bucket, 12, lambda _: only)
    (near,) = json.loads(bucket.objects[POINTER])["near"]
    del bucket.objects[base_key("prod", needed_base(bucket.objects[base_key("prod", near)]))]
    for key in [key for key in bucket.objects if read_decision_key(key)]:
        del bucket.objects[key]
    later = Sandbox(bucket)
    for minute in (13, 14):
        later.write(documents(15)[minute], NOW + minute * MINUTE)
    assert assert_each_is_readable(bucket) == 2


def test_the_pointer_of_an_older_release_is_read_and_older_releases_find_a_complete_base() -> None:
    bucket = Bucket()
    only = Sandbox(bucket)
    played(bucket, 12, lambda _: only)
    pointer = json.loads(bucket.objects[POINTER])
    (whole,) = pointer["snapshot"]
    assert needed_base(bucket.objects[base_key("prod", whole)]) == ""
    older = {name: pointer[name] for name in ("snapshot", "smallest", "wholeCatalogue")}
    bucket.objects[POINTER] = json.dumps(older).encode()
    before = set(bucket.objects)
    digest, _ = LedgerBases(bucket.store, "prod", "provision").for_document(joined(documents(1)[0]), NOW + 12 * MINUTE)
    assert (digest, set(bucket.objects)) == (whole, before)


def test_catalogues_are_frames_that_older_releases_read() -> None:
    """Their names are digests of content, so each may replace the one that an entry of an older release needs."""
    bucket = Bucket()
    bases = LedgerBases(bucket.store, "prod", "provision")
    for number in range(4):
        types = tuple(a_type(f"m5.{size}large", price=0.1 if size else 0.1 + number) for size in range(40))
        bases.catalogue(a_snapshot(types=types).catalogue, NOW + number * MINUTE)
    written = [raw for key, raw in bucket.objects.items() if key != POINTER]
    assert len(written) == 5
    assert {raw[LENGTH : LENGTH + 4] for raw in written} == {b"\x28\xb5\x2f\xfd"}  # Zstandard's frames (RFC 8878)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cluster_that_alternates_between_two_states_keeps_its_base(restarts: bool) -> None:
    """Each decision got a new base, the one of the state that the cluster had just left."""
    bucket = Bucket()
    quiet, *busy = documents(60)
    only = Sandbox(bucket)
    for minute in range(1, 59):
        sandbox = Sandbox(bucket) if restarts else only
        half = len(quiet.snapshot) // 2
        other = LedgerDocuments(busy[minute].snapshot[:half] + quiet.snapshot[half:], quiet.plan)
        sandbox.write(other if minute % 2 else quiet, NOW + minute * MINUTE)
    assert len([key for key in bucket.objects if key.startswith("bases/") and key != POINTER]) <= 12
    assert sum(1 for key in bucket.objects if read_decision_key(key)) == 58


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cluster_that_returned_for_good_has_small_entries_again(restarts: bool) -> None:
    bucket = Bucket()
    quiet, *busy = documents(60)
    only = Sandbox(bucket)
    sizes = []
    for minute in range(60):
        sandbox = Sandbox(bucket) if restarts else only
        sizes.append(sandbox.write(busy[40] if 3 <= minute < 6 or minute >= 30 else quiet, NOW + minute * MINUTE))
    assert max(sizes[8:30]) < 1000
    assert max(sizes[40:]) < 1000


def test_a_pointer_that_cannot_be_written_does_not_fail_the_entry_that_is() -> None:
    bucket = Bucket()
    bucket.broken = "bases/prod/of-"
    only = Sandbox(bucket)
    played(bucket, 30, lambda _: only)
    assert POINTER not in bucket.objects
    assert assert_each_is_readable(bucket) == 30
