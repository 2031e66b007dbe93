"""Messages about claims: handled once, followed to the end of their claim, dropped where it is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.lifecycle.rebuilding import claim_annotations
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from lambdas.controllers.node_lifecycle import claim_work
from lambdas.messages import work_on_claim
from lambdas.ports import TransientError
from lambdas.run_report import RunReport
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def test_a_claim_with_many_steps_is_checked_again_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes a limited number of steps; the next message must not wait for a node that has already joined."""
    monkeypatch.setattr(claim_work, "MAX_STEPS", 1)
    lab.interrupt()
    lab.work.take()
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    ((message, delay),) = lab.work.sent
    assert (message["claim"], delay) == (lab.claim.name, claim_work.SOON)


def test_a_node_carries_what_its_claim_was_launched_from(lab: Lab) -> None:
    """From these annotations a lost row is rebuilt, and drift is found."""
    written = lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["metadata"]["annotations"]
    wanted = {**lab.claim.plan.annotations, **claim_annotations(lab.claim)}
    assert {key: written.get(key) for key in wanted} == wanted


def test_an_unreadable_message_does_not_fail_the_others(lab: Lab) -> None:
    """Otherwise, one bad message delays nine claims until it reaches the dead-letter queue."""
    lab.interrupt()
    report = RunReport()
    good = lab.work.take()[0]
    records = [
        {"messageId": "bad", "body": "{"},
        {"messageId": "both", "body": '{"claim": "a", "command": "b"}'},
        {"messageId": "good", "body": f'{{"claim": "{good["claim"]}"}}'},
    ]
    lab.app.execution.run(records, report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert report.to_response()["batchItemFailures"] == [{"itemIdentifier": "bad"}, {"itemIdentifier": "both"}]
    assert lab.kubernetes.evicted == ["default/p"]


def test_one_message_twice_is_handled_once(lab: Lab) -> None:
    lab.interrupt()
    (message,) = lab.work.take()
    report = lab.execute(message, message)
    assert [d.subject for d in report.decisions if d.kind == "drain"] == ["default/p"]
    assert len(lab.work.sent) == 1


def test_a_claim_of_two_messages_that_fails_is_tried_again_once(lab: Lab) -> None:
    """Both messages would go on, each with a series of checks of its own, and each failure would double them."""
    lab.interrupt()
    (message,) = lab.work.take()

    def fail(call: str) -> None:
        raise TransientError(f"kube:{call}", "throttled")

    lab.kubernetes.before_call = fail
    report = lab.execute(message, message)
    assert report.counts["portErrors"] == 1
    assert len(lab.work.sent) == 1


def test_of_two_messages_the_one_that_ends_later_counts(lab: Lab) -> None:
    """Otherwise, a series of runs that is about to end replaces the new one of a spot notice, and the drain stops."""
    lab.interrupt()
    lab.tick()
    name, now = lab.claim.name, lab.clock.now()
    lab.work.take()
    longer = work_on_claim(name, now)
    lab.execute(
        work_on_claim(name, now, checked_for=timedelta(seconds=3)),
        longer,
        work_on_claim(name, now, checked_for=timedelta(0)),
    )
    assert [message["until"] for message, _ in lab.work.sent] == [longer["until"]]


def test_a_message_about_a_deleted_claim_is_dropped(lab: Lab) -> None:
    """Messages come late; claims end."""
    report = lab.execute(work_on_claim("long-gone", lab.clock.now()))
    assert report.failed_messages == []
    assert lab.work.sent == []


def test_a_series_of_runs_ends(lab: Lab) -> None:
    """Otherwise, each slow round adds a series, and the queue fills up."""
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    for _ in range(100):
        lab.tick(seconds=5)
    assert lab.work.sent == []
    lab.reconcile()
    assert [message.get("claim") for message, _ in lab.work.sent] == [lab.claim.name]


def test_a_disruption_budget_keeps_a_pod_and_its_node(lab: Lab) -> None:
    """Otherwise, a PodDisruptionBudget has no effect."""
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    reports = lab.tick(3)
    assert {d.reason for report in reports for d in report.decisions} == {"PodDisruptionBudget"}
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected = set()
    lab.tick(5)
    assert lab.claims == ()


def test_a_drain_that_a_restored_table_does_not_know_goes_on(lab: Lab) -> None:
    """Found by seed 300010: the node was opened again in its last minute, and pods went to it while others were forced off."""
    lab.kubernetes.protected = {"default/p"}
    before = lab.claim
    lab.interrupt()
    lab.tick(2)
    lab.rows.claims[before.name] = before
    lab.work.take()
    lab.reconcile()
    assert DISRUPTED.key in lab.taints()
    (report,) = lab.tick()
    assert [d.reason for d in report.decisions if d.kind == "terminate"] == ["SpotInterrupted"]
    assert lab.claim.deletion is not None


def test_no_pod_is_forced_off_a_node_that_was_opened_meanwhile() -> None:
    """Listing pods may take half a minute; until then another run may have let the node stay."""
    lab = Lab()
    pool = a_node_pool(template={"terminationGracePeriod": "1m", "expireAfter": "1h"})
    lab.kubernetes.put(pool, a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    before = lab.claim
    lab.kubernetes.protected = {"default/p"}
    lab.clock.advance(hours=1)
    lab.reconcile()
    lab.tick(2, seconds=20)

    def restore(call: str) -> None:
        if call == f"list pods spec.nodeName={before.node_name}":
            lab.kubernetes.before_call = lambda _: None
            lab.rows.claims[before.name] = before
            lab.kubernetes.amend(kinds.NODES, before.node_name, {"spec": {"taints": []}})

    lab.kubernetes.before_call = restore
    lab.tick(seconds=20)
    assert lab.kubernetes.names(kinds.PODS) == ["p"]
    assert (lab.claim.deletion, lab.taints()) == (None, [])
