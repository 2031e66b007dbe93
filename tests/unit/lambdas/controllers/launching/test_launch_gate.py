"""Which offerings a claim may still request, and how EC2's answers affect the next claims."""

from __future__ import annotations

import msgspec
import pytest

from adapters.ports import RefusedOffering, TransientError
from adapters.run_report import RunReport
from core import labels
from core.launch.denials.denial import FIRST_PAUSE, PROBE
from core.launch.denials.scope import DenialScope
from core.launch.denials.subnets import subnet_key
from core.model.catalogue import OfferingKey
from core.model.values.requirements import Requirement
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.launch_gate import NO_CAPACITY, Admission
from tests.builders import NOW
from tests.unit.lambdas.controllers.launching.gate_for_tests import CALL, World, admitted, refusal


@pytest.fixture
def world() -> World:
    return World()


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


class TestTheSubnetsOfAClaim:
    """Each zone of the class has the subnets 1 and 2."""

    @pytest.fixture(autouse=True)
    def choose(self, world: World) -> None:
        self.zone = world.first.zone
        world.record = msgspec.structs.replace(world.record, subnets={self.zone: f"subnet-{self.zone}2"})

    def test_stay_as_planned(self, world: World) -> None:
        assert admitted(world.admit()).subnets == {self.zone: f"subnet-{self.zone}2"}
        world.learn("InsufficientFreeAddressesInSubnet", subnet="subnet-of-another-cluster")
        assert admitted(world.admit()).subnets == {self.zone: f"subnet-{self.zone}2"}

    def test_that_refused_meanwhile_give_way_to_others(self, world: World) -> None:
        """All that is requested is stored, so that the same token means the same request."""
        world.learn("InsufficientFreeAddressesInSubnet", subnet=f"subnet-{self.zone}2")
        assert admitted(world.admit()).subnets[self.zone] == f"subnet-{self.zone}1"

    def test_stay_in_a_request_that_ec2_may_have_answered(self, world: World) -> None:
        world.learn("InsufficientFreeAddressesInSubnet", subnet=f"subnet-{self.zone}2")
        world.record = msgspec.structs.replace(world.record, attempts=1)
        assert admitted(world.admit()).subnets == {self.zone: f"subnet-{self.zone}2"}


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


class TestAClaimThatIsHeldBack:
    """It says what it waits for: its pods show the message."""

    def test_by_denials_names_each(self, world: World) -> None:
        for code in ("UnauthorizedOperation", "VcpuLimitExceeded"):
            world.learn(code)
        denials = [denial for _, denial in sorted(world.rows.denials.items())]
        assert refusal(world.admit()) == "; ".join(denial.explanation() for denial in denials)

    def test_by_offerings_that_refused_says_so(self, world: World) -> None:
        world.rows.refused = {offering.key: NOW + FIRST_PAUSE for offering in world.record.offerings}
        assert refusal(world.admit()) == NO_CAPACITY

    def test_by_another_claim_that_retries_a_denied_launch_names_the_denial(self, world: World) -> None:
        world.learn("UnauthorizedOperation")
        later = NOW + FIRST_PAUSE
        (denial,) = world.rows.denials.values()

        def other_is_first(call: str) -> None:
            if call == "write":
                world.rows.before_call = lambda _: None
                world.rows.denials["default", denial.code] = msgspec.structs.replace(denial, version=denial.version + 1)

        world.rows.before_call = other_is_first
        assert refusal(world.admit(later)) == f"another claim is retrying: {denial.explanation()}"

    def test_by_another_cluster_that_retries_says_so(self, world: World) -> None:
        world.refused_a_while_ago()

        def other_is_first(call: str) -> None:
            if call == "write":
                world.rows.probed = dict.fromkeys(world.rows.refused, NOW + PROBE)

        world.rows.before_call = other_is_first
        assert refusal(world.admit()) == f"another launch is retrying: {NO_CAPACITY}"


def test_denials_of_another_class_hold_nothing_back(world: World) -> None:
    world.learn("UnauthorizedOperation")
    ((_, denial),) = world.rows.denials.items()
    world.rows.denials = {("other", denial.code): msgspec.structs.replace(denial, node_class="other")}
    assert admitted(world.admit()).denials == ()


