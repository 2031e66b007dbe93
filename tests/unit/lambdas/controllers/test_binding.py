"""Pods go where they were planned: a node is held, its pods are bound to it, then it is opened."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, DeniedError, JsonObject, NotFoundError, PortError, TransientError
from adapters.run_report import RunReport
from adapters.runtime import in_turn
from adapters.store import BINDER
from core import labels
from core.lifecycle.binding import HOLD_AT_MOST, SEEN_WITHIN, SETTLES_WITHIN, BindingTurn, DecidedBinding
from core.lifecycle.records import ClaimPhase, Deletion
from core.manifests.wire import resources
from core.model.pod import Pod
from core.model.values.taints import HELD, UNREGISTERED
from core.reasons.pods import BindingReason
from lambdas.controllers import binding as pod_binder
from lambdas.controllers.binding import (
    NEXT_TURN,
    REFUSALS,
    STALLED_AFTER,
    STALLED_TURN,
    WRITE_WITHIN,
    BindingWriter,
    PodBinder,
    TurnEnd,
    TurnResult,
    WrittenBindings,
    turn_end,
)
from tests.builders import NOW, a_pod
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import CrashError, FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

# How far a turn's bindings are written: in order, for a while, and as long as they are permitted.


CALL = "create pods/binding"
CHAIN = [DecidedBinding("claim", a_pod(f"p{number}"), "node") for number in range(6)]


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    server = FakeKubernetes(FakeClock(NOW))
    server.put(*(a_pending_pod(binding.pod.name) for binding in CHAIN))
    return server


def failing(kubernetes: FakeKubernetes, *errors: PortError | None) -> None:
    """Answer the first bindings with these; those after them succeed."""
    remaining = list(errors)

    def answer(call: str) -> None:
        error = remaining.pop(0) if call == CALL and remaining else None
        if error is not None:
            raise error

    kubernetes.before_call = answer


def test_no_binding_is_begun_once_the_time_is_over(kubernetes: FakeKubernetes) -> None:
    """A turn that writes on after its lease binds beside the next one."""
    clock = FakeClock(NOW)

    def slow(_: str) -> None:
        clock.pause(WRITE_WITHIN / 4)

    kubernetes.before_call = slow
    written = BindingWriter(kubernetes, clock, in_turn).write([CHAIN])
    assert written.bound == CHAIN[:4]
    assert clock.now() - NOW == WRITE_WITHIN


@pytest.mark.parametrize(
    ("error", "taken", "refused"),
    [
        (ConflictError(CALL, "409"), 1, 0),
        (NotFoundError(CALL, "404"), 1, 0),
        (DeniedError(CALL, "403"), 0, 1),
        (TransientError(CALL, "500"), 0, 0),
    ],
)
def test_what_follows_a_failure_in_its_chain_waits(
    kubernetes: FakeKubernetes, error: PortError, taken: int, refused: int
) -> None:
    """It was decided for pods that are there; another chain does not depend on it."""
    failing(kubernetes, None, error)
    written = BindingWriter(kubernetes, FakeClock(NOW), in_turn).write([CHAIN[:3], CHAIN[3:]])
    assert written.bound == [CHAIN[0], *CHAIN[3:]]
    assert (written.taken, len(written.refusals.get("claim", {}))) == (taken, refused)


def test_a_claim_whose_bindings_are_not_permitted_is_given_up_after_a_few(kubernetes: FakeKubernetes) -> None:
    failing(kubernetes, *[DeniedError(CALL, "403 a webhook says no")] * REFUSALS)
    written = BindingWriter(kubernetes, FakeClock(NOW), in_turn).write([[binding] for binding in CHAIN])
    assert written.bound == []
    assert written.refusals == {
        "claim": dict.fromkeys((b.pod.key for b in CHAIN[:REFUSALS]), str(DeniedError(CALL, "403 a webhook says no")))
    }
    assert (written.is_refused("claim"), written.is_refused("another")) == (True, False)


SEEN = SEEN_WITHIN.total_seconds()
SETTLED = SETTLES_WITHIN.total_seconds()


@pytest.fixture
def lab() -> Lab:
    """Two pods for which a node was launched, whose kubelet has joined."""
    return launched(a_pending_pod("a"), a_pending_pod("b"))


def launched(*pods: JsonObject, **settings: bool) -> Lab:
    """A cluster in which a node was launched for these pods, and has joined."""
    lab = Lab(bind_pods=True, **settings)
    lab.kubernetes.put(*pods)
    lab.provision()
    lab.clock.advance(seconds=15)
    lab.boot()
    return lab


def node_of(lab: Lab, pod: str) -> str:
    return str(lab.kubernetes.raw(resources.PODS, pod, "default")["spec"].get("nodeName", ""))


def nominated(lab: Lab, pod: str) -> str:
    return str(lab.kubernetes.raw(resources.PODS, pod, "default")["status"].get("nominatedNodeName", ""))


def effects(lab: Lab) -> list[str]:
    """The effects of our taint on the only node."""
    (node,) = lab.kubernetes.names(resources.NODES)
    taints = lab.kubernetes.raw(resources.NODES, node)["spec"]["taints"]
    return [taint["effect"] for taint in taints if taint["key"] == UNREGISTERED.key]


def test_a_node_is_held_its_pods_are_bound_and_then_it_is_opened(lab: Lab) -> None:
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.tick(seconds=0)
    assert (effects(lab), node_of(lab, "a")) == ([HELD.effect], "")
    lab.tick(seconds=SETTLED)
    assert (effects(lab), node_of(lab, "a"), node_of(lab, "b")) == ([HELD.effect], node, node)
    (report,) = lab.tick(seconds=SETTLED)
    assert (effects(lab), lab.claim.phase) == ([], ClaimPhase.INITIALIZED)
    assert report.counts["openedNodes"] == 1


def test_nothing_is_bound_or_opened_before_the_last_change_is_visible_to_others(lab: Lab) -> None:
    """The kubelet fails a pod for a taint in its cache; the scheduler assigns room that it believes free."""
    lab.tick(seconds=0)
    lab.tick(3, seconds=0.3 * SEEN)
    assert node_of(lab, "a") == ""
    lab.tick(seconds=0.1 * SEEN)
    assert node_of(lab, "a") != ""
    lab.tick(3, seconds=0.3 * SETTLED)
    assert effects(lab) == [HELD.effect]
    lab.tick(seconds=0.1 * SETTLED)
    assert effects(lab) == []


def test_a_sandbox_waits_longer_for_what_another_one_has_seen(lab: Lab) -> None:
    """Its clock may be ahead of the one that the moment was read from."""
    lab.tick(seconds=0)
    lab.restart()
    lab.tick(2, seconds=0.45 * SETTLED)
    assert node_of(lab, "a") == ""
    lab.tick(seconds=0.1 * SETTLED)
    assert node_of(lab, "a") != ""


def test_each_pod_gets_an_event_with_its_node(lab: Lab) -> None:
    """kube-scheduler writes none for it."""
    lab.tick(2, seconds=SETTLED)
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    bound = [event for event in events if event["reason"] != "Launched"]
    assert sorted((event["involvedObject"]["name"], event["reason"], event["type"]) for event in bound) == [
        ("a", "Scheduled", "Normal"),
        ("b", "Scheduled", "Normal"),
    ]


def test_a_claim_has_its_moments(lab: Lab) -> None:
    lab.tick(4, seconds=SETTLED)
    moments = lab.claim.moments
    in_order = [moments.launched_at, moments.seen_at, moments.usable_at, moments.bound_at, moments.opened_at]
    assert in_order == sorted(moment for moment in in_order if moment is not None)
    assert len(set(in_order)) == 4  # seen and usable in one run


def test_a_setting_turns_it_off() -> None:
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(a_pending_pod("a"))
    lab.provision()
    lab.clock.advance(seconds=15)
    lab.boot()
    lab.tick(seconds=0)
    assert (lab.claim.phase, node_of(lab, "a")) == (ClaimPhase.INITIALIZED, "")


def test_a_held_node_is_opened_when_the_setting_is_turned_off(lab: Lab) -> None:
    lab.tick(seconds=0)
    lab.settings = Lab(bind_pods=False).settings
    lab.restart()
    lab.tick(3, seconds=SETTLED)
    assert (effects(lab), node_of(lab, "a"), nominated(lab, "a")) == ([], "", lab.claim.node_name)


def test_turns_do_not_overlap(lab: Lab) -> None:
    """Two turns with the same snapshot may break a rule across nodes together."""
    lab.tick(seconds=0)
    lease = lab.app.adapters.leases.acquire(BINDER, "another", now=lab.clock.now(), for_=timedelta(seconds=5))
    assert lease is not None
    (report,) = lab.tick(seconds=SETTLED)
    assert (report.counts["binderBusy"], node_of(lab, "a")) == (1, "")
    lab.app.adapters.leases.release(lease)
    lab.tick(seconds=SETTLED)
    assert node_of(lab, "a") != ""


def test_a_pod_with_a_volume_is_left_to_the_scheduler_and_nominated() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    lab = Lab(bind_pods=True)
    volume_claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "gp3"},
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    lab.kubernetes.put(storage, volume_claim, a_pending_pod("a", volumes=[claim]), a_pending_pod("b"))
    lab.provision()
    lab.clock.advance(seconds=15)
    lab.boot()
    lab.tick(4, seconds=SETTLED)
    assert (node_of(lab, "a"), nominated(lab, "a")) == ("", lab.claim.node_name)
    assert node_of(lab, "b") == lab.claim.node_name


def refuse(lab: Lab, error: Exception, times: int = 1000) -> None:
    """Answer this many bindings with the error."""
    remaining = [error] * times

    def fail(call: str) -> None:
        if call == "create pods/binding" and remaining:
            raise remaining.pop()

    lab.kubernetes.before_call = fail


def test_after_three_refusals_the_others_are_nominated() -> None:
    """A webhook that refuses our bindings must not keep nodes closed."""
    lab = launched(*(a_pending_pod(f"p{number}", cpu="100m") for number in range(9)))
    refuse(lab, DeniedError("kube:create pods/binding", "403 a webhook says no"), REFUSALS)
    lab.tick(seconds=0)
    lab.tick(3, seconds=SETTLED)
    assert [node_of(lab, f"p{number}") for number in range(9)] == [""] * 9
    assert {nominated(lab, f"p{number}") for number in range(9)} == {lab.claim.node_name}
    assert effects(lab) == []


def test_one_refused_pod_affects_no_other(lab: Lab) -> None:
    refuse(lab, DeniedError("kube:create pods/binding", "403 a webhook says no"), 1)
    lab.tick(seconds=0)
    lab.tick(3, seconds=SETTLED)
    assert sorted([node_of(lab, "a"), node_of(lab, "b")]) == ["", lab.claim.node_name]
    assert lab.claim.phase is ClaimPhase.INITIALIZED


def test_a_binding_that_fails_temporarily_is_written_in_the_next_turn(lab: Lab) -> None:
    refuse(lab, TransientError("kube:create pods/binding", "500"), 1)
    lab.tick(seconds=0)
    lab.tick(2, seconds=SETTLED)
    assert node_of(lab, "a") == node_of(lab, "b") == lab.claim.node_name


def test_a_server_without_bindings_delays_a_node_for_a_minute_at_most(lab: Lab) -> None:
    refuse(lab, TransientError("kube:create pods/binding", "500"))
    lab.tick(seconds=0)
    lab.tick(int(HOLD_AT_MOST.total_seconds()) + 3, seconds=SETTLED)
    assert (effects(lab), lab.claim.phase) == ([], ClaimPhase.INITIALIZED)


def test_turns_without_effect_are_further_apart_after_a_while(lab: Lab) -> None:
    """Each lists all claims and pods: seed 125 read the table 381 times in a minute for one node that waited."""
    refuse(lab, TransientError("kube:create pods/binding", "500"))
    lab.tick(3, seconds=SETTLED)
    assert {delay for _, delay in lab.work.sent} == {NEXT_TURN}
    lab.tick(seconds=STALLED_AFTER.total_seconds())
    assert {delay for _, delay in lab.work.sent} == {STALLED_TURN}
    lab.tick(seconds=HOLD_AT_MOST.total_seconds())
    assert {delay for _, delay in lab.work.sent} == {NEXT_TURN}  # the last turn has ended, and the node is to be opened


def test_a_second_message_about_nodes_that_were_just_served_in_vain_reads_nothing(lab: Lab) -> None:
    """Each turn lists all claims and pods, and after crashes several chains of messages ask for turns of the same nodes."""
    refuse(lab, TransientError("kube:create pods/binding", "500"))
    lab.tick(3, seconds=SETTLED)
    messages = lab.work.take()
    lab.clock.advance(seconds=NEXT_TURN.total_seconds())
    refused, lists = lab.kubernetes.before_call, list[str]()

    def noted(call: str) -> None:
        lists.extend([call] if call.startswith("list pods") else [])
        refused(call)

    lab.kubernetes.before_call = noted
    for _ in range(2):
        lab.execute(*messages)
        assert len(lists) == 1
    assert {delay for _, delay in lab.work.sent} == {NEXT_TURN}
    lab.tick(seconds=NEXT_TURN.total_seconds())
    assert len(lists) == 2


def test_a_node_smaller_than_planned_is_opened_and_its_pods_are_nominated(lab: Lab) -> None:
    """The scheduler chooses which of them still fit."""
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.amend(
        resources.NODES, node, {"status": {"allocatable": {"cpu": "1", "memory": "16Gi", "pods": "29"}}}
    )
    lab.tick(seconds=0)
    lab.tick(3, seconds=SETTLED)
    assert (node_of(lab, "a"), nominated(lab, "a"), effects(lab)) == ("", node, [])


def test_a_foreign_pod_keeps_out_pods_that_no_longer_fit() -> None:
    """The kubelet would fail the pod with OutOfcpu."""
    lab = launched(a_pending_pod("a", cpu="2"), a_pending_pod("b", cpu="1"))
    (node,) = lab.kubernetes.names(resources.NODES)
    stranger = a_pending_pod("stranger", cpu="2", nodeName=node, tolerations=[{"operator": "Exists"}])
    lab.kubernetes.put({**stranger, "status": {"phase": "Running"}})
    lab.tick(4, seconds=SETTLED)
    assert sorted([node_of(lab, "a"), node_of(lab, "b")]) == ["", node]
    assert effects(lab) == []


def test_a_pod_that_the_scheduler_bound_elsewhere_stays_there(lab: Lab) -> None:
    lab.tick(seconds=0)

    def take(call: str) -> None:
        if call == "create pods/binding":
            lab.kubernetes.before_call = lambda _: None
            lab.kubernetes.amend(resources.PODS, "a", {"spec": {"nodeName": "elsewhere"}}, "default")

    lab.kubernetes.before_call = take
    lab.tick(3, seconds=SETTLED)
    assert (node_of(lab, "a"), node_of(lab, "b")) == ("elsewhere", lab.claim.node_name)
    assert lab.claim.phase is ClaimPhase.INITIALIZED


def test_a_crash_between_binding_and_its_row_opens_nothing_too_soon(lab: Lab) -> None:
    """Seed 13: the next run found no pod left to bind, and opened the node at once."""
    lab.tick(seconds=0)
    message = lab.work.take()

    def die(call: str) -> None:
        if call == "create pods/binding":
            raise CrashError

    lab.kubernetes.after_call = die
    lab.clock.advance(seconds=SETTLED)
    with pytest.raises(CrashError):
        lab.execute(*message)
    lab.kubernetes.after_call = lambda _: None
    lab.clock.advance(seconds=21)  # the lease of the dead run ends
    lab.execute(*message)
    assert effects(lab) == [HELD.effect]
    lab.tick(2, seconds=SETTLED)
    assert effects(lab) == []


def a_spread_pod(name: str, **spec: object) -> JsonObject:
    """A pod whose spread allows a skew of one between zones."""
    rule = {
        "topologyKey": labels.ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return a_pending_pod(name, metadata={"labels": {"app": "spread"}}, topologySpreadConstraints=[rule], **spec)


def join(lab: Lab, instance_id: str) -> None:
    """Let one kubelet join, with the zone that EKS gives its node."""
    instance = next(instance for instance in lab.cloud.instances() if instance.instance_id == instance_id)
    before = set(lab.kubernetes.names(resources.NODES))
    lab.boot()
    for name in set(lab.kubernetes.names(resources.NODES)) - before - {instance_id}:
        lab.kubernetes.drop(resources.NODES, name)
    lab.kubernetes.amend(resources.NODES, instance_id, {"metadata": {"labels": {labels.ZONE: instance.zone}}})


def test_pods_wait_for_their_turn_while_other_nodes_of_the_plan_come() -> None:
    """The scheduler would give their room to others, and a second node would be launched for them."""
    lab = Lab(bind_pods=True)
    lab.kubernetes.put(*(a_spread_pod(f"p{number}", cpu="1500m") for number in range(4)))
    lab.provision()
    first, *others = [claim for claim in lab.claims if len(claim.plan.pods) > 1] + [
        claim for claim in lab.claims if len(claim.plan.pods) == 1
    ]
    assert others
    lab.clock.advance(seconds=15)
    join(lab, first.instance_id)
    lab.tick(6, seconds=SETTLED)
    nodes = {name: lab.kubernetes.raw(resources.NODES, name) for name in lab.kubernetes.names(resources.NODES)}
    assert list(nodes) == [first.instance_id]
    assert sum(node_of(lab, f"p{number}") == first.instance_id for number in range(4)) >= 1
    for claim in others:
        join(lab, claim.instance_id)
    lab.tick(6, seconds=SETTLED)
    planned = {pod: claim.instance_id for claim in (first, *others) for pod in claim.plan.pods}
    assert {f"default/p{n}": node_of(lab, f"p{n}") for n in range(4)} == planned
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.INITIALIZED}


DEFAULT_SPREAD = {"topologyKey": labels.ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}


def with_default_spread(owner: JsonObject, **metadata: object) -> Lab:
    """Pods a and b without rules of their own, in a cluster that spreads what an object selects; their node has joined."""
    config = {"podTopologySpread": {"defaultConstraints": [DEFAULT_SPREAD]}}
    lab = Lab(bind_pods=True, scheduler_config=json.dumps(config))
    lab.kubernetes.put(owner, *(a_web_pod(name, **metadata) for name in ("a", "b")))
    lab.provision()
    lab.clock.advance(seconds=15)
    join(lab, lab.claim.instance_id)
    return lab


def a_web_pod(name: str, *, app: str = "web", node: str = "", **metadata: object) -> JsonObject:
    """A pod without rules, that waits, or runs on the node."""
    pod = a_pending_pod(name, metadata={"labels": {"app": app}, **metadata})
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}} if node else pod


def a_full_node(name: str, zone: str) -> JsonObject:
    """Another provisioner's node, which counts in spreads and has no room."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {labels.ZONE: zone, labels.HOSTNAME: name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "0"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


