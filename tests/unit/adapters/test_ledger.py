"""Entries stay small differences, also where each sandbox writes one, and each can be read whatever happened to the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from itertools import count, pairwise
from random import Random

import msgspec
import pytest

from adapters.ledger import (
    LINKS_MAX,
    RENEWAL_COST,
    RENEWED_AFTER,
    TRIED_AGAIN_AFTER,
    DecisionBases,
    DecisionBasesState,
    LedgerBases,
    is_old,
)
from adapters.ports import DeniedError, Launched, NotFoundError, ObjectStore, TransientError
from core import labels
from core.errors import InvalidInputError
from core.ledger.compression import decompressed
from core.ledger.entry import SCHEMA_VERSION, LedgerDocuments, LedgerEntry, decode_entry, encode_entry, joined
from core.ledger.outcome import DecisionOutcome, OutcomeState, decode_outcomes, digest_of
from core.ledger.reading import (
    LedgerReader,
    base_key,
    decided_again,
    decision_key,
    encode_base,
    encode_decision_base,
    needed_base,
    pointer_key,
    read_decision_key,
)
from core.manifests.wire import resources
from core.model.plan import LaunchOrder
from core.reasons.runs import RunReason
from tests.builders import NOW, a_snapshot, a_type
from tests.fakes.lab import Lab, a_pending_pod

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


@cache
def all_documents() -> tuple[LedgerDocuments, ...]:
    """Snapshots of 200 objects, of which six are replaced from one to the next, and plans that name some."""
    random = Random(1)  # noqa: S311 - content that does not compress
    parts = [random.randbytes(250).hex().encode() for _ in range(200)]
    drawn_documents = []
    for _ in range(200):
        parts = [*parts[6:], *(random.randbytes(250).hex().encode() for _ in range(6))]
        drawn_documents.append(LedgerDocuments(b"},{".join(parts), b"},{".join(parts[:40])))
    return tuple(drawn_documents)


def documents(number: int) -> tuple[LedgerDocuments, ...]:
    return all_documents()[:number]


@cache
def known() -> frozenset[bytes]:
    return frozenset(map(joined, all_documents()))


class Sandbox:
    """Writes entries as `LedgerWriter` does, without their catalogue."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.bases = LedgerBases(bucket.store, "prod", "provision")

    def write(self, parts: LedgerDocuments, at: datetime) -> int:
        self.bucket.now = at
        document = joined(parts)
        digest, base = self.bases.for_document(document, at)
        fixed = {"cluster": "prod", "function": "provision", "version": "1", "catalogue": "c", "what": "", "reason": ""}
        plan_digest = digest_of(parts.plan)
        entry = LedgerEntry(id=f"d{at:%d%H%M}", at=at, base=digest, plan_digest=plan_digest, **fixed)
        raw = encode_entry(entry, parts, base)
        self.bucket.put(decision_key("prod", at, "provision", entry.id), raw)
        self.bases.measure(document, len(raw), at)
        return len(raw)


def played(bucket: Bucket, number: int, sandbox_of: Callable[[int], Sandbox]) -> list[int]:
    """The sizes of entries, one a minute."""
    numbered = enumerate(documents(number))
    return [sandbox_of(minute).write(document, NOW + minute * MINUTE) for minute, document in numbered]


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
    keys = sorted(key for key in bucket.objects if read_decision_key(key))
    for key in keys:
        reads: list[str] = []
        reader = reader_of(bucket, reads)
        entry, raw = reader.entry(key)
        assert joined(reader.documents(entry, raw)) in known()
        assert sum(1 for key in reads if read_decision_key(key)) == 1
        assert len(reads) <= 1 + LINKS_MAX + 1
        for needed in reads[1:]:
            assert timedelta(0) <= bucket.written_at[key] - bucket.written_at[needed] < RENEWED_AFTER
    return len(keys)


@pytest.mark.ci
@pytest.mark.parametrize("restarts", [False, True])
def test_a_changing_cluster_gets_new_bases(restarts: bool) -> None:
    """Without new bases, entries would become as large as complete snapshots."""
    bucket = Bucket()
    only = Sandbox(bucket)
    sizes = played(bucket, 200, lambda _: Sandbox(bucket) if restarts else only)
    entry_size = len(encode_entry(msgspec.convert(an_entry(), LedgerEntry), documents(1)[0], b""))
    assert max(sizes) < entry_size / 3
    assert (sum(sizes) + base_size(bucket)) / 200 < entry_size / 5
    assert assert_each_is_readable(bucket) == 200


