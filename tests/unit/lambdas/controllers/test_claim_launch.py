"""A claim gets its instance, or ends with the reason if nothing waits for it any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from adapters.messages import work_on_claim, work_on_claims
from adapters.ports import DeniedError, LostReplyError, ThrottledError, TransientError
from adapters.run_report import RunReport
from core import labels
from core.brakes import Action
from core.breakers import OPENS_AFTER
from core.lifecycle.claims import BOOT_AT_LEAST
from core.lifecycle.records import ClaimPhase
from core.lifecycle.steps import ASKED_FOR, ASKS_FOR
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from core.model.values.quantity import HOURLY, nanodollars
from core.reasons.code import ClaimReason
from installation.wiring import BY_NAME
from lambdas.controllers.claim_launch import THROTTLED_FOR
from lambdas.controllers.execution import AFTER_CONFLICT
from tests.builders import a_type
from tests.fakes.lab import Lab, a_capping, a_node_pool, a_pending_pod
from tests.fakes.world import FakeCatalogues

# Instances of a shared launch carry the names of their claims before their nodes join.


CLAIMS = 3
AT_LEAST = BOOT_AT_LEAST.total_seconds()


@pytest.fixture
def instance_names_lab() -> Lab:
    """Claims that share a launch."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(CLAIMS)))
    lab.provision()
    assert [claim.shares for claim in lab.claims] == [CLAIMS] * CLAIMS
    return lab


def named(lab: Lab) -> set[str]:
    """The claims whose instances carry their names."""
    tags = {instance.instance_id: instance.tags for instance in lab.cloud.instances()}
    keys = ("Name", labels.NODECLAIM, labels.CLAIM)
    launched = [claim for claim in lab.claims if claim.machine is not None]
    return {claim.name for claim in launched if {tags[claim.instance_id].get(key) for key in keys} == {claim.name}}


def test_the_first_check_of_a_claim_names_its_instance(instance_names_lab: Lab) -> None:
    assert named(instance_names_lab) == set()
    instance_names_lab.tick(seconds=AT_LEAST)
    assert named(instance_names_lab) == {claim.name for claim in instance_names_lab.claims}


def test_later_checks_name_nothing_again(instance_names_lab: Lab) -> None:
    calls: list[str] = []
    instance_names_lab.cloud.before_call = calls.append
    instance_names_lab.tick(seconds=AT_LEAST)
    instance_names_lab.tick(4, seconds=2)
    assert calls.count("tag") == CLAIMS


def test_a_claim_that_is_heard_of_again_names_nothing_again(instance_names_lab: Lab) -> None:
    """EC2's events, and checks that failed, begin chains of checks of their own."""
    calls: list[str] = []
    instance_names_lab.cloud.before_call = calls.append
    for _ in range(5):
        for claim in instance_names_lab.claims:
            instance_names_lab.execute(work_on_claim(claim.name, instance_names_lab.clock.now()))
    assert calls.count("tag") == CLAIMS


def test_throttled_names_are_not_asked_for_again_at_once(instance_names_lab: Lab) -> None:
    calls: list[str] = []

    def throttle(call: str) -> None:
        calls.append(call)
        if call == "tag":
            raise ThrottledError("ec2:CreateTags", "Request limit exceeded.")

    def hear_of_all() -> None:
        for claim in instance_names_lab.claims:
            instance_names_lab.execute(work_on_claim(claim.name, instance_names_lab.clock.now()))

    instance_names_lab.cloud.before_call = throttle
    hear_of_all()
    hear_of_all()
    assert calls.count("tag") == 1
    instance_names_lab.cloud.before_call = calls.append
    instance_names_lab.clock.advance(seconds=THROTTLED_FOR.total_seconds())
    hear_of_all()
    assert named(instance_names_lab) == {claim.name for claim in instance_names_lab.claims}


def test_an_instance_whose_launch_was_not_answered_is_named_once_it_is_found() -> None:
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(CLAIMS)))

    def lose(call: str) -> None:
        if call == "launch":
            lab.cloud.after_call = lambda _: None
            raise TransientError("ec2:CreateFleet", "the answer is lost")

    lab.cloud.after_call = lose
    lab.provision()
    assert named(lab) == set()
    lab.tick(12)
    assert named(lab) == {claim.name for claim in lab.claims}


