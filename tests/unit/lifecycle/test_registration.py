"""Registration and initialization of a node."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.records import ClaimPhase
from core.lifecycle.registration import (
    STARTED,
    TAG_MAX,
    claim_annotations,
    claim_tags,
    rebuilt,
    rebuilt_plan,
    registration_of,
    waits_for,
    was_recreated,
    with_labels_of,
)
from core.lifecycle.steps import ClaimFacts
from core.model.node_pool import NodePool
from core.model.plan import ObjectRef, PlannedClaim
from core.model.values.quantity import PPM
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD, NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, UNREGISTERED, Taint
from core.pools import charges_of, with_charges
from tests.builders import NOW, a_pool
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

# A claim rebuilt from its node: neither drifted nor new, and with the same owner.


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
    node_annotations = {**claim_annotations(RECORD), labels.NODEPOOL_HASH: "2", "note": "of the node", "other": "y"}
    pool = a_pool(annotations={"note": "of today"})
    plan = rebuilt_plan("c", {labels.NODECLASS: "default"}, a_node(annotations=node_annotations), pool)
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
    record = rebuilt(PLAN, RECORD.machine, a_node(labels=found), a_pool(), NOW - timedelta(days=1), NOW)
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
    for node_sizes, sizes, capacity, allocatable in cases:
        record = rebuilt(PLAN, node_sizes, sizes, a_pool(), NOW, NOW)
        assert record.machine is not None
        assert record.machine.allocatable == allocatable
        assert (record.reserved, record.machine.capacity) == ({**capacity, "nodes": 1}, capacity)


def test_a_rebuilt_plan_has_its_class_and_pool_from_the_tags_and_all_else_from_the_node() -> None:
    """A field that is lost here makes the node look drifted, and it is replaced."""
    plan = a_plan(
        labels={labels.NODEPOOL: "general", "team": "a"},
        taints=(Taint("own", "NoSchedule"),),
        requirements=(Requirement.one_of(labels.INSTANCE_TYPE, "m5.large"), Requirement.one_of("tier", "x")),
        startup_taints=PLAN.startup_taints,
        expire_after=PLAN.expire_after,
        termination_grace_period=PLAN.termination_grace_period,
    )
    pool = a_pool("general", taints=(Taint("of-pool", "NoSchedule"),))
    node = a_node(annotations=claim_annotations(a_record(plan=plan)))
    assert rebuilt_plan("c-1", {labels.NODECLASS: "gpu"}, node, pool) == PlannedClaim(
        name="c-1",
        node_pool="general",
        node_class=ObjectRef(labels.AWS_GROUP, "EC2NodeClass", "gpu"),
        labels={labels.NODEPOOL: "general", labels.NODECLASS: "gpu", "team": "a"},
        taints=(Taint("of-pool", "NoSchedule"),),
        startup_taints=plan.startup_taints,
        requirements=(Requirement.one_of("tier", "x"),),
        resources=plan.resources,
        expire_after=plan.expire_after,
        termination_grace_period=plan.termination_grace_period,
    )
    assert rebuilt_plan("c-1", {}, node, pool).node_class.name == pool.node_class.name


def test_without_a_record_on_the_node_the_template_is_used_with_the_nodes_own_labels() -> None:
    """Where the template leaves a label open, the plan chose a value."""
    pool = a_pool(
        "general",
        Requirement.one_of("tier", "x", "y"),
        labels={"team": "a"},
        startup_taints=(Taint("boot", "NoSchedule"),),
        expire_after=timedelta(days=2),
        termination_grace_period=timedelta(hours=3),
    )
    node = a_node(labels={"tier": "y", "other": "z"}, annotations={labels.CLAIM_SPEC: "{broken"})
    plan = rebuilt_plan("c", {labels.NODECLASS: "default"}, node, pool)
    assert plan.labels == {labels.NODEPOOL: "general", labels.NODECLASS: "default", "team": "a", "tier": "y"}
    assert (plan.startup_taints, plan.requirements) == (pool.startup_taints, pool.requirements)
    assert (plan.expire_after, plan.termination_grace_period) == (timedelta(days=2), timedelta(hours=3))


def test_a_claim_that_was_rebuilt_early_takes_the_labels_that_its_plan_left_open() -> None:
    """And only these: what the plan has set, and what nobody asked for, stays as it is."""
    plan = a_plan(
        labels={labels.NODEPOOL: "default", "team": "a"},
        requirements=(Requirement.one_of("tier", "x", "y"), Requirement.one_of("team", "a", "b")),
    )
    node = a_node(labels={"tier": "y", "team": "b", "other": "z"})
    early = a_record(ClaimPhase.LAUNCHED, plan=plan, token="", machine=None)
    assert with_labels_of(early, node).plan.labels == {labels.NODEPOOL: "default", "team": "a", "tier": "y"}
    launched = msgspec.structs.replace(early, token="t")
    assert with_labels_of(launched, node) is launched


@pytest.mark.parametrize("joined", [False, True])
def test_a_rebuilt_claim_begins_when_it_was_launched(*, joined: bool) -> None:
    """Its time to join runs from then on; once it has joined, its phase begins now."""
    assert RECORD.machine is not None
    began = NOW - timedelta(days=1)
    joined_labels = {labels.REGISTERED: "true", labels.INITIALIZED: "true"} if joined else {}
    record = rebuilt(PLAN, RECORD.machine, a_node(labels=joined_labels), a_pool(), began, NOW)
    assert (record.name, record.plan, record.token, record.requested_at) == (PLAN.name, PLAN, "", began)
    assert (record.phase_since, record.initialized_at) == ((NOW, NOW) if joined else (began, None))
    assert record.node_name == ("n" if joined else "")


def test_tags_keep_what_a_claim_is_rebuilt_from() -> None:
    tag_annotations = {labels.NODEPOOL_HASH: "1", labels.DECISION: "d", labels.MADE_BY_HAND: "u", "note": "x"}
    assert claim_tags(a_plan(annotations=tag_annotations)) == {
        key: tag_annotations[key] for key in tag_annotations if key != "note"
    }


def test_as_many_caps_as_a_tag_has_room_for_count_a_rebuilt_claim() -> None:
    caps = {f"costs/{'a' * 60}{n}": PPM for n in range(5)}
    tags = claim_tags(a_plan(annotations=with_charges({}, caps)))
    assert len(tags[labels.CHARGED_TO]) <= TAG_MAX
    assert charges_of(rebuilt_plan("c", tags, None, a_pool()).annotations) == dict(list(caps.items())[:3])
    assert claim_tags(a_plan(annotations={labels.CHARGED_TO: ""})) == {}


MINUTE = timedelta(minutes=1)


def test_registration_sets_the_claims_labels_and_removes_the_boot_taint() -> None:
    """Otherwise, pods that select a team's nodes are bound elsewhere, or no pod is ever bound to the node."""
    step = registration_of(a_record(ClaimPhase.LAUNCHED), a_node(booting=True))
    assert step.labels["team"] == "a"
    assert step.labels[labels.INSTANCE_TYPE] == "m5.large"
    assert step.labels[labels.REGISTERED] == "true"
    assert UNREGISTERED not in step.taints


