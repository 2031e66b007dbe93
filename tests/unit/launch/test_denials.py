"""What is remembered of denied launches, and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.launch import denials
from core.launch.denials import (
    DENIALS_OF_A_PART,
    END_RULES,
    EVERYTHING,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    OTHER,
    PATIENCE,
    PROBE,
    RULES,
    SAID_MAX,
    TYPES_MAX,
    DenialScope,
    DeniedLaunch,
    LaunchDenial,
    LaunchErrorRule,
    Remembered,
    closed_zones,
    encoded_part,
    refused_subnets,
    revision_of,
    rule_of,
    rule_of_end,
    shortened,
    subnet_by_zone,
    subnet_key,
    subnets_of,
    termination_reason,
    with_refusals,
)
from core.launch.validation import LaunchValidation
from core.model.catalogue import OfferingKey
from core.model.plan import PlannedClaim, Unschedulable
from core.model.values.quotas import InstanceEnd
from core.reasons.code import TerminationReason
from core.reasons.pods import PodReason
from core.scheduling import schedule
from lambdas.controllers.events import about_pod, warning, with_decision_id
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

# The meaning of EC2's error codes for the next launches.


@pytest.mark.parametrize(
    ("code", "remembered"),
    [
        ("InsufficientInstanceCapacity", Remembered.OFFERINGS),
        ("VcpuLimitExceeded", Remembered.QUOTA),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Remembered.CAPACITY_TYPE),
        ("AuthFailure", Remembered.NODE_CLASS),
        ("AccessDeniedException", Remembered.NODE_CLASS),
        ("InvalidAMIID.Malformed", Remembered.REQUEST),
        ("NeverSeenBefore", Remembered.REQUEST),
    ],
)
def test_each_code_has_one_meaning(code: str, remembered: Remembered) -> None:
    assert rule_of(code).remembered is remembered


def test_every_rule_can_match_and_says_what_to_do() -> None:
    """A rule after one that matches its codes would promise on the page what never happens."""
    assert [rule.code for rule in RULES if rule_of(rule.code) is not rule] == []
    assert all(rule.advice.endswith((".", "amazonaws.com")) for rule in (*RULES, OTHER))


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("InvalidAMIID.NotFound", "InvalidAMIID."),
        ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId."),
        ("InvalidCapacityReservationState.Unavailable", "InvalidCapacityReservationState."),
        ("InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId."),
        ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateName."),
        ("InvalidSubnetID.NotFound", "InvalidSubnet"),
        ("InvalidGroup.NotFound", "InvalidGroup"),
        ("InvalidSecurityGroupID.NotFound", "InvalidSecurityGroup"),
        ("InvalidPlacementGroup.Unknown", "InvalidPlacementGroup."),
        ("InvalidSnapshot.NotFound", "InvalidSnapshot."),
        ("InvalidUserData.Malformed", "InvalidUserData."),
        ("InvalidParameterValue", "InvalidParameter"),
        ("AccessDeniedException", "AccessDenied"),
        ("VcpuLimitExceeded.More", OTHER.code),
        ("UnsupportedOperation.More", OTHER.code),
    ],
)
def test_a_code_of_a_family_has_its_advice(code: str, rule: str) -> None:
    """EC2 appends what is wrong; other codes count as a whole."""
    assert rule_of(code).code == rule


def test_rules_for_families_are_those_that_ec2_appends_to() -> None:
    assert all(rule.begins for rule in RULES if rule.code.endswith("."))


SPOT = OfferingKey("m5.large", "a", "spot")
ELSEWHERE = OfferingKey("c5.large", "b", "on-demand")
REVISION = revision_of({"metadata": {"uid": "u", "generation": 1}})
SECOND = timedelta(seconds=1)


def denied(code: str = "InvalidParameterValue", *offerings: OfferingKey) -> DeniedLaunch:
    return DeniedLaunch(
        node_class="default",
        code=code,
        call="ec2:CreateFleet",
        message="no.",
        offerings=offerings or (SPOT,),
        node_pool="web",
        revision=REVISION,
    )


def after(times: int, found: DeniedLaunch, now: datetime = NOW) -> LaunchDenial:
    denial = LaunchDenial(node_class=found.node_class, code=found.code)
    for _ in range(times):
        denial = denial.after(found, now)
    return denial


def test_a_denial_keeps_launches_away_for_a_while() -> None:
    denial = after(1, denied())
    assert denial.is_paused(NOW + FIRST_PAUSE - SECOND, REVISION)
    assert not denial.is_paused(NOW + FIRST_PAUSE, REVISION)
    assert denial.is_engaged


def test_the_pause_doubles_with_each_later_denial_up_to_a_bound() -> None:
    """Otherwise, EC2 is asked as often as in the first minute, forever."""
    denial, now, pauses = after(1, denied()), NOW, []
    for _ in range(7):
        assert denial.until is not None
        pauses.append(denial.until - now)
        now = denial.until
        denial = denial.after(denied(), now)
    assert pauses == [FIRST_PAUSE * 2**n for n in range(4)] + [LONGEST_PAUSE] * 3


def test_concurrent_denials_of_one_cause_count_once() -> None:
    """Otherwise, ten launches in flight pause for hours."""
    assert after(9, denied("UnauthorizedOperation")).until == NOW + FIRST_PAUSE


def test_while_one_launch_tries_again_the_others_wait() -> None:
    later = NOW + FIRST_PAUSE
    probed = after(1, denied()).probed(later)
    assert probed.is_paused(later, REVISION)
    assert not probed.is_paused(later + PROBE, REVISION)


def test_a_denied_probe_pauses_for_longer() -> None:
    """The probe's own mark must not extend the pause."""
    later = NOW + FIRST_PAUSE
    again = after(1, denied()).probed(later).after(denied(), later + SECOND)
    assert again.until == later + SECOND + 2 * FIRST_PAUSE