def test_a_refused_name_stops_no_check(instance_names_lab: Lab) -> None:
    def deny(call: str) -> None:
        if call == "tag":
            raise DeniedError("ec2:CreateTags", "not authorized")

    instance_names_lab.cloud.before_call = deny
    instance_names_lab.boot()
    reports = instance_names_lab.tick(seconds=AT_LEAST)
    assert named(instance_names_lab) == set()
    assert reports[0].counts["portErrors"] == CLAIMS
    assert all(claim.node_name for claim in instance_names_lab.claims)


def requested(lab: Lab | None = None, **changes: Any) -> Lab:
    """A claim for one pod whose launch has not been tried, or was tried as the changes say."""
    lab = lab or Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.cloud.terminate([lab.claim.instance_id])
    before = {
        "machine": None,
        "phase": ClaimPhase.REQUESTED,
        "attempts": 0,
        "token": "new",
        "offerings": offerings(lab),
    }
    lab.rows.claims[lab.claim.name] = msgspec.structs.replace(lab.claim, **{**before, **changes})
    lab.cloud.orders.clear()
    lab.work.take()
    lab.wake_ups.take()
    return lab


def offerings(lab: Lab) -> tuple[object, ...]:
    assert lab.claim.machine is not None
    return (lab.claim.machine.offering,)


def execute(lab: Lab) -> RunReport:
    return lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))


def forgotten(report: RunReport) -> list[tuple[str, str]]:
    assert report.failed_messages == []
    return [(decision.reason, decision.message) for decision in report.decisions if decision.kind == "forget"]


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_launch_that_was_never_tried_does_not_count_in_the_breaker(attempts: int) -> None:
    """Otherwise, a kill switch that stops launches for five minutes opens the breakers of all growing pools."""
    lab = requested(attempts=attempts)
    stored, now = lab.claim, lab.clock.now()
    lab.rows.claims[stored.name] = msgspec.structs.replace(stored, requested_at=now - timedelta(minutes=6))
    for _ in range(OPENS_AFTER - 1):
        lab.brakes.failed("default", "failed before", now)
    lab.execute(work_on_claim(stored.name, now))
    assert lab.claims == ()
    assert (lab.brakes.engaged().stopping(Action.EXPIRE, "default") is not None) == bool(attempts)


class TestAClaimWhosePodsFoundAnotherPlace:
    """A pod that was bound meanwhile needs no node; an instance that may exist already is taken over all the same."""

    def bind(self, lab: Lab) -> None:
        lab.kubernetes.amend(resources.PODS, "p", {"spec": {"nodeName": "elsewhere"}}, "default")

    def test_is_forgotten_before_it_is_launched(self) -> None:
        lab = requested(awaits_pods=True)
        self.bind(lab)
        assert forgotten(execute(lab)) == [
            (ClaimReason.PODS_PLACED_ELSEWHERE, "none of its pods waits for a node any more")
        ]
        assert (lab.claims, lab.cloud.orders, lab.work.sent) == ((), [], [])

    def test_is_launched_if_it_was_tried_before(self) -> None:
        lab = requested(awaits_pods=True, attempts=1)
        self.bind(lab)
        assert forgotten(execute(lab)) == []
        assert lab.claim.machine is not None

    def test_is_launched_if_it_replaces_a_node(self) -> None:
        """Its pods run on the node that it replaces."""
        lab = requested(awaits_pods=False)
        self.bind(lab)
        assert forgotten(execute(lab)) == []
        assert lab.claim.machine is not None


