"""A node is registered as it is at that moment, and its claim records what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from adapters.observation.observer import NOMINATIONS_VALID_FOR
from adapters.ports import ConflictError, DeniedError
from adapters.run_report import RunReport
from core import labels
from core.breakers import OPENS_AFTER
from core.lifecycle.binding import SETTLES_WITHIN
from core.lifecycle.records import ClaimPhase
from core.lifecycle.steps import ReportNode
from core.manifests.wire import resources
from core.reasons.code import ClaimReason, DecisionKind
from lambdas.controllers.execution import AFTER_CONFLICT
from lambdas.controllers.node_registration import FAILURES, PATCH_ATTEMPTS, PODS_WITH_EVENT_MAX, NodeEvents
from tests.builders import NOW, a_pod
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import FakeClock, FakeKubernetes


def joined(*, binds: bool = True) -> Lab:
    """A node that has joined twenty seconds after it was launched for one pod."""
    lab = Lab(bind_pods=binds)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.clock.advance(seconds=20)
    lab.boot()
    return lab


def node_of(lab: Lab) -> str:
    (name,) = lab.kubernetes.names(resources.NODES)
    return name


def decided(report: RunReport) -> list[tuple[str, str, str, str]]:
    return [(decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions]


def before_next(lab: Lab, call: str, act: Callable[[], None]) -> None:
    """Run a hook once, right before the next such call to the API server."""

    def intrude(made: str) -> None:
        if made == call:
            lab.kubernetes.before_call = lambda _: None
            act()

    lab.kubernetes.before_call = intrude


def conflicts(lab: Lab, times: int) -> None:
    """Let another client change the node right before this many patches."""
    remaining = [ConflictError("kube:patch nodes", "the object has been modified")] * times

    def conflict(call: str) -> None:
        if call == "patch nodes" and remaining:
            raise remaining.pop()

    lab.kubernetes.before_call = conflict


def test_a_registration_restores_no_taint_that_was_removed_after_the_list() -> None:
    """A node that was Ready when it was registered became not-ready for good, and was never initialized (seed 82)."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    name = node_of(lab)
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = lab.kubernetes.raw(resources.NODES, name)["spec"]["taints"]
    lab.kubernetes.amend(resources.NODES, name, {"spec": {"taints": [*taints, not_ready]}})
    before_next(lab, "get nodes", lambda: lab.kubernetes.amend(resources.NODES, name, {"spec": {"taints": taints}}))
    lab.tick(4)
    assert lab.kubernetes.raw(resources.NODES, name)["spec"].get("taints", []) == []
    assert lab.claim.is_settled


def test_a_claim_records_when_its_node_was_launched_and_seen() -> None:
    lab = joined()
    launched_at = lab.claim.phase_since
    report = lab.execute()
    claim = lab.claim
    assert (claim.phase, claim.node_name, claim.phase_since) == (ClaimPhase.REGISTERED, node_of(lab), lab.clock.now())
    assert (claim.moments.launched_at, claim.moments.seen_at) == (launched_at, lab.clock.now())
    assert decided(report) == [("register", claim.name, ClaimReason.NODE_JOINED, f"node {node_of(lab)}")]


def test_pods_of_a_node_that_is_still_closed_are_not_nominated() -> None:
    """kube-scheduler clears nominations for a node that it cannot use."""
    lab = joined()
    lab.execute()
    assert "nominatedNodeName" not in lab.kubernetes.raw(resources.PODS, "p", "default")["status"]
    assert lab.claim.nominated == ()


def test_an_opened_node_is_ready_for_all_pods_and_counted() -> None:
    lab = joined()
    lab.execute()
    seconds = SETTLES_WITHIN.total_seconds()
    (_, report) = lab.tick(2, seconds=seconds)
    claim = lab.claim
    assert (claim.phase, claim.initialized_at, claim.phase_since) == (ClaimPhase.INITIALIZED, *[lab.clock.now()] * 2)
    assert (claim.plan.pods, claim.is_bound, claim.moments.opened_at) == ((), False, lab.clock.now())
    assert decided(report) == [("initialize", claim.name, ClaimReason.NODE_READY, f"node {node_of(lab)}")]
    assert report.counts["openedNodes"] == 1
    assert report.counts["openingMilliseconds"] == (20 + 2 * seconds) * 1000


