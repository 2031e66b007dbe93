"""Instance types and offerings: what is allocatable, and what is available."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering, cheapest_first
from tests.builders import a_type


def test_allocatable_is_capacity_without_overhead_and_huge_pages() -> None:
    found = InstanceType(
        name="m",
        labels={},
        capacity={"cpu": 4000, "memory": 100, "hugepages-2Mi": 40},
        overhead={"cpu": 100, "memory": 10},
    )
    assert found.allocatable() == {"cpu": 3900, "memory": 50, "hugepages-2Mi": 40}


def test_only_available_offerings_count() -> None:
    here, gone = Offering("m", "a", labels.ON_DEMAND, 1), Offering("m", "b", labels.SPOT, 1, available=False)
    found = InstanceType(name="m", labels={}, capacity={}, offerings=(here, gone)).requirements()
    assert (found.of(labels.ZONE).values, found.of(labels.CAPACITY_TYPE).values) == (("a",), (labels.ON_DEMAND,))


def test_a_class_has_its_own_types_or_the_common_ones() -> None:
    plain, own = a_type("a"), msgspec.structs.replace(a_type("b"), labels={"example.com/fast": ("yes",)})
    catalogue = Catalogue((plain,), {"gpu": (own,)})
    assert (catalogue.types_for("gpu"), catalogue.types_for("other")) == ((own,), (plain,))
    assert "example.com/fast" in catalogue.label_keys()


def test_the_order_of_offerings_is_total() -> None:
    offerings = [
        Offering("b", "z", labels.SPOT, 1),
        Offering("a", "z", labels.SPOT, 1),
        Offering("c", "z", labels.SPOT, 0),
    ]
    assert [found.instance_type for found in cheapest_first(offerings)] == ["c", "a", "b"]
