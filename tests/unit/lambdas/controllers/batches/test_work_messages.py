"""Messages about claims: handled once, and dropped where their claim is gone."""

from __future__ import annotations

from adapters.messages import work_on_claim
from adapters.ports import TransientError
from tests.fakes.lab import Lab


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
