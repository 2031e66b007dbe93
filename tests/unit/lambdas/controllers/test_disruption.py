"""A run of `disrupt` begins a pass only if one is needed: most runs find nothing to decide and must cost nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ledger import TRIED_AGAIN_AFTER, LedgerWriter
from adapters.messages import work_on_command
from adapters.observation.observer import ClusterState
from adapters.ports import ConflictError, DeniedError, JsonObject, PortError, TooLargeError, TransientError
from adapters.run_report import RunReport
from adapters.store import DECIDER
from core import labels
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.move_history import FIRST_PAUSE, MoveHistory, Rollout
from core.ledger.entry import LedgerEntry, decode_entry
from core.ledger.reading import read_decision_key
from core.lifecycle.commands import VERIFY_AFTER
from core.lifecycle.records import ClaimPhase, CommandPhase
from core.manifests.wire import resources
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import EvictedNode
from core.reasons.code import DecisionKind
from core.reasons.runs import CommandReason
from installation.metric_names import ROLLOUTS_STOPPED, stopped_by
from lambdas.controllers import disruption
from lambdas.controllers.approvals import CommandsByApproval
from lambdas.controllers.disruption import (
    REUSED_FOR,
    CommandGate,
    CommandWriter,
    ObservedCommands,
    PassInputs,
    command_id,
)
from tests.builders import NOW, a_snapshot, a_stored_target
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeQueue, MemoryObjects
from tests.unit.lambdas.controllers.test_command_work import fleet
from tests.unit.lifecycle.records_for_tests import a_command, a_plan, a_record

# Commands that a brake stops, or that failed a while ago, are not stored.


def command(name: str, reason: str = "Underutilized") -> Command:
    return Command(reason=reason, method="single", nodes=(f"n-{name}", "m"), claims=(name,))


A, B = command("a"), command("b")
RECORDS = tuple(
    msgspec.structs.replace(a_record(), name=name, plan=a_plan(node_pool=pool))
    for name, pool in (("a", "one"), ("b", "two"), ("c", "one"))
)


def admitted(
    *commands: Command,
    brakes: tuple[Brake, ...] = (),
    rows: Rows | None = None,
    under_way: tuple[Command, ...] = (),
    later: timedelta = timedelta(0),
) -> tuple[list[Command], RunReport]:
    report = RunReport()
    view = ClusterState(
        snapshot=a_snapshot(),
        claims={},
        commands=tuple(a_command(command=command) for command in under_way),
        node_pools={},
        node_classes={},
    )
    gate = CommandGate((rows or Rows()).stores().moves)
    return list(gate.admit(commands, view.commands, RECORDS, EngagedBrakes(brakes), NOW + later, report)), report


def test_commands_that_nothing_stops_are_admitted_in_order() -> None:
    commands, report = admitted(B, A)
    assert commands == [B, A]
    assert report.decisions == []


def test_a_brake_of_a_pool_stops_commands_about_its_nodes() -> None:
    commands, report = admitted(A, B, brakes=(Brake(BrakeKind.PAUSE, "paused", node_pool="one"),))
    assert commands == [B]
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("skip", "n-a, m", BrakeKind.PAUSE)


def test_a_brake_stops_a_command_of_which_one_claim_is_in_its_pool() -> None:
    both = Command(reason="Underutilized", method="multi", nodes=("x", "y"), claims=("b", "a"))
    commands, _ = admitted(both, brakes=(Brake(BrakeKind.PAUSE, "paused", node_pool="one"),))
    assert commands == []


def test_a_half_open_breaker_stops_repair_and_admits_one_other_command_at_a_time() -> None:
    probe = Brake(BrakeKind.POOL_PROBE, "half open", node_pool="one")
    commands, _ = admitted(command("a", "Unhealthy"), A, command("c"), B, brakes=(probe,))
    assert commands == [A, B]
    commands, _ = admitted(A, B, brakes=(probe,), under_way=(command("c"),))
    assert commands == [B]


def test_a_command_that_failed_its_validation_waits() -> None:
    rows = Rows()
    moves = rows.stores().moves
    moves.write(moves.read(NOW).after_failure(A, NOW), NOW)
    commands, report = admitted(A, B, rows=rows)
    assert commands == [B]
    (decision,) = report.decisions
    assert (decision.subject, decision.reason) == ("n-a, m", "FailedBefore")
    assert admitted(A, rows=rows, later=FIRST_PAUSE)[0] == [A]


def test_without_commands_no_history_is_read() -> None:
    """An idle run reads as little as it can."""
    rows, calls = Rows(), list[str]()
    rows.before_call = calls.append
    assert (admitted(rows=rows)[0], calls) == ([], [])


# Commands are stored once the ledger has their decision, and checked when they are due.


EMPTY = Command(reason="Empty", method="emptiness", nodes=("n", "m"), claims=("c", "d"), savings=120_000_000)
UNHEALTHY = msgspec.structs.replace(EMPTY, reason="Unhealthy", method="repair")


class World:
    """The table, the queue and the ledger."""

    def __init__(self) -> None:
        self.clock, self.rows, self.work, self.report = FakeClock(NOW), Rows(), FakeQueue(), RunReport()
        self.bucket = MemoryObjects()
        ledger = LedgerWriter(self.bucket, "test", self.clock)
        self.writer = CommandWriter(self.rows.stores().commands, ledger, self.work, self.clock)

    def decide(self, *commands: Command) -> list[str]:
        """Write a decision with these commands to the ledger; return the ids of those that may be stored."""
        split = CommandsByApproval([(command.reason, command) for command in commands], [])
        plan = DisruptionPlan(now=NOW, commands=commands)
        written = self.writer.write_decision(a_snapshot(), plan, split, (), self.report)
        return [name for name, _ in written.startable]

    def refuse(self, error: PortError) -> None:
        def fail(call: str) -> None:
            if call == "write":
                raise error

        self.rows.before_call = fail


@pytest.fixture
def world() -> World:
    return World()


def test_a_command_is_stored_with_the_id_of_its_decision_and_checked_when_it_is_due(world: World) -> None:
    assert world.decide(EMPTY) == ["Empty"]
    world.writer.write("x", EMPTY, world.report)
    record = world.rows.commands["x"]
    assert (record.command, record.phase, record.decision) == (EMPTY, CommandPhase.VERIFYING, world.report.decision_id)
    assert (record.created_at, record.phase_since, record.verify_at) == (NOW, NOW, NOW + VERIFY_AFTER)
    assert world.work.sent == [(work_on_command("x", NOW), VERIFY_AFTER)]
    assert record.decision
    assert world.bucket.objects


def test_a_command_of_a_target_that_has_waited_is_checked_at_once(world: World) -> None:
    target = a_stored_target(*EMPTY.nodes, made_at=NOW - timedelta(minutes=5))
    world.writer.write("x", EMPTY, world.report, target)
    assert world.rows.commands["x"].verify_at == NOW
    assert [delay for _, delay in world.work.sent] == [timedelta(0)]


def test_each_node_is_reported_with_what_its_command_saves(world: World) -> None:
    world.writer.write("x", EMPTY, world.report)
    message = (
        "emptiness, saves 0.1200 USD/h with 0 replacements and 0 moved pods, paid for in 0 minutes, validated first"
    )
    assert [
        (decision.kind, decision.subject, decision.reason, decision.message) for decision in world.report.decisions
    ] == [("disrupt", node, "Empty", message) for node in ("n", "m")]


def test_a_command_that_an_earlier_attempt_stored_is_checked_too(world: World) -> None:
    """That attempt may have died before it requested the check."""
    world.refuse(ConflictError("dynamodb:PutItem", "exists"))
    world.writer.write("x", EMPTY, world.report)
    assert (world.report.decisions[0].kind, world.report.decisions[0].reason) == ("skip", CommandReason.ALREADY_DECIDED)
    assert len(world.work.sent) == 1


def test_a_command_that_is_too_large_is_reported_and_not_checked(world: World) -> None:
    world.refuse(TooLargeError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size"))
    world.writer.write("x", EMPTY, world.report)
    assert [(decision.kind, decision.subject, decision.reason) for decision in world.report.decisions] == [
        ("skip", "x", CommandReason.COMMAND_REFUSED)
    ]
    assert (world.report.counts, world.work.sent) == ({"refusedCommands": 1}, [])


def test_a_command_that_may_not_be_stored_ends_the_run(world: World) -> None:
    """No command was ever stored without permission for the table or its key, and the runs succeeded."""
    world.refuse(DeniedError("dynamodb:PutItem", "AccessDeniedException: KMS key access denied"))
    with pytest.raises(DeniedError):
        world.writer.write("x", EMPTY, world.report)
    assert (world.report.counts, world.work.sent) == ({}, [])


def test_without_a_ledger_only_unhealthy_nodes_go(world: World) -> None:
    """A decision that nobody can look up later must not remove working nodes."""
    world.bucket.broken = TransientError("s3:PutObject", "503")
    assert world.decide(EMPTY, UNHEALTHY) == ["Unhealthy"]


def test_ids_differ_by_time_reason_and_nodes() -> None:
    others = [
        command_id(EMPTY, NOW + timedelta(seconds=1)),
        command_id(UNHEALTHY, NOW),
        command_id(msgspec.structs.replace(EMPTY, claims=("c",)), NOW),
    ]
    assert command_id(EMPTY, NOW) not in others
    assert command_id(EMPTY, NOW) == command_id(EMPTY, NOW)
    assert [len(name) for name in others] == [10] * 3


def test_whether_decisions_are_kept_is_known() -> None:
    """The proof of what the fleet would cost at least is computed for the ledger alone."""
    clock = FakeClock(NOW)
    for bucket, kept in ((MemoryObjects(), True), (None, False)):
        ledger = LedgerWriter(bucket, "test", clock)
        assert CommandWriter(Rows().stores().commands, ledger, FakeQueue(), clock).keeps_decisions is kept


# When `disrupt` decides: not before its last decisions are carried out, and not again for what has not changed.


def test_nothing_more_is_decided_before_what_was_decided_is_validated() -> None:
    """A second look at the same idle nodes would spend the budgets again."""
    lab = fleet("1", nodes=2)
    lab.disrupt()
    before = set(lab.rows.commands)
    lab.clock.advance(minutes=1)
    lab.app.provisioning.record_change()
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == [CommandReason.COMMAND_PENDING]
    assert set(lab.rows.commands) == before


def test_what_has_not_changed_is_not_planned_again() -> None:
    """A plan of a large cluster takes seconds; what it found is known as long as nothing else is observed."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="3"))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(minutes=1)
    counted = []
    for cpu in ("3", "3", "2"):
        lab.kubernetes.put(a_pending_pod("p", cpu=cpu))
        lab.bind("p")
        lab.app.provisioning.record_change()
        counted.append(lab.disrupt().counts.get("unchanged", 0))
        lab.clock.advance(minutes=1)
    assert counted == [0, 1, 0]