def test_a_changed_class_may_be_tried_at_once() -> None:
    """Its owner has just corrected it, and waits."""
    changed = revision_of({"metadata": {"uid": "u", "generation": 2}})
    assert not after(1, denied()).is_paused(NOW, changed)
    again = after(1, denied()).after(msgspec.structs.replace(denied(), revision=changed), NOW)
    assert again.pauses == 1
    assert again.until == NOW + FIRST_PAUSE


def test_an_offering_is_denied_until_the_scope_is_widened_by_more_denials() -> None:
    """A wrong zone must not close the others; a wrong image is denied in every zone."""
    denial = after(1, denied())
    assert not denial.scope.covers(ELSEWHERE)
    assert after(DENIALS_OF_A_PART, denied()).scope.covers(ELSEWHERE)
    assert after(1, denied("UnauthorizedOperation")).scope.covers(ELSEWHERE)


def test_missing_capacity_widens_the_scope_slowly() -> None:
    """One sold-out type says nothing about other types."""
    code = "InsufficientInstanceCapacity"
    assert not after(PATIENCE - 1, denied(code)).is_engaged
    engaged = after(PATIENCE, denied(code))
    assert engaged.is_paused(NOW, REVISION)
    assert not engaged.scope.covers(ELSEWHERE)
    assert engaged.names_capacity()


def test_the_code_decides_what_else_is_denied() -> None:
    """A missing service-linked role denies all of spot, a quota all types that share it, both in every zone."""
    of_spot = denied("AuthFailure.ServiceLinkedRoleCreationNotPermitted").scope
    of_quota = denied("VcpuLimitExceeded").scope
    other_type = OfferingKey("p5.48xlarge", "b", "spot")
    assert of_spot.covers(other_type)
    assert not of_spot.covers(ELSEWHERE)
    assert of_quota.covers(OfferingKey("c5.large", "b", "spot"))
    assert not of_quota.covers(other_type)
    assert not of_quota.covers(ELSEWHERE)


