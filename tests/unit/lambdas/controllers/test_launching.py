"""Which offerings a claim may still request, and how EC2's answers affect the next claims."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ports import (
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    LostReplyError,
    RefusedOffering,
    SilentError,
    TransientError,
)
from adapters.run_report import RunReport
from core import labels
from core.api.schemas.ec2_node_class import TAGS_MAX
from core.catalogue.node_class import read_node_class
from core.launch.denials import FIRST_PAUSE, PROBE, DenialScope, LaunchDenial, subnet_key
from core.launch.selection import TYPES_MAX
from core.launch.template import ownership_tags
from core.lifecycle.records import ClaimRecord, Moments
from core.lifecycle.registration import HASHES
from core.lifecycle.steps import LISTED_WITHIN
from core.model.catalogue import OfferingKey
from core.model.plan import LaunchOrder
from core.model.snapshot import BEST_EFFORT, STRICT, Options
from core.model.values.requirements import Requirement
from core.reasons.code import NO_CAPACITY, OTHER_RETRIES, ClaimReason, DenialIsTried, DenialsPause, Refusal
from core.scheduling import schedule
from lambdas.controllers.launch_answers import LaunchAnswer
from lambdas.controllers.launching import Admission, order_of, requested, with_decision
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type
from tests.unit.lambdas.controllers.launching.gate_for_tests import CALL, World, admitted, refusal
from tests.unit.lambdas.controllers.test_launching_launching import CALL as LAUNCH_REQUESTS_CALL
from tests.unit.lambdas.controllers.test_launching_launching import World as LaunchRequestsWorld

# The launch order that EC2 gets from a claim's record.


EC2_TAGS_MAX = 50


def test_a_class_with_as_many_tags_as_it_may_have_is_launched() -> None:
    """Otherwise, EC2 would refuse every launch of a class that is valid."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = with_decision(msgspec.structs.replace(planned, annotations=dict.fromkeys(HASHES, "x")), "d-1")
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    shared = msgspec.structs.replace(record, shares=2)
    order = order_of(shared, {}, snapshot.catalogue, cluster="shop")
    node_class = read_node_class({"metadata": {"name": "default"}})
    our_tags = {"Name": "", **order.tags, **ownership_tags(node_class, cluster="shop", node_pool="default")}
    assert len(our_tags) + TAGS_MAX == EC2_TAGS_MAX


@pytest.mark.parametrize(
    ("tenancies", "expected"), [(("dedicated",), "dedicated"), (("default", "dedicated"), "default")]
)
def test_an_order_keeps_the_tenancy_that_was_asked_for(tenancies: tuple[str, ...], expected: str) -> None:
    """A pod that must not share its machine with other accounts would share it."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = msgspec.structs.replace(planned, requirements=(Requirement.one_of(labels.TENANCY, *tenancies),))
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    assert order_of(record, {}, snapshot.catalogue, cluster="shop").tenancy == expected


@pytest.mark.parametrize("is_ranked", [False, True])
def test_a_launch_follows_our_prices_where_they_rank_otherwise_than_ec2s(is_ranked: bool) -> None:
    """EC2 does not know of discounts and licences, and would launch what is cheapest by its list."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    snapshot = msgspec.structs.replace(
        snapshot, options=msgspec.structs.replace(snapshot.options, ranks_by_own_prices=is_ranked)
    )
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    assert record.is_ranked is is_ranked


def test_every_field_of_an_order_comes_from_the_claim() -> None:
    """EC2 launches what a lost field would have kept it from."""
    requirements = (
        Requirement.one_of(labels.TENANCY, "dedicated"),
        Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "2"),
    )
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    group = {labels.GROUP_OF_CLAIM: "ml/train"}
    planned = msgspec.structs.replace(planned, requirements=requirements, annotations=group)
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    in_one_zone = tuple(offering for offering in record.offerings if offering.zone == "us-east-1a")
    record = msgspec.structs.replace(record, offerings=in_one_zone)
    moments = Moments(unclear_at=NOW, renewed_at=NOW)
    record = msgspec.structs.replace(
        record, moments=moments, shares=2, is_ranked=True, subnets={"us-east-1a": "subnet-2"}
    )
    order = order_of(
        record, {"a": 1}, snapshot.catalogue, cluster="shop", avoided_subnets=("subnet-1",), uses_reservations=False
    )
    names = ("claim", "node_pool", "token", "offerings", "node_class", "node_labels", "taints", "tags")
    empty = LaunchOrder(**dict.fromkeys(names))  # type: ignore[arg-type] - fields without a default
    assert [name for name in LaunchOrder.__struct_fields__ if getattr(order, name) == getattr(empty, name)] == []


