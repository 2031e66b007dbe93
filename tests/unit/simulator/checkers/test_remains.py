"""The judges of what remains: each finds what it is there for, and nothing in a world where all is well."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from core.model.node_pool import GROUP_COUNTER
from core.model.values.quantity import PPM
from core.pools import with_charges
from simulator.checkers.disruption import Ledger, NodeFacts, PodFacts
from simulator.checkers.remains import (
    EVICTIONS_EACH,
    OTHERS_EACH,
    OTHERS_MAX,
    PENDING_MAX,
    RESTING,
    UNDER_WAY_MAX,
    WRITES_EACH,
    WRITES_MAX,
    CallJudge,
    DecisionJudge,
    Remains,
    RemainsJudge,
)
from simulator.record import Event

# The judge of decisions: a command begins only if its decision is in the bucket.


KEY = "ledger/decisions/simulated/2026/11/20/000500.000000Z-disrupt-{}"


def command(decision: str, *, name: str = "c", reason: str = "Underutilized") -> dict[str, Any]:
    """A command's row."""
    return {"id": name, "decision": decision, "command": {"reason": reason}}


@pytest.fixture
def found() -> list[tuple[str, str]]:
    """The violations."""
    return []


@pytest.fixture
def judge(found: list[tuple[str, str]]) -> DecisionJudge:
    """A judge that writes to `found`."""
    return DecisionJudge(lambda law, message: found.append((law, message)))


def test_a_command_whose_decision_was_stored_before_is_lawful(judge: DecisionJudge, found: list[Any]) -> None:
    judge.object_written(KEY.format("9f"))
    judge.command_written(command("9f"))
    assert found == []


@pytest.mark.parametrize(
    ("decision", "words"), [("9f", "decision '9f' is not in the ledger"), ("", "it names no decision")]
)
def test_a_command_whose_decision_was_not_stored_is_told_of_once(
    judge: DecisionJudge, found: list[Any], decision: str, words: str
) -> None:
    """Later is too late: what is written after the act is lost with a crash between them."""
    judge.object_written("ledger/bases/simulated/of-9f")
    judge.object_written(KEY.format("aa"))
    judge.command_written(command(decision))
    judge.object_written(KEY.format("9f"))
    judge.command_written(command(decision))
    assert found == [("commandsWithoutDecision", f"command c (Underutilized) has begun, and {words}")]


def test_an_unhealthy_node_is_replaced_without(judge: DecisionJudge, found: list[Any]) -> None:
    judge.command_written(command("9f", reason="Unhealthy"))
    assert found == []


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LONG_AGO = NOW - UNDER_WAY_MAX - timedelta(minutes=1)


