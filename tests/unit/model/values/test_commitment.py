"""What instances take of commitments."""

from __future__ import annotations

import pytest

from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan

FOUR_LARGE = ReservedInstances(name="ri", instance_type="m7i.large", count=4)


@pytest.mark.parametrize(
    ("instance_type", "instances"),
    [("m7i.large", 4), ("m7i.xlarge", 2), ("m7i.2xlarge", 1), ("m7i.medium", 8), ("m7i.metal-24xl", 0)],
)
def test_reserved_instances_cover_all_sizes_of_their_family_in_proportion(instance_type: str, instances: int) -> None:
    """EC2's normalization factors: large counts 4, xlarge 8, 2xlarge 16, 24xlarge 192."""
    assert FOUR_LARGE.amount // FOUR_LARGE.charge(instance_type, "us-east-1a", 1) == instances


@pytest.mark.parametrize(
    ("one", "instance_type", "zone"),
    [
        (FOUR_LARGE, "m7i-flex.large", "us-east-1a"),
        (FOUR_LARGE, "m7i.odd", "us-east-1a"),
        (
            ReservedInstances(name="ri", instance_type="m7i.large", count=1, zone="us-east-1a"),
            "m7i.large",
            "us-east-1b",
        ),
        (
            ReservedInstances(name="ri", instance_type="m7i.large", count=1, zone="us-east-1a"),
            "m7i.xlarge",
            "us-east-1a",
        ),
        (ReservedInstances(name="ri", instance_type="g5.xlarge", count=1, is_size_flexible=False), "g5.2xlarge", "z"),
        (ReservedInstances(name="ri", instance_type="i3.metal", count=1), "i3.large", "z"),
        (SavingsPlan(name="sp", amount=1, rates=(CommittedRate(ppm=0, families=("m7i",)),)), "m6i.large", "z"),
    ],
)
def test_what_was_not_bought_is_not_covered(one: Commitment, instance_type: str, zone: str) -> None:
    """Otherwise, a node is taken for free that costs the list price."""
    assert one.charge(instance_type, zone, 100) == 0


def test_a_type_without_a_size_covers_itself() -> None:
    """`i3.metal` has no normalization factor in its name."""
    reserved = ReservedInstances(name="ri", instance_type="i3.metal", count=2)
    assert (reserved.amount, reserved.charge("i3.metal", "z", 5)) == (2, 1)


def test_a_savings_plan_is_used_up_at_its_own_rates() -> None:
    """The first rate that fits a family counts, as with discounts."""
    rates = (CommittedRate(ppm=340_000, families=("m7i",)), CommittedRate(ppm=270_000))
    plan = SavingsPlan(name="sp", amount=1_000, rates=rates)
    assert (plan.charge("m7i.large", "z", 100), plan.charge("c7i.large", "z", 100)) == (66, 73)


def test_narrow_commitments_are_used_up_first() -> None:
    """EC2's order: reserved instances of a zone, of a region, Savings Plans of some families, of all."""
    zonal = ReservedInstances(name="a", instance_type="m7i.large", count=1, zone="z")
    family = SavingsPlan(name="b", amount=1, rates=(CommittedRate(ppm=1, families=("m7i",)),))
    every = SavingsPlan(name="c", amount=1, rates=(CommittedRate(ppm=1, families=("m7i",)), CommittedRate(ppm=1)))
    assert [commitment.breadth for commitment in (zonal, FOUR_LARGE, family, every)] == [0, 1, 2, 3]
