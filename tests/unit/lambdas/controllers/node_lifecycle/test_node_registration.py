"""A node is registered as it is at that moment, and its claim records what was done."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from adapters.ports import ConflictError
from adapters.run_report import RunReport
from core import labels
from core.brakes.breaker import OPENS_AFTER
from core.lifecycle.binding.eligibility import SETTLES_WITHIN
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from core.reasons.claim import ClaimReason
from lambdas.controllers.batches.retries import AFTER_CONFLICT
from lambdas.controllers.node_lifecycle.node_registration import PATCH_ATTEMPTS
from tests.fakes.lab import Lab, a_pending_pod


def joined(*, binds: bool = True) -> Lab:
    """A node that has joined twenty seconds after it was launched for one pod."""
    lab = Lab(bind_pods=binds)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.clock.advance(seconds=20)
    lab.boot()
    return lab


def node_of(lab: Lab) -> str:
    (name,) = lab.kubernetes.names(kinds.NODES)
    return name


def decided(report: RunReport) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.subject, one.reason, one.message) for one in report.decisions]


def before_next(lab: Lab, call: str, act: Callable[[], None]) -> None:
    """Run a hook once, right before the next such call to the API server."""

    def intrude(made: str) -> None:
        if made == call:
            lab.kubernetes.before_call = lambda _: None
            act()

    lab.kubernetes.before_call = intrude


def conflicts(lab: Lab, times: int) -> None:
    """Let another client change the node right before this many patches."""
    left = [ConflictError("kube:patch nodes", "the object has been modified")] * times

    def conflict(call: str) -> None:
        if call == "patch nodes" and left:
            raise left.pop()

    lab.kubernetes.before_call = conflict


def test_a_registration_restores_no_taint_that_was_removed_after_the_list() -> None:
    """A node that was Ready when it was registered became not-ready for good, and was never initialized (seed 82)."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    name = node_of(lab)
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = lab.kubernetes.raw(kinds.NODES, name)["spec"]["taints"]
    lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": [*own, not_ready]}})
    before_next(lab, "get nodes", lambda: lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": own}}))
    lab.tick(4)
    assert lab.kubernetes.raw(kinds.NODES, name)["spec"].get("taints", []) == []
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
    assert "nominatedNodeName" not in lab.kubernetes.raw(kinds.PODS, "p", "default")["status"]
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
    before_next(lab, "get nodes", lambda: lab.kubernetes.drop(kinds.NODES, node_of(lab)))
    report = lab.execute()
    assert (lab.claim.phase, report.counts["portErrors"]) == (ClaimPhase.LAUNCHED, 1)
    assert [delay for _, delay in lab.work.sent] == [AFTER_CONFLICT]


def in_a_partition_group(lab: Lab, value: str = "") -> None:
    """Let the claim's machine be of a placement group whose partition is this, unknown if empty."""
    record = lab.claim
    assert record.machine is not None
    own = {**record.machine.labels, labels.PLACEMENT_GROUP_PARTITION: value}
    machine = msgspec.structs.replace(record.machine, labels=own)
    lab.app.adapters.stores.claims.change(record, msgspec.structs.replace(record, machine=machine))


def node_labels(lab: Lab) -> dict[str, str]:
    found: dict[str, str] = lab.kubernetes.raw(kinds.NODES, node_of(lab))["metadata"]["labels"]
    return found


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
    found = node_labels(lab)
    assert (found[labels.PLACEMENT_GROUP_PARTITION], found[labels.PLACEMENT_GROUP_ID]) == ("3", "pg-1")


def test_a_node_whose_partition_is_not_known_yet_is_registered_a_second_later() -> None:
    lab = joined()
    in_a_partition_group(lab)
    report = lab.execute()
    assert (lab.claim.phase, report.counts["portErrors"]) == (ClaimPhase.LAUNCHED, 1)
    assert any("partition" in one.message and lab.claim.instance_id in one.message for one in report.decisions)
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
    metadata = lab.kubernetes.raw(kinds.NODES, node_of(lab))["metadata"]
    assert labels.TERMINATION_FINALIZER in metadata["finalizers"]
    assert metadata["annotations"][labels.CLAIM] == lab.claim.name
    assert metadata["labels"][labels.REGISTERED] == "true"
    assert labels.INITIALIZED not in metadata["labels"]
    lab.tick(3, seconds=SETTLES_WITHIN.total_seconds())
    assert node_labels(lab)[labels.INITIALIZED] == "true"
