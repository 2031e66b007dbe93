"""What a machine is described as: the partition of its placement group."""

from __future__ import annotations

import msgspec
import pytest

from adapters.observation.instance_description import lacks_partition, machine_of, with_partition
from adapters.ports import Instance
from core import labels
from core.catalogue.capacity import EFA
from core.lifecycle.records import Machine
from core.model.catalogue import Catalogue, Offering
from core.model.plan import PlannedClaim
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from tests.builders import CLASS_REF, NOW, a_pod, a_pool, a_snapshot, a_type

PARTITION = labels.PLACEMENT_GROUP_PARTITION
GROUPED = msgspec.structs.replace(
    a_type(), labels={**a_type().labels, labels.PLACEMENT_GROUP_ID: ("pg-1",), PARTITION: ("1", "2", "3")}
)


def an_instance(partition: int = 0) -> Instance:
    return Instance(
        instance_id="i-1",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="on-demand",
        state="running",
        launched_at=NOW,
        partition=partition,
    )


def described(*demanded: str, partition: int = 0) -> Machine:
    """The machine of a claim whose pod demands these partitions."""
    selector = (Requirement.one_of(PARTITION, *demanded),) if demanded else ()
    snapshot = a_snapshot(types=(GROUPED,), node_pools=(a_pool(),), pods=(a_pod(node_selector=selector),))
    claims: tuple[PlannedClaim, ...] = schedule(snapshot).claims
    return machine_of(an_instance(partition), claims[0], Catalogue((GROUPED,)))


@pytest.mark.parametrize(
    ("demanded", "partition", "expected"), [(("2",), 0, "2"), ((), 3, "3"), ((), 0, ""), (("2", "3"), 2, "2")]
)
def test_a_machine_is_in_the_partition_that_was_demanded_or_that_ec2_chose(
    demanded: tuple[str, ...], partition: int, expected: str
) -> None:
    machine = described(*demanded, partition=partition)
    assert machine.labels[PARTITION] == expected
    assert machine.labels[labels.PLACEMENT_GROUP_ID] == "pg-1"
    assert lacks_partition(machine) is not bool(expected)


def test_a_partition_that_ec2_tells_later_is_added() -> None:
    machine = with_partition(described(), an_instance(partition=3))
    assert machine.labels[PARTITION] == "3"
    assert not lacks_partition(machine)


def test_a_machine_without_a_placement_group_lacks_nothing() -> None:
    """Otherwise, every node waits at its registration."""
    (claim,) = schedule(a_snapshot(types=(a_type(),), node_pools=(a_pool(),), pods=(a_pod(),))).claims
    assert not lacks_partition(machine_of(an_instance(), claim, Catalogue((a_type(),))))


def an_instance_of(**changes: object) -> Instance:
    return msgspec.structs.replace(
        an_instance(), image_id="ami-1", subnet_id="s-1", security_groups=("sg-1", "sg-2"), **changes
    )


SIZED = msgspec.structs.replace(
    a_type(extra={EFA: "1"}), labels={**a_type().labels, "size": ("large",), "sku": ("a", "b"), "team": ("x", "y")}
)
PLAN = PlannedClaim(name="c", node_pool="default", node_class=CLASS_REF, requirements=(Requirement.one_of("sku", "b"),))


@pytest.mark.parametrize("interfaces", [0, 1])
def test_a_machine_is_described_whole(interfaces: int) -> None:
    """Of a label with several values, the one that the claim leaves; EFA only where an interface for it was launched."""
    other = msgspec.structs.replace(SIZED, name="m5.other", labels={}, capacity={})
    found = machine_of(an_instance_of(efa_interfaces=interfaces), PLAN, Catalogue((other, SIZED)))
    lacking = () if interfaces else (EFA,)
    assert found == Machine(
        instance_id="i-1",
        provider_id="aws:///us-east-1a/i-1",
        offering=Offering("m5.large", "us-east-1a", "on-demand", 100_000_000),
        image_id="ami-1",
        subnet_id="s-1",
        security_groups=("sg-1", "sg-2"),
        labels={
            labels.ARCH: "amd64",
            labels.OS: "linux",
            "size": "large",
            "sku": "b",
            labels.INSTANCE_TYPE: "m5.large",
            labels.ZONE: "us-east-1a",
            labels.CAPACITY_TYPE: "on-demand",
            labels.TENANCY: "default",
        },
        capacity={name: amount for name, amount in SIZED.capacity.items() if name not in lacking},
        allocatable={name: amount for name, amount in SIZED.allocatable().items() if name not in lacking},
    )


def test_of_a_type_that_is_not_in_the_catalogue_only_the_instance_is_known() -> None:
    found = machine_of(an_instance_of(), PLAN, Catalogue((msgspec.structs.replace(SIZED, name="m5.other"),)))
    assert (found.capacity, found.allocatable, found.offering.price) == ({}, {}, 0)
    assert set(found.labels) == {labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.TENANCY}


def test_an_instance_in_a_reservation_has_its_price_and_says_so() -> None:
    """The price is that of its own zone, capacity type and reservation; of another one, none is known."""
    inside = {"reservation_id": "cr-1", "reservation_type": "default"}
    offering = Offering("m5.large", "us-east-1a", "reserved", 7, **inside)
    catalogue = Catalogue((msgspec.structs.replace(SIZED, offerings=(*SIZED.offerings, offering)),))
    found = machine_of(an_instance_of(capacity_type="reserved", interruptible=True, **inside), PLAN, catalogue)
    assert found.offering == msgspec.structs.replace(offering, interruptible=True)
    assert found.labels[labels.RESERVATION_ID] == "cr-1"
    for elsewhere in ({"zone": "us-east-1b"}, {"reservation_id": "cr-2"}, {"capacity_type": "spot"}):
        asked = an_instance_of(**{"capacity_type": "reserved", **inside, **elsewhere})
        assert machine_of(asked, PLAN, catalogue).offering.price == 0