def test_a_claim_says_that_its_min_values_were_lowered() -> None:
    """EC2 is asked for sixty types: with BestEffort, a claim that needs more is launched with less, and its object says so."""
    types = tuple(a_type(f"type-{number:02}") for number in range(TYPES_MAX + 1))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=len(types)))
    snapshot = a_snapshot(types=types, node_pools=(pool,), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    for policy, relaxed in ((STRICT, None), (BEST_EFFORT, True)):
        later = a_snapshot(types=types, node_pools=(pool,), options=Options(min_values_policy=policy))
        record = requested(planned, "default-1", "token", later, NOW)
        if relaxed is None:
            assert isinstance(record, Refusal)
            continue
        assert isinstance(record, ClaimRecord)
        assert (record.name, record.plan.name, record.plan.min_values_relaxed) == ("default-1", "default-1", True)
        assert record.plan.annotations == planned.annotations | {labels.MIN_VALUES_RELAXED: "true"}


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
    admission = world.admit()
    zones = {offering.zone for offering in admission.offerings} if isinstance(admission, Admission) else set()
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
    offerings = admitted(world.admit()).offerings
    assert world.first not in offerings
    assert other in offerings


class TestAClaimThatIsHeldBack:
    """It says what it waits for: its pods show the message."""

    def test_by_denials_names_each(self, world: World) -> None:
        for code in ("UnauthorizedOperation", "VcpuLimitExceeded"):
            world.learn(code)
        denials = [denial for _, denial in sorted(world.rows.denials.items())]
        assert world.admit() == DenialsPause(tuple(denial.explanation() for denial in denials))

    def test_by_offerings_that_refused_says_so(self, world: World) -> None:
        world.rows.refused = {offering.key: NOW + FIRST_PAUSE for offering in world.record.offerings}
        assert world.admit() == NO_CAPACITY

    def test_by_another_claim_that_retries_a_denied_launch_names_the_denial(self, world: World) -> None:
        world.learn("UnauthorizedOperation")
        later = NOW + FIRST_PAUSE
        (denial,) = world.rows.denials.values()

        def other_is_first(call: str) -> None:
            if call == "write":
                world.rows.before_call = lambda _: None
                world.rows.denials["default", denial.code] = msgspec.structs.replace(denial, version=denial.version + 1)

        world.rows.before_call = other_is_first
        assert world.admit(later) == DenialIsTried(denial.explanation())

    def test_by_another_cluster_that_retries_says_so(self, world: World) -> None:
        world.refused_a_while_ago()

        def other_is_first(call: str) -> None:
            if call == "write":
                world.rows.probed = dict.fromkeys(world.rows.refused, NOW + PROBE)

        world.rows.before_call = other_is_first
        assert world.admit() == OTHER_RETRIES


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
    admission = admitted(world.admit())
    assert (admission.offerings, admission.probe.offerings) == (world.record.offerings, frozenset())


class TestInstancesThatEndedWhileTheyStarted:
    """EC2 launched them, so that only a node that joins shows that the cause is gone."""

    CODE = "Client.InternalError"

    def test_have_one_launch_tried_that_knows_what_it_tries(self, world: World) -> None:
        world.learn(self.CODE)
        admission = admitted(world.admit(NOW + FIRST_PAUSE))
        assert (admission.tries, admission.is_try) == ((self.CODE,), True)

    def test_are_not_disproved_by_a_launch(self, world: World) -> None:
        world.learn(self.CODE)
        later = NOW + FIRST_PAUSE
        admission = admitted(world.admit(later))
        world.gate.succeeded(world.record, world.node_class, admission, {world.first.key}, (), later, RunReport())
        assert list(world.rows.denials) == [("default", self.CODE)]

    def test_once_may_be_chance_and_keep_no_launch_small(self, world: World) -> None:
        world.learn("Server.InsufficientInstanceCapacity")
        admission = Admission(world.record.offerings, tuple(world.rows.denials.values()))
        assert (admission.tries, admission.is_try) == (("Server.InsufficientInstanceCapacity",), False)

    @pytest.mark.parametrize(("zone", "tries"), [("", (CODE,)), ("elsewhere", ())])
    def test_in_any_zone_of_a_launch_are_tried_by_it(self, world: World, zone: str, tries: tuple[str, ...]) -> None:
        world.learn(self.CODE)
        (denial,) = world.rows.denials.values()
        there = msgspec.structs.replace(denial, scope=DenialScope(zones=(zone or world.first.zone,)))
        admission = Admission(world.record.offerings, (there,))
        assert (admission.tries, admission.is_try) == (tries, bool(tries))

    def test_are_nothing_that_other_denials_say(self, world: World) -> None:
        world.learn("UnauthorizedOperation")
        admission = admitted(world.admit(NOW + FIRST_PAUSE))
        assert (admission.tries, admission.is_try) == ((), False)


class TestATableThatDoesNotAnswer:
    """What it cannot keep costs a wasted launch, so it is reported, and the launch goes on."""

    def fail(self, world: World) -> None:
        def fail(call: str) -> None:
            if call == "write":
                raise TransientError("dynamodb:UpdateItem", "throttled")

        world.rows.before_call = fail

    def skipped(self, report: RunReport) -> list[tuple[str, str]]:
        assert report.counts["portErrors"] == len(report.decisions)
        return [(decision.subject, decision.reason) for decision in report.decisions if decision.kind == "skip"]

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
        admission, report = admitted(world.admit()), RunReport()
        self.fail(world)
        world.gate.succeeded(world.record, world.node_class, admission, {world.first.key}, (), NOW, report)
        tried = f"{len(admission.probe.offerings)} offerings that were tried again"
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


# What EC2 is asked for is stored first; one request serves claims that share a launch.


ENDED = "Client.InternalError"


def ask(world: LaunchRequestsWorld, records: list[ClaimRecord]) -> LaunchAnswer:
    return world.requests.ask(records, world.node_class, world.snapshot.catalogue, NOW, world.report)


@pytest.fixture
def launch_requests_world() -> LaunchRequestsWorld:
    return LaunchRequestsWorld()


def test_a_subnet_without_free_addresses_is_left_out_of_the_order(launch_requests_world: LaunchRequestsWorld) -> None:
    (record, *_) = launch_requests_world.stored()
    zone = record.offerings[0].zone
    launch_requests_world.node_class["status"] = {"subnets": [{"id": f"subnet-{n}", "zone": zone} for n in (1, 2)]}
    launch_requests_world.rows.refused[subnet_key("subnet-1")] = NOW + FIRST_PAUSE
    ask(launch_requests_world, [record])
    assert [order.avoided_subnets for order in launch_requests_world.cloud.orders] == [("subnet-1",)]


def test_the_subnets_of_a_request_are_stored_before_it_is_sent(launch_requests_world: LaunchRequestsWorld) -> None:
    """Otherwise, the same token would mean another request once the refusal is forgotten."""
    (record, *_) = launch_requests_world.stored()
    zone = record.offerings[0].zone
    launch_requests_world.node_class["status"] = {"subnets": [{"id": f"subnet-{n}", "zone": zone} for n in (1, 2, 3)]}
    record = launch_requests_world.put(msgspec.structs.replace(record, subnets={zone: "subnet-2"}))
    launch_requests_world.rows.refused[subnet_key("subnet-2")] = NOW + FIRST_PAUSE
    answer = ask(launch_requests_world, [record])
    assert [order.subnets for order in launch_requests_world.cloud.orders] == [{zone: "subnet-1"}]
    assert answer.asked[record.name].subnets == {zone: "subnet-1"}


def test_all_claims_of_a_shared_launch_store_what_is_asked_for(launch_requests_world: LaunchRequestsWorld) -> None:
    records = launch_requests_world.stored(shared=True)
    gone = records[0].offerings[0].key
    launch_requests_world.rows.refused[gone] = NOW + FIRST_PAUSE
    answer = ask(launch_requests_world, records)
    assert sorted(answer.asked) == ["c0", "c1"]
    assert answer.asked == {record.name: launch_requests_world.rows.claims[record.name] for record in records}
    assert all(gone not in [o.key for o in record.offerings] for record in answer.asked.values())


def test_a_part_of_a_shared_launch_is_not_asked_for(launch_requests_world: LaunchRequestsWorld) -> None:
    """Another run may have asked for all of it; the same token with another request is an error."""
    (record, _) = launch_requests_world.stored(shared=True)
    answer = ask(launch_requests_world, [record])
    assert isinstance(answer.error, ConflictError)
    assert (answer.asked, launch_requests_world.cloud.orders) == ({record.name: record}, [])
    for age, is_open in ((timedelta(0), True), (LISTED_WITHIN, False)):
        unclear = msgspec.structs.replace(record, moments=Moments(unclear_at=NOW - age))
        assert isinstance(ask(launch_requests_world, [unclear]).error, SilentError) is is_open


def test_what_was_asked_before_is_not_written_again(launch_requests_world: LaunchRequestsWorld) -> None:
    (record, *_) = launch_requests_world.stored()
    ask(launch_requests_world, [record])
    (tried,) = [row for row in launch_requests_world.rows.claims.values() if row.name == record.name]
    tried = launch_requests_world.put(msgspec.structs.replace(tried, attempts=1))
    ask(launch_requests_world, [tried])
    assert launch_requests_world.rows.claims[record.name] == tried


class TestAfterInstancesEndedWhileTheyStarted:
    """One instance is tried until its node joins."""

    @pytest.fixture(autouse=True)
    def remember(self, launch_requests_world: LaunchRequestsWorld) -> None:
        launch_requests_world.rows.denials["default", ENDED] = LaunchDenial(
            node_class="default",
            code=ENDED,
            until=NOW - timedelta(seconds=1),
            in_a_row=1,
            pauses=1,
            denied_at=NOW,
            version=1,
        )

    def test_a_shared_launch_asks_for_one_instance(self, launch_requests_world: LaunchRequestsWorld) -> None:
        records = launch_requests_world.stored(shared=True)
        answer = ask(launch_requests_world, records)
        assert [order.count for order in launch_requests_world.cloud.orders] == [1]
        assert (answer.is_try, list(answer.asked)) == (True, ["c0"])
        assert launch_requests_world.rows.claims["c0"].tries == (ENDED,)
        assert launch_requests_world.rows.claims["c1"] == records[1]

    def test_a_launch_of_one_asks_as_always(self, launch_requests_world: LaunchRequestsWorld) -> None:
        (record, *_) = launch_requests_world.stored()
        answer = ask(launch_requests_world, [record])
        assert (answer.is_try, launch_requests_world.rows.claims[record.name].tries) == (False, (ENDED,))

    @pytest.mark.parametrize(
        "error",
        [
            InsufficientCapacityError(LAUNCH_REQUESTS_CALL, "no capacity", []),
            DeniedError(LAUNCH_REQUESTS_CALL, "no", code="UnauthorizedOperation"),
            LostReplyError(LAUNCH_REQUESTS_CALL, "timed out"),
        ],
    )
    def test_a_failure_of_the_try_is_known_as_one(
        self, launch_requests_world: LaunchRequestsWorld, error: Exception
    ) -> None:
        """The other claims of the launch wait, and are not refused with it."""
        launch_requests_world.answering(error)  # type: ignore[arg-type] - errors of the port
        assert ask(launch_requests_world, launch_requests_world.stored(shared=True)).is_try


class TestAFailure:
    """It is remembered for the launches of others."""

    def test_whose_answer_was_lost_says_nothing(self, launch_requests_world: LaunchRequestsWorld) -> None:
        (record, *_) = launch_requests_world.stored()
        launch_requests_world.answering(LostReplyError(LAUNCH_REQUESTS_CALL, "timed out"))
        answer = ask(launch_requests_world, [record])
        assert isinstance(answer.error, LostReplyError)
        assert (
            launch_requests_world.rows.refused,
            launch_requests_world.rows.denials,
            launch_requests_world.rows.brakes.breakers(),
        ) == ({}, {}, ())


# Offerings that refused a while ago are tried by one launch of all clusters; the others wait for its answer.


@pytest.fixture
def shared_trials_world() -> World:
    return World()


def test_after_a_pause_one_launch_of_all_clusters_tries(shared_trials_world: World) -> None:
    """Otherwise, every cluster of the account asks for what was sold out in the moment in which its pause ends."""
    shared_trials_world.refused_a_while_ago()
    assert admitted(shared_trials_world.admit()).offerings == shared_trials_world.record.offerings
    refused = shared_trials_world.of_another_cluster().admit(
        shared_trials_world.record, shared_trials_world.node_class, NOW
    )
    assert isinstance(refused, Refusal)
    assert refused.reason is ClaimReason.LAUNCH_HELD_BACK


def test_what_another_launch_tries_is_left_out(shared_trials_world: World) -> None:
    """It has other offerings, so it need not wait."""
    shared_trials_world.rows.refused[shared_trials_world.first.key] = NOW
    assert shared_trials_world.first in admitted(shared_trials_world.admit()).offerings
    other = admitted(
        shared_trials_world.of_another_cluster().admit(shared_trials_world.record, shared_trials_world.node_class, NOW)
    ).offerings
    assert other == tuple(
        offering for offering in shared_trials_world.record.offerings if offering != shared_trials_world.first
    )


def test_what_was_tried_and_launched_is_open_to_all(shared_trials_world: World) -> None:
    """Otherwise, the second node of a burst waits for the next pause."""
    shared_trials_world.refused_a_while_ago()
    admission = admitted(shared_trials_world.admit())
    shared_trials_world.gate.succeeded(
        shared_trials_world.record,
        shared_trials_world.node_class,
        admission,
        {shared_trials_world.first.key},
        (),
        NOW,
        RunReport(),
    )
    assert shared_trials_world.first.key not in shared_trials_world.rows.refused
    other = admitted(
        shared_trials_world.of_another_cluster().admit(shared_trials_world.record, shared_trials_world.node_class, NOW)
    )
    assert other.offerings == shared_trials_world.record.offerings
    assert shared_trials_world.first.key not in other.probe.offerings


def test_what_was_tried_and_refused_is_avoided_by_all(shared_trials_world: World) -> None:
    shared_trials_world.refused_a_while_ago()
    admission = admitted(shared_trials_world.admit())
    refused = [RefusedOffering(shared_trials_world.first.key, "InsufficientInstanceCapacity")]
    shared_trials_world.gate.learn(
        shared_trials_world.record, shared_trials_world.node_class, admission, refused, CALL, NOW, RunReport()
    )
    other = admitted(
        shared_trials_world.of_another_cluster().admit(shared_trials_world.record, shared_trials_world.node_class, NOW)
    )
    assert shared_trials_world.first not in other.offerings
    assert len(other.offerings) == len(shared_trials_world.record.offerings) - 1, (
        "what EC2 did not come to is tried by the next"
    )


def test_a_trial_whose_answer_is_lost_ends_by_itself(shared_trials_world: World) -> None:
    """The function may have ended before EC2 answered."""
    shared_trials_world.refused_a_while_ago()
    assert isinstance(shared_trials_world.admit(), Admission)
    assert isinstance(shared_trials_world.admit(NOW + PROBE / 2), Refusal)
    assert admitted(shared_trials_world.admit(NOW + PROBE)).offerings == shared_trials_world.record.offerings


def test_a_claim_that_waits_for_a_denial_tries_nothing(shared_trials_world: World) -> None:
    """Otherwise, it keeps all clusters from offerings that it does not ask for."""
    shared_trials_world.refused_a_while_ago()
    shared_trials_world.learn("UnauthorizedOperation")
    later = NOW + FIRST_PAUSE
    admitted(shared_trials_world.admit(later))
    shared_trials_world.rows.probed.clear()
    assert isinstance(shared_trials_world.admit(later), Refusal)
    assert shared_trials_world.rows.probed == {}


def test_a_confined_launch_takes_nobodys_turn(shared_trials_world: World) -> None:
    """What it is refused is not written for others, and they would wait for its answer."""
    shared_trials_world.refused_a_while_ago()
    shared_trials_world.node_class["spec"] = {
        **shared_trials_world.node_class["spec"],
        "placementGroupSelector": {"name": "cluster"},
    }
    assert admitted(shared_trials_world.admit()).offerings == shared_trials_world.record.offerings
    assert shared_trials_world.rows.probed == {}


def test_a_claim_that_another_one_is_ahead_of_gives_back_what_it_would_have_tried(shared_trials_world: World) -> None:
    shared_trials_world.refused_a_while_ago()
    shared_trials_world.learn("UnauthorizedOperation")
    ((key, denial),) = shared_trials_world.rows.denials.items()

    def other_is_first(call: str) -> None:
        if call == "write" and shared_trials_world.rows.probed:
            shared_trials_world.rows.denials[key] = msgspec.structs.replace(denial, version=denial.version + 1)

    shared_trials_world.rows.before_call = other_is_first
    assert refusal(shared_trials_world.admit(NOW + FIRST_PAUSE)).startswith("another claim is retrying")
    assert shared_trials_world.rows.probed == {}