def test_what_is_not_denied_is_asked_for_first_and_nothing_is_tried_again(world: World) -> None:
    """A retry may fail, and would keep all other claims of the class waiting."""
    denied = [RefusedOffering(offering.key, "Unsupported") for offering in world.record.offerings[:1]]
    world.node_class["spec"] = {**world.node_class["spec"], "placementGroupSelector": {"name": "cluster"}}
    admission = Admission(world.record.offerings, ())
    world.gate.learn(world.record, world.node_class, admission, denied, CALL, NOW, RunReport())
    later = admitted(world.admit(NOW + FIRST_PAUSE))
    assert later.offerings == world.record.offerings[1:]
    (denial,) = world.rows.denials.values()
    assert denial.probing_until is None


def test_a_claim_with_min_values_asks_for_all_its_offerings(world: World) -> None:
    """Fewer instance types might violate minValues, and EC2 skips what it has not."""
    counted = Requirement.of(labels.INSTANCE_TYPE, "In", ("m5.large",), 1)
    uncounted = Requirement.one_of(labels.OS, "linux")
    plan = msgspec.structs.replace(world.record.plan, requirements=(counted, uncounted))
    world.record = msgspec.structs.replace(world.record, plan=plan)
    world.rows.refused = {world.first.key: NOW + FIRST_PAUSE}
    found = admitted(world.admit())
    assert (found.offerings, found.probe.offerings) == (world.record.offerings, frozenset())


class TestInstancesThatEndedWhileTheyStarted:
    """EC2 launched them, so that only a node that joins shows that the cause is gone."""

    CODE = "Client.InternalError"

    def test_have_one_launch_tried_that_knows_what_it_tries(self, world: World) -> None:
        world.learn(self.CODE)
        found = admitted(world.admit(NOW + FIRST_PAUSE))
        assert (found.tries, found.is_try) == ((self.CODE,), True)

    def test_are_not_disproved_by_a_launch(self, world: World) -> None:
        world.learn(self.CODE)
        later = NOW + FIRST_PAUSE
        found = admitted(world.admit(later))
        world.gate.succeeded(world.record, world.node_class, found, {world.first.key}, (), later, RunReport())
        assert list(world.rows.denials) == [("default", self.CODE)]

    def test_once_may_be_chance_and_keep_no_launch_small(self, world: World) -> None:
        world.learn("Server.InsufficientInstanceCapacity")
        found = Admission(world.record.offerings, tuple(world.rows.denials.values()))
        assert (found.tries, found.is_try) == (("Server.InsufficientInstanceCapacity",), False)

    @pytest.mark.parametrize(("zone", "tries"), [("", (CODE,)), ("elsewhere", ())])
    def test_in_any_zone_of_a_launch_are_tried_by_it(self, world: World, zone: str, tries: tuple[str, ...]) -> None:
        world.learn(self.CODE)
        (denial,) = world.rows.denials.values()
        there = msgspec.structs.replace(denial, scope=DenialScope(zones=(zone or world.first.zone,)))
        found = Admission(world.record.offerings, (there,))
        assert (found.tries, found.is_try) == (tries, bool(tries))

    def test_are_nothing_that_other_denials_say(self, world: World) -> None:
        world.learn("UnauthorizedOperation")
        found = admitted(world.admit(NOW + FIRST_PAUSE))
        assert (found.tries, found.is_try) == ((), False)


