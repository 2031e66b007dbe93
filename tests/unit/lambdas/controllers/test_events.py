"""Events reach the object they are about, once an hour, and never hold up what wrote them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import ConflictError, DeniedError, JsonObject, NotFoundError, PortError, TransientError
from adapters.runtime import in_turn
from core.ledger.entry import DecisionSummary, LedgerPart, command_words
from core.lifecycle.records import CommandRecord
from core.manifests.wire import resources
from core.model.plan import Command, Move
from lambdas.controllers import events
from lambdas.controllers.events import (
    AT_A_TIME,
    EVENTS_AT_MOST,
    WRITE_WITHIN,
    DecisionEvents,
    in_time,
    normal,
    warning,
    write,
    write_together,
)
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.fakes.world import FakeClock, FakeKubernetes

# Events for people: few, without duplicates, and none missing in `kubectl describe`.


@pytest.fixture
def lab() -> Lab:
    return Lab()


def events_of(lab: Lab) -> DecisionEvents:
    return DecisionEvents(lab.kubernetes, lab.clock, in_turn)


def written(lab: Lab) -> list[JsonObject]:
    return [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]


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
    events = written(lab)
    assert len(events) == EVENTS_AT_MOST
    assert events[0]["involvedObject"]["kind"] == "NodeClaim"


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
    assert all(e["message"].startswith(command_words(command)) for e in written(lab))
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


POD = events.about_pod("default", "web", "uid-1")


def an_event(identity: str = "x", **changes: Any) -> dict[str, Any]:
    arguments = {"about": POD, "reason": "NoOfferingFits", "message": "too large", "now": NOW, **changes}
    return warning(**arguments, identity=identity)


def name_of(event: dict[str, Any]) -> str:
    return str(event["metadata"]["name"])


def test_an_event_names_its_object_and_its_writer() -> None:
    event = an_event()
    assert {**event, "metadata": {**event["metadata"], "name": ""}} == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "default", "uid": "uid-1"},
        "reason": "NoOfferingFits",
        "message": "too large",
        "type": "Warning",
        "source": {"component": "fleetwright"},
        "reportingComponent": "fleetwright",
        "firstTimestamp": "2026-11-20T00:00:00Z",
        "lastTimestamp": "2026-11-20T00:00:00Z",
        "count": 1,
    }
    assert normal(POD, "NoOfferingFits", "too large", NOW, identity="x") == {**event, "type": "Normal"}


@pytest.mark.parametrize(
    ("make", "source", "written"),
    [
        (events.about_node, "n", {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}),
        (events.about_node_claim, "c", {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "c"}),
        (
            events.about_node_pool,
            {"metadata": {"name": "p", "uid": "u"}},
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "p", "uid": "u"},
        ),
        (
            events.about_node_class,
            {"metadata": {"name": "p"}},
            {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "name": "p"},
        ),
        (events.about_node_pool, {}, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": ""}),
    ],
)
def test_a_reference_is_found_by_kubectl_describe(
    make: Callable[[Any], dict[str, str]], source: object, written: dict[str, str]
) -> None:
    about = make(source)
    assert about == written
    assert warning(about, "r", "m", NOW, identity="x")["metadata"]["namespace"] == "default"


def test_a_reference_to_a_pod_names_its_namespace() -> None:
    about = events.about_pod("ns", "p")
    assert about == {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns"}
    assert warning(about, "r", "m", NOW, identity="x")["metadata"]["namespace"] == "ns"


def test_events_of_one_identity_share_a_name_for_an_hour() -> None:
    """The API server then refuses the second; without this, every round adds one."""
    name = name_of(an_event())
    assert name == name_of(an_event(message="other words", now=NOW + timedelta(minutes=59)))
    assert name != name_of(an_event("y"))
    assert name != name_of(an_event(now=NOW + timedelta(hours=1)))
    assert name.startswith("web.")


def test_long_names_and_messages_are_cut_to_what_the_api_server_takes() -> None:
    about = events.about_pod("default", "a" * 241 + "." + "b" * 11)
    event = an_event(about=about, message="m" * 1025)
    stem, _, digest = name_of(event).rpartition(".")
    assert (stem, len(digest)) == ("a" * 241, 10)
    assert len(event["message"]) == 1024
    assert len(name_of(an_event(about=events.about_pod("default", "a" * 253)))) == 253


class Refusing(FakeKubernetes):
    """An API server that answers each creation with the next of these errors, None for success."""

    def __init__(self, *errors: PortError | None) -> None:
        super().__init__(FakeClock(NOW))
        self._errors = iter(errors)

    def create(self, resource: Any, body: Any, namespace: str = "") -> None:
        error = next(self._errors, None)
        if error is not None:
            raise error
        super().create(resource, body, namespace)


@pytest.mark.parametrize(
    ("error", "done", "written"),
    [
        (ConflictError("kube:create events", "already exists"), 2, 1),
        (NotFoundError("kube:create events", "the namespace is gone"), 2, 1),
        (DeniedError("kube:create events", "the namespace is being deleted"), 2, 1),
        (TransientError("kube:create events", 'failed calling webhook "policy.example.com"'), 2, 1),
        (TransientError("kube:create events", "503"), 0, 0),
    ],
)
def test_only_a_failing_server_ends_the_writing(error: PortError, done: int, written: int) -> None:
    """A webhook speaks for one object; a server that fails would fail the others, too, after long waits."""
    server = Refusing(error)
    assert write(server, [an_event("a"), an_event("b")]) == done
    assert len(server.names(resources.EVENTS)) == written


def test_an_event_lies_in_the_namespace_of_its_object() -> None:
    server = Refusing()
    event = an_event(about=events.about_pod("shop", "web"))
    assert write(server, [event]) == 1
    assert server.raw(resources.EVENTS, name_of(event), "shop")["reason"] == "NoOfferingFits"


def test_writing_stops_when_its_time_is_over() -> None:
    clock = FakeClock(NOW)
    taken = []
    for event in in_time([an_event(str(number)) for number in range(9)], clock):
        taken.append(event)
        clock.advance(seconds=WRITE_WITHIN.total_seconds() / 2)
    assert len(taken) == 2


def test_many_events_are_written_in_parts() -> None:
    """A task that fails leaves the events of the others."""
    server = Refusing(TransientError("kube:create events", "503"))
    sizes: list[int] = []

    def run_tasks(tasks: Any, patience: timedelta) -> tuple[bool, ...]:
        sizes.append(len(tasks))
        assert patience == WRITE_WITHIN
        return in_turn(tasks, patience)

    write_together(server, [an_event(str(number)) for number in range(AT_A_TIME + 3)], run_tasks)
    write_together(server, [], run_tasks)
    assert (sizes, len(server.names(resources.EVENTS))) == ([2], 3)


def test_the_log_names_an_event_that_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise, nobody can tell which of a run's events exist already."""
    caplog.set_level("DEBUG", logger=events.logger.name)
    errors = (ConflictError("kube:create events", "exists"), DeniedError("kube:create events", "no"))
    event = an_event()
    assert write(Refusing(*errors, TransientError("kube:create events", "503")), [event] * 3) == 2
    assert [getattr(record, "event", None) for record in caplog.records] == [name_of(event)] * 3