def test_it_says_code_action_and_what_to_do() -> None:
    told = after(1, denied("VcpuLimitExceeded")).explanation()
    assert told.startswith("VcpuLimitExceeded from ec2:CreateFleet for EC2NodeClass default: no. ")
    assert "Raise the vCPU quota" in told
    assert "L-34B43A08" in told


def test_denials_half_an_hour_after_the_pause_are_unrelated() -> None:
    """Otherwise, a denial once a day pauses launches for ever longer."""
    first = after(1, denied())
    assert first.until is not None
    half_an_hour_later = first.until + timedelta(minutes=30)
    for moment, pause in ((half_an_hour_later - SECOND, 2 * FIRST_PAUSE), (half_an_hour_later, FIRST_PAUSE)):
        assert first.after(denied(), moment).until == moment + pause


def test_a_class_without_metadata_has_a_revision_too() -> None:
    assert revision_of({"metadata": None}) == revision_of({}) == "/0"


def test_denials_go_on_only_for_the_class_as_it_is_and_while_they_follow_each_other() -> None:
    """A changed class has the whole patience again; it was denied for another reason."""
    code = "InsufficientInstanceCapacity"
    changed = msgspec.structs.replace(denied(code), revision="u/2")
    twice = after(2, denied(code))
    assert (twice.in_a_row, twice.after(denied(code), NOW).in_a_row) == (2, 3)
    assert twice.after(changed, NOW).in_a_row == 1
    late = NOW + timedelta(minutes=30)
    assert twice.after(denied(code), late - SECOND).in_a_row == 3
    assert twice.after(denied(code), late).in_a_row == 1
    assert [after(times, denied(code)).is_engaged for times in (1, 2, 3)] == [False, False, True]


def test_only_a_refused_request_denies_everything_after_several_in_a_row() -> None:
    """However often types have no capacity, others may have some."""
    sold_out = after(9, denied("InsufficientInstanceCapacity"))
    assert sold_out.scope.covers(SPOT)
    assert not sold_out.scope.covers(ELSEWHERE)
    assert [after(times, denied()).scope.covers(ELSEWHERE) for times in (3, 4)] == [False, True]


def test_an_end_of_an_instance_that_started_is_disproved_by_a_node_alone() -> None:
    assert after(1, denied("Client.InvalidKMSKey.InvalidState")).is_of_starts
    assert not after(1, denied("UnauthorizedOperation")).is_of_starts


def test_a_denial_without_quotas_names_none() -> None:
    assert not after(1, denied("UnauthorizedOperation")).explanation().endswith(")")
    everything = LaunchDenial(node_class="default", code="VcpuLimitExceeded", call="ec2:CreateFleet")
    assert "L-34B43A08" not in everything.explanation()


def test_a_denial_says_what_was_denied_last_to_whom_and_when() -> None:
    """Rows of it are read by `fleetwright status`, and written back under their version."""
    first = msgspec.structs.replace(after(1, denied()), version=7)
    other = msgspec.structs.replace(denied(), message="really no.", node_pool="api", call="ec2:RunInstances")
    later = NOW + FIRST_PAUSE
    assert first.after(other, later) == LaunchDenial(
        node_class="default",
        code="InvalidParameterValue",
        call="ec2:RunInstances",
        message="really no.",
        scope=other.scope,
        node_pools=("api", "web"),
        revision=REVISION,
        in_a_row=2,
        pauses=2,
        until=later + 2 * FIRST_PAUSE,
        denied_at=later,
        version=7,
    )
    assert first.refusal() == "ec2:CreateFleet: InvalidParameterValue: no."


def test_a_further_denial_of_another_offering_adds_it_to_the_scope() -> None:
    """What was denied before is still denied; it would be tried again and again in turns."""
    both = after(1, denied()).after(denied("InvalidParameterValue", ELSEWHERE), NOW)
    assert [both.scope.covers(key) for key in (SPOT, ELSEWHERE)] == [True, True]
    code = "InsufficientInstanceCapacity"
    assert after(1, denied(code)).after(denied(code, ELSEWHERE), NOW).scope.covers(SPOT)