SERVICE = {"kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web-1", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
}
OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "controller": True}]}


@pytest.mark.parametrize(("owner", "metadata"), [(SERVICE, {}), (REPLICA_SET, OWNED)])
@pytest.mark.parametrize(("app", "bound"), [("web", 1), ("db", 2)])
def test_a_required_default_spread_admits_no_more_pods_than_the_scheduler_would(
    owner: JsonObject, metadata: dict[str, object], app: str, bound: int
) -> None:
    """While the node joined, a pod came into its zone, and an empty node into another: one of two more would be too many."""
    lab = with_default_spread(owner, **metadata)
    zone = lab.kubernetes.raw(resources.NODES, lab.claim.instance_id)["metadata"]["labels"][labels.ZONE]
    lab.kubernetes.put(a_full_node("beside", zone), a_full_node("apart", "another"))
    lab.kubernetes.put(a_web_pod("early", app=app, node="beside", **metadata))
    lab.tick(4, seconds=SETTLED)
    assert [node_of(lab, name) for name in ("a", "b")].count(lab.claim.instance_id) == bound


def test_pods_that_a_required_default_spread_connects_are_bound_one_after_the_other() -> None:
    """The second was decided on as if the first were there; without rules, the failure of one affects no other."""
    lab = with_default_spread(SERVICE)
    refuse(lab, DeniedError("kube:create pods/binding", "403 a webhook says no"), 1)
    lab.tick(2, seconds=SETTLED)
    assert [node_of(lab, name) for name in ("a", "b")] == ["", ""]


