"""Events for people: few, without duplicates, and none missing in `kubectl describe`."""

from __future__ import annotations

import pytest

from adapters.ports import JsonObject, TransientError
from adapters.runtime.parallel_tasks import in_turn
from core.ledger.entry import LedgerPart
from core.ledger.summary import DecisionSummary, command_sentence
from core.lifecycle.records import CommandRecord
from core.manifests.wire import api_resources as kinds
from core.model.plan import Command, Move
from lambdas.controllers.decision_events import EVENTS_AT_MOST, DecisionEvents
from tests.fakes.lab import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def events_of(lab: Lab) -> DecisionEvents:
    return DecisionEvents(lab.kubernetes, lab.clock, in_turn)


def written(lab: Lab) -> list[JsonObject]:
    return [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]


def a_summary(pods: int) -> DecisionSummary:
    names = tuple(f"default/p{number:04d}" for number in range(pods))
    part = LedgerPart(id="default-0", reason="Launched", pods=names)
    return DecisionSummary(f"launch 1 node for {pods} pods", "Launched", (part,), (("default/on", "node-1"),))


def test_the_claim_and_each_pod_get_sentence_place_and_id(lab: Lab) -> None:
    events_of(lab).launches("7f3a", a_summary(1))
    messages = {(e["involvedObject"]["kind"], e["involvedObject"]["name"]): e["message"] for e in written(lab)}
    assert messages == {
        ("NodeClaim", "default-0"): "launch 1 node for 1 pods (decision 7f3a)",
        ("Pod", "p0000"): "launch 1 node for 1 pods; this pod is expected on default-0 (decision 7f3a)",
        ("Pod", "on"): "launch 1 node for 1 pods; this pod is expected on node-1 (decision 7f3a)",
    }


def test_a_repeated_step_writes_no_event_twice(lab: Lab) -> None:
    for _ in range(3):
        events_of(lab).launches("7f3a", a_summary(2))
        lab.clock.advance(minutes=1)
    assert len(written(lab)) == 4


def test_a_large_decision_has_a_bounded_number_of_events(lab: Lab) -> None:
    events_of(lab).launches("7f3a", a_summary(EVENTS_AT_MOST + 50))
    found = written(lab)
    assert len(found) == EVENTS_AT_MOST
    assert found[0]["involvedObject"]["kind"] == "NodeClaim"


def test_a_command_has_events_on_nodes_claims_and_pods(lab: Lab) -> None:
    command = Command(
        reason="Empty", method="multi", nodes=("n1",), claims=("c1",), moves=(Move(pod="default/p", to="n2"),)
    )
    at = lab.clock.now()
    record = CommandRecord(id="x", command=command, created_at=at, verify_at=at, phase_since=at, decision="81c0")
    events_of(lab).command(record)
    assert {(e["involvedObject"]["kind"], e["involvedObject"]["name"], e["reason"]) for e in written(lab)} == {
        ("Node", "n1", "Empty"),
        ("NodeClaim", "c1", "Empty"),
        ("Pod", "p", "Empty"),
    }
    assert all(e["message"].startswith(command_sentence(command)) for e in written(lab))
    assert (
        "expected on n2 (decision 81c0)"
        in next(e for e in written(lab) if e["reason"] == "Empty" and "pod" in e["message"])["message"]
    )


def test_events_that_cannot_be_written_stop_nothing(lab: Lab) -> None:
    def fail(call: str) -> None:
        raise TransientError(call, "throttled")

    lab.kubernetes.before_call = fail
    events_of(lab).launches("7f3a", a_summary(2))
    lab.kubernetes.before_call = lambda _: None
    assert written(lab) == []
