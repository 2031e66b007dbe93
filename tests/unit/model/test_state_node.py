"""How nodes and claims become one view."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.node_claim import INSTANCE_TERMINATING, Condition
from core.model.state_node import state_nodes
from core.model.values.taints import NO_EXECUTE, NO_SCHEDULE, UNREGISTERED, Taint
from core.pods.disposition import reschedulable
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type()
CLAIM, NODE = a_node_of(TYPE)
BOOTING = msgspec.structs.replace(NODE, labels={k: v for k, v in NODE.labels.items() if k != labels.INITIALIZED})


def test_a_node_belongs_to_the_claim_of_its_instance_or_that_names_it() -> None:
    """A node of ours would be taken for somebody else's and never be touched."""
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
    """Room would be planned on an instance that does not exist, or a launched one would be launched again."""
    launched = msgspec.structs.replace(CLAIM, node_name="")
    waiting = msgspec.structs.replace(launched, provider_id="")
    (state,) = state_nodes(a_snapshot(node_claims=(launched,)))
    assert (state.name, state.is_registered, state.hostname) == (CLAIM.name, False, CLAIM.name)
    assert state.allocatable == CLAIM.allocatable
    assert state_nodes(a_snapshot(node_claims=(waiting,))) == ()


def test_until_it_is_initialized_boot_taints_and_gaps_in_its_resources_are_looked_past() -> None:
    """A second node would be launched while the first one boots."""
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


def test_a_startup_taint_is_known_by_key_and_effect() -> None:
    """Whoever removes it may have given it another value; pods would wait for a node that is about to take them."""
    claim = msgspec.structs.replace(CLAIM, startup_taints=(Taint("init", NO_SCHEDULE, "a"),))
    cloud = Taint("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE, "false")
    booting = msgspec.structs.replace(
        BOOTING, taints=(Taint("init", NO_SCHEDULE, "b"), cloud, Taint("init", NO_EXECUTE))
    )
    (state,) = state_nodes(a_snapshot(nodes=(booting,), node_claims=(claim,)))
    assert state.taints == (Taint("init", NO_EXECUTE),)


def test_what_is_going_is_known_by_claim_command_or_node() -> None:
    """Pods would be planned onto a node that is being removed."""
    ending = msgspec.structs.replace(CLAIM, conditions={INSTANCE_TERMINATING: Condition("True")})
    gone = msgspec.structs.replace(CLAIM, deleted_at=NOW)
    foreign = msgspec.structs.replace(NODE, deleted_at=NOW)
    for world in (
        a_snapshot(nodes=(NODE,), node_claims=(ending,)),
        a_snapshot(nodes=(NODE,), node_claims=(gone,)),
        a_snapshot(nodes=(NODE,), node_claims=(CLAIM,), marked_for_deletion=(CLAIM.name,)),
        a_snapshot(nodes=(foreign,)),
    ):
        assert state_nodes(world)[0].is_marked_for_deletion(world)
    calm = a_snapshot(nodes=(NODE,), node_claims=(CLAIM,))
    assert not state_nodes(calm)[0].is_marked_for_deletion(calm)


def test_its_pods_are_those_that_have_not_finished() -> None:
    """Finished pods would hold room, or daemons would be moved."""
    daemon = a_pod("daemon", node_name=NODE.name)
    done = a_pod("done", node_name=NODE.name, phase="Succeeded")
    (state,) = state_nodes(a_snapshot(nodes=(NODE,), pods=(done, daemon, a_pod("elsewhere"))))
    assert [pod.name for pod in state.pods] == ["daemon"]
    assert [pod.name for pod in reschedulable(state.pods)] == ["daemon"]