def test_a_launch_into_a_part_of_the_capacity_needs_no_patience() -> None:
    """Its offerings are not remembered one by one: a full placement group would be asked without end."""
    confined = msgspec.structs.replace(denied("InsufficientInstanceCapacity"), is_confined=True)
    assert not denied().is_confined
    assert after(1, confined).is_engaged


def test_an_explanation_without_a_message_has_no_empty_sentence() -> None:
    silent = LaunchDenial(node_class="default", code="UnauthorizedOperation", call="ec2:CreateFleet")
    assert silent.explanation().startswith("UnauthorizedOperation from ec2:CreateFleet for EC2NodeClass default: ")
    assert ": . " not in silent.explanation()


def test_a_quota_is_named_for_each_capacity_type_that_is_denied() -> None:
    told = after(1, denied("VcpuLimitExceeded", SPOT, msgspec.structs.replace(SPOT, capacity_type="on-demand")))
    assert "L-34B43A08" in told.explanation()
    assert "L-1216C47A" in told.explanation()
    of_none = LaunchDenial(node_class="d", code="VcpuLimitExceeded", scope=DenialScope(quotas=("standard",)))
    assert not of_none.explanation().endswith(")")


# EC2's messages in explanations: short enough that what to do is never cut off.


WHY = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r may not ec2:RunInstances"
ENCODED = f"{WHY}. Encoded authorization failure message: {'aZ-_9' * 300}"


def test_an_encoded_message_is_kept_apart() -> None:
    """Nobody can read it, and it is longer than an event."""
    assert shortened(ENCODED) == WHY
    assert encoded_part(ENCODED) == ENCODED.removeprefix(f"{WHY}. ")
    assert encoded_part(WHY) == ""


def test_a_short_message_is_said_whole() -> None:
    assert shortened("No subnet has room.") == "No subnet has room"


@given(st.text())
def test_no_message_is_longer_than_its_bound(text: str) -> None:
    assert len(shortened(text)) <= SAID_MAX
    assert len(shortened(text + ENCODED)) <= SAID_MAX


@pytest.mark.parametrize("rule", [*RULES, *END_RULES], ids=lambda rule: rule.code)
def test_an_event_has_code_action_and_advice_whatever_ec2_says(rule: LaunchErrorRule) -> None:
    """The advice was cut off, with the id of the decision."""
    denial = LaunchDenial(node_class="c" * 253, code=rule.code, call="ec2:CreateFleet", message=ENCODED + "x" * 2000)
    text = with_decision_id(f"LaunchDenied: {denial.explanation()}", "20261126T184500Z-0123456789abcdef")
    message = warning(about_pod("default", "p"), "FailedScheduling", text, NOW, identity="i")["message"]
    assert message == text
    assert all(part in message for part in (rule.code, "ec2:CreateFleet", rule.advice))


def test_an_answer_about_an_ec2_node_class_has_the_encoded_message_last() -> None:
    """Its condition has room for all of it, its event for what comes before."""
    answer = LaunchValidation(
        fields={}, asked_at=NOW, call="ec2:CreateFleet", code="UnauthorizedOperation", message=ENCODED
    )
    assert answer.explanation().endswith(encoded_part(ENCODED))
    said = warning(about_pod("default", "p"), "r", answer.explanation(), NOW, identity="i")["message"]
    assert rule_of("UnauthorizedOperation").advice in said


def test_only_a_message_that_is_too_long_is_cut() -> None:
    assert shortened("x" * SAID_MAX) == "x" * SAID_MAX
    assert shortened("x" * (SAID_MAX + 1)) == "x" * (SAID_MAX - 1) + "…"


# What the end of an instance whose node never joined means for the next launches.