class TestALimitOfItsNodePool:
    """The sum of all claims may be over a limit that was lowered, or of which rows were lost."""

    def limited(self, lab: Lab, **limits: str) -> None:
        lab.kubernetes.put(a_node_pool(limits=limits))

    def test_that_is_exceeded_ends_the_claim_and_has_its_pods_planned_again(self) -> None:
        lab = requested()
        self.limited(lab, nodes="0", cpu="1")
        assert forgotten(execute(lab)) == [
            (ClaimReason.LIMIT_REACHED, "NodePool default is over its limit of cpu without this claim's instance")
        ]
        assert (lab.claims, lab.cloud.orders) == ((), [])
        assert lab.wake_ups.take() == [{"wakeUp": "claim given up"}]

    @pytest.mark.parametrize("limits", [{"nodes": "1"}, {"nodes": "1", "cpu": "4"}, {"nvidia.com/gpu": "0"}])
    def test_that_it_just_reaches_or_does_not_use_is_none_in_its_way(self, limits: dict[str, str]) -> None:
        lab = requested()
        self.limited(lab, **limits)
        assert forgotten(execute(lab)) == []
        assert lab.claim.machine is not None

    @pytest.mark.parametrize(
        ("pods", "limits", "over"),
        [
            (None, {"nodes": 0}, "nodes"),
            (None, {"nodes": 1, "cpu": "1"}, "cpu"),
            ({"namespaces": ["default"]}, {"dollars-per-hour": "0.001"}, HOURLY),
            ({"namespaces": ["default"]}, {"nodes": 1}, ""),
        ],
    )
    def test_so_does_a_cap_that_is_lowered_meanwhile(
        self, pods: dict[str, Any] | None, limits: dict[str, Any], over: str
    ) -> None:
        lab = Lab()
        lab.kubernetes.put(a_capping({"nodes": 9, "cpu": "99", "dollars-per-hour": "9"}, pods), a_pending_pod("p"))
        lab = requested(lab)
        lab.kubernetes.put(a_capping(limits, pods))
        reasons = forgotten(execute(lab))
        message = f"cap costs/all is over its limit of {over} without this claim's instance"
        assert reasons == ([(ClaimReason.LIMIT_REACHED, message)] if over else [])
        assert len(lab.cloud.orders) == int(not over)

    @pytest.mark.parametrize(("factor", "is_launched"), [(1, True), (0.5, True), (6, False)])
    def test_so_does_a_price_that_rises_above_what_is_counted_for_the_claim(
        self, factor: float, is_launched: bool
    ) -> None:
        lab = Lab()
        lab.kubernetes.put(a_capping({"dollars-per-hour": "9"}), a_pending_pod("p"))
        lab = requested(lab, reserved={"nodes": 1, HOURLY: nanodollars(0.2)})
        types = (a_type("m5.large", price=0.1 * factor), *lab.types[1:])
        cast(FakeCatalogues, lab.app.adapters.catalogues).present = Catalogue(default=types)
        reasons = forgotten(execute(lab))
        message = "prices have risen since its plan: an instance may cost $0.24 an hour, and $0.2 are counted for it"
        assert reasons == ([] if is_launched else [(ClaimReason.LIMIT_REACHED, message)])
        assert len(lab.cloud.orders) == int(is_launched)

    @pytest.mark.parametrize(("factor", "is_launched"), [(1.0, True), (1.09, False)])
    def test_prices_that_rise_count_with_the_surcharge_of_dedicated_hardware(
        self, factor: float, is_launched: bool
    ) -> None:
        """The market's price is still below what is counted; the bill is not."""
        lab = Lab(price_terms='{"dedicatedTenancyPercent": 10}')
        pool = a_node_pool()
        dedicated = {"key": labels.TENANCY, "operator": "In", "values": ["dedicated"]}
        pool["spec"]["template"]["spec"]["requirements"] = [dedicated]
        lab.kubernetes.put(pool, a_capping({"dollars-per-hour": "9"}))
        lab = requested(lab, reserved={"nodes": 1, HOURLY: nanodollars(0.044)}, price_changes=())
        types = (a_type("m5.large", price=0.1 * factor), *lab.types[1:])
        cast(FakeCatalogues, lab.app.adapters.catalogues).present = Catalogue(default=types)
        reasons = forgotten(execute(lab))
        why = "an instance may cost $0.04796 an hour, and $0.044 are counted for it"
        message = f"prices have risen since its plan: {why}"
        assert reasons == ([] if is_launched else [(ClaimReason.LIMIT_REACHED, message)])
        assert len(lab.cloud.orders) == int(is_launched)

    def test_does_not_keep_it_from_an_instance_that_may_exist(self) -> None:
        lab = requested(attempts=1)
        self.limited(lab, nodes="0")
        assert forgotten(execute(lab)) == []
        assert lab.claim.machine is not None

    def test_of_another_node_pool_is_none_of_its_concern(self) -> None:
        lab = requested()
        used = lab.rows.usage["default"]
        lab.rows.usage["another"] = msgspec.structs.replace(used, node_pool="another", reserved={"nodes": 100})
        self.limited(lab, nodes="1")
        assert forgotten(execute(lab)) == []