def claim(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A claim at work on `i-c`, as its row says."""
    return {
        "name": name,
        "plan": {"node_pool": "default"},
        "phase": "initialized",
        "phase_since": LONG_AGO.isoformat(),
        "node_name": "n",
        "reserved": {"cpu": 4000},
        "machine": {"instance_id": "i-c"},
        **fields,
    }


def world(*, instance: str = "i-c", ended: bool = False) -> Ledger:
    """One instance with its node and a pod, all since long ago."""
    ledger = Ledger()
    tags = {"karpenter.sh/nodepool": "default"}
    pod = {"metadata": {"namespace": "shop", "labels": {}}}
    ledger.see(
        LONG_AGO,
        Event("", "instanceLaunched", {"instance": instance, "instanceType": "m", "clientToken": "", "tags": tags}),
    )
    joined = {"node": "n", "providerID": f"aws:///z/{instance}", "object": {"metadata": {}}}
    ledger.see(LONG_AGO, Event("", "nodeJoined", joined))
    ledger.see(LONG_AGO, Event("", "podCreated", {"pod": "shop/p", "owner": "ReplicaSet/web", "object": pod}))
    ledger.see(LONG_AGO, Event("", "podBound", {"pod": "shop/p", "node": "n"}))
    if ended:
        ledger.see(LONG_AGO, Event("", "instanceTerminated", {"instance": instance}))
    return ledger


def remains(*claims: dict[str, Any], **fields: Any) -> Remains:
    """A table with these claims and a counter that counts the first."""
    usual: dict[str, Any] = {
        "commands": (),
        "usage": {"default": {"r:cpu": 4000, "disrupting": 0}},
        "dead_letters": {"work": 0},
        "explained": frozenset(),
        "failures": ("Traceback\nadapters.ports.TransientError: kube:list pods: 500",),
    }
    return Remains(claims=claims or (claim(),), **{**usual, **fields})


def laws(ledger: Ledger, remaining: Remains, *, disrupts: bool = True) -> set[str]:
    """The laws that are broken."""
    broken: set[str] = set()
    RemainsJudge(ledger, remaining, lambda law, _: broken.add(law), disrupts=disrupts).finish(NOW)
    return broken


def test_where_all_is_well_nothing_is_found() -> None:
    """If this failed, the campaign would cry wolf."""
    assert laws(world(), remains()) == set()


@pytest.mark.parametrize(("spec", "is_broken"), [({"replicas": 1}, False), ({"replicas": 2}, True), ({}, False)])
def test_a_static_node_pool_has_its_number_of_nodes(spec: dict[str, Any], is_broken: bool) -> None:
    """If this failed, a fault could leave it a node short, or one too many, for good."""
    ledger = world()
    written = {"metadata": {"name": "default"}, "spec": spec}
    ledger.see(
        NOW, Event("", "objectApplied", {"kind": "NodePool", "name": "default", "namespace": "", "object": written})
    )
    assert laws(ledger, remains()) == ({"staticReplicas"} if is_broken else set())


def test_limits_bound_a_static_node_pool() -> None:
    """If this failed, each world with such a NodePool at its limit would be blamed."""
    ledger = world()
    written = {"metadata": {"name": "default"}, "spec": {"replicas": 3, "limits": {"nodes": "1"}}}
    ledger.see(
        NOW, Event("", "objectApplied", {"kind": "NodePool", "name": "default", "namespace": "", "object": written})
    )
    assert laws(ledger, remains()) == set()


@pytest.mark.parametrize(("used", "is_broken"), [(10_000, True), (11_000, False), (12_000, False)])
def test_caps_bound_a_static_node_pool(used: int, is_broken: bool) -> None:
    ledger = world()
    cap = {"name": "all", "limits": {"cpu": "12"}}
    for kind, name, spec in (("NodePool", "default", {"replicas": 2}), ("Calendar", "costs", {"caps": [cap]})):
        written = {"metadata": {"name": name}, "spec": spec}
        ledger.see(NOW, Event("", "objectApplied", {"kind": kind, "name": name, "namespace": "", "object": written}))
    usage = {"default": {"r:cpu": 4000}, f"{GROUP_COUNTER}costs/all": {"r:cpu": used}}
    full = claim() | {"limit_groups": ["costs/all"]}
    remaining = msgspec.structs.replace(remains(full), usage=usage, smallest={"cpu": 2000})
    assert ("staticReplicas" in laws(ledger, remaining)) is is_broken


def test_a_cap_that_counts_all_nodes_by_now_holds_all_of_a_claim_once() -> None:
    plan = claim()["plan"] | {"annotations": with_charges({}, {"costs/all": PPM // 2})}
    held = claim() | {"plan": plan, "limit_groups": ["costs/all"]}
    for cpu, is_broken in ((2000, True), (4000, False), (6000, True)):
        usage = {"default": {"r:cpu": 4000}, f"{GROUP_COUNTER}costs/all": {"r:cpu": cpu}}
        remaining = msgspec.structs.replace(remains(held), usage=usage)
        assert ("usageCounters" in laws(world(), remaining)) is is_broken, cpu


GOING = {"reason": "Drifted", "asked_at": LONG_AGO.isoformat()}


@pytest.mark.parametrize(
    ("remaining", "law"),
    [
        (remains(claim(phase="launched")), "stuckClaims"),
        (remains(claim(deletion=GOING)), "stuckClaims"),
        (remains(commands=({"id": "x", "phase": "replacing", "created_at": LONG_AGO.isoformat()},)), "stuckCommands"),
        (remains(usage={"default": {"r:cpu": 8000, "disrupting": 0}}), "usageCounters"),
        (remains(usage={"default": {"r:cpu": 4000, "disrupting": 1}}), "usageCounters"),
        (remains(usage={}), "usageCounters"),
        (remains(dead_letters={"work": 2}), "deadLetters"),
        (remains(failures=("Traceback\nKeyError: 'x'",)), "handlerErrors"),
        (remains(claim(machine={"instance_id": "i-other"})), "instancesWithoutClaim"),
    ],
)
def test_what_is_left_half_done_is_found(remaining: Remains, law: str) -> None:
    """If this failed, a leak of this kind would pass in every world."""
    assert laws(world(), remaining) == {law}


@pytest.mark.parametrize(("node", "broken"), [("n", set()), ("empty", {"halfBoughtGroups"})])
def test_a_node_for_a_group_has_pods_or_goes(node: str, broken: set[str]) -> None:
    """If this failed, half of a group could be paid for as long as the other half finds no room."""
    plan = {"node_pool": "default", "annotations": {"fleetwright.dev/launched-for-group": "Annotation/shop/g"}}
    assert laws(world(), remains(claim(plan=plan, node_name=node))) == broken
    assert laws(world(), remains(claim(plan=plan, node_name=node, phase_since=NOW.isoformat()))) == set()
    assert laws(world(), remains(claim(plan=plan, node_name=node)), disrupts=False) == set()


@pytest.mark.parametrize(
    ("bound", "waiting", "once_bound", "broken"),
    [
        (1, 1, 0, {"halfBoughtGroups"}),
        (2, 0, 0, set()),
        (1, 0, 0, set()),
        (1, 1, 1, set()),
    ],
    ids=["half runs", "whole", "a user deleted the rest", "it has lost a member since"],
)
@pytest.mark.parametrize("way", ["annotation", "kueue", "coscheduling", "native"])
def test_a_part_of_a_group_that_never_was_whole_does_not_run_on(
    way: str, bound: int, waiting: int, once_bound: int, broken: set[str]
) -> None:
    """If this failed, half of a group could run for nothing, since its nodes have pods."""
    notes, marks, spec = {
        "annotation": ({"fleetwright.dev/group": "g", "fleetwright.dev/group-minimum": "2"}, {}, {}),
        "kueue": ({"kueue.x-k8s.io/pod-group-total-count": "2"}, {"kueue.x-k8s.io/pod-group-name": "g"}, {}),
        "coscheduling": ({}, {"scheduling.x-k8s.io/pod-group": "g"}, {}),
        "native": ({}, {}, {"schedulingGroup": {"podGroupName": "g"}}),
    }[way]
    policy = {"minMember": 2} if way == "coscheduling" else {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"kind": "PodGroup", "name": "g", "namespace": "shop", "object": {"spec": policy}}
    ledger = world()
    if way in ("coscheduling", "native"):
        ledger.see(LONG_AGO, Event("", "objectApplied", group))
    for number in range(bound + once_bound + waiting):
        pod = {"metadata": {"namespace": "shop", "labels": marks, "annotations": notes}, "spec": spec}
        name = {"pod": f"shop/m-{number}"}
        ledger.see(LONG_AGO, Event("", "podCreated", {**name, "owner": "ReplicaSet/g", "object": pod}))
        if number < bound + once_bound:
            ledger.see(LONG_AGO, Event("", "podBound", {**name, "node": "n"}))
    for number in range(bound, bound + once_bound):
        ledger.see(LONG_AGO, Event("", "podDeleted", {"pod": f"shop/m-{number}"}))
    explained = frozenset(f"shop/m-{number}" for number in range(5))
    plan = {"node_pool": "default", "annotations": {"fleetwright.dev/launched-for-group": "Annotation/shop/g"}}
    assert laws(ledger, remains(claim(plan=plan, node_name="n"), explained=explained)) == broken


def test_a_claim_without_a_node_pool_is_counted_nowhere() -> None:
    """A NodeClaim made by hand needs none: an instance of one that was launched late was blamed."""
    assert laws(world(), remains(claim(plan={"node_pool": ""}), usage={})) == set()


def test_a_claim_and_a_node_whose_instance_is_gone_are_found() -> None:
    """If this failed, what has no machine behind it could stay forever."""
    assert {"claimsWithoutInstance", "nodesWithoutInstance"} <= laws(world(ended=True), remains())


def test_a_taint_that_nobody_answers_for_is_found() -> None:
    """If this failed, a node could be kept from new pods forever."""
    ledger = world()
    tainted = {"node": "n", "key": "karpenter.sh/disrupted", "reason": "Empty"}
    ledger.see(LONG_AGO, Event("", "nodeTainted", tainted))
    assert laws(ledger, remains()) == {"strayTaints"}
    command = {"id": "x", "created_at": NOW.isoformat(), "command": {"nodes": ["n"]}}
    assert laws(ledger, remains(commands=(command,))) == set()


def test_a_drain_may_wait_for_a_protected_pod() -> None:
    """If this failed, users' own protections would be taken for a fault of ours."""
    ledger = world()
    ledger.pods["shop/p"].annotations["karpenter.sh/do-not-disrupt"] = "true"
    remaining = remains(claim(deletion=GOING))
    assert laws(ledger, remaining) == set()
    assert not RemainsJudge(ledger, remaining, lambda *_: None).is_at_rest(NOW)


def test_a_pod_that_waits_must_have_been_told_why() -> None:
    """If this failed, pods could be forgotten in silence."""
    ledger = world()
    pod = {"metadata": {"namespace": "shop", "labels": {}}}
    waiting = {"pod": "shop/q", "owner": "ReplicaSet/web", "object": pod}
    ledger.see(NOW - PENDING_MAX - timedelta(minutes=1), Event("", "podCreated", waiting))
    assert laws(ledger, remains()) == {"unexplainedPending"}
    assert laws(ledger, remains(explained=frozenset({"shop/q"}))) == set()


def test_a_function_that_cannot_write_is_known_until_it_can() -> None:
    """If this failed, empty nodes would be blamed that must stay while their decision cannot be written (seed 37)."""
    judge = CallJudge(lambda *_: None)
    judge.record(NOW, "disrupt", "s3:PutObject", changes=False)
    assert judge.refused == {("disrupt", "s3:PutObject")}
    judge.record(NOW, "disrupt", "s3:PutObject")
    assert judge.refused == set()


def heard(calls: int, call: str, *, rests: bool = False, subject: str = "") -> list[str]:
    """The laws that this many calls within half a minute break."""
    broken: list[str] = []
    judge = CallJudge(lambda law, _: broken.append(law))
    for number in range(calls):
        judge.record(NOW + timedelta(seconds=30 * number / calls), "reconcile", call, subject)
    judge.finish(NOW + timedelta(minutes=1), at_rest=rests)
    return broken


@pytest.mark.parametrize(
    ("calls", "call", "broken"),
    [
        (WRITES_MAX + 1, "kube:delete nodes", ["callRates"]),
        (WRITES_MAX, "kube:delete nodes", []),
        (WRITES_MAX + 1, "dynamodb:PutItem", []),
        (OTHERS_MAX + 1, "dynamodb:PutItem", ["callRates"]),
        (OTHERS_MAX + 1, "kube:list nodes", ["callRates"]),
    ],
)
def test_no_call_is_made_over_and_over(calls: int, call: str, broken: list[str]) -> None:
    """If this failed, a loop without a pace would be paid by the API server, unseen."""
    assert heard(calls, call) == broken


@pytest.mark.parametrize(
    ("call", "bound"),
    [
        ("dynamodb:GetItem", lambda instances: OTHERS_MAX + OTHERS_EACH * instances),
        ("kube:patch nodes", lambda instances: WRITES_MAX + WRITES_EACH * instances),
    ],
)
def test_more_instances_are_looked_after_by_more_calls(call: str, bound: Callable[[int], int]) -> None:
    """If this failed, a world of many claims under way would be called a loop, or a loop in a small one would not."""
    for instances in (1, 20):
        for count, broken in ((bound(instances), []), (bound(instances) + 1, ["callRates"])):
            found: list[str] = []
            judge = CallJudge(lambda law, _, found=found: found.append(law), lambda _, instances=instances: instances)
            for number in range(count):
                judge.record(NOW + timedelta(milliseconds=number), "execute", call)
            assert found == broken


@pytest.mark.parametrize(
    ("call", "calls_each"), [("kube:create pods/eviction", EVICTIONS_EACH), ("kube:delete pods", 0)]
)
def test_more_pods_on_leaving_nodes_are_asked_to_leave_more_often(call: str, calls_each: int) -> None:
    """If this failed, eight pods that one budget protects would be called a loop, as they were in seed 235."""
    for count, broken in ((WRITES_MAX + calls_each * 8, []), (WRITES_MAX + calls_each * 8 + 1, ["callRates"])):
        found: list[str] = []
        judge = CallJudge(lambda law, _, found=found: found.append(law), leaving_pods=lambda: 8)
        for number in range(count):
            judge.record(NOW + timedelta(milliseconds=number), "execute", call)
        assert found == broken


def test_pods_leave_with_nodes_that_have_the_taint() -> None:
    ledger = Ledger()
    for number, reason in enumerate((None, "Drifted")):
        ledger.nodes[f"n{number}"] = NodeFacts(pool="default", instance=f"i-{number}", disrupted_for=reason)
    for number, (node, is_finished) in enumerate((("n0", False), ("n1", False), ("n1", True))):
        ledger.pods[f"p{number}"] = PodFacts(
            namespace="shop", owner="", labels={}, annotations={}, grace_seconds=30, created_at=NOW, node=node,
            is_finished=is_finished,
        )  # fmt: skip
    assert ledger.leaving_pods() == 1


@pytest.mark.parametrize(
    ("call", "subject", "broken"),
    [
        ("kube:patch nodes", "", ["writesAtRest"]),
        ("dynamodb:PutItem", "claims", ["writesAtRest"]),
        ("dynamodb:PutItem", "sweeps", []),
        ("dynamodb:UpdateItem", "leases", []),
        ("kube:list pods", "", []),
    ],
)
def test_a_world_at_rest_is_written_to_by_nobody(call: str, subject: str, broken: list[str]) -> None:
    """If this failed, a system that never comes to an end of its work would pass."""
    assert heard(3, call, rests=True, subject=subject) == broken


@pytest.mark.parametrize(("refused", "broken"), [("disrupt", []), ("provision", ["writesAtRest"])])
def test_who_cannot_write_its_ledger_asks_itself_to_look_again(refused: str, broken: list[str]) -> None:
    """Each opening of a budget's window wakes `disrupt` (seed 293, in whose world S3 refused it to the end)."""
    laws: list[str] = []
    judge = CallJudge(lambda law, _: laws.append(law))
    judge.record(NOW, refused, "s3:PutObject", changes=False)
    judge.record(NOW, "disrupt", "sqs:SendMessageBatch")
    judge.finish(NOW + timedelta(minutes=1), at_rest=True)
    assert laws == broken


def test_what_was_written_before_the_world_came_to_rest_is_no_fault() -> None:
    """If this failed, work that comes to its end would be taken for work that never does."""
    broken: list[str] = []
    judge = CallJudge(lambda law, _: broken.append(law))
    judge.record(NOW, "reconcile", "kube:patch nodes")
    judge.record(NOW + RESTING, "reconcile", "kube:list nodes")
    assert judge.written_at == NOW
    judge.finish(NOW + RESTING, at_rest=True)
    assert broken == []


@pytest.mark.parametrize(
    ("remaining", "law"),
    [
        (remains(claim(phase="launched", phase_since=NOW.isoformat())), "stuckClaims"),
        (remains(commands=({"id": "x", "created_at": NOW.isoformat()},)), "stuckCommands"),
    ],
)
def test_a_world_has_not_settled_while_anything_is_under_way(remaining: Remains, law: str) -> None:
    """If this failed, a world would be judged before its work is done, and what goes wrong later would not be seen."""
    assert laws(world(), remaining) == set()
    unsettled: list[str] = []
    later = NOW + timedelta(seconds=1)
    RemainsJudge(world(), remaining, lambda law, _: unsettled.append(law), patience=timedelta(0)).finish(later)
    assert unsettled == [law]