def test_services_are_listed_for_a_turn_only_where_a_default_spread_must_hold(lab: Lab) -> None:
    """Each turn would list all Services and ReplicaSets, every second."""
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.tick(2, seconds=SETTLED)
    assert node_of(lab, "a") != ""
    assert not {"list services", "list replicasets"} & set(calls)


def spread_over_two_messages() -> tuple[Lab, PodBinder]:
    """Claims of four pods that take turns over the zones, whose nodes are ready and settled; no pod is bound yet."""
    lab = Lab(bind_pods=True)
    lab.kubernetes.put(*(a_spread_pod(f"p{number}", cpu="1500m") for number in range(4)))
    lab.provision()
    lab.clock.advance(seconds=15)
    for claim in lab.claims:
        join(lab, claim.instance_id)
    lab.tick(seconds=0)
    lab.clock.advance(seconds=SETTLED)
    adapters = lab.app.adapters
    shared = (adapters.stores.claims, adapters.leases, lab.app.shared.observer)
    return lab, PodBinder(lab.kubernetes, *shared, lab.settings, lab.clock, in_turn)


def test_a_turn_serves_the_nodes_of_other_messages_as_well() -> None:
    """A spread lets in one pod after the other: each message's own turns would place a few pods a second."""
    lab, binder = spread_over_two_messages()
    assert len(lab.claims) > 1
    report = RunReport()
    binder.run([lab.claims[0].name], report)
    planned = {pod: claim.instance_id for claim in lab.claims for pod in claim.plan.pods}
    assert {f"default/p{n}": node_of(lab, f"p{n}") for n in range(4)} == planned
    assert report.counts["boundPods"] == 4