def decision_pass_idle(**settings: Any) -> Lab:
    """One node, launched for a pod that is not bound to it yet."""
    lab = Lab(**settings)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pod = a_pending_pod("p0", cpu="3", metadata={"ownerReferences": [owner]})
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s"}), pod)
    lab.settle()
    lab.clock.advance(minutes=1)
    return lab


def passed(lab: Lab, *brakes: Brake, is_window: bool = False, is_woken: bool = False) -> RunReport:
    """One pass, whatever earlier runs have found."""
    report, deadline = RunReport(), lab.clock.now() + timedelta(minutes=5)
    inputs = PassInputs(lab.claims, EngagedBrakes(brakes), (), b"state", deadline, is_window, is_woken)
    lab.app.disruption.decision_pass.run(inputs, report)
    return report


def emptied() -> Lab:
    """One node without pods."""
    lab = decision_pass_idle()
    lab.kubernetes.drop(resources.PODS, "p0", "default")
    return lab


def test_subscribers_get_one_message_for_each_run_that_stores_commands() -> None:
    lab = emptied()
    (node,) = lab.kubernetes.names(resources.NODES)
    report = passed(lab)
    ((subject, text),) = lab.command_topic.told
    assert subject.startswith("test: 1 command for 1 node, saves $")
    assert f"- remove {node} [Empty]" in text
    assert report.decision_id
    assert report.decision_id in text
    assert lab.topic.told == [], "only commands that wait go to the topic of approvals"
    passed(lab)
    assert len(lab.command_topic.told) == 1, "an earlier attempt of the same command is announced"


