"""Which types requirements admit."""

from __future__ import annotations

import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.requirements import Requirement, Requirements
from core.pools.admitted_types import admitted_types

GPUS = f"{labels.AWS_GROUP}/instance-gpu-count"


def a_type(name: str, **own: tuple[str, ...]) -> InstanceType:
    carried = {GPUS: own["gpus"]} if "gpus" in own else {}
    return InstanceType(
        name=name, labels=carried, capacity={"cpu": 1000}, offerings=(Offering(name, "a", labels.SPOT, 1),)
    )


TYPES = (a_type("plain"), a_type("one", gpus=("1",)), a_type("four", gpus=("4",)))


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement.of(GPUS, "Gt", ["0"]), ["one", "four"]),
        (Requirement.of(GPUS, "Exists"), ["one", "four"]),
        (Requirement.of(GPUS, "DoesNotExist"), ["plain"]),
        (Requirement.of(GPUS, "NotIn", ["4"]), ["plain", "one"]),
        (Requirement.of("example.com/team", "In", ["red"]), ["plain", "one", "four"]),
        (Requirement.of(labels.ZONE, "In", ["b"]), []),
    ],
)
def test_a_type_without_a_label_that_others_have_does_not_meet_a_demand_for_it(
    requirement: Requirement, expected: list[str]
) -> None:
    """Otherwise, whoever asks for a GPU gets the cheapest machine without one."""
    found = admitted_types(TYPES, Requirements([requirement]), frozenset({GPUS}))
    assert [one.name for one in found] == expected