def test_a_turn_notices_a_node_that_opens_while_it_lists_pods() -> None:
    """kube-scheduler places pods there at once, and each placement may keep the spread that both together break."""
    lab, binder = spread_over_two_messages()
    first, *others = lab.claims

    def open_first(call: str) -> None:
        if call.startswith("list pods"):
            lab.kubernetes.before_call = lambda _: None
            moments = msgspec.structs.replace(first.moments, opened_at=lab.clock.now())
            opened = msgspec.structs.replace(first, phase=ClaimPhase.INITIALIZED, moments=moments)
            lab.app.adapters.stores.claims.change(first, opened)

    lab.kubernetes.before_call = open_first
    report = RunReport()
    binder.run([other.name for other in others], report)
    assert [node_of(lab, f"p{number}") for number in range(4)] == [""] * 4
    assert report.counts["postponedBindings"] > 0


def test_a_turn_leaves_out_a_node_that_is_no_longer_ready_for_pods() -> None:
    lab, binder = spread_over_two_messages()
    first, *others = lab.claims
    taint = {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}
    for other in others:
        held = lab.kubernetes.raw(resources.NODES, other.instance_id)["spec"]["taints"]
        lab.kubernetes.amend(resources.NODES, other.instance_id, {"spec": {"taints": [*held, taint]}})
    binder.run([first.name], RunReport())
    assert {node_of(lab, f"p{number}") for number in range(4)} <= {first.instance_id, ""}


