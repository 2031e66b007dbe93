"""What is remembered of denied launches, and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core.launch.denials.denial import (
    DENIALS_OF_A_PART,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PATIENCE,
    PROBE,
    DeniedLaunch,
    LaunchDenial,
    revision_of,
)
from core.launch.denials.scope import DenialScope
from core.model.catalogue import OfferingKey
from tests.builders import NOW

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