def test_registration_merges_taints_by_key_and_effect() -> None:
    """Otherwise, a taint that a user's agent has changed on the node is reset."""
    plan = a_plan(
        taints=(Taint("a", NO_SCHEDULE, "new"), Taint("b", NO_EXECUTE)), startup_taints=(Taint("s", NO_SCHEDULE),)
    )
    node = a_node(taints=(UNREGISTERED, Taint("a", NO_SCHEDULE, "old")))
    step = registration_of(a_record(ClaimPhase.LAUNCHED, plan=plan), node)
    assert step.taints == (Taint("a", NO_SCHEDULE, "old"), Taint("b", NO_EXECUTE), Taint("s", NO_SCHEDULE))


def test_a_node_keeps_its_own_taints_on_request() -> None:
    plan = a_plan(taints=(Taint("a", NO_SCHEDULE),))
    node = a_node(booting=True, labels={labels.DO_NOT_SYNC_TAINTS: "true"})
    assert registration_of(a_record(ClaimPhase.LAUNCHED, plan=plan), node).taints == ()


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ({"is_ready": False}, "not ready"),
        ({"taints": (Taint("s", NO_SCHEDULE, "x"),)}, "startup taint"),
        ({"taints": (Taint("node.kubernetes.io/not-ready", NO_EXECUTE),)}, "not-ready"),
        ({"taints": (Taint("readiness.k8s.io/cni", NO_SCHEDULE),)}, "readiness.k8s.io/cni"),
        ({"allocatable": {"cpu": 2000}}, "nvidia.com/gpu"),
    ],
)
def test_a_node_is_initialized_only_when_nothing_is_missing(node: dict[str, object], missing: str) -> None:
    """Otherwise, a node counts as capacity, or as empty, before its GPU driver is there."""
    plan = a_plan(startup_taints=(Taint("s", NO_SCHEDULE),), resources={"cpu": 1000, "nvidia.com/gpu": 1, "x": 0})
    record = a_record(ClaimPhase.REGISTERED, plan=plan)
    found = a_node(**{"allocatable": {"cpu": 2000, "nvidia.com/gpu": 1}, **node})
    assert missing in waits_for(record, found)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(found,)), NOW), steps.Wait)