@pytest.mark.parametrize(
    ("code", "remembered"),
    [
        ("Client.InternalError", Remembered.NODE_CLASS),
        ("Client.InvalidSnapshot.NotFound", Remembered.NODE_CLASS),
        ("Client.VolumeLimitExceeded", Remembered.NODE_CLASS),
        ("Client.InstanceInitiatedShutdown", Remembered.NODE_CLASS),
        ("Client.NeverSeenBefore", Remembered.NODE_CLASS),
        ("Server.InsufficientInstanceCapacity", Remembered.OFFERINGS),
        ("Server.InternalError", Remembered.OFFERINGS),
        ("Server.SpotInstanceTermination", Remembered.OFFERINGS),
    ],
)
def test_each_reason_has_one_meaning(code: str, remembered: Remembered) -> None:
    rule = rule_of_end(code)
    assert rule is not None
    assert rule.remembered is remembered
    of_capacity = remembered is Remembered.OFFERINGS
    reason = TerminationReason.INSTANCE_WITHDRAWN if of_capacity else TerminationReason.START_FAILED
    assert termination_reason(InstanceEnd(code)) is reason


@pytest.mark.parametrize("code", ["Client.UserInitiatedShutdown", "Client.InstanceTerminated", ""])
def test_what_somebody_ended_says_nothing_about_the_next_launch(code: str) -> None:
    """Otherwise, whoever terminates an instance by hand would stop all launches of its EC2NodeClass."""
    assert rule_of_end(code) is None
    assert termination_reason(InstanceEnd(code)) is None


def test_instance_ends_every_rule_can_match_and_says_what_to_do() -> None:
    assert [rule.code for rule in END_RULES if rule_of_end(rule.code) is not rule] == []
    assert all(rule.advice.endswith(".") for rule in END_RULES)


def test_no_code_of_a_launch_error_is_one_of_an_end() -> None:
    """A denial knows by its code whether a launch disproves it or only a node that joins."""
    assert [rule.code for rule in denials.RULES if rule_of_end(rule.code) is not None] == []


# How denials are reported to pods.


PODS = ("default/a", "default/b")
WAITING = tuple(Unschedulable(pod, PodReason.NO_OFFERING_FITS, "m") for pod in PODS)
DENIAL = LaunchDenial(node_class="default", code="UnauthorizedOperation", call="ec2:CreateFleet", message="no")


def claims_for(*pods: str) -> tuple[PlannedClaim, ...]:
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    return (
        msgspec.structs.replace(
            planned, pods=pods, node_class=msgspec.structs.replace(planned.node_class, name="default")
        ),
    )


def test_only_pods_that_could_have_a_node_get_the_denial() -> None:
    """Otherwise, a pod that fits nowhere waits for a permission that it does not need."""
    first, second = with_refusals(WAITING, claims_for("default/a"), (DENIAL,))
    assert (first.reason, first.message) == (PodReason.LAUNCH_DENIED, DENIAL.explanation())
    assert second == WAITING[1]


def test_without_a_denial_the_capacity_is_reported() -> None:
    elsewhere = msgspec.structs.replace(DENIAL, node_class="other")
    first, _ = with_refusals(WAITING, claims_for("default/a"), (elsewhere,))
    assert first.reason == PodReason.NO_OFFERING_AVAILABLE


@pytest.mark.parametrize(("types", "minutes"), [(1, 3), (8, 3), (9, 5), (500, 49)])
def test_a_pod_without_capacity_is_told_how_long_it_waits_at_most(types: int, minutes: int) -> None:
    """The fewer choices it has, the sooner they are requested again; `provision` plans once a minute."""
    (claim,) = claims_for("default/a")
    names = tuple(f"t-{number}" for number in range(types))
    choosing = msgspec.structs.replace(
        claim, instance_types=names, zones=claim.zones[:1], capacity_types=claim.capacity_types[:1]
    )
    first, _ = with_refusals(WAITING, (choosing,), ())
    assert f"the next request is made within {minutes} minutes" in first.message


def test_a_denial_that_a_person_can_lift_is_reported_first() -> None:
    capacity = msgspec.structs.replace(DENIAL, code="InsufficientInstanceCapacity")
    first, _ = with_refusals(WAITING, claims_for("default/a"), (capacity, DENIAL))
    assert first.message == DENIAL.explanation()


