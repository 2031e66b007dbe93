"""A claim rebuilt from its node: neither drifted nor new, and with the same owner."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.lifecycle.rebuilding import claim_annotations, claim_tags, rebuilt, rebuilt_plan
from core.lifecycle.records import ClaimPhase
from core.model.node_pool import NodePool
from core.model.values.taints import Taint
from tests.builders import NOW, a_pool
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

PLAN = a_plan(
    annotations={labels.NODEPOOL_HASH: "1", "note": "x"},
    startup_taints=(Taint("boot", "", "NoSchedule"),),
    expire_after=timedelta(days=1),
    termination_grace_period=timedelta(hours=1),
)
RECORD = a_record(plan=PLAN)


def test_a_claims_launch_data_are_read_back_from_its_node() -> None:
    node = a_node(annotations=claim_annotations(RECORD))
    plan = rebuilt_plan("c", {labels.NODECLASS: "default", **claim_tags(PLAN)}, node, a_pool())
    assert (plan.startup_taints, plan.resources, plan.expire_after) == (
        PLAN.startup_taints,
        PLAN.resources,
        PLAN.expire_after,
    )
    assert (plan.termination_grace_period, plan.labels["team"]) == (PLAN.termination_grace_period, "a")
    assert plan.annotations == {labels.NODEPOOL_HASH: "1"}


def test_annotations_of_the_template_and_missing_hashes_are_read_from_the_node() -> None:
    """A hash without a tag is better than none; an annotation that the template lacks is another program's."""
    own = {**claim_annotations(RECORD), labels.NODEPOOL_HASH: "2", "note": "of the node", "other": "y"}
    pool = a_pool(annotations={"note": "of today"})
    plan = rebuilt_plan("c", {labels.NODECLASS: "default"}, a_node(annotations=own), pool)
    assert plan.annotations == {labels.NODEPOOL_HASH: "2", "note": "of the node"}


def test_a_node_cannot_claim_an_identity() -> None:
    """A node may write its own annotations: the hash for drift comes from the instance's tags."""
    forged = a_node(annotations={**claim_annotations(RECORD), labels.NODEPOOL_HASH: "2"})
    plan = rebuilt_plan("c", {labels.NODECLASS: "default", **claim_tags(PLAN)}, forged, a_pool())
    assert plan.annotations[labels.NODEPOOL_HASH] == "1"


TENANT = "node-restriction.kubernetes.io/tenant"


@pytest.mark.parametrize(
    ("of_pool", "of_node", "expected"),
    [({}, {}, None), ({TENANT: "bank"}, {}, "bank"), ({}, {TENANT: "bank"}, "bank"), ({TENANT: "shop"}, {}, None)],
)
def test_a_node_cannot_give_itself_a_label_that_kubelets_may_not_set(
    of_pool: dict[str, str], of_node: dict[str, str], expected: str | None
) -> None:
    """Pods of a tenant trust such a label: our rights would put on the node what its own rights do not allow."""
    forged = a_record(plan=a_plan(labels={**PLAN.labels, TENANT: "bank"}))
    node = a_node(annotations=claim_annotations(forged), labels={**a_node().labels, **of_node})
    plan = rebuilt_plan("c", {labels.NODECLASS: "default"}, node, a_pool(labels=of_pool))
    assert (plan.labels.get(TENANT), plan.labels["team"]) == (expected, "a")


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_node_cannot_drop_the_taints_of_its_node_pool(*, by_hand: bool) -> None:
    """Only the taints of a NodeClaim that was made by hand are kept nowhere else; its instance's tag says that it was."""
    forged = a_record(plan=a_plan(annotations={labels.MADE_BY_HAND: "uid"}, taints=()))
    tags = {labels.NODECLASS: "default", **({labels.MADE_BY_HAND: "uid"} if by_hand else {})}
    dedicated = (Taint("dedicated", "bank", "NoSchedule"),)
    plan = rebuilt_plan("c", tags, a_node(annotations=claim_annotations(forged)), a_pool(taints=dedicated))
    assert plan.taints == (() if by_hand else dedicated)


def test_a_claim_of_no_node_pool_that_was_made_by_hand_is_rebuilt_without_one() -> None:
    """A label without a value would say that it belongs to a NodePool without a name."""
    plan = rebuilt_plan("c", {labels.NODECLASS: "default", labels.MADE_BY_HAND: "uid"}, None, NodePool(name=""))
    assert (plan.node_pool, plan.labels, plan.taints) == ("", {labels.NODECLASS: "default"}, ())
    dedicated = (Taint("dedicated", "bank", "NoSchedule"),)
    unsaid = rebuilt_plan(
        "c", {labels.MADE_BY_HAND: "uid"}, None, a_pool(taints=dedicated, labels={"team": "", "b": "c"})
    )
    assert (unsaid.taints, unsaid.labels["team"], unsaid.labels["b"]) == (dedicated, "", "c")


def test_without_a_node_the_current_template_is_used() -> None:
    pool = a_pool(expire_after=timedelta(days=2))
    assert rebuilt_plan("c", {}, None, pool).expire_after == timedelta(days=2)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        ({}, ClaimPhase.LAUNCHED),
        ({labels.REGISTERED: "true"}, ClaimPhase.REGISTERED),
        ({labels.REGISTERED: "true", labels.INITIALIZED: "true"}, ClaimPhase.INITIALIZED),
    ],
)
def test_the_claims_phase_is_that_of_its_node(found: dict[str, str], phase: ClaimPhase) -> None:
    assert RECORD.machine is not None
    record = rebuilt(PLAN, RECORD.machine, a_node(labels=found), NOW - timedelta(days=1), NOW)
    assert (record.phase, bool(record.node_name)) == (phase, phase is not ClaimPhase.LAUNCHED)
    assert record.reserved["nodes"] == 1


def test_its_size_is_ec2s_else_the_nodes_else_unknown() -> None:
    """It is charged to its NodePool's limits; one of which nothing is known counts as a node all the same."""
    machine = RECORD.machine
    assert machine is not None
    sized = msgspec.structs.replace(machine, capacity={"cpu": 2000})
    node = a_node(capacity={"cpu": 3000}, allocatable={"cpu": 2900})
    cases = [
        (sized, node, {"cpu": 2000}, {}),
        (machine, node, {"cpu": 3000}, {"cpu": 2900}),
        (machine, None, {}, {}),
    ]
    for given, found, capacity, allocatable in cases:
        record = rebuilt(PLAN, given, found, NOW, NOW)
        assert record.machine is not None
        assert record.machine.allocatable == allocatable
        assert (record.reserved, record.machine.capacity) == ({**capacity, "nodes": 1}, capacity)
