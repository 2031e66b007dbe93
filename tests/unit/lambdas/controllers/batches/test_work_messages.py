"""Messages about claims: handled once, and dropped where their claim is gone."""

from __future__ import annotations

from datetime import timedelta

from adapters.messages import work_on_claim
from adapters.ports import TransientError
from adapters.run_report import RunReport
from tests.fakes.lab import Lab


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