def test_missing_capacity_is_reported_as_such_even_where_it_is_a_denial() -> None:
    """It needs no person: the advice to change a policy or a quota would be wrong."""
    capacity = msgspec.structs.replace(DENIAL, code="InsufficientInstanceCapacity")
    first, _ = with_refusals(WAITING, claims_for("default/a"), (capacity,))
    assert first.reason == PodReason.NO_OFFERING_AVAILABLE


# Which offerings a denial covers.


SPOT_A = OfferingKey("m5.large", "a", "spot")
SPOT_B = OfferingKey("m5.large", "b", "spot")
ON_DEMAND_A = OfferingKey("m5.large", "a", "on-demand")
GPU_A = OfferingKey("p5.48xlarge", "a", "on-demand")


def test_only_the_denied_offerings_are_in_scope() -> None:
    """Otherwise, pods for which other offerings would do wait without need."""
    scope = DenialScope.of([SPOT_A])
    assert scope.covers(SPOT_A)
    assert not any(scope.covers(key) for key in (SPOT_B, ON_DEMAND_A, GPU_A))


def test_a_widened_scope_has_both() -> None:
    scope = DenialScope.of([SPOT_A]).widened(DenialScope.of([SPOT_B]))
    assert scope.covers(SPOT_A)
    assert scope.covers(SPOT_B)
    assert not scope.covers(ON_DEMAND_A)
    assert EVERYTHING.widened(scope) == EVERYTHING


def test_a_denial_of_very_many_types_is_not_about_the_types() -> None:
    """Each request names up to 60 types: one after the other, all types would be denied."""
    many = [OfferingKey(f"m{n}.large", "a", "spot") for n in range(TYPES_MAX + 1)]
    assert DenialScope.of(many).covers(SPOT_A)
    halves = DenialScope.of(many[:TYPES_MAX]).widened(DenialScope.of(many[-1:]))
    assert halves.covers(SPOT_A)
    assert not halves.covers(ON_DEMAND_A)


def test_a_quota_is_shared_by_the_types_of_its_families() -> None:
    scope = DenialScope.of_quotas([SPOT_A])
    assert scope.covers(OfferingKey("c7g.16xlarge", "b", "spot"))
    assert not scope.covers(ON_DEMAND_A)
    assert not DenialScope.of_quotas([ON_DEMAND_A]).covers(GPU_A)


def test_a_capacity_type_is_denied_in_every_zone() -> None:
    scope = DenialScope.of_capacity_types([SPOT_A])
    assert scope.covers(OfferingKey("p5.48xlarge", "c", "spot"))
    assert not scope.covers(ON_DEMAND_A)


def test_the_most_types_that_a_scope_may_name_are_named() -> None:
    """A scope without types closes every type of the zone."""
    most = [OfferingKey(f"c{n}.large", "a", "spot") for n in range(TYPES_MAX)]
    for scope in (DenialScope.of(most), DenialScope.of(most[1:]).widened(DenialScope.of(most[:1]))):
        assert scope.covers(most[0])
        assert not scope.covers(SPOT_A)


def test_a_scope_without_types_stays_so_when_it_is_widened() -> None:
    quota = DenialScope.of_quotas([SPOT_A])
    assert DenialScope.of([SPOT_A]).widened(quota) == quota.widened(DenialScope.of([SPOT_A]))
    assert quota.widened(DenialScope.of([SPOT_A])).instance_types is None


def test_a_wider_scope_names_what_both_name_of_every_kind() -> None:
    one = DenialScope(("spot",), ("a",), ("m5.large",), ("standard",))
    other = DenialScope(("on-demand",), ("b",), ("c5.large", "m5.large"), ("p",))
    assert one.widened(other) == DenialScope(
        ("on-demand", "spot"), ("a", "b"), ("c5.large", "m5.large"), ("p", "standard")
    )
    assert one.widened(DenialScope(capacity_types=("spot",))) == DenialScope(capacity_types=("spot",))