def test_a_node_that_was_never_closed_keeps_its_nominations_when_it_is_initialized() -> None:
    """They were written when it was registered; writing them again would undo what the scheduler did since."""
    lab = joined(binds=False)
    patched: list[str] = []
    lab.kubernetes.before_call = lambda call: patched.append(call) if call.startswith("patch") else None
    lab.tick(2)
    assert (lab.claim.phase, lab.claim.nominated) == (ClaimPhase.INITIALIZED, ("default/p",))
    assert patched.count("patch pods") == 1


def test_a_node_that_is_ready_closes_the_breaker_of_its_node_pool() -> None:
    lab = joined()
    for _ in range(OPENS_AFTER):
        lab.brakes.failed("default", "another node did not join", lab.clock.now())
    lab.tick(4, seconds=SETTLES_WITHIN.total_seconds())
    assert lab.claim.is_settled
    assert lab.brakes.engaged().brakes == ()


@pytest.mark.parametrize(
    ("changes", "phase", "failed"),
    [
        (PATCH_ATTEMPTS - 1, ClaimPhase.REGISTERED, {}),
        (PATCH_ATTEMPTS, ClaimPhase.LAUNCHED, {"portErrors": 1}),
    ],
)
def test_a_node_that_others_change_all_the_time_is_left_to_the_next_check(
    changes: int, phase: ClaimPhase, failed: dict[str, int]
) -> None:
    lab = joined()
    conflicts(lab, changes)
    report = lab.execute()
    assert (lab.claim.phase, report.counts["patchedAgain"]) == (phase, PATCH_ATTEMPTS - 1)
    assert {name: report.counts[name] for name in ("portErrors",) if name in report.counts} == failed


def test_a_node_that_is_gone_again_is_looked_for_a_second_later() -> None:
    """Its kubelet may register it once more."""
    lab = joined()
    before_next(lab, "get nodes", lambda: lab.kubernetes.drop(resources.NODES, node_of(lab)))
    report = lab.execute()
    assert (lab.claim.phase, report.counts["portErrors"]) == (ClaimPhase.LAUNCHED, 1)
    assert [delay for _, delay in lab.work.sent] == [AFTER_CONFLICT]


def in_a_partition_group(lab: Lab, value: str = "") -> None:
    """Let the claim's machine be of a placement group whose partition is this, unknown if empty."""
    record = lab.claim
    assert record.machine is not None
    machine_labels = {**record.machine.labels, labels.PLACEMENT_GROUP_PARTITION: value}
    machine = msgspec.structs.replace(record.machine, labels=machine_labels)
    lab.app.adapters.stores.claims.change(record, msgspec.structs.replace(record, machine=machine))


def node_labels(lab: Lab) -> dict[str, str]:
    labels_of_node: dict[str, str] = lab.kubernetes.raw(resources.NODES, node_of(lab))["metadata"]["labels"]
    return labels_of_node


def test_a_node_gets_the_partition_that_ec2_chose_and_its_claim_keeps_it() -> None:
    """Pods select on the label."""
    lab = joined()
    in_a_partition_group(lab)
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, placement_group="pg-1", partition=3))
    lab.execute()
    machine = lab.claim.machine
    assert machine is not None
    assert machine.labels[labels.PLACEMENT_GROUP_PARTITION] == "3"
    present_labels = node_labels(lab)
    assert (present_labels[labels.PLACEMENT_GROUP_PARTITION], present_labels[labels.PLACEMENT_GROUP_ID]) == (
        "3",
        "pg-1",
    )


def test_a_node_whose_partition_is_not_known_yet_is_registered_a_second_later() -> None:
    lab = joined()
    in_a_partition_group(lab)
    report = lab.execute()
    assert (lab.claim.phase, report.counts["portErrors"]) == (ClaimPhase.LAUNCHED, 1)
    assert any(
        "partition" in decision.message and lab.claim.instance_id in decision.message for decision in report.decisions
    )
    assert [delay for _, delay in lab.work.sent] == [AFTER_CONFLICT]


def test_a_known_partition_is_not_asked_for_again() -> None:
    lab = joined()
    in_a_partition_group(lab, "2")
    lab.execute()
    assert (lab.claim.phase, node_labels(lab)[labels.PLACEMENT_GROUP_PARTITION]) == (ClaimPhase.REGISTERED, "2")


