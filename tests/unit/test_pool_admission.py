"""Short quotas of a NodePool."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.values.quotas import BY_NAME, STANDARD, USED_FRESH_FOR, QuotaReading
from core.model.values.requirements import Requirement, Requirements
from core.pool_admission import admitted_types, as_acting, observed_pools, short_quotas
from core.scheduling import schedule
from tests.builders import NOW, a_pod, a_pool, a_snapshot
from tests.builders import a_type as observed_pools_a_type

# Which types requirements admit.


GPUS = f"{labels.AWS_GROUP}/instance-gpu-count"


def a_type(name: str, **own: tuple[str, ...]) -> InstanceType:
    carried = {GPUS: own["gpus"]} if "gpus" in own else {}
    return InstanceType(
        name=name, labels=carried, capacity={"cpu": 1000}, offerings=(Offering(name, "a", labels.SPOT, 1),)
    )


TYPES = (a_type("plain"), a_type("one", gpus=("1",)), a_type("four", gpus=("4",)))


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement.of(GPUS, "Gt", ["0"]), ["one", "four"]),
        (Requirement.of(GPUS, "Exists"), ["one", "four"]),
        (Requirement.of(GPUS, "DoesNotExist"), ["plain"]),
        (Requirement.of(GPUS, "NotIn", ["4"]), ["plain", "one"]),
        (Requirement.of("example.com/team", "In", ["red"]), ["plain", "one", "four"]),
        (Requirement.of(labels.ZONE, "In", ["b"]), []),
    ],
)
def test_a_type_without_a_label_that_others_have_does_not_meet_a_demand_for_it(
    requirement: Requirement, expected: list[str]
) -> None:
    """Otherwise, whoever asks for a GPU gets the cheapest machine without one."""
    found = admitted_types(TYPES, Requirements([requirement]), frozenset({GPUS}))
    assert [one.name for one in found] == expected


# Which NodePools are only observed, and what would be decided were they not.


OTHER = {"team": "a"}


def observed(name: str) -> NodePool:
    return msgspec.structs.replace(a_pool(name), own_annotations={labels.MODE: labels.OBSERVE, **OTHER})


def test_only_the_annotation_makes_a_pool_observed() -> None:
    acting = msgspec.structs.replace(a_pool("b"), own_annotations={labels.MODE: "act"})
    assert observed_pools(a_snapshot(node_pools=(observed("a"), acting, a_pool("c")))) == {"a"}


def test_a_pod_waits_for_an_observed_pool_and_would_get_its_node() -> None:
    snapshot = a_snapshot(
        types=(observed_pools_a_type("m5.large", price=0.1),), node_pools=(observed("a"),), pods=(a_pod("p"),)
    )
    (waiting,) = schedule(snapshot).unschedulable
    assert f"annotation {labels.MODE}" in waiting.message
    acting = as_acting(snapshot)
    assert [claim.node_pool for claim in schedule(acting).claims] == ["a"]
    assert acting.node_pools[0].own_annotations == OTHER


def test_a_snapshot_without_observed_pools_stays_the_same() -> None:
    snapshot = a_snapshot(node_pools=(a_pool("a"),))
    assert as_acting(snapshot) is snapshot


P = BY_NAME["P"]
READING = QuotaReading(
    limits={STANDARD.on_demand: 100, STANDARD.spot: 100, P.on_demand: 96, P.spot: 0},
    used={"": {STANDARD.on_demand: 60, P.on_demand: 96}, "prod": {STANDARD.on_demand: 30, STANDARD.spot: 89}},
    limits_read_at=NOW,
    used_read_at=NOW,
)
STANDARD_SHORT = "quota L-1216C47A, Standard on-demand: 90 of 100 vCPUs run in the account"
P_SHORT = "quota L-417A185B, P on-demand: 96 of 96 vCPUs run in the account"
CATEGORY = f"{labels.AWS_GROUP}/instance-category"
FAMILY = f"{labels.AWS_GROUP}/instance-family"


@pytest.mark.parametrize(
    ("requirements", "told"),
    [
        ((), (STANDARD_SHORT, P_SHORT)),
        ((Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),), ()),
        ((Requirement.one_of(CATEGORY, "c", "m", "r"),), (STANDARD_SHORT,)),
        ((Requirement.one_of(FAMILY, "p5", "p4d"),), (P_SHORT,)),
        ((Requirement.one_of(labels.INSTANCE_TYPE, "m5.large"),), (STANDARD_SHORT,)),
        ((Requirement.one_of(CATEGORY, "g"),), ()),
    ],
)
def test_a_quota_that_a_pool_may_count_in_is_told_from_nine_tenths_on(
    requirements: tuple[Requirement, ...], told: tuple[str, ...]
) -> None:
    """A quota of another family or capacity type is no business of its users; one of zero was never wanted."""
    assert short_quotas(a_pool("default", *requirements), READING, NOW) == told


def test_an_old_reading_tells_nothing() -> None:
    """What others run may have ended."""
    assert short_quotas(a_pool(), READING, NOW + USED_FRESH_FOR + timedelta(seconds=1)) == ()
