"""The pump: who is woken by what, how often, and what becomes of failures. The functions here are small fakes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from installation import wiring
from installation.wiring import BY_NAME, FunctionSpec
from simulator.aws.queues import Queues
from simulator.clock import VirtualClock, stream
from simulator.events import LINEAGE_MAX, Pump, lineage_of
from simulator.invocation.faults import CrashError, MessageFaults
from simulator.invocation.sandbox import Sandboxes
from simulator.record import Event, Recorder

START = datetime(2026, 11, 20, tzinfo=UTC)
URLS = {queue.name: queue.name for queue in wiring.QUEUES}

Behaviour = Callable[[dict[str, Any], Any], dict[str, Any] | None]


class Bench:
    """A pump over fake functions. `behave[name]` is what a function does; every call is noted in `calls`."""

    def __init__(self, functions: Sequence[FunctionSpec] = wiring.FUNCTIONS) -> None:
        self.clock = VirtualClock(START)
        self.events: list[Event] = []
        self.calls: list[tuple[str, datetime, dict[str, Any]]] = []
        self.decisions: list[tuple[str, dict[str, Any]]] = []
        self.behave: dict[str, Behaviour] = {}
        self.built: list[str] = []
        recorder = Recorder(self.clock)
        recorder.listen(self.events.append)
        self.message_faults = MessageFaults(self.clock, recorder)
        self.sandboxes = Sandboxes(
            self.clock, recorder, build=self._build, use=lambda _: None, handler_of=self._handler_of
        )
        self.queues = Queues(self.clock, stream(1, "test"), self.message_faults.carry, "1", "us-east-1")
        for queue in wiring.QUEUES:
            self.queues.create(queue.name, queue.max_receives)
        decided = lambda function, decision: self.decisions.append((function, decision))  # noqa: E731
        self.pump = Pump(self.clock, self.sandboxes, self.queues, self.message_faults, decided, recorder, functions)

    def send(self, queue: str, *bodies: str, delay: int = 0) -> None:
        """Put messages into a queue."""
        for body in bodies:
            self.queues.send({"QueueUrl": f"https://x/{queue}", "MessageBody": body, "DelaySeconds": delay})

    def run(self, **span: float) -> None:
        """Let time pass."""
        self.clock.run_until(self.clock.now() + timedelta(**span))

    def woken(self, name: str) -> list[dict[str, Any]]:
        """The events with which a function was called."""
        return [event for function, _, event in self.calls if function == name]

    def reports(self, name: str) -> list[str]:
        """How a function's invocations ended."""
        return [e.fields["outcome"] for e in self.events if e.event == "invocation" and e.fields["function"] == name]

    def _build(self, function: FunctionSpec) -> object:
        self.built.append(function.name)
        return object()

    def _handler_of(self, function: FunctionSpec) -> Behaviour:
        def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
            self.calls.append((function.name, self.clock.now(), event))
            return self.behave.get(function.name, lambda *_: {})(event, context)

        return handler


@pytest.fixture
def bench() -> Bench:
    """A fresh one."""
    return Bench()


def bodies(event: dict[str, Any]) -> list[str]:
    """The bodies of a batch."""
    return [record["body"] for record in event["Records"]]


def test_requests_of_one_second_are_one_invocation(bench: Bench) -> None:
    """If this failed, a fleet whose nodes go together would be observed once for each of them."""
    bench.send("looks", *(str(n) for n in range(50)))
    bench.run(seconds=10)
    assert [len(bodies(event)) for event in bench.woken("disrupt")] == [50]


def test_batches_are_no_larger_than_wired(bench: Bench) -> None:
    """If this failed, a handler would be given more than it will be when deployed."""
    bench.send("work", *(str(n) for n in range(25)))
    bench.run(seconds=10)
    assert [len(bodies(event)) for event in bench.woken("execute")] == [10, 10, 5]


def test_a_message_that_failed_comes_back_alone_after_its_visibility(bench: Bench) -> None:
    """If this failed, one bad message would sink its batch, or be lost."""
    failed: list[str] = []

    def behave(event: dict[str, Any], _: Any) -> dict[str, Any]:
        bad = [record["messageId"] for record in event["Records"] if record["body"] == "bad" and not failed]
        failed.extend(bad)
        return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in bad]}

    bench.behave["execute"] = behave
    bench.send("work", "good", "bad")
    hidden = wiring.WORK.visibility.total_seconds()
    bench.run(seconds=hidden - 5)
    assert len(bench.woken("execute")) == 1
    bench.run(seconds=10)
    assert [bodies(event) for event in bench.woken("execute")] == [["good", "bad"], ["bad"]]
    bench.run(minutes=30)
    assert len(bench.woken("execute")) == 2


