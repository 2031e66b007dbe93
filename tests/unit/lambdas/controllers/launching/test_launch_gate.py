"""Which offerings a claim may still request, and how EC2's answers affect the next claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.launch.denials.denial import FIRST_PAUSE, PROBE
from core.launch.denials.subnets import subnet_key
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import OfferingKey
from core.model.values.requirements import Requirement
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal
from core.scheduling import schedule
from lambdas.controllers.launching.claim_record import requested
from lambdas.controllers.launching.launch_gate import Admission, LaunchGate
from lambdas.ports import RefusedOffering
from lambdas.run_report import RunReport
from tests.builders import NOW, a_class_manifest, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.store import MemoryDenials, MemoryOfferings, Rows

CALL = "ec2:CreateFleet"


class World:
    """A claim, and the remembered denials."""

    def __init__(self) -> None:
        snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
        (planned,) = schedule(snapshot).claims
        record = requested(planned, "default-1", "token", snapshot, NOW)
        assert isinstance(record, ClaimRecord)
        self.record = record
        self.rows = Rows()
        self.gate = LaunchGate(MemoryDenials(self.rows), MemoryOfferings(self.rows))
        zones = sorted({offering.zone for offering in record.offerings})
        subnets = [{"id": f"subnet-{zone}{n}", "zone": zone} for zone in zones for n in (1, 2)]
        self.node_class = a_class_manifest(metadata={"generation": 1}, status={"subnets": subnets})
        self.first = record.offerings[0]

    def admit(self, now: Any = NOW) -> Admission | Refusal:
        return self.gate.admit(self.record, self.node_class, now)

    def of_another_cluster(self) -> LaunchGate:
        """The gate of a cluster of the same account and region: it has the refused offerings in common, and no denials."""
        return LaunchGate(MemoryDenials(Rows()), MemoryOfferings(self.rows))

    def refused_a_while_ago(self) -> None:
        """EC2 had no capacity for anything, and every pause has just ended."""
        self.rows.refused = {offering.key: NOW for offering in self.record.offerings}

    def learn(self, code: str, now: Any = NOW, **more: Any) -> None:
        refused = [RefusedOffering(offering.key, code, **more) for offering in self.record.offerings]
        admission = Admission(self.record.offerings, ())
        self.gate.learn(self.record, self.node_class, admission, refused, CALL, now, RunReport())


@pytest.fixture
def world() -> World:
    return World()


def admitted(found: Admission | Refusal) -> Admission:
    assert isinstance(found, Admission)
    return found


def test_without_refusals_every_offering_may_be_requested(world: World) -> None:
    assert admitted(world.admit()).offerings == world.record.offerings


def test_offerings_refused_in_the_meantime_are_left_out(world: World) -> None:
    """Otherwise, a claim that waited requests the unavailable offerings again."""
    world.rows.refused[world.first.key] = NOW + FIRST_PAUSE
    assert world.first not in admitted(world.admit()).offerings


def test_a_retried_claim_requests_the_same_again(world: World) -> None:
    """Its instance may exist; another request with the same token is an error."""
    world.learn("UnauthorizedOperation")
    world.record = msgspec.structs.replace(world.record, attempts=1)
    assert admitted(world.admit()).offerings == world.record.offerings


def test_after_a_pause_one_claim_tries_and_the_others_wait(world: World) -> None:
    """Otherwise, forty claims make forty requests when the pause ends."""
    world.learn("UnauthorizedOperation")
    assert isinstance(world.admit(), Refusal)
    later = NOW + FIRST_PAUSE
    assert isinstance(world.admit(later), Admission)
    assert isinstance(world.admit(later), Refusal)


def test_a_launch_disproves_what_was_denied(world: World) -> None:
    world.learn("UnauthorizedOperation")
    later = NOW + FIRST_PAUSE
    admission = admitted(world.admit(later))
    world.gate.succeeded(world.record, world.node_class, admission, {world.first.key}, (), later, RunReport())
    assert world.rows.denials == {}
    assert isinstance(world.admit(later), Admission)


def test_a_launch_elsewhere_disproves_nothing(world: World) -> None:
    world.learn("VcpuLimitExceeded")
    later = NOW + FIRST_PAUSE
    admission = admitted(world.admit(later))
    elsewhere = OfferingKey("p5.48xlarge", "zone", "on-demand")
    world.gate.succeeded(world.record, world.node_class, admission, {elsewhere}, (), later, RunReport())
    assert len(world.rows.denials) == 1


def test_a_full_subnet_is_avoided_and_closes_no_zone(world: World) -> None:
    world.learn("InsufficientFreeAddressesInSubnet", subnet=f"subnet-{world.first.zone}1")
    assert subnet_key(f"subnet-{world.first.zone}1") in world.rows.refused
    admission = admitted(world.admit())
    assert admission.offerings == world.record.offerings
    assert admission.avoided_subnets == (f"subnet-{world.first.zone}1",)


def test_a_zone_whose_subnets_are_all_full_is_left_out(world: World) -> None:
    for number in (1, 2):
        world.learn("InsufficientFreeAddressesInSubnet", subnet=f"subnet-{world.first.zone}{number}")
    found = world.admit()
    zones = {offering.zone for offering in found.offerings} if isinstance(found, Admission) else set()
    assert world.first.zone not in zones


@pytest.mark.parametrize("confining", ["tenancy", "placementGroupSelector", "cpuOptions"])
def test_a_refusal_of_part_of_the_capacity_closes_no_pool_for_others(confining: str, world: World) -> None:
    """Other clusters share what is remembered: a full placement group would keep them from free capacity for 48 minutes."""
    if confining == "tenancy":
        dedicated = Requirement.one_of(labels.TENANCY, "dedicated")
        plan = msgspec.structs.replace(world.record.plan, requirements=(*world.record.plan.requirements, dedicated))
        world.record = msgspec.structs.replace(world.record, plan=plan)
    else:
        world.node_class["spec"] = {**world.node_class["spec"], confining: {"name": "cluster"}}
    world.learn("InsufficientInstanceCapacity")
    assert world.rows.refused == {}
    assert isinstance(world.admit(), Refusal)
    assert admitted(world.admit(NOW + FIRST_PAUSE)).offerings
    assert isinstance(world.admit(NOW + FIRST_PAUSE), Refusal), "one claim asks again"


def test_a_refusal_on_the_common_hardware_is_for_all(world: World) -> None:
    """Every launch uses the same machines."""
    world.learn("InsufficientInstanceCapacity")
    assert set(world.rows.refused) == {offering.key for offering in world.record.offerings}
    assert not world.rows.denials or all(not denial.is_engaged for denial in world.rows.denials.values())


def test_refusals_on_the_way_to_a_launch_are_remembered(world: World) -> None:
    """EC2 names them beside the instance that it launched: otherwise, each launch asks for sold-out places first."""
    other = next(offering for offering in world.record.offerings if offering.zone != world.first.zone)
    refused = [RefusedOffering(world.first.key, "InsufficientInstanceCapacity")]
    admission = admitted(world.admit())
    world.gate.succeeded(world.record, world.node_class, admission, {other.key}, refused, NOW, RunReport())
    left = admitted(world.admit()).offerings
    assert world.first not in left
    assert other in left


def test_after_a_pause_one_launch_of_all_clusters_tries(world: World) -> None:
    """Otherwise, every cluster of the account asks for what was sold out in the moment in which its pause ends."""
    world.refused_a_while_ago()
    assert admitted(world.admit()).offerings == world.record.offerings
    found = world.of_another_cluster().admit(world.record, world.node_class, NOW)
    assert isinstance(found, Refusal)
    assert found.reason is ClaimReason.LAUNCH_HELD_BACK


def test_what_another_launch_tries_is_left_out(world: World) -> None:
    """It has other offerings, so it need not wait."""
    world.rows.refused[world.first.key] = NOW
    assert world.first in admitted(world.admit()).offerings
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW)).offerings
    assert other == tuple(offering for offering in world.record.offerings if offering != world.first)


def test_what_was_tried_and_launched_is_open_to_all(world: World) -> None:
    """Otherwise, the second node of a burst waits for the next pause."""
    world.refused_a_while_ago()
    admission = admitted(world.admit())
    world.gate.succeeded(world.record, world.node_class, admission, {world.first.key}, (), NOW, RunReport())
    assert world.first.key not in world.rows.refused
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW))
    assert other.offerings == world.record.offerings
    assert world.first.key not in other.probe.offerings


def test_what_was_tried_and_refused_is_avoided_by_all(world: World) -> None:
    world.refused_a_while_ago()
    admission = admitted(world.admit())
    refused = [RefusedOffering(world.first.key, "InsufficientInstanceCapacity")]
    world.gate.learn(world.record, world.node_class, admission, refused, CALL, NOW, RunReport())
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW))
    assert world.first not in other.offerings
    assert len(other.offerings) == len(world.record.offerings) - 1, "what EC2 did not come to is tried by the next"


def test_a_trial_whose_answer_is_lost_ends_by_itself(world: World) -> None:
    """The function may have ended before EC2 answered."""
    world.refused_a_while_ago()
    assert isinstance(world.admit(), Admission)
    assert isinstance(world.admit(NOW + PROBE / 2), Refusal)
    assert admitted(world.admit(NOW + PROBE)).offerings == world.record.offerings


def test_a_claim_that_waits_for_a_denial_tries_nothing(world: World) -> None:
    """Otherwise, it keeps all clusters from offerings that it does not ask for."""
    world.refused_a_while_ago()
    world.learn("UnauthorizedOperation")
    later = NOW + FIRST_PAUSE
    admitted(world.admit(later))
    world.rows.probed.clear()
    assert isinstance(world.admit(later), Refusal)
    assert world.rows.probed == {}


def test_a_confined_launch_takes_nobodys_turn(world: World) -> None:
    """What it is refused is not written for others, and they would wait for its answer."""
    world.refused_a_while_ago()
    world.node_class["spec"] = {**world.node_class["spec"], "placementGroupSelector": {"name": "cluster"}}
    assert admitted(world.admit()).offerings == world.record.offerings
    assert world.rows.probed == {}