class TestATableThatDoesNotAnswer:
    """What it cannot keep costs a wasted launch, so it is reported, and the launch goes on."""

    def fail(self, world: World) -> None:
        def fail(call: str) -> None:
            if call == "write":
                raise TransientError("dynamodb:UpdateItem", "throttled")

        world.rows.before_call = fail

    def skipped(self, report: RunReport) -> list[tuple[str, str]]:
        assert report.counts["portErrors"] == len(report.decisions)
        return [(one.subject, one.reason) for one in report.decisions if one.kind == "skip"]

    def test_keeps_no_refused_offering(self, world: World) -> None:
        report = RunReport()
        refused = [RefusedOffering(offering.key, "InsufficientInstanceCapacity") for offering in world.record.offerings]
        self.fail(world)
        world.gate.learn(
            world.record, world.node_class, Admission(world.record.offerings, ()), refused, CALL, NOW, report
        )
        assert self.skipped(report) == [
            (f"{len(refused)} offerings", "TransientError"),
            ("denial InsufficientInstanceCapacity", "TransientError"),
        ]

    def test_keeps_no_end_of_a_trial(self, world: World) -> None:
        world.refused_a_while_ago()
        found, report = admitted(world.admit()), RunReport()
        self.fail(world)
        world.gate.succeeded(world.record, world.node_class, found, {world.first.key}, (), NOW, report)
        tried = f"{len(found.probe.offerings)} offerings that were tried again"
        assert self.skipped(report) == [(tried, "TransientError")]


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("VcpuLimitExceeded", True),
        ("MaxSpotInstanceCountExceeded", True),
        ("UnauthorizedOperation", False),
        ("InsufficientInstanceCapacity", False),
    ],
)
def test_quotas_met_on_the_way_to_a_launch_are_remembered(code: str, *, kept: bool, world: World) -> None:
    """Another capacity type was launched; the quota stays short for the next launch."""
    got = OfferingKey(world.first.instance_type, world.first.zone, labels.ON_DEMAND)
    refused = [RefusedOffering(world.first.key, code)]
    admission = Admission(world.record.offerings, ())
    world.gate.succeeded(world.record, world.node_class, admission, {got}, refused, NOW, RunReport())
    assert bool(world.rows.denials) is kept


def test_a_quota_that_the_launch_itself_used_is_not_short(world: World) -> None:
    """It may have been met by chance, or in the moment before another instance ended."""
    other = world.record.offerings[1]
    refused = [RefusedOffering(world.first.key, "MaxSpotInstanceCountExceeded")]
    admission = Admission(world.record.offerings, ())
    launched = {other.key, OfferingKey(other.instance_type, other.zone, labels.ON_DEMAND)}
    world.gate.succeeded(world.record, world.node_class, admission, launched, refused, NOW, RunReport())
    assert world.rows.denials == {}


def test_one_of_several_instances_disproves_what_was_denied(world: World) -> None:
    world.learn("VcpuLimitExceeded")
    later = NOW + FIRST_PAUSE
    launched = {world.first.key, OfferingKey("p5.48xlarge", "zone", labels.ON_DEMAND)}
    admission = admitted(world.admit(later))
    world.gate.succeeded(world.record, world.node_class, admission, launched, (), later, RunReport())
    assert world.rows.denials == {}


def test_refusals_for_one_reason_count_once_in_whatever_order_ec2_names_them(world: World) -> None:
    codes = ("UnauthorizedOperation", "VcpuLimitExceeded", "UnauthorizedOperation")
    refused = [RefusedOffering(o.key, code) for o, code in zip(world.record.offerings, codes, strict=False)]
    admission = Admission(world.record.offerings, ())
    world.gate.learn(world.record, world.node_class, admission, refused, CALL, NOW, RunReport())
    assert {code: denial.in_a_row for (_, code), denial in world.rows.denials.items()} == dict.fromkeys(codes, 1)
    assert len(refused) == 3


def test_a_retry_of_all_denials_in_its_way_is_one_for_each(world: World) -> None:
    """Each of them keeps some of the offerings from the claim; while it tries, no other claim does."""
    for code in ("UnauthorizedOperation", "VcpuLimitExceeded"):
        world.learn(code)
    zone = world.first.zone
    others = tuple(sorted({offering.zone for offering in world.record.offerings} - {zone}))
    for (key, denial), zones in zip(sorted(world.rows.denials.items()), ((zone,), others), strict=True):
        world.rows.denials[key] = msgspec.structs.replace(denial, scope=DenialScope(zones=zones))
    later = NOW + FIRST_PAUSE
    assert admitted(world.admit(later)).offerings == world.record.offerings
    assert {denial.probing_until for denial in world.rows.denials.values()} == {later + PROBE}
