"""A run of `disrupt` begins a pass only if one is needed: most runs find nothing to decide and must cost nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.run_report import RunReport
from adapters.store import DECIDER
from core.brakes.brake import Brake, BrakeKind
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.move_history import MoveHistory
from core.disruption.rollouts import Rollout
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from installation.metric_names import ROLLOUTS_STOPPED
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def idle(**disruption: Any) -> Lab:
    """One node without pods, of a NodePool whose budgets let it go at once."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", **disruption}), a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(kinds.PODS, "p", "default")
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
    assert lab.rows.leases[DECIDER][2] is None, "the next run may decide"


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
    rows, lab.rows.claims = lab.rows.claims, {}
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
    assert [(one.kind, one.subject, one.reason) for one in report.decisions] == [
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
        assert calls == ["list nodepools"]
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
    assert lab.rows.leases[DECIDER][2] is None


def test_the_proven_minimum_is_computed_for_the_ledger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a linear program in each pass, and without a ledger nobody reads it."""
    proofs: list[int] = []

    def floor(_: DisruptionPass) -> int:
        proofs.append(1)
        return 0

    monkeypatch.setattr("core.disruption.fleet_floor.fleet_floor", floor)
    lab, without = idle(), idle()
    without.settings = msgspec.structs.replace(without.settings, keep_ledger=False)
    without.restart()
    assert lab.disrupt().counts["commands"] == without.disrupt().counts["commands"] == 1
    assert len(proofs) == 1