def test_a_cluster_too_large_to_list_is_not_listed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list would be half a gigabyte each second, and overload the server; nominations need less."""
    monkeypatch.setattr(pod_binder, "PODS_AT_MOST", 1)
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.tick(seconds=0)
    lab.tick(3, seconds=SETTLED)
    assert "list pods" not in calls
    assert (nominated(lab, "a"), effects(lab)) == (lab.claim.node_name, [])


def test_only_claims_that_wait_for_a_turn_are_left_to_the_scheduler(lab: Lab) -> None:
    """A name in a message may be that of a claim that is gone, or that has long been opened."""
    adapters = lab.app.adapters
    before = lab.claim
    off = Lab(bind_pods=False).settings
    shared = (adapters.stores.claims, adapters.leases, lab.app.shared.observer)
    binder = PodBinder(lab.kubernetes, *shared, off, lab.clock, in_turn)
    report = RunReport()
    assert binder.run([before.name, "gone"], report) == TurnResult(NEXT_TURN)
    assert before.phase is ClaimPhase.LAUNCHED
    assert lab.claim == before


def test_pods_that_another_bound_first_are_counted(lab: Lab) -> None:
    """Many of them say that the cluster's scheduler is not kept off the held nodes."""
    lab.tick(seconds=0)

    def bind_first(call: str) -> None:
        if call == "create pods/binding":
            for pod in ("a", "b"):
                lab.kubernetes.amend(resources.PODS, pod, {"spec": {"nodeName": "other"}}, "default")

    lab.kubernetes.before_call = bind_first
    (report,) = lab.tick(seconds=SETTLED)
    assert (report.counts["boundByOthers"], report.counts["boundPods"]) == (2, 0)


