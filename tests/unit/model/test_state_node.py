"""Nodes and claims combined into one view."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.plan import INITIALIZED, INSTANCE_TERMINATING, Condition
from core.model.state_node import KnownStateNodes, StateNode, state_nodes
from core.model.values.taints import NO_EXECUTE, NO_SCHEDULE, UNREGISTERED, Taint
from core.pods import reschedulable
from core.reasons.code import ClaimReason
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type()
CLAIM, NODE = a_node_of(TYPE)
BOOTING = msgspec.structs.replace(NODE, labels={k: v for k, v in NODE.labels.items() if k != labels.INITIALIZED})


def test_a_node_belongs_to_the_claim_of_its_instance_or_with_its_name() -> None:
    """Otherwise, a node of ours counts as unmanaged and is never touched."""
    by_instance = msgspec.structs.replace(CLAIM, node_name="")
    by_name = msgspec.structs.replace(CLAIM, provider_id="")
    for claim in (by_instance, by_name):
        (state,) = state_nodes(a_snapshot(nodes=(NODE,), node_claims=(claim,)))
        assert (state.name, state.claim_name, state.is_managed, state.is_initialized) == (
            NODE.name,
            CLAIM.name,
            True,
            True,
        )


def test_a_claim_counts_from_its_launch_on() -> None:
    """Otherwise, pods are planned onto an instance that does not exist, or a launched one is launched again."""
    launched = msgspec.structs.replace(CLAIM, node_name="")
    waiting = msgspec.structs.replace(launched, provider_id="")
    (state,) = state_nodes(a_snapshot(node_claims=(launched,)))
    assert (state.name, state.is_registered, state.hostname) == (CLAIM.name, False, CLAIM.name)
    assert state.allocatable == CLAIM.allocatable
    assert state_nodes(a_snapshot(node_claims=(waiting,))) == ()


def test_before_initialization_boot_taints_and_missing_resources_are_ignored() -> None:
    """Otherwise, a second node is launched while the first one boots."""
    startup = Taint("init", NO_SCHEDULE)
    real = Taint("gpu", NO_SCHEDULE)
    claim = msgspec.structs.replace(CLAIM, startup_taints=(startup,))
    not_ready = Taint("node.kubernetes.io/not-ready", NO_EXECUTE)
    booting = msgspec.structs.replace(BOOTING, taints=(startup, not_ready, UNREGISTERED, real), allocatable={"cpu": 0})
    (state,) = state_nodes(a_snapshot(nodes=(booting,), node_claims=(claim,)))
    assert state.taints == (real,)
    assert state.allocatable["cpu"] == CLAIM.allocatable["cpu"]
    ready = msgspec.structs.replace(booting, labels=NODE.labels)
    (state,) = state_nodes(a_snapshot(nodes=(ready,), node_claims=(claim,)))
    assert len(state.taints) == 4
    assert state.allocatable == {"cpu": 0}


def test_a_startup_taint_is_matched_by_key_and_effect() -> None:
    """Its agent may have changed the value; pods would wait for a node that is about to be ready."""
    claim = msgspec.structs.replace(CLAIM, startup_taints=(Taint("init", NO_SCHEDULE, "a"),))
    cloud = Taint("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE, "false")
    booting = msgspec.structs.replace(
        BOOTING, taints=(Taint("init", NO_SCHEDULE, "b"), cloud, Taint("init", NO_EXECUTE))
    )
    (state,) = state_nodes(a_snapshot(nodes=(booting,), node_claims=(claim,)))
    assert state.taints == (Taint("init", NO_EXECUTE),)


def test_a_leaving_node_is_known_by_claim_command_or_node() -> None:
    """Otherwise, pods are planned onto a node that is being removed."""
    ending = msgspec.structs.replace(CLAIM, conditions={INSTANCE_TERMINATING: Condition("True")})
    gone = msgspec.structs.replace(CLAIM, deleted_at=NOW)
    foreign = msgspec.structs.replace(NODE, deleted_at=NOW)
    for world in (
        a_snapshot(nodes=(NODE,), node_claims=(ending,)),
        a_snapshot(nodes=(NODE,), node_claims=(gone,)),
        a_snapshot(nodes=(NODE,), node_claims=(CLAIM,), marked_for_deletion=(CLAIM.name,)),
        a_snapshot(nodes=(foreign,)),
        a_snapshot(nodes=(foreign,), node_claims=(CLAIM,)),
    ):
        assert state_nodes(world)[0].is_marked_for_deletion(world)
    calm = a_snapshot(nodes=(NODE,), node_claims=(CLAIM,))
    assert not state_nodes(calm)[0].is_marked_for_deletion(calm)


def test_its_pods_are_those_that_have_not_finished() -> None:
    """Otherwise, finished pods use room, or daemon pods are moved."""
    daemon = a_pod("daemon", node_name=NODE.name)
    done = a_pod("done", node_name=NODE.name, phase="Succeeded")
    (state,) = state_nodes(a_snapshot(nodes=(NODE,), pods=(done, daemon, a_pod("elsewhere"))))
    assert [pod.name for pod in state.pods] == ["daemon"]
    assert [pod.name for pod in reschedulable(state.pods)] == ["daemon"]


def test_known_state_nodes_are_those_of_each_snapshot_and_the_same_objects_while_unchanged() -> None:
    """A simulation asks for those of thousands of snapshots: a changed node, claim or pod must not be missed."""
    launched = msgspec.structs.replace(CLAIM, name="launched", provider_id="aws:///z/i-2", node_name="later")
    pods = a_pod("b", node_name=NODE.name), a_pod("a", node_name=NODE.name), a_pod("early", node_name="later")
    first = a_snapshot(nodes=(NODE,), node_claims=(CLAIM, launched), pods=pods)
    moved = msgspec.structs.replace(pods[0], node_name="")
    ended = msgspec.structs.replace(pods[1], phase="Succeeded")
    snapshots = [
        first,
        msgspec.structs.replace(first, pods=(moved, *pods[1:])),
        msgspec.structs.replace(first, pods=(pods[0], ended, pods[2])),
        msgspec.structs.replace(first, nodes=(BOOTING,)),
        msgspec.structs.replace(first, node_claims=(msgspec.structs.replace(CLAIM, image_id="ami-2"),)),
        first,
        msgspec.structs.replace(first, now=first.now),
    ]
    known, of_snapshots = KnownStateNodes(), []
    for snapshot in snapshots:
        of_snapshots.append(known.of(snapshot))
        assert of_snapshots[-1] == state_nodes(snapshot)
    assert all(state is other for state, other in zip(of_snapshots[-1], of_snapshots[-2], strict=True))
    unchanged = [state is other for state, other in zip(of_snapshots[0], of_snapshots[1], strict=True)]
    assert {state.name: kept for state, kept in zip(of_snapshots[0], unchanged, strict=True)} == {
        NODE.name: False,
        "launched": True,
    }


OWN_TAINT, CLAIM_TAINT, STARTUP = Taint("own", NO_SCHEDULE), Taint("claim", NO_SCHEDULE), Taint("startup", NO_SCHEDULE)
LATE = Condition("False", ClaimReason.INITIALIZATION_TIMEOUT)


@pytest.mark.parametrize("has_claim", [False, True])
@pytest.mark.parametrize("is_registered", [False, True])
@pytest.mark.parametrize("is_initialized", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_view_is_of_the_node_once_it_has_registered(
    *, has_claim: bool, is_registered: bool, is_initialized: bool, is_late: bool
) -> None:
    """Restated for each combination: until then a node of ours is what its claim says."""
    marks = {labels.REGISTERED: is_registered, labels.INITIALIZED: is_initialized}
    node = msgspec.structs.replace(
        NODE,
        labels={"of": "node", labels.HOSTNAME: "host", **{key: "true" for key, value in marks.items() if value}},
        annotations={"of": "node"},
        taints=(OWN_TAINT, STARTUP),
        capacity={"cpu": 0, "memory": 5},
        allocatable={"cpu": 0, "memory": 4},
    )
    claim = msgspec.structs.replace(
        CLAIM,
        labels={"of": "claim", labels.NODEPOOL: "p"},
        annotations={"of": "claim"},
        taints=(CLAIM_TAINT, STARTUP),
        startup_taints=(STARTUP,),
        conditions={INITIALIZED: LATE} if is_late else {},
        capacity={"cpu": 8, "memory": 8},
        allocatable={"cpu": 7, "memory": 7},
    )
    state = StateNode(node=node, claim=claim if has_claim else None, pods=())
    joined = is_registered or not has_claim
    starting = has_claim and not is_initialized and not is_late
    assert (state.is_managed, state.is_registered, state.is_starting) == (has_claim, joined, starting)
    assert state.is_initialized is (is_initialized or not has_claim)
    assert (state.labels["of"], state.annotations["of"]) == (("node", "node") if joined else ("claim", "claim"))
    assert (state.hostname, state.node_pool) == (("host", "") if joined else (NODE.name, "p"))
    taints = (OWN_TAINT if joined else CLAIM_TAINT, STARTUP)
    assert state.taints == (taints[:1] if starting else taints)
    assert state.capacity == ({"cpu": 8, "memory": 5} if starting else {"cpu": 0, "memory": 5})
    assert state.allocatable == ({"cpu": 7, "memory": 4} if starting else {"cpu": 0, "memory": 4})
    assert state.provider_id == NODE.provider_id
    assert not state.has_vanished


def test_a_claim_alone_is_a_node_that_starts() -> None:
    state = StateNode(node=None, claim=CLAIM, pods=())
    assert (state.provider_id, state.labels, state.annotations) == (CLAIM.provider_id, CLAIM.labels, CLAIM.annotations)
    assert (state.taints, state.capacity, state.allocatable) == (CLAIM.taints, CLAIM.capacity, CLAIM.allocatable)
    assert CLAIM.capacity
    launching = msgspec.structs.replace(CLAIM, conditions={})
    waiting = StateNode(node=None, claim=launching, pods=())
    assert (waiting.is_starting, waiting.capacity, waiting.has_vanished) == (True, CLAIM.capacity, False)
    assert state.has_vanished


@pytest.mark.parametrize(("own", "of_claim", "shown"), [("n", "c", "n"), ("", "c", "c"), ("n", "", "n"), ("", "", "")])
def test_an_instance_is_known_from_the_node_or_the_claim(own: str, of_claim: str, shown: str) -> None:
    node, claim = msgspec.structs.replace(NODE, provider_id=own), msgspec.structs.replace(CLAIM, provider_id=of_claim)
    assert StateNode(node=node, claim=claim, pods=()).provider_id == shown
    assert StateNode(node=node, claim=None, pods=()).provider_id == own
    assert StateNode(node=None, claim=claim, pods=()).provider_id == of_claim


@pytest.mark.parametrize("node_deleted", [False, True])
@pytest.mark.parametrize("claim_deleted", [False, True])
@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize("marked", [False, True])
def test_a_node_leaves_for_any_of_four_reasons(
    *, node_deleted: bool, claim_deleted: bool, terminating: bool, marked: bool
) -> None:
    node = msgspec.structs.replace(NODE, deleted_at=NOW if node_deleted else None)
    conditions = {INSTANCE_TERMINATING: Condition("True")} if terminating else {}
    claim = msgspec.structs.replace(CLAIM, deleted_at=NOW if claim_deleted else None, conditions=conditions)
    snapshot = a_snapshot(marked_for_deletion=frozenset({CLAIM.name} if marked else ()))
    of_claim = claim_deleted or terminating or marked
    assert StateNode(node=node, claim=claim, pods=()).is_marked_for_deletion(snapshot) is (node_deleted or of_claim)
    assert StateNode(node=node, claim=None, pods=()).is_marked_for_deletion(snapshot) is node_deleted
    assert StateNode(node=None, claim=claim, pods=()).is_marked_for_deletion(snapshot) is of_claim


def test_pods_stay_with_a_claim_whose_node_is_gone() -> None:
    """They are bound to its name, and count until they are deleted."""
    pod, done = a_pod("bound", node_name=NODE.name), a_pod("done", node_name=NODE.name, phase="Succeeded")
    (state,) = state_nodes(a_snapshot(node_claims=(CLAIM,), pods=(pod, done)))
    assert [pod.name for pod in state.pods] == ["bound"]
    nameless = msgspec.structs.replace(CLAIM, node_name="")
    (state,) = state_nodes(a_snapshot(node_claims=(nameless,), pods=(pod, a_pod("waits"))))
    assert state.pods == ()


def test_labels_of_a_view_come_from_whatever_there_is() -> None:
    """A claim whose node is gone keeps its own; a node of others has its own."""
    alone = StateNode(node=None, claim=CLAIM, pods=())
    foreign = StateNode(node=BOOTING, claim=None, pods=())
    assert (alone.labels, alone.is_registered, alone.name) == (CLAIM.labels, False, CLAIM.name)
    assert (foreign.labels, foreign.annotations, foreign.taints) == (
        BOOTING.labels,
        BOOTING.annotations,
        BOOTING.taints,
    )