def an_entry() -> dict[str, object]:
    fixed = {"cluster": "prod", "function": "provision", "version": "1", "catalogue": "c", "what": "", "reason": ""}
    return {"id": "i", "at": NOW, "base": "", "planDigest": "", **fixed}


def test_an_unchanged_cluster_keeps_its_base() -> None:
    bucket = Bucket()
    (document,) = documents(1)
    for minute in range(50):
        Sandbox(bucket).write(document, NOW + minute * MINUTE)
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
    first, other = Sandbox(bucket), Sandbox(bucket)
    for minute, document in enumerate(documents(120)):
        first.write(document, NOW + minute * MINUTE)
        if minute % 3:
            other.write(document, NOW + minute * MINUTE)
    keys = [key for key in bucket.objects if read_decision_key(key)]
    for key in keys:
        reader = reader_of(bucket, [])
        reader.documents(*reader.entry(key))


@pytest.mark.ci
@pytest.mark.parametrize("writes", [*range(14), *range(50, 60)])
def test_a_sandbox_may_end_at_any_write(writes: int) -> None:
    """What was stored can be read, and the next sandbox goes on from there; the writes left out are like the first ones."""
    bucket = Bucket()
    bucket.dies_after = writes
    only = Sandbox(bucket)
    with pytest.raises(DeadError):
        played(bucket, 120, lambda _: only)
    before = assert_each_is_readable(bucket)
    bucket.dies_after = -1
    all_entries, later = documents(120), Sandbox(bucket)
    for minute in range(60, 80):
        later.write(all_entries[minute], NOW + minute * MINUTE)
    assert assert_each_is_readable(bucket) == before + 20


def test_an_entry_that_could_not_be_stored_is_not_missed() -> None:
    """The decision begins nothing, or pods do not wait for it; the entries after it do not need it."""
    bucket = Bucket()
    sandbox = Sandbox(bucket)
    for minute, document in enumerate(documents(120)):
        bucket.broken = "decisions/" if minute % 7 == 3 else "bases/" if minute % 7 == 5 else "-"
        if minute % 7 == 3:
            with pytest.raises(TransientError):
                sandbox.write(document, NOW + minute * MINUTE)
        else:
            sandbox.write(document, NOW + minute * MINUTE)
    assert assert_each_is_readable(bucket) == 120 - 17


def test_bases_are_written_within_a_day_before_each_entry_that_needs_them() -> None:
    """The bucket keeps them two days longer, so no entry loses one of them."""
    bucket = Bucket()
    sandbox = Sandbox(bucket)
    for number, document in enumerate(documents(100)):
        sandbox.write(document, NOW + number * 47 * MINUTE)
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
    (complete_base,) = pointer["snapshot"]
    assert needed_base(bucket.objects[base_key("prod", complete_base)]) == ""
    older = {name: pointer[name] for name in ("snapshot", "smallest", "wholeCatalogue")}
    bucket.objects[POINTER] = json.dumps(older).encode()
    before = set(bucket.objects)
    digest, _ = LedgerBases(bucket.store, "prod", "provision").for_document(joined(documents(1)[0]), NOW + 12 * MINUTE)
    assert (digest, set(bucket.objects)) == (complete_base, before)


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


# When a base is renewed, what it is a difference to and what the next sandbox knows of it, in sums worked out by hand.


DECISION_BASES_MINUTE, A_DAY = timedelta(minutes=1), timedelta(days=1)
TICK = timedelta(microseconds=1)


def decision_bases_documents(number: int, *, changed: int = 4, of: int = 40) -> list[bytes]:
    """Documents of 20 KB that do not compress; so many of forty parts are replaced from one to the next."""
    random = Random(1)  # noqa: S311 - content
    parts = [random.randbytes(250).hex().encode() for _ in range(of)]
    drawn_documents = []
    for _ in range(number):
        drawn_documents.append(b"},{".join(parts))
        parts = [*parts[changed:], *(random.randbytes(250).hex().encode() for _ in range(changed))]
    return drawn_documents


A, B, C = decision_bases_documents(3)


