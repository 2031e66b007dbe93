from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.brakes.breaker import Breaker
from core.launch.validation.launch_validation import next_validation, written_validation
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder
from lambdas.controllers.resting.reconciliation_rest import WITHOUT_PODS_EVERY
from lambdas.controllers.status.node_pool_conditions import pool_readiness
from lambdas.ports import TransientError
from tests.builders import NOW, a_pool, a_type
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def launch_behind_our_back(lab: Lab, claim: str, *, owned: bool = True) -> str:
    """An instance without a record."""
    tags = {"karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": claim} | (
        {labels.CLAIM: claim} if owned else {}
    )
    order = LaunchOrder(
        claim=claim,
        node_pool="default",
        token=f"behind-{claim}",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags=tags,
    )
    return lab.cloud.launch(order).instances[0].instance_id


def ids(lab: Lab) -> list[str]:
    return [found.instance_id for found in lab.cloud.instances()]


def test_another_provisioners_instances_are_left_alone(lab: Lab) -> None:
    """Karpenter's nodes have the same tags; during a migration both run."""
    theirs = launch_behind_our_back(lab, "theirs", owned=False)
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert theirs in ids(lab)


def test_an_instance_whose_launch_reply_was_lost_is_adopted() -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.reconcile()
    assert lab.claim.instance_id == launched.instance_id
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_an_adopted_instance_of_an_unknown_type_keeps_what_its_claim_reserved() -> None:
    """What it has is not known, so the limits would seem to have its room: more would be launched than they allow."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.types = (a_type("c5.large"),)
    lab.restart()
    lab.reconcile()
    assert (lab.claim.instance_id, lab.claim.reserved) == (launched.instance_id, launched.reserved)
    assert launched.reserved["cpu"] > 0


def test_a_claim_without_its_instance_ends_once_its_node_is_not_ready(lab: Lab) -> None:
    """Otherwise, pods wait on a node that does not exist. A Ready node is stronger evidence than an EC2 list."""
    lab.cloud.terminate([lab.claim.instance_id])
    lab.clock.advance(minutes=3)
    lab.reconcile()
    assert lab.claim.deletion is None
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, not_ready)
    lab.reconcile()
    lab.tick(3)
    assert lab.claims == ()
    assert lab.kubernetes.names(kinds.NODES) == []


def test_an_instance_missing_from_a_list_is_not_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, an incomplete list while a zone is cut off costs all nodes in it."""
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, not_ready)
    lab.clock.advance(minutes=3)
    listed = lab.cloud.instances
    monkeypatch.setattr(lab.cloud, "instances", lambda ids=(): listed(ids) if ids else ())
    lab.reconcile()
    assert lab.claim.deletion is None


def test_claims_older_than_the_index_are_found_by_their_instances(lab: Lab) -> None:
    """Otherwise, a spot interruption of such an instance is ignored, and its pods die with it."""
    lab.rows.unindexed.add(lab.claim.instance_id)
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) is None
    lab.reconcile()
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) == lab.claim


def test_expired_nodes_go_within_the_budget() -> None:
    """Otherwise, a fleet that was launched together goes together."""
    lab = Lab()
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
            ]
        }
    }
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}, disruption={"budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", metadata={"labels": {"a": "b"}}, affinity=anti) for n in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    lab.reconcile()
    assert all(claim.deletion is None for claim in lab.claims)
    lab.clock.advance(hours=1)
    for _ in range(2):
        report = lab.reconcile()
        assert sum(claim.deletion is not None for claim in lab.claims) == 1
    assert report.counts["expiredButBlocked"] == 2