def test_other_taints_do_not_keep_a_node_from_being_initialized() -> None:
    node = a_node(taints=(Taint("team", PREFER_NO_SCHEDULE),))
    assert waits_for(a_record(ClaimPhase.REGISTERED), node) == STARTED
    facts = ClaimFacts(nodes=(node,))
    assert next_claim_step(a_record(ClaimPhase.REGISTERED), facts, NOW) == steps.MarkInitialized("n")


def test_our_hold_comes_off_last_wherever_it_stands_among_the_taints() -> None:
    """A node whose agent has not finished is not opened to pods because our own taint happens to be the first."""
    startup = Taint("s", NO_SCHEDULE)
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(startup_taints=(startup,)))
    for taints in ((HELD, startup), (startup, HELD)):
        assert "startup taint" in waits_for(record, a_node(taints=taints))
    assert waits_for(record, a_node(taints=(HELD,))) == STARTED


def test_a_node_that_joined_again_under_its_name_is_registered_again() -> None:
    """Its kubelet brought the boot taint back, which keeps all pods away: the machine was paid for nothing, for good."""
    record = a_record(age=10 * MINUTE)
    known = a_node(labels={labels.REGISTERED: "true"}, created_at=NOW - 20 * MINUTE)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(known,)), NOW), steps.NoStep)
    for node in (
        a_node(booting=True, created_at=NOW - 20 * MINUTE),
        a_node(created_at=NOW - MINUTE),
        a_node(booting=True),
    ):
        for phase in (ClaimPhase.REGISTERED, ClaimPhase.INITIALIZED):
            step = next_claim_step(a_record(phase, age=10 * MINUTE), ClaimFacts(nodes=(node,)), NOW)
            assert isinstance(step, steps.Register)
            assert step.taints == ()


def test_a_working_node_that_lost_a_label_gets_no_startup_taints() -> None:
    """They would stay: the agent that removes them has run."""
    plan = a_plan(startup_taints=(Taint("s", NO_SCHEDULE),))
    node = a_node(created_at=NOW - 20 * MINUTE)
    step = next_claim_step(a_record(age=10 * MINUTE, plan=plan), ClaimFacts(nodes=(node,)), NOW)
    assert isinstance(step, steps.NoStep)


@pytest.mark.parametrize(
    ("later", "node", "is_new"),
    [
        (timedelta(microseconds=1), {}, True),
        (timedelta(0), {}, False),
        (-MINUTE, {}, False),
        (-MINUTE, {"taints": (UNREGISTERED,)}, True),
        (MINUTE, {"labels": {labels.REGISTERED: "true"}}, False),
        (MINUTE, {"deleted_at": NOW}, False),
    ],
)
def test_a_node_is_another_one_if_it_is_younger_than_the_registration(
    later: timedelta, node: dict[str, object], *, is_new: bool
) -> None:
    record = a_record(ClaimPhase.INITIALIZED)
    assert was_recreated(record, a_node(created_at=record.phase_since + later, **node)) == is_new
    assert not was_recreated(a_record(ClaimPhase.LAUNCHED), a_node(created_at=NOW + MINUTE, **node))