class World:
    """The bases of one function."""

    def __init__(self, first: bytes = A) -> None:
        self.bucket = Bucket()
        self.bases = self.sandbox()
        self.bases.for_document(first, NOW)

    def sandbox(self) -> DecisionBases:
        return DecisionBases(self.bucket.store, "prod")

    def written(self, document: bytes) -> bytes:
        return self.bucket.objects[base_key("prod", digest_of(document))]

    def renew(self, document: bytes, minute: int = 0) -> None:
        """Differences of 4,000 bytes are small, and add up to what a base costs with the fourth."""
        told = [self.bases.measure(document, 5000, NOW + minute * DECISION_BASES_MINUTE) for _ in range(4)]
        assert told == [False, False, False, True]

    @property
    def count(self) -> int:
        return len(self.bucket.objects)


def test_the_first_document_is_written_whole_and_again_after_a_day() -> None:
    world = World()
    assert world.written(A) == encode_base(A)
    for now, digest, content in (
        (NOW, digest_of(A), A),
        (NOW + A_DAY - TICK, digest_of(A), A),
        (NOW + A_DAY, digest_of(B), B),
    ):
        assert world.bases.for_document(B, now) == (digest, content)
    assert world.written(B) == encode_base(B)
    assert world.bases.state() == DecisionBasesState(snapshot={digest_of(B): NOW + A_DAY})
    assert [is_old(NOW - age, NOW) for age in (A_DAY - TICK, A_DAY)] == [False, True]


def test_the_size_of_the_smallest_entry_is_known_from_the_first_on() -> None:
    world = World()
    told = [world.bases.measure(B, size, NOW) for size in (1000, 1000, 900, 950)]
    assert told == [True, False, False, False], "only the first tells something new"
    assert (world.bases.state().smallest, world.bases.state().beyond, world.count) == (900, 50, 1)


@pytest.mark.parametrize(
    ("size", "is_large"), [(1000 + RENEWAL_COST + 1000, False), (1000 + RENEWAL_COST + 1001, True)]
)
def test_an_entry_that_is_larger_by_half_of_what_a_renewal_costs_is_followed_by_a_base(
    size: int, is_large: bool
) -> None:
    """10,192 bytes are 9,192 beyond the smallest, which is half of 8,192 and 10,192."""
    world = World()
    world.bases.measure(B, 1000, NOW)
    assert world.bases.measure(B, size, NOW + DECISION_BASES_MINUTE) is is_large
    near = {digest_of(B): NOW + DECISION_BASES_MINUTE} if is_large else {}
    assert world.bases.state().near == near
    assert world.bases.state().beyond == (0 if is_large else size - 1000)


def test_small_differences_are_followed_by_a_base_once_they_add_up_to_what_it_costs() -> None:
    """3,000 bytes each; a renewal costs 8,192 and the entry's 4,000."""
    world = World()
    world.bases.measure(B, 1000, NOW)
    assert [world.bases.measure(B, 4000, NOW) for _ in range(6)] == [False, False, False, False, True, False]
    assert world.written(B) == encode_decision_base(B, A)
    assert world.bases.state() == DecisionBasesState(
        {digest_of(A): NOW}, {digest_of(B): NOW}, smallest=1000, spent=len(world.written(B)), beyond=3000
    )
    assert world.bases.for_document(C, NOW) == (digest_of(B), B)


@pytest.mark.parametrize(("third", "is_due"), [(4064, False), (4065, True)])
def test_exactly_what_a_base_costs_is_not_enough(third: int, *, is_due: bool) -> None:
    """Three times 3,064 bytes and 4,000 are 13,192, as much as 8,192 and the entry's 5,000."""
    world = World()
    world.bases.measure(B, 1000, NOW)
    assert not any(world.bases.measure(B, size, NOW) for size in (4064, 4064, third))
    assert world.bases.measure(B, 5000, NOW) is is_due