def test_nodes_go_with_their_node_pool_but_not_because_of_a_stale_list(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, one stale list costs a whole pool."""
    listed = lab.kubernetes.raw(kinds.NODE_POOLS, "default")
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    with monkeypatch.context() as stale:
        stale.setattr(lab.kubernetes, "get", lambda *_: listed)
        lab.reconcile()
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    lab.reconcile()
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "NodePoolDeleted"


def test_a_node_whose_instance_is_ending_is_not_opened(lab: Lab) -> None:
    """A restored table does not know that EC2 was asked to terminate the instance: pods would be placed on its last minute."""
    claim = lab.claim
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    lab.kubernetes.amend(kinds.NODES, claim.node_name, {"spec": {"taints": [taint]}})
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, state="shutting-down"))
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODES, claim.node_name)["spec"]["taints"] == [taint]


def test_a_taint_without_a_command_is_removed(lab: Lab) -> None:
    """Otherwise, a crash long ago keeps a good node from taking pods."""
    body = {
        "spec": {
            "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": "t", "effect": "NoSchedule"}]
        }
    }
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, body)
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["spec"]["taints"] == [
        {"key": "t", "effect": "NoSchedule"}
    ]


def test_a_node_pool_shows_its_use_and_that_it_is_ready(lab: Lab) -> None:
    lab.reconcile()
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]
    assert status["nodes"] == 1
    assert status["resources"]["cpu"] == "2"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "DisruptionPaused": "False",
        "LaunchDenied": "False",
        "MarketStale": "False",
        "NodeClassReady": "True",
        "NodeRegistrationHealthy": "True",
        "QuotaShort": "Unknown",
        "Ready": "True",
        "ValidationSucceeded": "True",
    }


@pytest.mark.parametrize(
    ("ready", "expected"), [({}, "False"), ({"default": None}, "Unknown"), ({"default": False}, "False")]
)
def test_a_missing_class_is_an_error_and_a_new_one_is_not(ready: dict[str, bool | None], expected: str) -> None:
    """One is a mistake of its author, the other is over after a round."""
    conditions = {found["type"]: found["status"] for found in pool_readiness(a_pool(), ready)}
    assert (conditions["NodeClassReady"], conditions["Ready"]) == (expected, expected)


def registration(lab: Lab) -> dict[str, str]:
    """The condition NodeRegistrationHealthy after a round."""
    lab.reconcile()
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["conditions"]
    return next(found for found in conditions if found["type"] == "NodeRegistrationHealthy")


def test_a_node_pool_reports_that_half_of_its_last_nodes_failed_until_it_changes(lab: Lab) -> None:
    """Karpenter's condition, from the results that the pool's breaker keeps."""
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c2, RegistrationTimeout", NOW)
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c3, RegistrationTimeout", NOW)
    told = registration(lab)
    assert (told["status"], told["reason"]) == ("False", "RegistrationFailed")
    assert told["message"] == "2 of the last 3 new nodes failed, the last: c3, RegistrationTimeout"
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"metadata": {"generation": 7}})
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    assert registration(lab)["status"] == "Unknown"
    lab.brakes.joined("default", NOW)
    assert registration(lab)["status"] == "True"


def test_breakers_that_cannot_be_read_leave_the_condition_as_it_is(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registration(lab)["status"] == "True"

    def throttled() -> tuple[Breaker, ...]:
        raise TransientError("dynamodb:Query", "throttled")

    monkeypatch.setattr(lab.brakes, "breakers", throttled)
    assert registration(lab)["status"] == "True"


def test_status_is_written_only_when_it_changes(lab: Lab) -> None:
    """Otherwise, every round notifies all watchers of NodePools."""
    lab.reconcile()
    version = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["metadata"]["resourceVersion"]
    lab.clock.advance(minutes=30)
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "default")["metadata"]["resourceVersion"] == version


def test_a_node_pool_reports_which_brake_keeps_its_nodes(lab: Lab) -> None:
    """Otherwise, an operator has to find the right function's log to see why nothing consolidates."""
    lab.kubernetes.put(a_node_pool("other"))
    lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "one command at a time", node_pool="default"), lab.clock.now())
    lab.reconcile()
    assert paused(lab, "default") == ("True", "NodePoolBreakerHalfOpen", "one command at a time")
    assert paused(lab, "other") == ("False", "NoBrakeEngaged", "")
    lab.brakes.hold(Brake(BrakeKind.PAUSE, "set it to run"), lab.clock.now())
    lab.reconcile()
    for pool in ("default", "other"):
        assert paused(lab, pool) == ("True", "KillSwitchPause", "set it to run")
    version = lab.kubernetes.raw(kinds.NODE_POOLS, "other")["metadata"]["resourceVersion"]
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "other")["metadata"]["resourceVersion"] == version
    lab.brakes.release(BrakeKind.PAUSE)
    lab.reconcile()
    assert paused(lab, "other") == ("False", "NoBrakeEngaged", "")