def test_a_registered_node_carries_all_our_marks_and_an_initialized_one_says_so() -> None:
    """Without the finalizer, a deleted node would go before its pods."""
    lab = joined()
    lab.execute()
    metadata = lab.kubernetes.raw(resources.NODES, node_of(lab))["metadata"]
    assert labels.TERMINATION_FINALIZER in metadata["finalizers"]
    assert metadata["annotations"][labels.CLAIM] == lab.claim.name
    assert metadata["labels"][labels.REGISTERED] == "true"
    assert labels.INITIALIZED not in metadata["labels"]
    lab.tick(3, seconds=SETTLES_WITHIN.total_seconds())
    assert node_labels(lab)[labels.INITIALIZED] == "true"


# Events about a node's problem: on the node, and on the first pods that wait for it.


STEP = ReportNode("n", ClaimReason.INITIALIZATION_TIMEOUT, "it waits for its CNI")


class World:
    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.kubernetes, self.report = FakeKubernetes(clock), RunReport()
        self.events = NodeEvents(self.kubernetes, clock)

    def written(self) -> list[dict[str, Any]]:
        return [
            self.kubernetes.raw(resources.EVENTS, name, "default") for name in self.kubernetes.names(resources.EVENTS)
        ]

    def about(self) -> list[tuple[str, str]]:
        return sorted((event["involvedObject"]["kind"], event["involvedObject"]["name"]) for event in self.written())

    def forget(self, claim: str, message: str, reason: ClaimReason = ClaimReason.LAUNCH_DENIED) -> None:
        self.report.decide(DecisionKind.FORGET, claim, reason, message)

    def not_launched(self) -> list[tuple[str, str]]:
        self.events.not_launched("mine", self.report.decisions)
        return [(event["reason"], event["message"]) for event in self.written()]


def test_the_node_and_each_waiting_pod_get_the_reason() -> None:
    world = World()
    world.events.publish(STEP, [a_pod("a"), a_pod("b")])
    assert world.about() == [("Node", "n"), ("Pod", "a"), ("Pod", "b")]
    assert {(event["type"], event["reason"], event["message"]) for event in world.written()} == {
        ("Warning", "InitializationTimeout", "it waits for its CNI")
    }
    uids = [event["involvedObject"].get("uid") for event in world.written() if event["involvedObject"]["kind"] == "Pod"]
    assert sorted(uids) == ["uid-a", "uid-b"]


def test_of_many_pods_some_get_an_event() -> None:
    world = World()
    world.events.publish(STEP, [a_pod(f"p{number}") for number in range(PODS_WITH_EVENT_MAX + 1)])
    assert len(world.about()) == 1 + PODS_WITH_EVENT_MAX


def test_the_same_report_is_written_once() -> None:
    world = World()
    for _ in range(2):
        world.events.publish(STEP, [])
    assert world.about() == [("Node", "n")]


class TestANodeClaimThatIsNotLaunched:
    """Its object goes with its claim, so the event is all that is left of the reason."""

    def test_gets_the_last_reason(self) -> None:
        world = World()
        world.forget("another", "not about it")
        world.forget("mine", "the first")
        world.forget("mine", "the last")
        world.forget("another", "nor this")
        clause = ClaimReason.LAUNCH_DENIED.clause
        assert world.not_launched() == [("LaunchDenied", f"{clause}: the last")]
        assert world.about() == [("NodeClaim", "mine")]

    def test_without_a_message_gets_the_meaning_of_the_reason(self) -> None:
        world = World()
        world.forget("mine", "", ClaimReason.LAUNCH_TIMEOUT)
        assert world.not_launched() == [("LaunchTimeout", ClaimReason.LAUNCH_TIMEOUT.meaning)]

    def test_that_was_launched_gets_none(self) -> None:
        world = World()
        world.report.decide(DecisionKind.LAUNCH, "mine", ClaimReason.LAUNCHED, "i-1")
        assert world.not_launched() == []


# Pods are nominated for the node that was launched for them, so that kube-scheduler keeps its room for them.