class TestAGroupOfSeveralLaunches:
    """Pods of two sizes that start together: each size has a launch of its own, and messages about one claim or both."""

    @pytest.fixture
    def lab(self) -> Lab:
        marks = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2", labels.GROUP_TOPOLOGY: labels.ZONE}
        lab = Lab()
        for name, cpu in (("small", "1"), ("big", "3500m")):
            lab.kubernetes.put(a_pending_pod(name, cpu=cpu, metadata={"annotations": marks}))
        lab.provision()
        lab.cloud.terminate([claim.instance_id for claim in lab.claims])
        for claim in lab.claims:
            assert claim.machine is not None
            waits = {"machine": None, "phase": ClaimPhase.REQUESTED, "attempts": 0, "awaits_pods": True}
            offerings = (claim.machine.offering,)
            lab.rows.claims[claim.name] = msgspec.structs.replace(
                claim, **waits, token=f"new-{claim.name}", offerings=offerings
            )
        assert [claim.shares for claim in lab.claims] == [1, 1]
        lab.cloud.orders.clear()
        lab.work.take()
        lab.wake_ups.take()
        return lab

    @pytest.mark.parametrize("is_apart", [False, True])
    def test_is_given_up_as_a_whole_at_a_limit_that_leaves_a_part_of_it(self, lab: Lab, is_apart: bool) -> None:
        """The first claim that was given up made room for the next, which was launched alone."""
        lab.kubernetes.put(a_node_pool(limits={"nodes": "1"}))
        names = [claim.name for claim in lab.claims]
        for some in [[name] for name in names] if is_apart else [names]:
            lab.execute(*work_on_claims(some, lab.clock.now()))
        assert (lab.cloud.orders, lab.claims) == ([], ())

    def test_is_given_up_as_a_whole_once_one_of_its_pods_has_a_place(self, lab: Lab) -> None:
        """Whichever launch is looked at first."""
        (other,) = (claim for claim in lab.claims if claim.plan.pods != ("default/big",))
        lab.kubernetes.amend(resources.PODS, "big", {"spec": {"nodeName": "elsewhere"}}, "default")
        lab.execute(work_on_claim(other.name, lab.clock.now()))
        assert (lab.cloud.orders, lab.claims) == ([], ())

    def test_is_launched_if_nothing_is_against_it(self, lab: Lab) -> None:
        lab.execute(*work_on_claims([claim.name for claim in lab.claims], lab.clock.now()))
        assert all(claim.machine is not None for claim in lab.claims)
        assert len(lab.claims) == 2


def test_a_claim_whose_class_is_gone_is_forgotten() -> None:
    lab = requested()
    lab.kubernetes.drop(resources.EC2_NODE_CLASSES, "default")
    ((reason, message),) = forgotten(execute(lab))
    assert (reason, lab.claims, lab.cloud.orders) == (ClaimReason.NODE_CLASS_NOT_FOUND, (), [])
    assert "default" in message


def _bind_its_pod(lab: Lab) -> None:
    lab.kubernetes.amend(resources.PODS, "p", {"spec": {"nodeName": "elsewhere"}}, "default")


def _drop_its_class(lab: Lab) -> None:
    lab.kubernetes.drop(resources.EC2_NODE_CLASSES, "default")


def _remember_its_offerings_as_refused(lab: Lab) -> None:
    for offering in lab.claim.offerings:
        lab.rows.refused[offering.key] = lab.clock.now() + 2 * ASKED_FOR


@pytest.mark.parametrize("change", [_bind_its_pod, _drop_its_class, _remember_its_offerings_as_refused])
def test_a_claim_is_not_forgotten_while_another_run_asks_ec2_for_its_instance(change: Callable[[Lab], None]) -> None:
    """The instance would count towards no limit until it is found by its tags."""
    lab = requested(awaits_pods=True)

    def overtake(call: str) -> None:
        if call == "launch":
            lab.cloud.before_call = lambda _: None
            change(lab)
            assert forgotten(execute(lab)) == []

    lab.cloud.before_call = overtake
    execute(lab)
    assert lab.claim.machine is not None
    assert lab.claim.moments.asked_at is None


@pytest.mark.parametrize("change", [_bind_its_pod, _drop_its_class, _remember_its_offerings_as_refused])
def test_a_claim_is_forgotten_once_no_run_can_be_asking_for_it(change: Callable[[Lab], None]) -> None:
    lab = requested(awaits_pods=True)
    stored = lab.claim
    moments = msgspec.structs.replace(stored.moments, asked_at=lab.clock.now())
    lab.rows.claims[stored.name] = msgspec.structs.replace(stored, moments=moments)
    change(lab)
    assert forgotten(execute(lab)) == []
    lab.clock.advance(seconds=ASKED_FOR.total_seconds())
    assert len(forgotten(execute(lab))) == 1


def test_no_run_asks_for_longer_than_its_time_out() -> None:
    assert max(BY_NAME[name].timeout for name in ("provision", "execute")) <= ASKS_FOR


def test_pods_of_a_refused_launch_are_planned_again_at_once() -> None:
    lab = requested()
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    execute(lab)
    assert lab.claims == ()
    assert lab.wake_ups.take() == [{"wakeUp": "refused launch"}]


