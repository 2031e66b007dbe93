"""Sets of objects that make a decision raise are found and set aside; all others are decided about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from core.containment import (
    CULPRITS_MAX,
    PodSlices,
    SetAside,
    contained,
    effort_of,
    fair_slice,
    without_time_for,
)
from core.errors import OutOfTimeError
from core.model.pod import PodAffinityTerm, WeightedPodAffinityTerm
from core.model.snapshot import Node, Snapshot
from core.reasons.pods import PodReason
from core.scheduling import Planner
from tests.builders import NOW, a_pod, a_snapshot, a_type

MESSAGE = "it caused ZeroDivisionError, so it is ignored"


def _raising_for(*names: str) -> Callable[[Snapshot], Snapshot]:
    """Return a decision that raises while an object of any of these names is in its original form."""

    def decide(snapshot: Snapshot) -> Snapshot:
        readable = [
            *(pod for pod in snapshot.pods if not pod.unreadable),
            *snapshot.daemon_sets,
            *snapshot.volume_claims,
        ]
        readable += [node for node in snapshot.nodes if not node.unreadable]
        readable += [pool for pool in snapshot.node_pools if not pool.problem]
        if any(found.name in names for found in readable):
            raise ZeroDivisionError
        return snapshot

    return decide


def _pods(count: int) -> Snapshot:
    # Each has labels of its own, so that no two are equal.
    pods = (a_pod(f"p{n}", labels={"n": str(n)}, created_at=NOW - timedelta(minutes=n)) for n in range(count))
    return Snapshot(now=NOW, pods=tuple(pods))


@pytest.mark.parametrize("culprits", [["p3"], ["p0"], ["p99"], ["p3", "p50", "p51"]])
def test_a_pod_that_makes_a_decision_raise_is_set_aside_alone(culprits: list[str]) -> None:
    """The others are planned as if it were not there, whatever its age."""
    snapshot = _pods(100)
    found = contained(snapshot, _raising_for(*culprits))
    wanted = [SetAside(f"Pod/default/{name}", "InternalError", MESSAGE) for name in sorted(culprits)]
    assert list(found.set_aside) == wanted
    changed = [pod.name for pod in found.snapshot.pods if pod.unreadable]
    assert sorted(changed) == sorted(culprits)
    problems = {pod.spec.problem_reason for pod in found.snapshot.pods if pod.unreadable}
    assert problems == {PodReason.SET_ASIDE}


def test_equal_pods_are_set_aside_together() -> None:
    """What one of them causes all do, and to find them one by one would take a plan for each."""
    spec = a_pod("a").spec
    pods = tuple(msgspec.structs.replace(a_pod(f"w{n}"), spec=spec) for n in range(20))
    found = contained(Snapshot(now=NOW, pods=pods), _raising_for(*(f"w{n}" for n in range(20))))
    assert len(found.set_aside) == 20


def test_a_bound_pod_keeps_its_place_and_its_requests() -> None:
    """Otherwise its room would be given away, and its node would look empty."""
    pod = a_pod("p", node_name="n")
    found = contained(Snapshot(now=NOW, pods=(pod,), nodes=(Node(name="n"),)), _raising_for("p"))
    (kept,) = found.snapshot.pods
    assert (kept.node_name, kept.spec.requests) == ("n", pod.spec.requests)
    assert kept.unreadable  # so its node is not disrupted


def test_a_node_that_makes_a_decision_raise_stays_and_takes_no_pods() -> None:
    """It may run something."""
    found = contained(Snapshot(now=NOW, nodes=(Node(name="n"), Node(name="other"))), _raising_for("n"))
    kept = {node.name: node for node in found.snapshot.nodes}
    assert kept["n"].unreadable
    assert any(taint.key == "node.kubernetes.io/unschedulable" for taint in kept["n"].taints)
    assert not kept["other"].unreadable


def test_more_culprits_than_are_searched_for_leave_a_decision() -> None:
    """Then nothing but the protective forms remains; the next run decides about what is left."""
    names = [f"p{n}" for n in range(CULPRITS_MAX + 2)]
    found = contained(_pods(CULPRITS_MAX + 2), _raising_for(*names))
    assert {aside.pod for aside in found.set_aside} == {f"default/{name}" for name in names}


def test_without_time_everything_newer_than_the_known_good_is_left_out() -> None:
    """A decision about the oldest is better than none."""
    found = contained(_pods(8), _raising_for("p3"), is_out_of_time=lambda: True)
    assert "Pod/default/p3" in {aside.object for aside in found.set_aside}


def test_an_error_that_no_object_causes_is_raised() -> None:
    """It is a defect of the decision itself, which a person must see."""

    def decide(_: Snapshot) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        contained(_pods(3), decide)


@pytest.mark.parametrize("error", [OutOfTimeError, MemoryError])
def test_lack_of_time_and_memory_are_no_fault_of_an_object(error: type[Exception]) -> None:
    """The caller decides about less."""

    def decide(_: Snapshot) -> None:
        raise error

    with pytest.raises(error):
        contained(_pods(3), decide)


def test_a_slice_has_the_oldest_of_each_namespace_in_turn() -> None:
    """A namespace with very many pods does not delay the others."""
    many = [a_pod(f"m{n}", namespace="many", created_at=NOW - timedelta(hours=1, seconds=n)) for n in range(50)]
    few = [a_pod(f"f{n}", namespace="few", created_at=NOW - timedelta(minutes=n)) for n in range(2)]
    chosen = fair_slice([*many, *few], 6)
    assert {key for key in chosen if key.startswith("few/")} == {"few/f0", "few/f1"}
    assert {key for key in chosen if key.startswith("many/")} == {"many/m49", "many/m48", "many/m47", "many/m46"}


def test_a_namespace_whose_pods_have_many_rules_does_not_use_the_time_of_others() -> None:
    """Twenty pods with 32 rules each take as long as 1,300 plain ones: as many are planned as their share pays for."""
    term = WeightedPodAffinityTerm(1, PodAffinityTerm(topology_key="zone"))
    spec = msgspec.structs.replace(a_pod("a").spec, preferred_anti_affinity=(term,) * 32)
    costly = [msgspec.structs.replace(a_pod(f"c{n}", namespace="costly"), spec=spec) for n in range(20)]
    plain = [a_pod(f"p{n}", namespace="plain") for n in range(200)]
    assert {effort_of(pod) for pod in costly} == {65}
    chosen = fair_slice([*costly, *plain], 260)
    assert sum(key.startswith("costly/") for key in chosen) == 2
    assert sum(key.startswith("plain/") for key in chosen) == 130
    assert fair_slice(costly, 1) == {"costly/c0"}


def test_the_next_slice_is_twice_as_large_until_there_is_time_for_all() -> None:
    """Pods that got no place come last, so none waits for those that nothing can place."""
    slices, pods = PodSlices(), [a_pod(f"p{n}", created_at=NOW - timedelta(minutes=n)) for n in range(8)]
    assert slices.first(8) == 8
    chosen = slices.of(pods, 2)
    assert chosen == {"default/p7", "default/p6"}
    slices.ended(chosen, 2, ["default/p7"], is_whole=False)
    assert slices.first(8) == 4
    assert slices.of([pod for pod in pods if pod.name != "p6"], 4) == {f"default/p{n}" for n in (5, 4, 3, 2)}
    slices.ended(frozenset(), 8, (), is_whole=True)
    assert (slices.first(8), slices.of(pods, 1)) == (8, {"default/p7"})


def test_pods_that_had_their_turn_come_after_the_others() -> None:
    """Otherwise, pods that nothing can place would be the oldest for ever."""
    pods = [a_pod(f"p{n}", created_at=NOW - timedelta(minutes=n)) for n in range(4)]
    assert fair_slice(pods, 2, tried={"default/p3", "default/p2"}) == {"default/p1", "default/p0"}


def test_pods_without_time_wait_with_their_reason() -> None:
    """Their rules are not even read, and the plan says why they wait."""
    snapshot = a_snapshot(types=(a_type(),), pods=(a_pod("old"), a_pod("new")))
    plan = Planner(without_time_for(snapshot, frozenset({"default/new"}))).plan()
    assert [(found.pod, found.reason) for found in plan.unschedulable] == [("default/new", PodReason.DEADLINE_REACHED)]
    assert [claim.pods for claim in plan.claims] == [("default/old",)]


def test_a_plan_without_time_ends_at_once() -> None:
    """The caller plans for fewer pods."""

    def watch() -> None:
        raise OutOfTimeError

    with pytest.raises(OutOfTimeError):
        Planner(a_snapshot(types=(a_type(),), pods=(a_pod(),)), watch=watch).plan()