def settled_binder(lab: Lab) -> PodBinder:
    """A binder of another sandbox, at the moment when the kubelet has seen the held node."""
    lab.tick(seconds=0)
    lab.clock.advance(seconds=SETTLED)
    adapters = lab.app.adapters
    shared = (adapters.stores.claims, adapters.leases, lab.app.shared.observer)
    return PodBinder(lab.kubernetes, *shared, lab.settings, lab.clock, in_turn)


def test_refused_pods_are_counted_and_left_with_their_reason(lab: Lab) -> None:
    """A pod that a webhook refuses is no pod that waited too long."""
    refuse(lab, DeniedError("kube:create pods/binding", "no"))
    report = RunReport()
    settled_binder(lab).run([lab.claim.name], report)
    assert (report.counts["refusedBindings"], report.counts["boundPods"]) == (2, 0)
    told = [(decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions]
    message = f"left to kube-scheduler, planned for {lab.claim.name}"
    assert told == [("skip", f"default/{pod}", BindingReason.BINDING_REFUSED, message) for pod in ("a", "b")]


def test_pods_that_wait_for_the_end_of_the_hold_are_told_so(lab: Lab) -> None:
    refuse(lab, TransientError("kube:create pods/binding", "500"))
    binder = settled_binder(lab)
    lab.clock.advance(seconds=HOLD_AT_MOST.total_seconds())
    report = RunReport()
    binder.run([lab.claim.name], report)
    assert [(decision.subject, decision.reason) for decision in report.decisions] == [
        ("default/a", BindingReason.HELD_TOO_LONG),
        ("default/b", BindingReason.HELD_TOO_LONG),
    ]
    assert lab.claim.is_bound


def test_no_binding_is_postponed_while_no_node_opens(lab: Lab) -> None:
    report = RunReport()
    settled_binder(lab).run([lab.claim.name], report)
    assert (report.counts["postponedBindings"], report.counts["boundPods"]) == (0, 2)
    assert report.counts.get("refusedBindings", 0) == 0


def test_a_pod_that_has_ended_is_not_bound(lab: Lab) -> None:
    lab.kubernetes.amend(resources.PODS, "a", {"status": {"phase": "Failed"}}, "default")
    report = RunReport()
    settled_binder(lab).run([lab.claim.name], report)
    assert (node_of(lab, "a"), report.counts["boundPods"]) == ("", 1)


@pytest.mark.parametrize("number", [2, 3])
def test_a_cluster_with_as_many_pods_as_permitted_has_turns(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(pod_binder, "PODS_AT_MOST", 2)
    if number > 2:
        lab.kubernetes.put(a_pending_pod("c"))
    report = RunReport()
    settled_binder(lab).run([lab.claim.name], report)
    assert report.counts.get("unboundClaims", 0) == (number > 2)
    assert lab.claim.is_bound


def test_a_cluster_that_does_not_tell_its_number_of_pods_has_turns(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server may leave out `remainingItemCount`."""
    binder = settled_binder(lab)
    monkeypatch.setattr(lab.kubernetes, "count", lambda _: None)
    assert len(binder.run([lab.claim.name], RunReport()).bound) == 2


@pytest.mark.parametrize("change", [{"deletion": Deletion(reason="Expired", asked_at=NOW)}, {"is_bound": True}])
def test_a_claim_that_leaves_or_has_had_its_last_turn_gets_no_pod(lab: Lab, change: dict[str, Any]) -> None:
    binder = settled_binder(lab)
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, **change))
    before = lab.claim
    assert binder.run([before.name], RunReport()) == TurnResult(NEXT_TURN)
    assert (node_of(lab, "a"), lab.claim) == ("", before)


def test_a_turn_in_vain_stands_for_its_own_claims_alone(lab: Lab) -> None:
    """A claim that it did not serve has a turn of its own; after a turn with bindings everything is read again."""
    refuse(lab, TransientError("kube:create pods/binding", "500"))
    binder = settled_binder(lab)
    assert binder.run([lab.claim.name], RunReport()) == TurnResult(NEXT_TURN)
    calls: list[str] = []
    lab.rows.before_call = calls.append
    lab.clock.advance(seconds=NEXT_TURN.total_seconds() / 4)
    assert binder.run([lab.claim.name], RunReport()) == TurnResult(NEXT_TURN * 3 / 4)
    assert calls.count("write") == 0
    binder.run([lab.claim.name, "another"], RunReport())
    assert calls.count("write") > 0


def test_after_a_turn_with_bindings_the_next_one_reads_everything(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("c"))
    binder = settled_binder(lab)
    assert len(binder.run([lab.claim.name], RunReport()).bound) == 2
    lists: list[str] = []
    lab.kubernetes.before_call = lists.append
    binder.run([lab.claim.name], RunReport())
    assert "list pods" in lists


# What becomes of the pods that a turn left unbound: they wait for another turn, or kube-scheduler places them.


A, B = a_pod("a"), a_pod("b")
NODE = msgspec.structs.replace(a_node(), allocatable={"cpu": 1000})
RECORD = a_record(plan=a_plan(pods=(A.key, B.key, "default/gone")))


def binding(pod: Pod, claim: str = "c") -> DecidedBinding:
    return DecidedBinding(claim=claim, node="n", pod=pod)


def end(
    *decided: DecidedBinding,
    unplaced: tuple[tuple[Pod, BindingReason], ...] = (),
    errors: dict[str, Any] | None = None,
    node: Any = NODE,
) -> TurnEnd:
    """The end of a turn in which these bindings were decided; each was written, unless it has an error here."""
    written = WrittenBindings()
    for binding in decided:
        if (errors or {}).get(binding.pod.key, None) != "not tried":
            written.note(binding, (errors or {}).get(binding.pod.key))
    turn = BindingTurn(bindings=decided, left={"c": unplaced} if unplaced else {})
    return turn_end(RECORD, node, turn, written, {A.key: A, B.key: B})


def test_all_pods_are_bound() -> None:
    assert end(binding(A), binding(B)) == TurnEnd()


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (BindingReason.TOPOLOGY_SPREAD, True),
        (BindingReason.POD_AFFINITY, True),
        (BindingReason.BINDING_REFUSED, False),
    ],
)
def test_a_pod_that_waits_for_others_has_a_further_turn(reason: BindingReason, waits: bool) -> None:
    other = (B, BindingReason.BINDING_REFUSED)
    assert end(unplaced=((A, reason),)) == TurnEnd(((A, reason),), may_go_on=waits)
    assert end(unplaced=((A, reason), other)) == TurnEnd(((A, reason), other), may_go_on=waits)


def test_a_decided_binding_that_was_not_written_makes_another_turn_certain() -> None:
    """Its call failed, or the time was up: the next turn decides it again."""
    assert end(binding(A), errors={A.key: "not tried"}) == TurnEnd(
        ((A, BindingReason.TOPOLOGY_SPREAD),), may_go_on=True, is_again=True
    )


def test_a_binding_that_the_api_server_denies_is_left_to_the_scheduler() -> None:
    assert end(binding(A), errors={A.key: DeniedError("kube:bind", "no")}) == TurnEnd(
        ((A, BindingReason.BINDING_REFUSED),)
    )


def test_a_pod_that_somebody_else_has_bound_is_tried_again_until_it_is_seen() -> None:
    turn_end = end(binding(A), errors={A.key: ConflictError("kube:bind", "it has a node")})
    assert turn_end.is_again


def test_the_bindings_of_other_claims_are_theirs() -> None:
    assert end(binding(A, claim="other"), errors={A.key: "not tried"}) == TurnEnd()


def test_after_so_many_denials_nothing_more_of_the_claim_is_tried() -> None:
    pods = [a_pod(f"p{number}") for number in range(REFUSALS)]
    denied = {pod.key: DeniedError("kube:bind", "no") for pod in pods}
    unplaced = ((A, BindingReason.TOPOLOGY_SPREAD),)
    turn_end = end(*map(binding, pods), binding(B), unplaced=unplaced, errors={**denied, B.key: "not tried"})
    refused = tuple((pod, BindingReason.BINDING_REFUSED) for pod in (*pods, B))
    assert turn_end == TurnEnd((*unplaced, *refused))


def test_a_node_that_is_smaller_than_planned_gets_none_of_its_pods() -> None:
    small = msgspec.structs.replace(NODE, allocatable={"cpu": 999})
    both = ((A, BindingReason.SMALLER_THAN_PLANNED), (B, BindingReason.SMALLER_THAN_PLANNED))
    assert end(binding(A), node=small) == TurnEnd(both)