class TestAnInstanceOfALostLaunch:
    """EC2 launched, and its answer was lost."""

    @pytest.fixture
    def lab(self) -> Lab:
        lab = Lab()
        lab.kubernetes.put(a_pending_pod("p"))

        def lose(call: str) -> None:
            if call == "launch":
                raise LostReplyError("ec2:CreateFleet", "timed out")

        lab.cloud.after_call = lose
        lab.provision()
        assert lab.claim.machine is None
        lab.work.take()
        return lab

    def test_is_adopted(self, lab: Lab) -> None:
        report = execute(lab)
        (instance,) = lab.cloud.instances()
        (adopted,) = (decision for decision in report.decisions if decision.kind == "adopt")
        assert (adopted.subject, adopted.reason) == (lab.claim.name, ClaimReason.FOUND_BY_TAG)
        assert adopted.message == f"instance {instance.instance_id}"
        assert (lab.claim.instance_id, len(lab.cloud.orders)) == (instance.instance_id, 1)

    def test_is_adopted_although_its_class_is_gone(self, lab: Lab) -> None:
        """The instance runs: it joins, or is ended with its claim, and each message about it would fail until `reconcile`."""
        lab.kubernetes.drop(resources.EC2_NODE_CLASSES, "default")
        report = execute(lab)
        (instance,) = lab.cloud.instances()
        assert lab.claim.instance_id == instance.instance_id
        assert "portErrors" not in report.counts
        lab.boot()
        lab.tick(4)
        assert lab.claim.phase is ClaimPhase.INITIALIZED

    def test_that_is_gone_again_is_asked_about_a_second_later(self, lab: Lab) -> None:
        (instance,) = lab.cloud.instances()
        looks: list[str] = []

        def end_before_the_second_look(call: str) -> None:
            looks.append(call)
            if call == "instances" and looks.count(call) == 2:
                lab.cloud.terminate([instance.instance_id])

        lab.cloud.before_call = end_before_the_second_look
        report = execute(lab)
        assert (lab.claim.phase, report.counts["portErrors"]) == (ClaimPhase.REQUESTED, 1)
        assert [delay for _, delay in lab.work.sent] == [AFTER_CONFLICT]


@pytest.mark.parametrize("pods", [1, 2])
class TestAnInstanceOfAThrottledLaunch:
    """EC2 launched, that answer was lost, and the SDK's next attempt was throttled; several claims share one launch."""

    def throttled(self, pods: int, *, after: bool = True) -> Lab:
        lab = Lab()
        lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="3") for number in range(pods)))

        def throttle(call: str) -> None:
            if call == "launch":
                raise ThrottledError("ec2:CreateFleet", "RequestLimitExceeded")

        if after:
            lab.cloud.after_call = throttle
        else:
            lab.cloud.before_call = throttle
        lab.provision()
        assert [(claim.machine, claim.attempts, claim.shares) for claim in lab.claims] == [(None, 0, pods)] * pods
        assert len(lab.cloud.instances()) == pods * after
        return lab

    def execute(self, lab: Lab) -> RunReport:
        return lab.execute(*work_on_claims([claim.name for claim in lab.claims], lab.clock.now()))

    def bind(self, lab: Lab, pods: int) -> None:
        for number in range(pods):
            lab.kubernetes.amend(resources.PODS, f"p{number}", {"spec": {"nodeName": "elsewhere"}}, "default")

    def assert_adopted(self, lab: Lab, pods: int) -> None:
        adopted = sorted(claim.instance_id for claim in lab.claims)
        assert adopted == sorted(instance.instance_id for instance in lab.cloud.instances())
        assert len(adopted) == pods

    def test_is_adopted_although_its_pods_found_another_place(self, pods: int) -> None:
        """It ran without a claim until the sweep."""
        lab = self.throttled(pods)
        self.bind(lab, pods)
        assert forgotten(self.execute(lab)) == []
        self.assert_adopted(lab, pods)

    def test_is_adopted_before_its_claim_is_given_up(self, pods: int) -> None:
        lab = self.throttled(pods)
        lab.clock.advance(minutes=6)
        assert forgotten(self.execute(lab)) == []
        self.assert_adopted(lab, pods)

    def test_that_does_not_exist_keeps_no_claim(self, pods: int) -> None:
        lab = self.throttled(pods, after=False)
        self.bind(lab, pods)
        assert {reason for reason, _ in forgotten(self.execute(lab))} == {ClaimReason.PODS_PLACED_ELSEWHERE}
        assert lab.claims == ()