def test_a_node_pool_reports_an_unreadable_budget(lab: Lab) -> None:
    """The API server accepts `0 25 * * *`; no node of the pool was ever disrupted, without any report."""
    budgets = [{"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]
    lab.kubernetes.put(a_node_pool("other", disruption={"consolidateAfter": "0s", "budgets": budgets}))
    lab.reconcile()
    status, reason, message = paused(lab, "other")
    assert (status, reason) == ("True", "InvalidBudget")
    assert message.startswith("spec.disruption.budgets[0]: '25' in the hour")


def paused(lab: Lab, pool: str) -> tuple[str, str, str]:
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, pool)["status"]["conditions"]
    found = next(c for c in conditions if c["type"] == "DisruptionPaused")
    return found["status"], found["reason"], found["message"]


def test_the_usage_of_a_pools_last_node_leaves_its_status(lab: Lab) -> None:
    """A merge patch keeps unnamed fields: the figures stayed, and each round wrote them again (seed 1017)."""
    unused = a_node_pool("unused")
    unused["status"] = {"resources": {"cpu": "16", "nodes": "1"}}
    lab.kubernetes.put(unused)
    lab.reconcile()
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "unused")
    assert status["status"]["resources"] == {"nodes": "0"}
    lab.clock.advance(minutes=30)
    lab.reconcile()
    again = lab.kubernetes.raw(kinds.NODE_POOLS, "unused")
    assert again["metadata"]["resourceVersion"] == status["metadata"]["resourceVersion"]


def test_an_invalid_node_pool_reports_it_and_the_rest_continues(lab: Lab) -> None:
    """Otherwise, its owner waits for nodes without any report."""
    lab.kubernetes.put(
        a_node_pool("broken", template={"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
    )
    report = lab.reconcile()
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "broken")["status"]["conditions"]
    failed = next(c for c in conditions if c["type"] == "ValidationSucceeded")
    assert failed["status"] == "False"
    assert "operator" in failed["message"]
    assert report.counts["invalidNodePools"] == 1
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["nodes"] == 1


def answered(lab: Lab, *, fields: dict[str, str], code: str = "") -> None:
    """Have the class resolve to this answer of EC2."""
    denied = ("ec2:RunInstances", code, "not authorized") if code else None
    answer = written_validation(next_validation(None, fields, denied, lab.clock.now()))
    status = "False" if code else "True"
    conditions = [{"type": "Ready", "status": status, "reason": "Ready", "message": ""}]
    lab.cloud.resolution = {**lab.cloud.resolution, "launchValidation": answer, "conditions": conditions}
    lab.clock.advance(minutes=6)
    lab.reconcile()


def validation_events(lab: Lab) -> list[tuple[str, str]]:
    events = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    own = [event for event in events if event["involvedObject"]["kind"] == "EC2NodeClass"]
    return sorted((event["type"], event["message"]) for event in own)


def test_what_ec2_says_about_a_class_is_kept_in_its_annotation_alone(lab: Lab) -> None:
    """The API server drops fields of the status that the definition does not have."""
    answered(lab, fields={"UserData": "1"})
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")
    assert "launchValidation" not in written["status"]
    assert '"UserData":"1"' in written["metadata"]["annotations"]["fleetwright.dev/launch-validation"]


def test_memory_that_a_node_shows_is_kept_on_its_class_once(lab: Lab) -> None:
    """Plans count on it from then on; each round writing it again would wake all watchers of the class."""
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}})
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    lab.reconcile()
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    assert f'"{lab.claim.machine.offering.instance_type}":' in written["annotations"]["fleetwright.dev/node-memory"]
    lab.reconcile()
    again = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    assert again["resourceVersion"] == written["resourceVersion"]


