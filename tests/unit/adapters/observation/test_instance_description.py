"""What a machine is described as: the partition of its placement group."""

from __future__ import annotations

import msgspec
import pytest

from adapters.observation.instance_description import lacks_partition, machine_of, with_partition
from adapters.ports import Instance
from core import labels
from core.lifecycle.records import Machine
from core.model.catalogue import Catalogue
from core.model.plan import PlannedClaim
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

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