def test_a_crash_brings_the_whole_batch_back_into_a_new_sandbox(bench: Bench) -> None:
    """If this failed, a dead function would keep what it remembered, or its messages would be gone."""

    def behave(_: dict[str, Any], __: Any) -> dict[str, Any]:
        if len(bench.woken("execute")) == 1:
            raise CrashError("ec2:CreateFleet")
        return {}

    bench.behave["execute"] = behave
    bench.send("work", "a", "b")
    bench.run(minutes=10)
    assert bench.reports("execute") == ["crash", "ok"]
    assert [bodies(event) for event in bench.woken("execute")] == [["a", "b"], ["a", "b"]]
    assert bench.built == ["execute", "execute"]


def test_what_fails_for_ever_ends_in_the_dead_letter_queue(bench: Bench) -> None:
    """If this failed, a poisoned message would wake a function until the end of time."""

    def behave(_: dict[str, Any], __: Any) -> dict[str, Any]:
        raise ValueError("broken")

    bench.behave["provision"] = behave
    bench.send("wake-ups", "poison")
    bench.run(hours=2)
    assert len(bench.woken("provision")) == wiring.WAKE_UPS.max_receives
    assert [message.body for message in bench.queues.get("wake-ups").dead] == ["poison"]


def sends_to_itself(bench: Bench, name: str, queue: str) -> None:
    """Let a function send itself one more message each time."""
    bench.behave[name] = lambda *_: bench.send(queue, "again", delay=1) or {}  # type: ignore[func-returns-value]
    bench.send(queue, "first")
    bench.run(minutes=1)


def test_a_chain_of_a_function_that_allows_none_is_cut() -> None:
    """If this failed, a function whose chain AWS would cut after 16 invocations would work here, and only here."""
    forgetful = msgspec.structs.replace(BY_NAME["execute"], may_loop=False)
    functions = tuple(forgetful if spec.name == "execute" else spec for spec in wiring.FUNCTIONS)
    bench = Bench(functions)
    sends_to_itself(bench, "execute", "work")
    assert len(bench.woken("execute")) == LINEAGE_MAX
    (dropped,) = (event.fields for event in bench.events if event.event == "invocationDropped")
    assert dropped == {"function": "execute", "messages": 1}
    bench.run(hours=1)
    assert [message.body for message in bench.queues.get("work").dead] == ["again"]


def test_a_chain_of_a_function_that_allows_it_goes_on(bench: Bench) -> None:
    """If this failed, nodes that boot for longer than half a minute would be found by `reconcile` alone."""
    sends_to_itself(bench, "execute", "work")
    hops = [event.fields["hops"] for event in bench.events if event.event == "invocation"]
    assert hops == list(range(1, len(hops) + 1))
    assert len(hops) > 3 * LINEAGE_MAX


def test_a_chain_is_counted_across_functions(bench: Bench) -> None:
    """Lambda counts each function of a loop, whichever queues it passes."""
    bench.behave["execute"] = lambda *_: bench.send("wake-ups", "plan") or {}  # type: ignore[func-returns-value]
    bench.behave["provision"] = lambda *_: bench.send("work", "step", delay=1) or {}  # type: ignore[func-returns-value]
    bench.send("work", "first")
    bench.run(seconds=5)
    hops = [(event.fields["function"], event.fields["hops"]) for event in bench.events if event.event == "invocation"]
    assert hops[:4] == [("execute", 1), ("provision", 1), ("execute", 2), ("provision", 2)]


def test_a_batch_counts_as_its_longest_chain() -> None:
    assert lineage_of([{"execute": 3}, {"execute": 9, "provision": 1}, {}]) == {"execute": 9, "provision": 1}


def test_delayed_messages_wait(bench: Bench) -> None:
    """If this failed, a claim would be looked at before its node can have joined."""
    bench.send("work", "later", delay=60)
    bench.run(seconds=59)
    assert bench.woken("execute") == []
    bench.run(seconds=2)
    assert len(bench.woken("execute")) == 1


def test_no_more_run_at_once_than_wired(bench: Bench) -> None:
    """If this failed, more deciders of disruption would run side by side here than when deployed."""
    running = [0, 0]

    def behave(_: dict[str, Any], __: Any) -> dict[str, Any]:
        running[0] += 1
        running[1] = max(running)
        bench.sandboxes.spend(timedelta(seconds=10))
        running[0] -= 1
        return {}

    bench.behave["execute"] = bench.behave["disrupt"] = behave
    bench.send("work", *(str(n) for n in range(300)))
    bench.run(minutes=5)
    assert running[1] == BY_NAME["execute"].concurrency
    running[1] = 0
    for _ in range(3):
        bench.pump.invoke(BY_NAME["disrupt"], {}, "test")
    bench.run(minutes=5)
    assert (running[1], len(bench.woken("disrupt"))) == (BY_NAME["disrupt"].concurrency, 3)


