"""Parts that functions of their own decide about: what is stored, what is joined, and what is left out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import PartRequest, PartsRun, is_parts_decided, part_request, parts_run
from adapters.ports import JsonObject, NotFoundError
from adapters.run_report import RunReport
from core import codec
from core.containment import Exclusion, SetAside
from core.disruption import disrupt
from core.errors import InvalidInputError
from core.model.plan import DisruptionPlan
from core.model.snapshot import Namespace, Snapshot
from core.reasons.runs import RunReason
from installation.metric_names import FAILED_PARTS
from installation.wiring import PARTS_MACHINE, definition
from lambdas import cluster_parts
from lambdas.cluster_parts import EXECUTED_WITHIN, DistributedParts, JoinedParts, PartDecisions, PartsStore
from tests.fakes.lab import Lab
from tests.unit.disruption.test_decision import in_parts, teams

MINUTE = timedelta(minutes=1)


class Objects:
    """A bucket."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        self.bodies[key] = body

    def get(self, key: str) -> bytes:
        if key not in self.bodies:
            raise NotFoundError("s3:GetObject", key)
        return self.bodies[key]


class Machine:
    """A state machine whose executions a test carries on."""

    def __init__(self) -> None:
        self.started: dict[str, JsonObject] = {}
        self.ended: set[str] = set()

    def start(self, name: str, execution_input: JsonObject) -> None:
        self.started[name] = execution_input

    def has_ended(self, name: str) -> bool:
        return name in self.ended


class Parts:
    """What `disrupt` and `decide_part` do about one cluster."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.objects, self.machine, self.report = lab, Objects(), Machine(), RunReport()
        self.store = PartsStore(self.objects, "test")
        self.snapshot = in_parts(teams())

    def sandbox(self) -> DistributedParts:
        leases = self.lab.app.adapters.leases
        return DistributedParts(self.store, leases, self.machine, self.lab.clock, nodes_from=1)

    def start(self, sandbox: DistributedParts, run: str = "run", snapshot: Snapshot | None = None) -> bool:
        if not sandbox.begin(run, self.report):
            return False
        observed = msgspec.structs.replace(snapshot or self.snapshot, now=self.lab.clock.now())
        deadline = self.lab.clock.now() + MINUTE
        started = sandbox.start(observed, observed, self.report, deadline=deadline, proves=True, is_window=False)
        sandbox.end()
        return started

    def decide(self, *but: int, run: str = "run") -> None:
        child = PartDecisions(self.store, self.lab.clock)
        for number in self.machine.started[run]["parts"]:
            if number not in but:
                part = {"run": run, "part": number, "proves": True}
                child.run(part_request(part), RunReport(), deadline=self.lab.clock.now() + 5 * MINUTE)

    def join(self, run: str = "run") -> JoinedParts | None:
        sandbox = self.sandbox()
        joined = sandbox.join(self.request(run), self.report) if sandbox.resume(run, self.report) else None
        if joined is not None:
            sandbox.close(run, joined.plan)
        sandbox.end()
        return joined

    def request(self, run: str = "run") -> PartsRun:
        return parts_run({"source": "fleetwright.parts", **self.machine.started[run]})


@pytest.fixture
def parts() -> Parts:
    return Parts(Lab())


def test_the_joined_decision_is_that_of_one_process_byte_for_byte(parts: Parts) -> None:
    assert parts.start(parts.sandbox())
    assert parts.machine.started["run"]["parts"] == [0, 1, 2]
    parts.decide()
    joined = parts.join()
    assert joined is not None
    assert joined.snapshot == msgspec.structs.replace(parts.snapshot, now=joined.snapshot.now)
    undivided = disrupt(joined.snapshot)
    assert undivided.parts == 3
    assert undivided.commands
    assert codec.encode_disruption_plan(joined.plan) == codec.encode_disruption_plan(undivided)


def test_a_part_without_a_decision_is_left_alone_and_named(parts: Parts) -> None:
    parts.start(parts.sandbox())
    parts.decide(1)
    joined = parts.join()
    assert joined is not None
    (decision,) = parts.report.decisions
    assert (decision.subject, decision.reason) == ("green", RunReason.PART_NOT_DECIDED)
    assert parts.report.counts[FAILED_PARTS] == 1
    names = {block.node for block in joined.plan.blocked if block.reason == "NotTried"}
    assert names == {f"green-{number}" for number in range(3)}
    assert 1000 in joined.elapsed


def test_an_object_that_makes_a_part_raise_is_set_aside(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one workload would keep the nodes of all NodePools of its part."""
    culprits = sorted(pod.key for pod in parts.snapshot.pods if "blue" in pod.name)

    def raising(snapshot: Snapshot, **more: Any) -> DisruptionPlan:
        if any(pod.key in culprits and not pod.unreadable for pod in snapshot.pods):
            raise KeyError(culprits[0])
        return disrupt(snapshot, **more)

    parts.start(parts.sandbox())
    with monkeypatch.context() as patch:
        patch.setattr(cluster_parts, "disrupt", raising)
        parts.decide()
    joined = parts.join()
    assert joined is not None
    assert [aside.object for aside in joined.set_aside] == [f"Pod/{key}" for key in culprits]
    assert not parts.report.decisions
    assert sorted(pod.key for pod in joined.snapshot.pods if pod.unreadable) == culprits
    assert codec.encode_disruption_plan(joined.plan) == codec.encode_disruption_plan(disrupt(joined.snapshot))