def test_commands_are_stored_though_nobody_can_be_told() -> None:
    lab = emptied()
    lab.command_topic.broken = TransientError("sns:Publish", "503")
    report = passed(lab)
    assert (len(lab.rows.commands), report.counts["portErrors"]) == (1, 1)
    assert ("skip", "announcement") in [(decision.kind, decision.subject) for decision in report.decisions]


def test_no_message_has_what_pods_keep_secret() -> None:
    """Environments, arguments and annotations may hold passwords, and chats are read by many."""
    secret = "hunter2-canary"
    lab = decision_pass_idle()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata = {"annotations": {"token": secret}, "labels": {"app": secret}, "ownerReferences": [owner]}
    container = {"name": "c", "args": [secret], "env": [{"name": "TOKEN", "value": secret}]}
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    lab.kubernetes.put(a_pending_pod("p0", metadata=metadata, containers=[{**container, "resources": requests}]))
    lab.bind("p0")
    labels = {"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}}
    lab.kubernetes.amend(resources.NODE_POOLS, "default", labels)
    passed(lab)
    lab.clock.advance(minutes=5)  # until the NodePool's change has settled
    passed(lab)
    ((subject, text),) = lab.command_topic.told
    assert "[Drifted], 1 pod moves" in text
    assert secret not in subject + text


def test_a_brake_of_one_node_pool_keeps_its_nodes_and_is_told() -> None:
    """That a NodePool is only observed is written on the NodePool itself, and told at its nodes as that."""
    lab = emptied()
    report = passed(lab, Brake(BrakeKind.POOL_BREAKER, "no new node joins", node_pool="default"))
    assert (lab.rows.commands, report.counts["commands"], report.counts["blockedPaused"]) == ({}, 0, 1)
    told = [(decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions]
    assert told == [("skip", "default", BrakeKind.POOL_BREAKER, "no new node joins")]
    other = Brake(BrakeKind.POOL_BREAKER, "no new node joins", node_pool="other")
    observed = Brake(BrakeKind.OBSERVED, "observed", node_pool="default")
    report = passed(emptied(), other, observed)
    assert report.counts["commands"] == 1


def test_a_node_pool_that_has_shrunk_keeps_its_nodes_and_is_told() -> None:
    """What commands took within the hour is in the history of moves."""
    lab = decision_pass_idle()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    running = a_pending_pod("p0", cpu="3", nodeName=lab.claim.node_name, metadata={"ownerReferences": [owner]})
    lab.kubernetes.put({**running, "status": {"phase": "Running"}})
    lab.kubernetes.amend(
        resources.NODE_POOLS, "default", {"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}}
    )
    now = lab.clock.now()
    gone = EvictedNode(node_pool="default", pods=1, at=now, cpu=200_000, created_at=now - timedelta(hours=2))
    lab.rows.moves = MoveHistory(evicted_nodes={"gone": gone})
    report = passed(lab)
    assert (lab.rows.commands, report.counts["blockedNodePoolShrinking"]) == ({}, 1)
    assert report.counts[stopped_by(BrakeKind.SHRINKING)] == 1
    (told,) = (decision for decision in report.decisions if decision.reason == BrakeKind.SHRINKING)
    assert (told.kind, told.subject) == ("skip", "default")
    assert "may lose 50 % of its vCPUs in an hour" in told.message
    lab.clock.advance(minutes=61)
    assert passed(lab).counts["commands"] == 1


def is_resting(lab: Lab) -> bool:
    """Whether the next run may skip its observation."""
    return lab.app.disruption.skips.resync.is_valid(b"state", lab.clock.now())


def test_a_pass_that_decides_nothing_lets_the_next_runs_rest_and_one_that_does_does_not() -> None:
    quiet, busy = decision_pass_idle(), emptied()
    quiet.bind("p0")
    quiet.clock.advance(minutes=1)
    assert passed(quiet).counts["commands"] == 0
    report = passed(busy)
    assert (report.counts["commands"], report.counts["cutOffDecisions"]) == (1, 0)
    assert (is_resting(quiet), is_resting(busy)) == (True, False)
    busy.rows.commands.clear()
    again = passed(busy).counts
    assert (again["commands"], again.get("unchanged")) == (1, None)


def test_what_was_found_is_forgotten_when_a_window_opens_or_closes() -> None:
    """The digest of what is observed has no time of day."""
    lab = decision_pass_idle()
    lab.bind("p0")
    counted = [passed(lab, is_window=is_window).counts.get("unchanged", 0) for is_window in (False, False, True, False)]
    assert counted == [0, 1, 0, 1]


@pytest.mark.parametrize("is_woken", [False, True])
def test_only_a_run_that_a_message_started_waits_for_nodes_that_may_go_seconds_later(*, is_woken: bool) -> None:
    """The schedule starts the others, and nothing starts a later one in their place."""
    lab = emptied()
    (name,) = lab.kubernetes.names(resources.NODES)
    lab.rows.nominated = {name: lab.clock.now() + timedelta(seconds=3)}
    counts = passed(lab, is_woken=is_woken).counts
    assert ("postponedRuns" in counts, "commands" in counts) == (is_woken, not is_woken)


@pytest.mark.parametrize(("gates", "rests"), [("", True), ("NodeRepair=true", False)])
def test_while_a_node_is_unhealthy_time_alone_changes_the_decision_if_nodes_are_repaired(
    gates: str, *, rests: bool
) -> None:
    lab = decision_pass_idle(feature_gates=gates)
    lab.bind("p0")
    (name,) = lab.kubernetes.names(resources.NODES)
    ill = {"type": "StorageReady", "status": "False", "lastTransitionTime": lab.clock.now().isoformat()}
    conditions = lab.kubernetes.raw(resources.NODES, name)["status"]["conditions"]
    lab.kubernetes.amend(resources.NODES, name, {"status": {"conditions": [*conditions, ill]}})
    counted = [passed(lab).counts.get("unchanged", 0) for _ in range(2)]
    assert (counted, is_resting(lab)) == ([0, int(rests)], rests)


def idle(**disruption: Any) -> Lab:
    """One node without pods, of a NodePool whose budgets let it go at once."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", **disruption}), a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    return lab


def listed(lab: Lab) -> list[str]:
    """Record, from now on, what is listed of the cluster."""
    calls: list[str] = []
    lab.kubernetes.before_call = lambda call: calls.append(call) if call.startswith("list") else None
    return calls


def test_an_idle_node_gets_a_command() -> None:
    lab = idle()
    report = lab.disrupt()
    (command,) = lab.rows.commands.values()
    assert (command.command.reason, report.counts["commands"]) == ("Empty", 1)
    assert lab.rows.leases[DECIDER][1] is None, "the next run may decide"


def test_without_claims_nothing_is_listed() -> None:
    lab = Lab()
    calls = listed(lab)
    report = lab.disrupt()
    assert (calls, report.counts) == ([], {"skippedRuns": 1})
    assert lab.disrupt().counts == {"skippedRuns": 1}


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_claim_whose_node_has_not_settled_is_no_candidate(*, is_woken: bool) -> None:
    lab = idle()
    lab.rows.claims = {
        name: msgspec.structs.replace(row, phase=ClaimPhase.REGISTERED) for name, row in lab.rows.claims.items()
    }
    calls = listed(lab)
    report = lab.disrupt(is_woken=is_woken)
    assert (calls, report.counts) == ([], {"skippedRuns": 1})


def test_a_message_has_the_table_read_although_there_were_no_claims() -> None:
    lab = idle()
    rows, lab.rows.claims = dict(lab.rows.claims), {}
    lab.disrupt()
    lab.rows.claims = rows
    assert lab.disrupt().counts == {"skippedRuns": 1}
    assert lab.disrupt(is_woken=True).counts["commands"] == 1


def test_a_brake_of_all_node_pools_ends_the_run_before_it_looks() -> None:
    lab = idle()
    lab.brakes.hold(Brake(BrakeKind.PAUSE, "paused by a test"), lab.clock.now())
    calls = listed(lab)
    report = lab.disrupt()
    assert (calls, lab.rows.commands) == ([], {})
    assert [(decision.kind, decision.subject, decision.reason) for decision in report.decisions] == [
        ("skip", "disruption", BrakeKind.PAUSE)
    ]


class TestClosedBudgets:
    """Only NodePools are listed until one opens."""

    @pytest.fixture
    def lab(self) -> Lab:
        lab = idle(budgets=[{"nodes": "0"}])
        lab.disrupt()
        return lab

    def test_end_the_run(self, lab: Lab) -> None:
        calls = listed(lab)
        report = lab.disrupt()
        assert calls == ["list nodepools", "list calendars"]
        assert (report.counts, lab.rows.commands) == ({"closedBudgets": 1, ROLLOUTS_STOPPED: 0}, {})

    def test_that_open_let_it_go_on(self, lab: Lab) -> None:
        lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
        lab.clock.advance(minutes=1)
        assert lab.disrupt(is_woken=True).counts["commands"] == 1

    @pytest.mark.parametrize(("failures", "stopped"), [(0, 0), (1, 1)])
    def test_hide_no_stopped_rollout(self, lab: Lab, *, failures: int, stopped: int) -> None:
        """An alarm watches them, and would be silent while a window is closed."""
        now = lab.clock.now()
        rollout = Rollout(node_pool="default", target="t", started_at=now)
        for _ in range(failures):
            rollout = rollout.after_failure("no replacement came", now)
        lab.rows.moves = MoveHistory(rollouts={"default": rollout})
        assert lab.disrupt().counts[ROLLOUTS_STOPPED] == stopped


class TestAnUnchangedCluster:
    """A decision to do nothing holds until something changes."""

    @pytest.fixture
    def lab(self) -> Lab:
        lab = idle(consolidateAfter="Never")
        lab.disrupt()
        return lab

    def test_is_not_looked_at_again(self, lab: Lab) -> None:
        calls = listed(lab)
        assert lab.disrupt().counts["skippedRuns"] == 1
        assert calls == []

    def test_is_looked_at_for_a_message(self, lab: Lab) -> None:
        lab.clock.advance(minutes=1)
        calls = listed(lab)
        assert "skippedRuns" not in lab.disrupt(is_woken=True).counts
        assert calls != []

    def test_is_looked_at_when_a_window_opens_or_closes(self, lab: Lab) -> None:
        calls, report, now = listed(lab), RunReport(), lab.clock.now()
        lab.app.disruption.run(report, owner="a window", deadline=now + timedelta(minutes=5), is_window=True)
        assert "skippedRuns" not in report.counts
        assert calls != []


def test_a_run_that_meets_another_decides_nothing() -> None:
    lab = idle()
    lab.app.adapters.leases.acquire(DECIDER, "another", now=lab.clock.now(), for_=timedelta(minutes=1))
    report = lab.disrupt()
    assert (report.counts["busyRuns"], lab.rows.commands) == (1, {})


def test_a_run_that_a_message_starts_soon_after_a_pass_is_put_off() -> None:
    lab = idle()
    lab.disrupt()
    lab.rows.commands.clear()
    calls = listed(lab)
    assert lab.disrupt(is_woken=True).counts == {"spacedRuns": 1}
    assert calls == []


def test_a_pass_that_fails_keeps_nobody_from_deciding() -> None:
    lab = idle()

    def fail(call: str) -> None:
        if call == "list nodes":
            raise RuntimeError("a defect")

    lab.kubernetes.before_call = fail
    with pytest.raises(RuntimeError):
        lab.disrupt()
    assert lab.rows.leases[DECIDER][1] is None


def test_the_proven_minimum_is_computed_for_the_ledger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a linear program in each pass, and without a ledger nobody reads it."""
    proofs: list[int] = []

    def floor(_: DisruptionPass) -> int:
        proofs.append(1)
        return 0

    monkeypatch.setattr("core.disruption.target.search.fleet_floor", floor)
    lab, without = idle(), idle()
    without.settings = msgspec.structs.replace(without.settings, keep_ledger=False)
    without.restart()
    assert lab.disrupt().counts["commands"] == without.disrupt().counts["commands"] == 1
    assert len(proofs) == 1


# What would go is recorded where disruption is only observed: once for each change, and nothing is carried out.


TICK = timedelta(microseconds=1)
OPEN = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
OBSERVED = {"annotations": {labels.MODE: labels.OBSERVE}}


def a_pool(name: str, **more: object) -> JsonObject:
    """A NodePool that takes the pods that select it by its name."""
    return a_node_pool(name, disruption=OPEN, **more)


@pytest.fixture
def observed_commands_lab() -> Lab:
    """An empty node in each of two NodePools, `watched` and `acting`; `watched` is only observed."""
    lab = Lab()
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    for name in ("watched", "acting"):
        lab.kubernetes.put(a_pool(name), a_pending_pod(name, nodeSelector={labels.NODEPOOL: name}))
    lab.settle()
    lab.kubernetes.put(a_pool("watched", metadata=OBSERVED))
    for name in ("watched", "acting"):
        lab.kubernetes.drop(resources.PODS, name, "default")
    lab.clock.advance(minutes=1)
    return lab


def would_go(lab: Lab, report: RunReport) -> list[str]:
    """NodePools of the nodes that would go."""
    pool_of = {claim.node_name: claim.plan.node_pool for claim in lab.claims}
    return [pool_of[d.subject] for d in report.decisions if d.kind == DecisionKind.OBSERVE]


def recorded(lab: Lab) -> list[LedgerEntry]:
    """The decisions in the ledger that nobody carries out."""
    entries = [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]
    return [entry for entry in entries if entry.is_observed]


def test_commands_of_observed_pools_are_recorded_once_and_not_stored(observed_commands_lab: Lab) -> None:
    report = observed_commands_lab.disrupt()
    assert would_go(observed_commands_lab, report) == ["watched"]
    (command,) = observed_commands_lab.rows.commands.values()
    assert [observed_commands_lab.rows.claims[name].plan.node_pool for name in command.command.claims] == ["acting"]
    assert len(recorded(observed_commands_lab)) == 1
    observed_commands_lab.clock.pause(2 * REUSED_FOR)
    assert would_go(observed_commands_lab, observed_commands_lab.disrupt()) == []
    assert len(recorded(observed_commands_lab)) == 1


def test_of_an_observed_pool_without_commands_nothing_is_recorded(observed_commands_lab: Lab) -> None:
    observed_commands_lab.kubernetes.put(a_pending_pod("back", nodeSelector={labels.NODEPOOL: "watched"}))
    node = next(claim.node_name for claim in observed_commands_lab.claims if claim.plan.node_pool == "watched")
    observed_commands_lab.kubernetes.amend(
        resources.PODS, "back", {"spec": {"nodeName": node}, "status": {"phase": "Running"}}, "default"
    )
    assert would_go(observed_commands_lab, observed_commands_lab.disrupt()) == []
    assert recorded(observed_commands_lab) == []


def shadow(lab: Lab) -> list[str]:
    """Run `disrupt` with `mode: shadow`; return the NodePools of the nodes that would go."""
    report = RunReport()
    lab.app.shadow_disruption.run(report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert report.counts["claims"] == 2
    return would_go(lab, report)


def test_what_a_shadow_says_names_its_entry(observed_commands_lab: Lab) -> None:
    """The log of a run is how people find the decision that it is about."""
    report = RunReport()
    observed_commands_lab.app.shadow_disruption.run(
        report, deadline=observed_commands_lab.clock.now() + timedelta(minutes=1)
    )
    (entry,) = recorded(observed_commands_lab)
    (decision,) = (decision for decision in report.decisions if decision.kind == DecisionKind.OBSERVE)
    assert decision.decision_id == entry.id
    assert decision.message.endswith(f"({entry.id})")


def test_what_the_ledger_did_not_take_is_recorded_by_the_next_run(observed_commands_lab: Lab) -> None:
    observed_commands_lab.ledger.broken = TransientError("s3:PutObject", "503")
    shadow(observed_commands_lab)
    observed_commands_lab.ledger.broken = None
    observed_commands_lab.clock.pause(TRIED_AGAIN_AFTER)
    shadow(observed_commands_lab)
    assert len(recorded(observed_commands_lab)) == 1


def test_a_shadow_records_each_state_of_the_cluster_once(observed_commands_lab: Lab) -> None:
    """A report plays on the records, also on those of which nothing follows."""
    assert shadow(observed_commands_lab) == ["acting"]
    assert shadow(observed_commands_lab) == []
    assert len(recorded(observed_commands_lab)) == 1
    observed_commands_lab.clock.pause(REUSED_FOR)
    assert shadow(observed_commands_lab) == []
    assert len(recorded(observed_commands_lab)) == 1
    observed_commands_lab.kubernetes.put(a_pending_pod("new", nodeSelector={"nobody": "has"}))
    shadow(observed_commands_lab)
    assert len(recorded(observed_commands_lab)) == 2


def test_an_unchanged_cluster_is_decided_again_after_five_minutes_and_not_before(
    observed_commands_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision of a large cluster takes a minute; but `consolidateAfter` passes without any change."""
    decided: list[datetime] = []

    def deciding(*positional: Any, **named: Any) -> DisruptionPlan:
        decided.append(observed_commands_lab.clock.now())
        return disrupt(*positional, **named)

    monkeypatch.setattr(disruption, "disrupt", deciding)
    commands = ObservedCommands(LedgerWriter(None, "prod", observed_commands_lab.clock), observed_commands_lab.clock)
    snapshot, began = a_snapshot(), observed_commands_lab.clock.now()
    for pause in (timedelta(0), REUSED_FOR - TICK, TICK, REUSED_FOR - TICK):
        observed_commands_lab.clock.pause(pause)
        commands.record(snapshot, RunReport(), until=observed_commands_lab.clock.now() + timedelta(minutes=1))
    assert decided == [began, began + REUSED_FOR]


@pytest.mark.parametrize(
    ("thousandths", "is_cut_off"), [((), False), ((10, 749), False), ((10, 750), True), ((1200, 0), True)]
)
def test_a_decision_is_cut_off_once_there_is_no_time_for_a_target(
    thousandths: tuple[int, ...], is_cut_off: bool
) -> None:
    """From then on targets and parts are left out, so that the same state is decided about again."""
    decided = disruption._Decided(a_snapshot(), DisruptionPlan(now=NOW), "", NOW, thousandths, is_new=True)
    assert decided.is_cut_off is is_cut_off


@pytest.mark.parametrize(("plan", "counted"), [({}, None), ({"parts": 3}, 3), ({"undivided": "commitments"}, 1)])
def test_a_run_counts_the_parts_of_a_large_cluster(
    plan: dict[str, Any], counted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disruption, "disrupt", lambda snapshot, **_: DisruptionPlan(now=snapshot.now, **plan))
    assert passed(emptied()).counts.get("parts") == counted