def test_a_node_of_another_type_than_its_claim_shows_no_memory(lab: Lab) -> None:
    """Somebody stopped its instance and changed its type: half a size less would count for all nodes of the class."""
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}})
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    resized = {"metadata": {"labels": {labels.INSTANCE_TYPE: "m5.24xlarge"}}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, resized)
    lab.reconcile()
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    assert "fleetwright.dev/node-memory" not in written["annotations"]


def test_an_event_names_the_changed_fields_of_the_launch_template(lab: Lab) -> None:
    """Otherwise, people guess which edit or which new image it is about."""
    answered(lab, fields={"ImageId": "1", "UserData": "1"})
    answered(lab, fields={"ImageId": "2", "UserData": "1"})
    answered(lab, fields={"ImageId": "2", "UserData": "1"})
    assert validation_events(lab) == [
        ("Normal", "EC2 would launch from it (DryRun)"),
        ("Normal", "launch template changed in ImageId: EC2 would launch from it (DryRun)"),
    ]


def test_a_class_that_ec2_denies_blocks_its_pools_and_a_warning_has_the_message(lab: Lab) -> None:
    answered(lab, fields={"ImageId": "1"}, code="UnauthorizedOperation")
    ((kind, message),) = validation_events(lab)
    assert kind == "Warning"
    assert "ec2:RunInstances (DryRun): UnauthorizedOperation: not authorized." in message
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["conditions"]
    assert next(c["status"] for c in conditions if c["type"] == "NodeClassReady") == "False"


def test_a_failing_part_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(node_class: object, node_pools: object) -> object:
        raise TransientError("ec2:DescribeSubnets", "throttled")

    monkeypatch.setattr(lab.cloud, "resolve", fail)
    lab.clock.advance(minutes=2)
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    report = lab.reconcile()
    assert lab.claim.deletion is not None
    assert report.counts["portErrors"] == 1


def test_budget_windows_become_schedules(lab: Lab) -> None:
    """Otherwise, a window of an hour may pass before `disrupt` runs."""
    budget = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "165h"}
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [budget]}))
    lab.reconcile()
    assert sorted(lab.windows.present.values()) == ["cron(0 5 ? * SUN *)", "cron(0 8 ? * SUN *)"]


def test_a_claim_that_makes_no_progress_gets_another_message(lab: Lab) -> None:
    """Messages get lost."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.clock.advance(seconds=5)
    lab.provision()
    lab.work.take()
    lab.clock.advance(minutes=1)
    lab.reconcile()
    (standing,) = [claim for claim in lab.claims if claim.phase is ClaimPhase.LAUNCHED]
    assert [message["claim"] for message, _ in lab.work.sent] == [standing.name]


def test_a_leaving_pod_is_recorded_for_consolidate_after(lab: Lab) -> None:
    lab.reconcile()
    lab.clock.advance(minutes=10)
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.reconcile()
    assert lab.claim.last_pod_event_at == lab.clock.now() > NOW + timedelta(minutes=10)


def test_forceful_expiry_asks_neither_budgets_nor_pods() -> None:
    """A hard date is set on the NodePool; replacements still come first."""
    lab = Lab()
    annotations = {"fleetwright.dev/expiry": "Forceful"}
    budgets = {"budgets": [{"nodes": "0"}]}
    lab.kubernetes.put(
        a_node_pool(template={"expireAfter": "1h"}, disruption=budgets, metadata={"annotations": annotations})
    )
    lab.kubernetes.put(a_pending_pod("p", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(hours=1)
    lab.reconcile()
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == "ExpiredForcefully"
    assert deletion.ends_at is not None
