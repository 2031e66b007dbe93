"""What launches take of commitments."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.values.commitment import CommittedRate, ReservedInstances, SavingsPlan
from core.scheduling.constraints.commitment_charges import CommitmentCharges
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of

TYPES = tuple(
    a_type(name, cpu=cpu, price=price) for name, cpu, price in (("m7.large", "2", 0.1), ("m7.xlarge", "4", 0.2))
)
OTHER = a_type("c7.large", cpu="2", price=0.1)
RESERVED = ReservedInstances(name="r", instance_type="m7.xlarge", count=1)
PLAN = SavingsPlan(name="s", amount=100_000_000, rates=(CommittedRate(ppm=500_000, families=("m7",)),))


def test_types_are_within_an_amount_up_to_what_they_take_of_it() -> None:
    """Otherwise, a node that is billed counts as covered."""
    context = context_of(types=(*TYPES, OTHER), pods=(a_pod(),))
    charges = CommitmentCharges((RESERVED, PLAN), context.templates)
    names = context.templates[0].types.names
    assert [names(charges.of(0, 0).within(amount)) for amount in (15, 16, 31, 32)] == [
        (),
        ("m7.large",),
        ("m7.large",),
        ("m7.large", "m7.xlarge"),
    ]
    assert names(charges.of(1, 0).within(50_000_000)) == ("m7.large",)
    assert charges.of(0, 0).largest(context.templates[0].mask) == 32


def test_an_amount_is_worth_the_list_price_of_what_it_covers() -> None:
    """A dollar of a Savings Plan at half the price takes two dollars off; spot is never covered."""
    context = context_of(types=(*TYPES, OTHER), pods=(a_pod(),))
    charges = CommitmentCharges((RESERVED, PLAN), context.templates)
    assert charges.worth(0, RESERVED.amount) == 200_000_000
    assert charges.worth(1, PLAN.amount) == 200_000_000
    offered = tuple(o for o in TYPES[0].offerings if o.capacity_type == labels.SPOT)
    only_spot = context_of(types=(msgspec.structs.replace(TYPES[0], offerings=offered),), pods=(a_pod(),))
    assert CommitmentCharges((RESERVED,), only_spot.templates).worth(0, RESERVED.amount) == 0