def test_beyond_the_most_types_none_is_named() -> None:
    """Else a row grows with each request, and one denial after the other closes the whole catalogue type by type."""
    many = [OfferingKey(f"m{n}.large", "a", "spot") for n in range(TYPES_MAX + 1)]
    assert DenialScope.of(many).instance_types is None
    assert len(DenialScope.of(many[1:]).instance_types or ()) == TYPES_MAX
    assert DenialScope.of(many[1:]).widened(DenialScope.of(many[:1])).instance_types is None


# Subnets without free addresses.


SUBNETS = (("subnet-a1", "a"), ("subnet-a2", "a"), ("subnet-b1", "b"))
OFFERING = OfferingKey("m5.large", "b", "spot")


def test_a_zone_is_closed_by_its_last_subnet_only() -> None:
    """Otherwise, one full subnet keeps launches from all others of its zone."""
    assert closed_zones(SUBNETS, {subnet_key("subnet-a1")}) == frozenset()
    assert closed_zones(SUBNETS, {subnet_key("subnet-a1"), subnet_key("subnet-a2")}) == {"a"}


def test_a_refused_offering_does_not_close_a_subnet() -> None:
    assert refused_subnets({OFFERING, subnet_key("subnet-b1")}) == {"subnet-b1"}
    assert closed_zones(SUBNETS, {OFFERING}) == frozenset()


@pytest.mark.parametrize(
    ("chosen", "avoided", "found"),
    [
        ({}, (), {"a": "subnet-a1", "b": "subnet-b1"}),
        ({"a": "subnet-a2"}, (), {"a": "subnet-a2", "b": "subnet-b1"}),
        ({"a": "subnet-a2"}, ("subnet-a2",), {"a": "subnet-a1", "b": "subnet-b1"}),
        ({"a": "subnet-a1"}, ("subnet-a1", "subnet-b1"), {"a": "subnet-a2"}),
        ({"a": "subnet-gone", "b": "subnet-a2"}, (), {"a": "subnet-a1", "b": "subnet-b1"}),
    ],
)
def test_the_chosen_subnet_of_a_zone_is_used_while_it_may_be(
    chosen: dict[str, str], avoided: tuple[str, ...], found: dict[str, str]
) -> None:
    """Otherwise the first; a zone without a usable one is left out."""
    assert subnet_by_zone(SUBNETS, chosen, avoided) == found


def test_an_unresolved_class_closes_nothing() -> None:
    assert subnets_of({"metadata": {"name": "default"}}) == ()
    assert closed_zones((), {subnet_key("subnet-a1")}) == frozenset()
    assert subnets_of({"status": {"subnets": [{"id": "s", "zone": "a"}]}}) == (("s", "a"),)


@pytest.mark.parametrize("status", ["x", 5, {"subnets": 5}, {"subnets": "x"}, {"subnets": [None, [1], {}]}])
def test_a_status_that_is_no_status_has_no_subnets(status: object) -> None:
    """One such class stopped every plan."""
    assert subnets_of({"status": status}) == ()


@pytest.mark.parametrize(("choices", "seconds"), [(1, 110), (8, 110), (16, 220), (80, 900)])
def test_a_launch_with_little_else_to_try_is_tried_again_soon(choices: int, seconds: int) -> None:
    """Its capacity may be back at any time; a pause of 15 minutes would keep its pods waiting in vain."""
    keys = tuple(OfferingKey(f"g{n}.xlarge", "us-east-1a", "on-demand") for n in range(choices))
    denied = DeniedLaunch(
        node_class="c",
        code="InsufficientInstanceCapacity",
        call="ec2:CreateFleet",
        message="",
        offerings=keys,
        node_pool="p",
        revision="1",
    )
    found, now = LaunchDenial(node_class="c", code=denied.code), NOW
    for _ in range(12):
        found = found.after(denied, now)
        pause = (found.until or now) - now
        now = max(now, found.until or now) + timedelta(seconds=1)
    assert pause == timedelta(seconds=seconds)
