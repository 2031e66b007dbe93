"""The market of a decision lacks what cannot be launched now, and each lack has one cause."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.observation.open_market import OpenMarket
from adapters.ports import TransientError
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.launch.denials.denial import LaunchDenial, revision_of
from core.launch.denials.scope import DenialScope
from core.launch.denials.subnets import subnet_key
from core.lifecycle.records import ClaimPhase
from core.model.catalogue import Catalogue, OfferingKey
from core.model.node import Node
from core.model.values.quota_reading import QuotaReading
from tests.builders import NOW, ZONES, a_class_manifest, a_snapshot, a_type
from tests.fakes.brakes import FakeBrakes
from tests.fakes.store import Rows
from tests.fakes.world import FakeCatalogues, FakeClock
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

LATER = NOW + timedelta(minutes=1)
TYPE = a_type()
CATALOGUE = Catalogue(default=(TYPE,))
SUBNETS = {"subnets": [{"id": f"s-{zone[-1]}", "zone": zone} for zone in ZONES]}
CLASS = a_class_manifest(metadata={"uid": "u", "generation": 1}, status=SUBNETS)
OTHER = a_class_manifest("other", metadata={"uid": "v", "generation": 1})
REFUSED = OfferingKey(TYPE.name, ZONES[0], labels.SPOT)


class World:
    """A market, and the rows and brakes that close parts of it."""

    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.rows, self.brakes, self.catalogues = Rows(), FakeBrakes(clock), FakeCatalogues(CATALOGUE)
        stores = self.rows.stores(self.brakes)
        self.market = OpenMarket(self.catalogues, stores.unavailable, stores.denials, self.brakes, stores.quotas)


@pytest.fixture
def world() -> World:
    return World()


def closed(catalogue: Catalogue, node_class: str = "default") -> set[tuple[str, str]]:
    """Zone and capacity type of what cannot be launched."""
    offerings = (offering for found in catalogue.types_for(node_class) for offering in found.offerings)
    return {(offering.zone, offering.capacity_type) for offering in offerings if not offering.available}


def test_a_market_that_was_read_says_when(world: World) -> None:
    assert world.market.read_at() == (NOW, NOW)
    world.catalogues.kept = None
    assert world.market.read_at() == ()


def test_what_ec2_refused_is_closed_for_all_and_a_zone_for_the_class_whose_subnets_there_are_full(
    world: World,
) -> None:
    assert closed(world.market.catalogue((CLASS, OTHER), NOW)) == set()
    world.rows.refused = {REFUSED: LATER, subnet_key("s-b"): LATER}
    found = world.market.catalogue((OTHER, CLASS), NOW)
    refused = {(ZONES[0], labels.SPOT)}
    assert closed(found) == refused | {(ZONES[1], labels.SPOT), (ZONES[1], labels.ON_DEMAND)}
    assert closed(found, "other") == refused


def test_places_in_a_reservation_are_taken_by_claims(world: World) -> None:
    reservation = {
        "id": "cr-1", "instanceType": TYPE.name, "availabilityZone": ZONES[0], "ownerID": "1", "state": "active",
        "instanceMatchCriteria": "targeted", "reservationType": "default", "tenancy": "default",
    }  # fmt: skip
    places = {"annotations": {labels.RESERVATION_PLACES: '{"cr-1": 1}'}}
    with_places = a_class_manifest(metadata=places, status={**SUBNETS, "capacityReservations": [reservation]})
    (reserved,) = (
        offering for offering in world.market.catalogue([with_places], NOW).types_for("default")[0].offerings
        if offering.reservation_id
    )  # fmt: skip
    claim = a_record(ClaimPhase.REQUESTED, offerings=(reserved,))
    left = [
        offering.reservation_capacity
        for claims in ((), (claim,))
        for offering in world.market.catalogue([with_places], NOW, claims).types_for("default")[0].offerings
        if offering.reservation_id
    ]
    assert left == [1, 0]


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"until": NOW}, False),
        ({"revision": "u/2"}, False),
        ({"node_class": "unknown"}, False),
        ({"node_class": "other", "revision": revision_of(OTHER)}, True),
    ],
)
def test_a_denial_counts_while_it_pauses_a_class_that_exists_and_has_not_changed(
    world: World, changes: dict[str, object], counts: bool
) -> None:
    denial = LaunchDenial(node_class="default", code="x", scope=DenialScope(), revision=revision_of(CLASS), until=LATER)
    denial = msgspec.structs.replace(denial, **changes)
    world.rows.denials[denial.node_class, denial.code] = denial
    assert world.market.denials((CLASS, OTHER), NOW) == ((denial,) if counts else ())


@pytest.mark.parametrize(("zone", "name"), [("use1-az2", ZONES[1]), (ZONES[2], ZONES[2]), ("", "")])
def test_nothing_is_launched_where_traffic_is_shifted_away_from(world: World, zone: str, name: str) -> None:
    """Brakes name zones by their ids, which nodes know; a name stays a name."""
    if zone:
        world.brakes.hold(Brake(BrakeKind.ZONAL_SHIFT, "away", zone=zone), NOW)
    node = Node(name="n", labels={labels.ZONE_ID: "use1-az2", labels.ZONE: ZONES[1]})
    snapshot = a_snapshot(types=(TYPE,), nodes=(node,))
    found = world.market.without_shifted_zones(snapshot)
    assert closed(found.catalogue) == ({(name, labels.SPOT), (name, labels.ON_DEMAND)} if zone else set())
    assert msgspec.structs.replace(found, catalogue=snapshot.catalogue) == snapshot


def test_quotas_are_those_that_others_leave_and_none_where_they_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = a_snapshot()
    assert world.market.with_quotas(snapshot) == snapshot
    used = {"test": {"q": 8}, "": {"q": 30}}
    world.rows.quotas.kept = QuotaReading(limits={"q": 100}, used=used, limits_read_at=NOW, used_read_at=NOW)
    assert world.market.with_quotas(snapshot) == msgspec.structs.replace(snapshot, vcpu_quotas={"q": 70})

    def fail() -> None:
        raise TransientError("dynamodb:GetItem", "throttled")

    monkeypatch.setattr(world.rows.quotas, "reading", fail)
    assert world.market.with_quotas(snapshot) == snapshot


def test_free_addresses_are_known_where_any_class_has_few_and_none_in_a_subnet_that_refused(world: World) -> None:
    reading = {"annotations": {labels.SUBNET_ADDRESSES: "{}"}}
    few = a_class_manifest("few", metadata=reading, status=SUBNETS)
    snapshot = a_snapshot()
    world.rows.refused = {subnet_key("s-b"): LATER, REFUSED: LATER}
    assert world.market.with_addresses(snapshot, (CLASS, OTHER), ()) is snapshot
    for classes in ((few,), (CLASS, few, OTHER)):
        found = world.market.with_addresses(snapshot, iter(classes), ())
        assert found == msgspec.structs.replace(snapshot, subnet_addresses={"s-b": 0})


def test_without_refusals_everything_but_shifted_zones_is_open(world: World) -> None:
    """It says what a plan would cost if EC2 had not refused anything."""
    world.rows.refused = {REFUSED: LATER}
    world.brakes.hold(Brake(BrakeKind.ZONAL_SHIFT, "away", zone=ZONES[2]), NOW)
    refusing = world.market.catalogue((CLASS, OTHER), NOW)
    view = ClusterState(
        snapshot=a_snapshot(catalogue=refusing),
        claims={"c": a_record(ClaimPhase.REQUESTED, plan=a_plan())},
        commands=(),
        node_pools={},
        node_classes={"other": OTHER, "default": CLASS},
    )
    found = world.market.without_refusals(view)
    assert closed(found.catalogue) == {(ZONES[2], labels.SPOT), (ZONES[2], labels.ON_DEMAND)}
    assert msgspec.structs.replace(found, catalogue=refusing) == view.snapshot
