"""Claims as bit sets, by number of pods and by profile."""

from __future__ import annotations

from core.scheduling.capacity.claim_index import ClaimIndex
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.primitives.handles import TypeMask
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of


def test_sets_follow_the_changes_of_claims() -> None:
    """Otherwise, a search tries full claims, or misses open ones."""
    (template,) = context_of(types=(a_type("a"), a_type("b"))).templates
    profiles, index = ClaimProfiles(), ClaimIndex()
    wide, narrow = (profiles.of(template, template.offered, TypeMask(mask)) for mask in (0b11, 0b01))
    assert profiles.of(template, template.offered, TypeMask(0b11)) is wide
    for _ in range(3):
        index.add(wide)
    index.add_pod(1, 0)
    index.change_profile(2, narrow)
    index.close(0)
    assert (wide.claims, narrow.claims) == (0b011, 0b100)
    assert (index.by_count, index.open) == ({0: 0b101, 1: 0b010}, 0b110)


def test_no_set_of_claims_with_equal_numbers_of_pods_is_empty() -> None:
    """A search goes through all of them for each pod, and a node may hold a thousand pods."""
    (template,) = context_of(types=(a_type("a"),)).templates
    index = ClaimIndex()
    for _ in range(3):
        index.add(ClaimProfiles().of(template, template.offered, TypeMask(1)))
    numbers = [0, 0, 0]
    for claim in (1, 1, 1, 0, 0, 0, 0, 2):
        index.add_pod(claim, numbers[claim])
        numbers[claim] += 1
        expected = {pods: sum(1 << n for n in range(3) if numbers[n] == pods) for pods in sorted(set(numbers))}
        assert (index.by_count, index.counts) == (expected, list(expected))
