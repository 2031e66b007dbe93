"""Addresses that launches in flight take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.discovered.address_reading import written_reading
from core.catalogue.node_class import AddressReading
from core.lifecycle.in_flight_addresses import COUNTED_FOR, addresses_left
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.catalogue import Offering
from tests.builders import NOW, a_class_manifest
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

READ_AT = NOW - timedelta(minutes=4)
SUBNETS = [
    {"id": "subnet-1", "zone": "zone-a"},
    {"id": "subnet-2", "zone": "zone-a"},
    {"id": "subnet-3", "zone": "zone-b"},
]


def a_class(name: str = "default", per_node: int = 1, read_at: Any = READ_AT, **free: int) -> dict[str, Any]:
    known = {key.replace("_", "-"): amount for key, amount in free.items()}
    text = written_reading(AddressReading(read_at=read_at, per_node=per_node, free=known), "")
    manifest = a_class_manifest(name, metadata={"annotations": {labels.SUBNET_ADDRESSES: text}})
    return {**manifest, "status": {"subnets": SUBNETS}}


def launched(subnet: str, ago: timedelta) -> ClaimRecord:
    record = a_record(ClaimPhase.LAUNCHED, moments=Moments(launched_at=NOW - ago))
    assert record.machine is not None
    return msgspec.structs.replace(record, machine=msgspec.structs.replace(record.machine, subnet_id=subnet))


def requested(*zones: str, **changes: Any) -> ClaimRecord:
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in zones)
    return a_record(ClaimPhase.REQUESTED, offerings=offerings, **changes)


@pytest.mark.parametrize(
    ("record", "left"),
    [
        (launched("subnet-1", timedelta(minutes=3)), {"subnet-1": 4, "subnet-2": 9}),
        (launched("subnet-1", timedelta(minutes=5)), {"subnet-1": 5, "subnet-2": 9}),
        (launched("subnet-9", timedelta(minutes=3)), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a"), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-a", "zone-b"), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-b"), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a", subnets={"zone-a": "subnet-1"}), {"subnet-1": 4, "subnet-2": 9}),
        (requested("zone-a", subnets={"zone-a": "subnet-gone"}), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-b", subnets={"zone-a": "subnet-1"}), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a", deletion=Deletion(reason="Empty", asked_at=NOW)), {"subnet-1": 5, "subnet-2": 9}),
    ],
)
def test_a_claim_counts_until_a_reading_has_seen_its_instance(record: ClaimRecord, left: dict[str, int]) -> None:
    """The subnet of zone-b has plenty; a claim without an instance counts in its subnet, by default where most is left."""
    assert addresses_left([a_class(subnet_1=5, subnet_2=9)], [record], NOW) == left


def test_a_reading_that_did_not_change_was_not_stored_again() -> None:
    """So the time of the stored one says little about instances that have run for a while."""
    old = a_class(read_at=NOW - timedelta(hours=2), subnet_1=5)
    assert addresses_left([old], [launched("subnet-1", COUNTED_FOR - timedelta(seconds=1))], NOW) == {"subnet-1": 4}
    assert addresses_left([old], [launched("subnet-1", COUNTED_FOR)], NOW) == {"subnet-1": 5}


def test_an_instance_that_was_only_found_counts_from_then_on() -> None:
    """Its launch was answered, but the answer was lost before it was stored."""
    found = msgspec.structs.replace(launched("subnet-1", timedelta(0)), moments=Moments())
    assert addresses_left([a_class(subnet_1=5)], [found], NOW) == {"subnet-1": 4}


def test_classes_share_their_subnets_and_the_latest_reading_counts() -> None:
    """Each claim takes what a node of its own class takes."""
    classes = [a_class("other", read_at=READ_AT - timedelta(minutes=1), subnet_1=70), a_class(per_node=17, subnet_1=60)]
    assert addresses_left(classes, [launched("subnet-1", timedelta(minutes=1))], NOW) == {"subnet-1": 43}
    assert addresses_left(classes[::-1], [], NOW) == {"subnet-1": 60}


def test_a_class_says_nothing_about_subnets_that_it_does_not_select() -> None:
    """Whoever may annotate one class cannot close another's subnets."""
    forged = a_class("other", read_at=NOW, subnet_9=0)
    selects = {**a_class_manifest(), "status": {"subnets": [{"id": "subnet-9", "zone": "zone-a"}]}}
    assert addresses_left([forged, selects], [], NOW) == {}


def test_an_instance_of_a_class_without_a_reading_takes_an_address() -> None:
    """Its class may be gone, or was resolved before the subnet had few."""
    reading = a_class("other", subnet_1=5)
    assert addresses_left([reading], [launched("subnet-1", timedelta(minutes=1))], NOW) == {"subnet-1": 4}
    assert addresses_left([reading], [requested("zone-a")], NOW) == {"subnet-1": 5}


def test_nothing_is_counted_where_all_subnets_have_plenty() -> None:
    assert addresses_left([a_class_manifest()], [requested("zone-a")], NOW) == {}


def test_a_class_that_cannot_be_read_is_left_out() -> None:
    """It launches nothing, and its validation says why."""
    wrong = {**a_class(subnet_1=5), "spec": {"subnetSelectorTerms": 1}}
    assert addresses_left([wrong], [], NOW) == {}


def test_of_several_subnets_with_few_the_one_with_most_is_counted_ties_by_id() -> None:
    """Claims one after the other: each counts where the launch would take its address."""
    claims = [msgspec.structs.replace(requested("zone-a"), name=name) for name in ("a", "b", "c")]
    node_class = a_class(subnet_1=4, subnet_2=5)
    assert addresses_left([node_class], claims[:1], NOW) == {"subnet-1": 4, "subnet-2": 4}
    assert addresses_left([node_class], claims[:2], NOW) == {"subnet-1": 4, "subnet-2": 3}
    assert addresses_left([node_class], claims, NOW) == {"subnet-1": 3, "subnet-2": 3}


def test_a_claim_without_an_offering_counts_in_the_zones_of_its_plan() -> None:
    """It is about to ask for them."""
    planned = a_record(ClaimPhase.REQUESTED, plan=a_plan(zones=("zone-b",)))
    assert addresses_left([a_class(subnet_3=4)], [planned], NOW) == {"subnet-3": 3}
    assert addresses_left([a_class(subnet_1=4, subnet_2=4)], [planned], NOW) == {"subnet-1": 4, "subnet-2": 4}