def test_a_base_that_did_not_pay_is_given_up_and_the_next_one_waits_for_four_times_its_cost() -> None:
    """The cluster is as before: the base before is the present one again."""
    world = World()
    world.bases.measure(A, 1000, NOW)
    assert world.bases.measure(B, 20_000, NOW)
    assert world.bases.for_document(A, NOW) == (digest_of(B), B)
    assert world.bases.measure(A, 20_000, NOW), "the next sandbox must know that"
    assert world.bases.for_document(B, NOW) == (digest_of(A), A)
    spent = len(world.written(B))
    doubted = DecisionBasesState({digest_of(A): NOW}, {}, smallest=1000, spent=spent, beyond=0, is_doubted=True)
    assert world.bases.state() == doubted
    written = world.count
    rounds = 4 * (RENEWAL_COST + 20_000) // 19_000
    for number in range(1, rounds + 1):
        assert world.bases.measure(C, 20_000, NOW)
        assert world.bases.state().beyond == number * 19_000
    assert world.count == written
    assert not world.bases.measure(C, 2000, NOW), "a small one tells nothing new"
    assert world.bases.measure(C, 20_000, NOW)
    assert (world.count, world.bases.state().is_doubted, world.bases.state().beyond) == (written + 1, False, 0)


def test_after_a_base_that_did_not_pay_exactly_four_times_the_cost_are_not_enough() -> None:
    """Four times 19,000 bytes, 17,768 and 19,000 are four times 28,192."""
    world = World()
    world.bases.measure(A, 1000, NOW)
    for document in (B, A):
        world.bases.measure(document, 20_000, NOW)
    written = world.count
    for size in (*[20_000] * 4, 18_768, 20_000):
        assert world.bases.measure(C, size, NOW)
        assert world.count == written
    assert world.bases.measure(C, 20_000, NOW)
    assert world.count == written + 1


@pytest.mark.parametrize(("more", "returns"), [(0, False), (1, True)])
def test_a_cluster_is_as_before_where_less_than_half_of_the_entry_is_left_against_that_base(
    more: int, *, returns: bool
) -> None:
    """Otherwise, it goes on changing, and gets the next base although the last one is large."""
    world = World()
    world.bases.measure(A, 1000, NOW)
    world.bases.measure(B, 20_000, NOW)
    other = decision_bases_documents(20)[-1]
    difference = len(encode_decision_base(other, A))
    assert world.bases.measure(other, 2 * difference + more, NOW)
    present = A if returns else other
    assert world.bases.for_document(A, NOW) == (digest_of(present), present)


def test_at_the_most_four_differences_follow_each_other_and_the_next_is_one_to_the_whole() -> None:
    world, drawn = World(), decision_bases_documents(4 + 2)
    world.bases.measure(A, 1000, NOW)
    spent = []
    for minute, document in enumerate(drawn[1:], 1):
        world.renew(document, minute)
        spent.append(world.bases.state().spent)
        assert world.bases.state().near == {digest_of(document): NOW + minute * DECISION_BASES_MINUTE}
    assert [needed_base(world.written(key)) for key in drawn[1:]] == [
        *map(digest_of, drawn[:4]),
        digest_of(A),
    ]
    first, last = (len(world.written(key)) for key in (drawn[1], drawn[-1]))
    assert spent == [first] * 4 + [first + last], "only differences to the whole count"


def test_the_whole_is_written_again_once_the_differences_to_it_are_larger() -> None:
    world, drawn = World(), decision_bases_documents(30, changed=20)
    world.bases.measure(A, 1000, NOW)
    complete_size, spent = len(world.written(A)), 0
    for number, document in enumerate(drawn[1:]):
        world.bases.measure(document, 20_000, NOW)
        if world.bases.state().snapshot != {digest_of(A): NOW}:
            break
        assert world.bases.state().spent <= complete_size
        spent = world.bases.state().spent
        assert number < 29
    assert spent > 0
    assert world.bases.state() == DecisionBasesState(snapshot={digest_of(document): NOW})
    assert world.written(document) == encode_base(document)
    assert spent + len(encode_decision_base(document, A)) > complete_size


@pytest.mark.parametrize("renewals", range(4 + 2))
def test_the_next_sandbox_goes_on_where_the_last_one_ended(renewals: int) -> None:
    world, drawn = World(), decision_bases_documents(4 + 3)
    world.bases.measure(A, 1000, NOW)
    for document in drawn[1 : renewals + 1]:
        world.renew(document)
    world.bases.measure(drawn[renewals], 1500, NOW)
    later = world.sandbox()
    later.read_back(world.bases.state(), NOW + DECISION_BASES_MINUTE)
    assert later.state() == world.bases.state()
    assert later.for_document(A, NOW + DECISION_BASES_MINUTE) == (
        digest_of(drawn[renewals]),
        drawn[renewals],
    )
    if renewals:  # the base before the last difference is known, too
        before = drawn[(renewals - 1) % 4]
        later.measure(before, 20_000, NOW + DECISION_BASES_MINUTE)
        assert later.for_document(A, NOW + DECISION_BASES_MINUTE) == (digest_of(before), before)
    assert later.measure(drawn[-1], 20_000, NOW + 2 * DECISION_BASES_MINUTE)


