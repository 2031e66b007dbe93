"""The judges of the suite with real parts find faults: a judge that finds none would accept everything."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine, Moments
from core.model.catalogue import Offering
from core.model.plan import PlannedClaim
from installation import cluster_roles
from tests.builders import CLASS_REF, NOW
from tests.e2e.audit_record import AuditRecord, Verb, unused
from tests.e2e.audit_share import share_of
from tests.e2e.first_failure import FAILURES, KEPT, may_be_tried_again
from tests.e2e.functions.sandbox import Invocation
from tests.e2e.judge import Verdict, judge, launched_when_woken
from tests.e2e.planned_pods import PlannedPods
from tests.e2e.play import Outcome
from tests.e2e.report import NEEDED, Report, percentile, seconds_since_pods, seconds_to_launch
from tests.e2e.suite import SHOWN, Suite
from tests.unit.lifecycle.records_for_tests import a_record as launched_record


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


# The share of an audit log that the subscription's filter passes.


def line(username: str, verb: str, resource: str, subresource: str = "", **more: Any) -> bytes:
    reference = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    event = {"stage": "ResponseComplete", "verb": verb, "user": {"username": username}, "objectRef": reference, **more}
    return json.dumps(event).encode() + b"\n"


def test_events_that_pass_are_counted_by_what_they_are_about() -> None:
    log = [
        line("system:kube-scheduler", "patch", "pods", "status"),
        line("system:node:a", "patch", "pods", "status"),
        line("system:node:a", "delete", "pods"),
        line("somebody", "list", "nodepools"),
        b'{"stage": "RequestReceived", "objectRef": {"resource": "pods"}}\n',
        b'{"stage": "ResponseComplete", "verb": "get", "requestURI": "/healthz"}\n',
    ]
    found = share_of(log)
    assert (found.events, found.size, found.passing) == (6, sum(map(len, log)), 2)
    assert found.passing_size == len(log[0]) + len(log[2])
    assert found.resources == {"pods": 2}
    assert str(found).startswith("2 of 6 events, 0.0 of 0.0 MB: 33.3% (pods 2)")


# The results of several worlds form one report, and a finding about the ClusterRole fails the run.


ALL = [Verb(*found) for found in frozenset().union(*map(cluster_roles.verbs, cluster_roles.RULES_OF.values()))]
FIRST, *OTHERS = sorted(ALL)


def a_world(name: str, used: list[Verb], *, cold: float = 0.0, refused: tuple[Verb, ...] = ()) -> Report:
    verdict = Verdict(name=name, pods=2, bound_as_planned=1, bound_elsewhere=1, pending=0, empty_nodes=0)
    invocation = Invocation(
        function="provision",
        request_id="r",
        trigger="t",
        outcome="ok",
        started_at=0.0,
        duration_ms=1.0,
        init_ms=cold,
        billed_ms=2,
        memory_kb=3,
        response={"large": "answer"},
    )
    found = Report(scenarios=[verdict], latencies={"audit": [1.0]}, used=used, refused=list(refused))
    found.add_invocations([invocation])
    found.decisions = 3
    return found


def as_sent(*worlds: Report) -> list[dict[str, Any]]:
    """Results as they arrive from other processes."""
    sent: list[dict[str, Any]] = json.loads(json.dumps([world.to_builtins() for world in worlds]))
    return sent


def test_worlds_make_one_report(tmp_path: Path) -> None:
    """A scene, a sample or a verb that gets lost is never judged."""
    whole = Report.of(as_sent(a_world("one", [FIRST], cold=100.0), a_world("two", OTHERS, cold=300.0)))
    whole.write(tmp_path / "e2e.json")
    written = json.loads((tmp_path / "e2e.json").read_text())
    assert [scene["name"] for scene in written["scenarios"]] == ["one", "two"]
    assert set(written["scenarios"][0]) == {
        "name",
        "pods",
        "boundAsPlanned",
        "boundElsewhere",
        "pending",
        "emptyNodes",
        "plannedPrice",
        "price",
        "violations",
    }
    nothing = {"p50": None, "p99": None}
    assert written["latencySeconds"] == {"audit": {"p50": 1.0, "p99": 1.0}, "poll": nothing, "burst": nothing}
    assert written["coldStartMillis"] == {"provision": 200}
    assert written["decisionsRepeated"] == 6
    assert (written["unusedVerbs"], written["missingVerbs"]) == ([], [])
    details = json.loads((tmp_path / "e2e-details.json").read_text())
    assert details["functions"]["provision"]["billedMillis"] == 4


def test_refused_and_unneeded_verbs_are_reported() -> None:
    whole = Report.of(as_sent(a_world("one", OTHERS, refused=(Verb("", "secrets", "list"),))))
    lacks, needless = whole.complaints(NEEDED)
    assert "`list secrets`" in lacks
    assert f"`{FIRST}`" in needless


def test_needed_verbs_are_unknown_if_scenes_were_skipped() -> None:
    whole = Report.of(as_sent(a_world("one", OTHERS)))
    assert list(whole.complaints(sorted(NEEDED)[1:])) == []


@pytest.mark.parametrize(
    ("used", "status"), [(ALL, pytest.ExitCode.OK), (OTHERS, pytest.ExitCode.TESTS_FAILED)], ids=["all", "one unused"]
)
def test_the_run_fails_if_the_role_has_too_few_or_too_many_permissions(
    used: list[Verb], status: pytest.ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tests may pass, each in its own process, and the role may still allow verbs that none of them used."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("signal.alarm", lambda _: 0)
    suite, session = Suite(SimpleNamespace(), tmp_path / "e2e.json"), SimpleNamespace(exitstatus=pytest.ExitCode.OK)  # type: ignore[arg-type]
    suite.pytest_testnodedown(SimpleNamespace(workeroutput={SHOWN: as_sent(a_world("one", used))}))
    for name in NEEDED:
        suite.pytest_runtest_logreport(SimpleNamespace(location=(f"tests/e2e/{name}", 1, "test"), failed=False))  # type: ignore[arg-type]
    suite.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == status
    assert (tmp_path / "e2e.json").exists()


# The moments of a claim, which show where the seconds of a burst go.


def test_moments_count_from_the_first_pod() -> None:
    moments = Moments(pods_created_at=NOW, heard_at=NOW + timedelta(seconds=3), opened_at=NOW + timedelta(seconds=30))
    record = launched_record(moments=moments, requested_at=NOW + timedelta(seconds=4))
    assert seconds_since_pods(record) == {"heard": 3.0, "planned": 4.0, "opened": 30.0}


def test_a_claim_without_pods_has_no_such_moments() -> None:
    assert seconds_since_pods(launched_record(moments=Moments(opened_at=NOW))) == {}


# A trigger that wakes nobody is found although the schedule launches a minute later.


LAUNCH = {"decisions": [{"kind": "launch", "subject": "claim"}, {"kind": "bind", "subject": "x/p"}]}
TOLD = {"auditPodUnschedulable": 2, "wakeUps": 1}


def a_run(function: str, trigger: str, at: float, response: Any) -> Invocation:
    figures = {"duration_ms": 1.0, "init_ms": 0.0, "billed_ms": 1, "memory_kb": 1}
    return Invocation(
        function=function, request_id="r", trigger=trigger, outcome="ok", started_at=at, response=response, **figures
    )


@pytest.mark.parametrize(
    ("told", "trigger", "at", "launched"),
    [
        (TOLD, "queue:wake-ups", 2.0, {"claim"}),
        (TOLD, "schedule:provision", 2.0, set()),
        (TOLD, "queue:wake-ups", 0.5, set()),
        ({"auditPodUnschedulable": 2}, "queue:wake-ups", 2.0, set()),
        ({"auditPodDeleted": 1, "wakeUps": 1}, "queue:wake-ups", 2.0, set()),
        (None, "queue:wake-ups", 2.0, set()),
    ],
    ids=["woken", "schedule", "before", "told nobody", "no pod waited", "no answer"],
)
def test_only_launches_after_a_wake_up_for_a_waiting_pod_count(
    told: Any, trigger: str, at: float, launched: set[str]
) -> None:
    runs = [a_run("watch_audit_log", "auditLog", 1.0, told), a_run("provision", trigger, at, LAUNCH)]
    assert launched_when_woken(runs) == launched


def test_a_scene_without_such_a_launch_is_wrong() -> None:
    Outcome(woken=["claim"]).assert_woken()
    with pytest.raises(AssertionError, match="wake-up"):
        Outcome().assert_woken()


# Which failures of the suite are tried again: only those by time.
#
# A second run once hid a race of the first and deleted its logs.


LATE = "TimeoutError: burst of 1,000 pods: 12 pods wait after 300 s"
NOT_UP = "tests.e2e.parts.processes.PartError: etcd was not ready after 60 s; read build/e2e/1/etcd.log"
NO_ANSWER = "adapters.ports.LostReplyError: kube:apply /api/v1/nodes/a: Pool(): Read timed out. (read timeout=20.0)"
CUT_OFF = "adapters.ports.LostReplyError: kube:apply /api/v1/nodes/a: ('Connection aborted.', None)"
BROKEN = "AssertionError: assert ['claim a has 2 instances'] == []"


@pytest.mark.parametrize(
    ("failures", "again"),
    [
        ({"a": LATE}, True),
        ({"a": LATE, "b": NOT_UP}, True),
        ({"a": NO_ANSWER}, True),
        ({"a": NO_ANSWER, "b": CUT_OFF}, False),
        ({"a": LATE, "b": BROKEN}, False),
        ({"complaint 0": "execute was refused: patch nodes"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_time_outs_are_tried_again(tmp_path: Path, failures: dict[str, str] | None, *, again: bool) -> None:
    """A run that was killed before it could say what failed is not tried again either."""
    if failures is not None:
        (tmp_path / FAILURES).write_text(json.dumps(failures))
    assert may_be_tried_again(tmp_path) == again


def test_the_logs_of_the_first_run_are_kept(tmp_path: Path) -> None:
    """They are all that remains of a race."""
    (tmp_path / "e2e" / "4711").mkdir(parents=True)
    (tmp_path / "e2e" / "4711" / "execute.log").write_text("doubled")
    (tmp_path / "e2e.json").write_text("{}")
    (tmp_path / KEPT).mkdir()
    (tmp_path / KEPT / "old").touch()
    may_be_tried_again(tmp_path)
    assert (tmp_path / KEPT / "e2e" / "4711" / "execute.log").read_text() == "doubled"
    assert sorted(path.name for path in (tmp_path / KEPT).iterdir()) == ["e2e", "e2e.json"]
    assert not (tmp_path / "e2e").exists()


def test_a_broken_law_is_reported_before_a_time_out() -> None:
    """Otherwise, a scene that was late and broke a law is tried again."""
    broken = Verdict(
        name="s", pods=1, bound_as_planned=1, bound_elsewhere=0, pending=0, empty_nodes=0, violations=["x"]
    )
    with pytest.raises(AssertionError, match="x"):
        Outcome(verdict=broken, error=TimeoutError("late")).assert_lawful()


@pytest.mark.parametrize("price", [99, 101])
def test_instances_that_cost_something_else_than_planned_are_wrong(price: int) -> None:
    """Otherwise, a launch that buys other places than the plan chose goes unnoticed, cheap ones that nobody planned too."""
    found = Verdict(
        name="s", pods=1, bound_as_planned=1, bound_elsewhere=0, pending=0, empty_nodes=0, planned_price=100, price=100
    )
    Outcome(verdict=found).assert_lawful()
    with pytest.raises(AssertionError, match="another price"):
        Outcome(verdict=msgspec.structs.replace(found, price=price)).assert_lawful()


@pytest.mark.parametrize(("planned", "holds"), [(1000, True), (500, True), (499, False), (0, False)])
def test_a_burst_that_is_bound_elsewhere_is_wrong(planned: int, *, holds: bool) -> None:
    found = Verdict(
        name="s", pods=1000, bound_as_planned=planned, bound_elsewhere=1000 - planned, pending=0, empty_nodes=0
    )
    if holds:
        Outcome(verdict=found).assert_as_planned()
        return
    with pytest.raises(AssertionError, match=f"{planned} of 1000"):
        Outcome(verdict=found).assert_as_planned()
