"""The judges of the suite with real parts find faults: a judge that finds none would accept everything."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.model.catalogue import Offering
from core.model.plan import PlannedClaim
from tests.builders import CLASS_REF, NOW
from tests.e2e.audit_record import AuditRecord, unused
from tests.e2e.functions.sandbox import Invocation
from tests.e2e.judge import judge
from tests.e2e.latency import percentile, seconds_to_launch
from tests.e2e.planned_pods import PlannedPods


class Table:
    """Claims as the table holds them."""

    def __init__(self, *records: ClaimRecord) -> None:
        self.records = records

    def all(self) -> tuple[ClaimRecord, ...]:
        return self.records


def a_record(name: str, *pods: str, after: float = 0.0, phase: ClaimPhase = ClaimPhase.LAUNCHED) -> ClaimRecord:
    plan = PlannedClaim(name=name, node_pool="default", node_class=CLASS_REF, pods=pods)
    machine = Machine(
        instance_id=f"i-{name}", provider_id=f"aws:///z/i-{name}", offering=Offering("m5.large", "z", "spot", 1)
    )
    moment = NOW + timedelta(seconds=after)
    return ClaimRecord(
        name=name, plan=plan, token="t", requested_at=moment, phase_since=moment, phase=phase, machine=machine
    )


def a_node(claim: str) -> dict[str, Any]:
    return {"metadata": {"name": f"node-{claim}"}, "spec": {"providerID": f"aws:///z/i-{claim}"}}


def a_pod(key: str, claim: str = "", owner: str = "ReplicaSet") -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{"kind": owner}]},
        "spec": {"nodeName": f"node-{claim}"} if claim else {},
        "status": {"phase": "Running" if claim else "Pending"},
    }


def planned_from(*records: ClaimRecord) -> PlannedPods:
    planned = PlannedPods(Table(*records))  # type: ignore[arg-type]  # only its list is asked for
    planned.read_table()
    return planned


def test_each_pod_counts_once_where_it_is() -> None:
    """Otherwise, the table of scenes does not add up to the number of pods."""
    planned = planned_from(a_record("a", "x/p-1", "x/p-2"), a_record("b", "x/q-1"), a_record("c", "x/r-1"))
    pods = [a_pod("x/p-1", "a"), a_pod("x/p-2", "b"), a_pod("x/q-1"), a_pod("x/d", "c", owner="DaemonSet")]
    verdict, elsewhere = judge("t", pods, [a_node("a"), a_node("b"), a_node("c")], planned)
    counts = (verdict.pods, verdict.bound_as_planned, verdict.bound_elsewhere, verdict.pending, verdict.empty_nodes)
    assert counts == (3, 1, 1, 1, 1)
    assert [(found.pod, found.planned, found.found) for found in elsewhere] == [("x/p-2", "node-a", "node-b")]


def test_the_successor_of_an_evicted_pod_counts_for_its_plan() -> None:
    """Otherwise, every consolidation looks like a plan that the scheduler did not follow."""
    planned = planned_from(a_record("a", "x/web-77f-old"))
    verdict, _ = judge("t", [a_pod("x/web-77f-new", "a"), a_pod("x/other-1", "a")], [a_node("a")], planned)
    assert (verdict.bound_as_planned, verdict.bound_elsewhere) == (1, 1)


def test_a_pod_expected_on_a_claim_in_flight_is_judged_by_its_node() -> None:
    """Otherwise, placements on booting nodes count for nothing."""
    planned = planned_from(a_record("a", "x/p-1"))
    answer = {"decisions": [{"kind": "bind", "subject": "x/q-1", "message": "expected on a"}]}
    figures = {"duration_ms": 0.0, "init_ms": 0.0, "billed_ms": 0, "memory_kb": 0, "started_at": 0.0}
    planned.record_invocation(
        Invocation(function="provision", request_id="r", trigger="t", outcome="ok", response=answer, **figures)  # type: ignore[arg-type]  # figures are numbers
    )
    assert judge("t", [a_pod("x/q-1", "a")], [a_node("a")], planned)[0].bound_as_planned == 1


def test_a_second_claim_for_the_pods_of_a_claim_in_flight_is_reported() -> None:
    """Otherwise, a superfluous node passes, as it did until a real cluster showed it."""
    first, late = a_record("a", "x/p-1", after=10), a_record("c", "x/p-1", after=20)
    first = msgspec.structs.replace(first, requested_at=NOW)
    second = a_record("b", "x/p-1", after=5)
    assert planned_from(first, second).doubles() == [("x/p-1", "a", "b")]
    assert planned_from(first, late).doubles() == []


def test_latency_counts_each_pod_of_a_launch() -> None:
    """Otherwise, percentiles are not about pods."""
    planned = planned_from(a_record("a", "x/p-1", "x/p-2", "x/p-3", after=10))
    created = {"x/p-1": NOW, "x/p-2": NOW + timedelta(seconds=8), "x/p-3": NOW + timedelta(seconds=11)}
    seconds = seconds_to_launch(planned.launches.values(), created)
    assert sorted(seconds) == [2.0, 10.0]
    assert (percentile(seconds, 0.5), percentile(seconds, 0.99), percentile([], 0.5)) == (2.0, 10.0, None)


def test_used_refused_and_unused_verbs_are_reported(tmp_path: Path) -> None:
    """Otherwise, a role with too few or too many permissions passes."""
    log = tmp_path / "audit.log"
    ours = {"username": "arn", "groups": ["fleetwright"]}

    def event(verb: str, resource: str, code: int, user: dict[str, Any], **more: Any) -> str:
        reference = {"resource": resource, **more}
        return json.dumps(
            {
                "stage": "ResponseComplete",
                "verb": verb,
                "user": user,
                "objectRef": reference,
                "responseStatus": {"code": code},
            }
        )

    lines = [
        event("list", "pods", 200, ours),
        event("create", "pods", 429, ours, subresource="eviction"),
        event("delete", "nodes", 403, ours),
        event("list", "secrets", 200, {"username": "else", "groups": []}),
    ]
    log.write_text("\n".join(lines) + "\n" + '{"half')
    audit_record = AuditRecord(log, frozenset({"fleetwright"}))
    audit_record.read()
    assert [str(verb) for verb in audit_record.used] == ["list pods", "create pods/eviction"]
    assert [str(verb) for verb in audit_record.refused] == ["delete nodes"]
    assert audit_record.evictions == {429: 1}
    assert [str(verb) for verb in unused(audit_record.used, [(("", ("pods",), ("list", "get")),)])] == ["get pods"]