def test_a_base_of_yesterday_is_not_read_and_one_with_too_many_before_it_is_refused() -> None:
    world, drawn = World(), decision_bases_documents(4 + 2)
    later = world.sandbox()
    later.read_back(DecisionBasesState({digest_of(A): NOW}), NOW + A_DAY)
    assert later.state() == DecisionBasesState()
    for before, after in pairwise(drawn):
        world.bucket.put(base_key("prod", digest_of(after)), encode_decision_base(after, before))
    later.read_back(DecisionBasesState({digest_of(A): NOW}, {digest_of(drawn[4]): NOW}), NOW)
    assert later.for_document(A, NOW) == (digest_of(drawn[4]), drawn[4])
    with pytest.raises(InvalidInputError, match=f"ledger base {digest_of(drawn[-1])}"):
        world.sandbox().read_back(DecisionBasesState({digest_of(A): NOW}, {digest_of(drawn[-1]): NOW}), NOW)


def test_a_base_that_cannot_be_written_is_tried_again_with_the_next_entry() -> None:
    world = World()
    world.bases.measure(A, 1000, NOW)
    world.bucket.broken = "bases/"
    assert world.bases.measure(B, 20_000, NOW)
    assert world.bases.for_document(B, NOW) == (digest_of(A), A)
    world.bucket.broken = "-"
    assert world.bases.measure(B, 20_000, NOW)
    assert world.bases.for_document(B, NOW) == (digest_of(B), B)


# Decisions are stored before they are carried out; without a ledger no voluntary disruption begins.


DENIED = DeniedError("s3:PutObject", "AccessDenied")


@pytest.fixture
def lab() -> Lab:
    return Lab()


def entries(lab: Lab) -> list[LedgerEntry]:
    return [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]


def reader(lab: Lab) -> LedgerReader:
    def get(key: str) -> bytes:
        if key not in lab.ledger.objects:
            raise InvalidInputError("is not there", subject=key)
        return lab.ledger.objects[key]

    return LedgerReader(get)


def an_empty_node(lab: Lab) -> None:
    """A node without pods."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)


def test_a_launch_is_stored_before_it_is_requested(lab: Lab) -> None:
    """A crash between the two must leave a decision without an action, never an action without a decision."""
    seen: list[int] = []
    launch = lab.cloud.launch

    def watched(order: LaunchOrder) -> Launched:
        seen.append(len(entries(lab)))
        return launch(order)

    lab.cloud.launch = watched  # type: ignore[method-assign]
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert seen == [1]


def test_the_entry_names_the_code_that_decided(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release does not: builds between two releases carry one version."""
    monkeypatch.setattr("adapters.ledger.CODE", "a1b2c3")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert [entry.code for entry in entries(lab)] == ["a1b2c3"]


