"""How denials are reported to pods."""

from __future__ import annotations

import msgspec

from core.launch.denials.denial import LaunchDenial
from core.launch.denials.refused_pods import REFUSED, with_refusals
from core.model.plan import PlannedClaim, Unschedulable
from core.reasons.pod import PodReason
from core.scheduling import schedule
from tests.builders import a_pod, a_pool, a_snapshot, a_type

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
    assert (first.reason, first.message) == (PodReason.NO_OFFERING_AVAILABLE, REFUSED)


def test_a_denial_that_a_person_can_lift_is_reported_first() -> None:
    capacity = msgspec.structs.replace(DENIAL, code="InsufficientInstanceCapacity")
    first, _ = with_refusals(WAITING, claims_for("default/a"), (capacity, DENIAL))
    assert first.message == DENIAL.explanation()


def test_missing_capacity_is_reported_as_such_even_where_it_is_a_denial() -> None:
    """It needs no person: the advice to change a policy or a quota would be wrong."""
    capacity = msgspec.structs.replace(DENIAL, code="InsufficientInstanceCapacity")
    first, _ = with_refusals(WAITING, claims_for("default/a"), (capacity,))
    assert (first.reason, first.message) == (PodReason.NO_OFFERING_AVAILABLE, REFUSED)
