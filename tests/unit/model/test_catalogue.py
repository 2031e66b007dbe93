"""Instance types and offerings: what is allocatable, and what is available."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering, OfferingKey, cheapest_first
from core.model.values.requirements import Requirement
from tests.builders import a_type


def test_allocatable_is_capacity_without_overhead_and_huge_pages() -> None:
    instance_type = InstanceType(
        name="m",
        labels={},
        capacity={"cpu": 4000, "memory": 100, "hugepages-2Mi": 40},
        overhead={"cpu": 100, "memory": 10},
    )
    assert instance_type.allocatable() == {"cpu": 3900, "memory": 50, "hugepages-2Mi": 40}


def test_only_available_offerings_count() -> None:
    here, gone = Offering("m", "a", labels.ON_DEMAND, 1), Offering("m", "b", labels.SPOT, 1, available=False)
    requirements = InstanceType(name="m", labels={}, capacity={}, offerings=(here, gone)).requirements()
    assert (requirements.of(labels.ZONE).values, requirements.of(labels.CAPACITY_TYPE).values) == (
        ("a",),
        (labels.ON_DEMAND,),
    )


def test_a_class_has_its_own_types_or_the_common_ones() -> None:
    plain, fast = a_type("a"), msgspec.structs.replace(a_type("b"), labels={"example.com/fast": ("yes",)})
    catalogue = Catalogue((plain,), {"gpu": (fast,)})
    assert (catalogue.types_for("gpu"), catalogue.types_for("other")) == ((fast,), (plain,))
    assert "example.com/fast" in catalogue.label_keys()


def test_the_order_of_offerings_is_total() -> None:
    offerings = [
        Offering("b", "z", labels.SPOT, 1),
        Offering("a", "z", labels.SPOT, 1),
        Offering("c", "z", labels.SPOT, 0),
    ]
    assert [offering.instance_type for offering in cheapest_first(offerings)] == ["c", "a", "b"]


def test_a_node_gets_the_labels_of_its_offering() -> None:
    plain = Offering("m", "a", labels.SPOT, 1)
    assert plain.reservation_labels() == {}
    assert dict(plain.requirements()) == {
        labels.ZONE: Requirement.one_of(labels.ZONE, "a"),
        labels.CAPACITY_TYPE: Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),
    }
    place = Offering("m", "a", labels.RESERVED, 1, True, "cr-1", 3, "default", interruptible=True)
    reservation_labels = {
        labels.RESERVATION_ID: "cr-1",
        labels.RESERVATION_TYPE: "default",
        labels.RESERVATION_INTERRUPTIBLE: "true",
    }
    assert place.reservation_labels() == reservation_labels
    assert {key: place.requirements()[key].values for key in reservation_labels} == {
        key: (value,) for key, value in reservation_labels.items()
    }
    assert Offering("m", "a", labels.RESERVED, 1, True, "cr-1").reservation_labels() == {labels.RESERVATION_ID: "cr-1"}
    assert place.key == OfferingKey("m", "a", labels.RESERVED, "cr-1")


def test_a_type_has_the_labels_that_are_asked_for() -> None:
    instance_type = a_type("m", **{"example.com/fast": "yes", "beta.kubernetes.io/arch": "arm64"})
    assert instance_type.requirements().of("example.com/fast").values == ("yes",)
    few = instance_type.requirements(frozenset({labels.OS}))
    assert set(few) == {labels.OS, labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE}


def test_memory_is_never_less_than_none() -> None:
    """Huge pages may be set aside beyond what the overhead leaves."""
    instance_type = InstanceType(
        name="m", labels={}, capacity={"memory": 10, "hugepages-1Gi": 30}, overhead={"memory": 5, "pid": 1}
    )
    assert instance_type.allocatable() == {"memory": 0, "hugepages-1Gi": 30}
    assert InstanceType(name="m", labels={}, capacity={"cpu": 1}).allocatable() == {"cpu": 1}


def test_what_is_reserved_beyond_a_type_shows() -> None:
    """Such a kubelet does not start (`validateNodeAllocatable`), so the type holds no pod, whatever it requests."""
    small = InstanceType(name="m", labels={}, capacity={"memory": 10}, overhead={"memory": 12})
    assert small.allocatable() == {"memory": -2}