def test_the_stored_header_names_its_schema(lab: Lab) -> None:
    """A default is left out, and without it older releases take the entry for one of theirs, and call it damaged."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    (raw,) = (raw for key, raw in lab.ledger.objects.items() if read_decision_key(key))
    header = decompressed(raw[8 : 8 + int.from_bytes(raw[4:8], "big")])
    assert b'"schemaVersion":%d,' % SCHEMA_VERSION in header


def test_events_and_conditions_name_the_decision(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    (entry,) = entries(lab)
    (instance,) = lab.cloud.instances()
    assert lab.claim.plan.annotations[labels.DECISION] == entry.id
    assert instance.tags[labels.DECISION] == entry.id
    assert {decision.decision_id for decision in report.decisions} == {entry.id}
    assert [part.id for part in entry.parts] == [lab.claim.name]


def assert_decides_the_same_again(lab: Lab) -> None:
    (key,) = (key for key in lab.ledger.objects if read_decision_key(key))
    opened = reader(lab)
    entry, raw = opened.entry(key)
    documents = opened.documents(entry, raw)
    assert decided_again(entry, opened.snapshot(entry, documents)) == documents.plan


@pytest.mark.parametrize("bound", [{}, {"improve_iterations": 40}, {"improve_milliseconds": 0}])
def test_the_stored_entry_gives_the_same_plan(bound: dict[str, int]) -> None:
    """This holds too if a clock ended the search: its answers are stored."""
    lab = Lab(**bound)
    lab.clock.worked = lambda: timedelta(seconds=next(seconds) / 50)  # type: ignore[method-assign]
    seconds = count()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="700m") for n in range(30)))
    lab.provision()
    assert_decides_the_same_again(lab)


def test_a_search_that_ends_before_it_asks_for_the_time_gives_the_same_plan(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert [entry.elapsed for entry in entries(lab)] == [()]
    assert_decides_the_same_again(lab)


def test_the_greedy_plan_of_a_failed_search_is_the_same_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    lab.kubernetes.put(a_pending_pod("p"))
    with monkeypatch.context() as patched:
        patched.setattr("lambdas.controllers.planning.Planner._improved", fail)
        assert lab.provision().counts["failedImprovements"] == 1
    assert_decides_the_same_again(lab)


def test_pods_do_not_wait_for_a_ledger_that_fails(lab: Lab) -> None:
    lab.ledger.broken = DENIED
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert len(lab.cloud.instances()) == 1
    assert RunReason.LEDGER_NOT_WRITTEN in {decision.reason for decision in report.decisions}
    assert report.counts["ledgerFailures"] == 1


def test_no_node_goes_while_the_ledger_fails(lab: Lab) -> None:
    an_empty_node(lab)
    lab.ledger.broken = DENIED
    report = lab.disrupt()
    assert lab.app.adapters.stores.commands.all() == ()
    assert report.counts["ledgerFailures"] == 1
    lab.ledger.broken = None
    lab.disrupt()
    assert lab.app.adapters.stores.commands.all() == ()  # it is not written in every run
    lab.clock.advance(seconds=TRIED_AGAIN_AFTER.total_seconds())
    lab.disrupt()
    (command,) = lab.app.adapters.stores.commands.all()
    assert command.decision == entries(lab)[-1].id


def test_an_unchanged_refusal_is_stored_once(lab: Lab) -> None:
    """A pod that cannot be placed is planned again each minute."""
    lab.kubernetes.put(a_pending_pod("p", cpu="900"))
    for _ in range(12):
        lab.provision()
        lab.clock.advance(minutes=1)
    assert len(entries(lab)) == 1
    lab.kubernetes.put(a_pending_pod("q", cpu="900"))
    lab.provision()
    assert len(entries(lab)) == 2


def test_a_new_sandbox_uses_the_bases_of_the_last(lab: Lab) -> None:
    """A whole snapshot at each cold start would be most of the ledger."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    before = {key for key in lab.ledger.objects if key.startswith("bases/")}
    lab.restart()
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_pending_pod("q"))
    lab.provision()
    assert len(entries(lab)) == 2
    assert {key for key in lab.ledger.objects if key.startswith("bases/")} == before


def test_bases_are_written_again_before_they_expire(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    before = dict(lab.ledger.objects)
    lab.clock.advance(hours=25)
    lab.kubernetes.put(a_pending_pod("q"))
    lab.provision()
    after = entries(lab)[-1]
    assert after.base not in {entry.base for entry in entries(lab)[:-1]}
    assert any(key.endswith(after.base) for key in lab.ledger.objects.keys() - before.keys())


def test_outcomes_of_runs_without_a_ledger_are_not_stored(lab: Lab) -> None:
    outcome = DecisionOutcome(decision="", part="x", state=OutcomeState.DONE, at=lab.clock.now())
    lab.app.adapters.ledger.record_outcomes("execute", [outcome])
    assert lab.ledger.objects == {}


def test_the_outcome_of_a_launch_is_stored(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    lab.app.adapters.ledger.record_outcomes("provision", report.outcomes)
    (raw,) = (raw for key, raw in lab.ledger.objects.items() if key.startswith("outcomes/"))
    told, came = decode_outcomes(raw)
    assert (told.decision, told.part, told.state) == (entries(lab)[0].id, lab.claim.name, OutcomeState.DONE)
    assert came.instance is not None
    assert (came.instance.instance, came.instance.ended_at) == (lab.claim.instance_id, None)
