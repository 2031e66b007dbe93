"""When a base is renewed, what it is a difference to and what the next sandbox knows of it, in sums worked out by hand."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest

from adapters.ledger.decision_bases import (
    RENEWAL_COST,
    DecisionBases,
    DecisionBasesState,
    is_old,
)
from core.errors import InvalidInputError
from core.ledger.bases import encode_base, encode_decision_base, needed_base
from core.ledger.digests import digest_of
from core.ledger.object_keys import base_key
from tests.builders import NOW
from tests.unit.adapters.ledger.test_bases import Bucket

MINUTE, A_DAY = timedelta(minutes=1), timedelta(days=1)
TICK = timedelta(microseconds=1)


def documents(number: int, *, changed: int = 4, of: int = 40) -> list[bytes]:
    """Documents of 20 KB that do not compress; so many of forty parts are replaced from one to the next."""
    random = Random(1)  # noqa: S311 - content
    parts = [random.randbytes(250).hex().encode() for _ in range(of)]
    found = []
    for _ in range(number):
        found.append(b"},{".join(parts))
        parts = [*parts[changed:], *(random.randbytes(250).hex().encode() for _ in range(changed))]
    return found


A, B, C = documents(3)


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
        told = [self.bases.measure(document, 5000, NOW + minute * MINUTE) for _ in range(4)]
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
    assert world.bases.measure(B, size, NOW + MINUTE) is is_large
    near = {digest_of(B): NOW + MINUTE} if is_large else {}
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
    other = documents(20)[-1]
    left = len(encode_decision_base(other, A))
    assert world.bases.measure(other, 2 * left + more, NOW)
    present = A if returns else other
    assert world.bases.for_document(A, NOW) == (digest_of(present), present)


def test_at_the_most_four_differences_follow_each_other_and_the_next_is_one_to_the_whole() -> None:
    world, found = World(), documents(4 + 2)
    world.bases.measure(A, 1000, NOW)
    spent = []
    for minute, document in enumerate(found[1:], 1):
        world.renew(document, minute)
        spent.append(world.bases.state().spent)
        assert world.bases.state().near == {digest_of(document): NOW + minute * MINUTE}
    assert [needed_base(world.written(one)) for one in found[1:]] == [*map(digest_of, found[:4]), digest_of(A)]
    first, last = (len(world.written(one)) for one in (found[1], found[-1]))
    assert spent == [first] * 4 + [first + last], "only differences to the whole count"


def test_the_whole_is_written_again_once_the_differences_to_it_are_larger() -> None:
    world, found = World(), documents(30, changed=20)
    world.bases.measure(A, 1000, NOW)
    whole, spent = len(world.written(A)), 0
    for number, document in enumerate(found[1:]):
        world.bases.measure(document, 20_000, NOW)
        if world.bases.state().snapshot != {digest_of(A): NOW}:
            break
        assert world.bases.state().spent <= whole
        spent = world.bases.state().spent
        assert number < 29
    assert spent > 0
    assert world.bases.state() == DecisionBasesState(snapshot={digest_of(document): NOW})
    assert world.written(document) == encode_base(document)
    assert spent + len(encode_decision_base(document, A)) > whole


@pytest.mark.parametrize("renewals", range(4 + 2))
def test_the_next_sandbox_goes_on_where_the_last_one_ended(renewals: int) -> None:
    world, found = World(), documents(4 + 3)
    world.bases.measure(A, 1000, NOW)
    for document in found[1 : renewals + 1]:
        world.renew(document)
    world.bases.measure(found[renewals], 1500, NOW)
    later = world.sandbox()
    later.read_back(world.bases.state(), NOW + MINUTE)
    assert later.state() == world.bases.state()
    assert later.for_document(A, NOW + MINUTE) == (digest_of(found[renewals]), found[renewals])
    if renewals:  # the base before the last difference is known, too
        before = found[(renewals - 1) % 4]
        later.measure(before, 20_000, NOW + MINUTE)
        assert later.for_document(A, NOW + MINUTE) == (digest_of(before), before)
    assert later.measure(found[-1], 20_000, NOW + 2 * MINUTE)


def test_a_base_of_yesterday_is_not_read_and_one_with_too_many_before_it_is_refused() -> None:
    world, found = World(), documents(4 + 2)
    later = world.sandbox()
    later.read_back(DecisionBasesState({digest_of(A): NOW}), NOW + A_DAY)
    assert later.state() == DecisionBasesState()
    for before, after in pairwise(found):
        world.bucket.put(base_key("prod", digest_of(after)), encode_decision_base(after, before))
    later.read_back(DecisionBasesState({digest_of(A): NOW}, {digest_of(found[4]): NOW}), NOW)
    assert later.for_document(A, NOW) == (digest_of(found[4]), found[4])
    with pytest.raises(InvalidInputError, match=f"ledger base {digest_of(found[-1])}"):
        world.sandbox().read_back(DecisionBasesState({digest_of(A): NOW}, {digest_of(found[-1]): NOW}), NOW)


def test_a_base_that_cannot_be_written_is_tried_again_with_the_next_entry() -> None:
    world = World()
    world.bases.measure(A, 1000, NOW)
    world.bucket.broken = "bases/"
    assert world.bases.measure(B, 20_000, NOW)
    assert world.bases.for_document(B, NOW) == (digest_of(A), A)
    world.bucket.broken = "-"
    assert world.bases.measure(B, 20_000, NOW)
    assert world.bases.for_document(B, NOW) == (digest_of(B), B)