def test_a_decision_for_which_a_shared_object_was_set_aside_is_none(parts: Parts) -> None:
    """Other parts were decided about with it, and a replay cannot do both."""
    pod = parts.snapshot.pods[0]
    shared = Namespace(name=pod.namespace)
    parts.start(parts.sandbox(), snapshot=msgspec.structs.replace(parts.snapshot, namespaces=(shared,)))
    parts.decide()
    stored = parts.store.decision("run", 0)
    aside = SetAside(f"Namespace/{shared.name}", "InternalError", "it caused KeyError, so it is ignored")
    parts.store.keep(
        "run", 0, codec.decode_disruption_plan(stored.plan.encode()), stored.elapsed, Exclusion((aside,), False, "")
    )
    joined = parts.join()
    assert joined is not None
    assert parts.report.counts[FAILED_PARTS] == 2
    assert not joined.snapshot.namespaces
    assert joined.plan.parts == 3


def test_a_decision_of_other_code_is_none(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay with either code would decide otherwise."""
    parts.start(parts.sandbox())
    with monkeypatch.context() as patch:
        patch.setattr(cluster_parts, "CODE", "other")
        parts.decide(0, 2)
    parts.decide(1)
    assert parts.join() is not None
    assert parts.report.counts[FAILED_PARTS] == 1
    monkeypatch.setattr(cluster_parts, "CODE", "newer")
    assert parts.join() is None


def test_one_execution_runs_at_a_time_and_is_joined_once(parts: Parts) -> None:
    assert parts.start(parts.sandbox(), "first")
    assert not parts.start(parts.sandbox(), "second")
    parts.decide(run="first")
    assert parts.join("first") is not None
    assert parts.join("first") is None
    assert parts.start(parts.sandbox(), "third")
    assert list(parts.machine.started) == ["first", "third"]


def test_an_execution_that_failed_before_its_join_holds_up_nobody(parts: Parts) -> None:
    """Otherwise nothing would be decided until its lease ends, half an hour later."""
    parts.start(parts.sandbox(), "first")
    assert not parts.start(parts.sandbox(), "second")
    parts.machine.ended.add("first")
    assert parts.start(parts.sandbox(), "third")
    assert not parts.start(parts.sandbox(), "fourth"), "the third is under way"
    assert list(parts.machine.started) == ["first", "third"]
    assert parts.join("first") is None


def test_an_execution_that_another_one_followed_is_not_joined(parts: Parts) -> None:
    parts.start(parts.sandbox(), "first")
    parts.decide(run="first")
    parts.lab.clock.pause(EXECUTED_WITHIN + MINUTE)
    parts.start(parts.sandbox(), "second")
    assert parts.join("first") is None
    parts.lab.clock.pause(EXECUTED_WITHIN + MINUTE)
    assert parts.join("first") is None, "its snapshot is too old"
    assert parts.report.counts["staleParts"] == 2


def test_an_unchanged_cluster_is_decided_about_again_after_a_while(parts: Parts) -> None:
    """Sooner if the last decision had commands: they may have come to nothing."""
    sandbox = parts.sandbox()
    assert parts.start(sandbox, "first")
    parts.decide(run="first")
    parts.join("first")
    parts.lab.clock.pause(2 * MINUTE)
    assert parts.start(sandbox, "second")
    assert list(parts.machine.started) == ["first"]
    parts.lab.clock.pause(4 * MINUTE)
    assert parts.start(sandbox, "third")
    assert list(parts.machine.started) == ["first", "third"]


def test_small_and_coupled_clusters_are_decided_about_here(parts: Parts) -> None:
    sandbox = DistributedParts(parts.store, parts.lab.app.adapters.leases, parts.machine, parts.lab.clock, nodes_from=9)
    assert not parts.start(sandbox)
    assert not parts.start(parts.sandbox(), snapshot=in_parts(teams(), 9))
    assert parts.machine.started == {}


@pytest.mark.parametrize(
    "event", [{}, {"run": "../a", "part": 1, "proves": True}, {"run": "a", "part": -1, "proves": True}]
)
def test_an_event_that_names_no_part_is_an_error(event: dict[str, Any]) -> None:
    assert not is_parts_decided(event)
    with pytest.raises(InvalidInputError):
        part_request(event)
    assert part_request({"run": "a", "part": 1, "proves": False}) == PartRequest(run="a", part=1, proves=False)


def test_every_wait_of_the_state_machine_ends() -> None:
    machine = definition(PARTS_MACHINE, lambda spec: spec.name, "aws")
    parts_state = machine["States"]["Parts"]
    tasks = [parts_state["ItemProcessor"]["States"]["DecidePart"], machine["States"]["Join"]]
    assert all(task["TimeoutSeconds"] < machine["TimeoutSeconds"] for task in tasks)
    assert parts_state["ToleratedFailurePercentage"] == 100
    assert timedelta(seconds=machine["TimeoutSeconds"]) < EXECUTED_WITHIN