def test_an_asynchronous_invocation_is_tried_twice_more(bench: Bench) -> None:
    """If this failed, an interruption notice would be lost with one crash, or be handled forever."""

    def behave(_: dict[str, Any], __: Any) -> dict[str, Any]:
        raise CrashError("kube:list nodes")

    bench.behave["interrupt"] = behave
    bench.pump.put_event("aws.ec2", "EC2 Spot Instance Interruption Warning", {"instance-id": "i-1"})
    bench.run(minutes=10)
    moments = [moment - START for name, moment, _ in bench.calls if name == "interrupt"]
    assert len(moments) == 3
    assert moments[1] - moments[0] >= timedelta(minutes=1)
    assert moments[2] - moments[1] >= timedelta(minutes=2)


def test_a_function_that_takes_too_long_is_cut_off(bench: Bench) -> None:
    """If this failed, a handler could take all the time of the world."""
    timeout = BY_NAME["interrupt"].timeout

    def behave(_: dict[str, Any], context: Any) -> dict[str, Any]:
        assert context.get_remaining_time_in_millis() <= timeout.total_seconds() * 1000
        bench.sandboxes.spend(timeout + timedelta(seconds=1))
        return {}

    bench.behave["interrupt"] = behave
    bench.pump.put_event("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": "i-1"})
    bench.run(minutes=1, seconds=2)
    assert bench.reports("interrupt") == ["timeout"]


@pytest.mark.parametrize(
    ("source", "detail_type", "detail", "woken"),
    [
        ("aws.ec2", "EC2 Spot Instance Interruption Warning", {}, True),
        ("aws.ec2", "EC2 Instance State-change Notification", {"state": "stopping"}, True),
        ("aws.ec2", "EC2 Instance State-change Notification", {"state": "running"}, False),
        ("aws.ec2", "EC2 Fleet State Change", {}, False),
        ("aws.health", "AWS Health Event", {"service": "EC2", "eventTypeCategory": "scheduledChange"}, True),
        ("aws.health", "AWS Health Event", {"service": "EC2", "eventTypeCategory": "issue"}, False),
        ("aws.health", "AWS Health Event", {"service": "RDS", "eventTypeCategory": "scheduledChange"}, False),
    ],
)
def test_rules_wake_what_they_match(
    bench: Bench, source: str, detail_type: str, detail: dict[str, Any], woken: bool
) -> None:
    """If this failed, functions would hear of what they are not wired for, or miss what they are."""
    bench.pump.put_event(source, detail_type, detail)
    bench.run(seconds=10)
    assert bool(bench.woken("interrupt")) == woken


def test_rules_and_their_messages_may_be_late_and_come_twice(bench: Bench) -> None:
    """If this failed, functions could rely on EventBridge for one prompt delivery."""
    still = lambda: timedelta(0)  # noqa: E731 - a lag of nothing
    bench.pump.delay(audit_log=still, schedule=still, rules=lambda: timedelta(seconds=40))
    bench.message_faults.repeats = lambda: True
    bench.pump.put_event("aws.ec2", "EC2 Spot Instance Interruption Warning", {})
    bench.run(seconds=39)
    assert bench.woken("interrupt") == []
    bench.run(seconds=10)
    assert len(bench.woken("interrupt")) == 2


def audit_event(resource: str, verb: str, subresource: str = "") -> dict[str, Any]:
    """What the API server logs."""
    reference = {"resource": resource, "name": "x"} | ({"subresource": subresource} if subresource else {})
    return {"stage": "ResponseComplete", "verb": verb, "objectRef": reference}


def test_the_audit_log_comes_late_gathered_and_filtered(bench: Bench) -> None:
    """If this failed, functions would be woken by what the subscription filters out, or one by one."""
    bench.pump.audit(audit_event("pods", "patch", "status"))
    bench.pump.audit(audit_event("pods", "get"))
    bench.pump.audit(audit_event("secrets", "delete"))
    bench.pump.audit(audit_event("nodepools", "update"))
    bench.run(seconds=5)
    assert bench.woken("watch_audit_log") == []
    bench.run(seconds=10)
    [event] = bench.woken("watch_audit_log")
    payload = json.loads(gzip.decompress(base64.b64decode(event["awslogs"]["data"])))
    resources = [json.loads(event["message"])["objectRef"]["resource"] for event in payload["logEvents"]]
    assert resources == ["pods", "nodepools"]


def test_schedules_run_after_the_installation_has_begun(bench: Bench) -> None:
    """If this failed, nothing would work without events, or planning would begin without a market."""
    bench.pump.start()
    bench.run(minutes=10)
    assert [name for name, _, _ in bench.calls[:2]] == ["refresh_catalogue", "reconcile"]
    assert len(bench.woken("disrupt")) in (9, 10)
    assert len(bench.woken("provision")) in (9, 10)


def test_decisions_are_collected_by_function(bench: Bench) -> None:
    """If this failed, the page would show a run without its reasons."""
    bench.behave["execute"] = lambda *_: {"decisions": [{"kind": "launch", "subject": "default-1"}]}
    bench.send("work", "a")
    bench.run(seconds=5)
    assert bench.decisions == [("execute", {"kind": "launch", "subject": "default-1"})]