@pytest.fixture
def lab() -> Lab:
    """Two pods for which a node was launched that has not joined yet."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(a_pending_pod("a"), a_pending_pod("b"))
    lab.provision()
    return lab


def join(lab: Lab, **span: float) -> None:
    lab.tick(3)
    lab.boot()
    lab.tick(1, **span)


def nominated(lab: Lab, pod: str) -> str | None:
    named: str | None = lab.kubernetes.raw(resources.PODS, pod, "default")["status"].get("nominatedNodeName")
    return named


def take_the_node(lab: Lab) -> None:
    """A foreign pod fills it."""
    taker = a_pending_pod("taker", cpu="3900m", nodeName=lab.claim.node_name)
    lab.kubernetes.put({**taker, "status": {"phase": "Running"}})


def test_pods_are_nominated_for_the_node_once_it_is_open(lab: Lab) -> None:
    """The scheduler retries a nominated pod only at times, and removes a nomination for a closed node."""
    patched: list[tuple[str, str | None]] = []

    def note(call: str) -> None:
        if call.startswith("patch"):
            patched.append((call, nominated(lab, "b")))

    lab.kubernetes.before_call = note
    join(lab)
    (node,) = lab.kubernetes.names(resources.NODES)
    assert patched[:3] == [("patch nodes", None), ("patch pods", None), ("patch pods", None)]
    assert nominated(lab, "b") == node
    assert lab.claim.nominated == ("default/a", "default/b")


def test_only_pending_pods_are_nominated(lab: Lab) -> None:
    """The API server refuses a nomination of a bound pod, and a pod of that name may be another one."""
    lab.kubernetes.amend(resources.PODS, "a", {"spec": {"nodeName": "elsewhere"}}, "default")
    join(lab)
    assert (nominated(lab, "a"), lab.claim.nominated) == (None, ("default/b",))


def test_a_setting_turns_it_off() -> None:
    lab = Lab(nominate_pods=False, bind_pods=False)
    lab.kubernetes.put(a_pending_pod("a"))
    lab.provision()
    join(lab)
    assert (nominated(lab, "a"), lab.claim.phase) == (None, ClaimPhase.INITIALIZED)


def test_a_cluster_that_refuses_nominations_still_gets_its_nodes() -> None:
    """An older ClusterRole must not keep nodes from joining."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="100m") for number in range(9)))
    lab.provision()
    refused: list[str] = []

    def refuse(call: str) -> None:
        if call == "patch pods":
            refused.append(call)
            raise DeniedError("kube:patch pods/status", "403 forbidden")

    lab.kubernetes.before_call = refuse
    join(lab)
    assert lab.claim.is_registered
    assert len(refused) == FAILURES


def test_a_pod_that_was_just_bound_does_not_count_as_a_refusal() -> None:
    """After three refusals, the claim's other pods get no nomination."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="100m") for number in range(9)))
    lab.provision()
    answered: list[str] = []

    def refuse(call: str) -> None:
        if call == "patch pods" and len(answered) < FAILURES:
            answered.append(call)
            message = "422 status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
            raise DeniedError("kube:patch pods/status", message)

    lab.kubernetes.before_call = refuse
    join(lab)
    assert len(lab.claim.nominated) == 9 - FAILURES


def test_a_valid_nomination_counts_as_a_binding_for_a_while(lab: Lab) -> None:
    """The scheduler keeps the room: a second place planned for the pod would stay empty."""
    join(lab)
    take_the_node(lab)
    lab.provision()
    assert len(lab.claims) == 1
    lab.clock.advance(seconds=NOMINATIONS_VALID_FOR.total_seconds())
    lab.provision()
    assert len(lab.claims) > 1


def test_a_nomination_that_the_scheduler_removed_does_not_count(lab: Lab) -> None:
    join(lab)
    take_the_node(lab)
    for pod in ("a", "b"):
        lab.kubernetes.amend(resources.PODS, pod, {"status": {"nominatedNodeName": None}}, "default")
    lab.provision()
    assert len(lab.claims) > 1


def test_a_nomination_by_preemption_counts_as_before(lab: Lab) -> None:
    """Karpenter's rule: the scheduler makes room for the pod, so a node for it would be superfluous."""
    join(lab)
    (node,) = lab.kubernetes.names(resources.NODES)
    pod = a_pending_pod("urgent", cpu="3")
    lab.kubernetes.put({**pod, "status": {**pod["status"], "nominatedNodeName": node}})
    take_the_node(lab)
    lab.clock.advance(seconds=NOMINATIONS_VALID_FOR.total_seconds() - 60)
    lab.provision()
    assert len(lab.claims) == 1


def test_bound_pods_are_no_longer_remembered_as_nominated(lab: Lab) -> None:
    """Otherwise, each row keeps its pods forever."""
    join(lab)
    lab.bind("a")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    assert lab.claim.nominated == ("default/b",)
