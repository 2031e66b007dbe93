from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from installation.metric_names import FAILED_SWEEPS, SKIPPED_SWEEPS, STALE_SWEEPS
from installation.wiring import BY_NAME
from lambdas.controllers.status.object_status import ObjectStatus
from lambdas.controllers.sweeps.order import ROUND, in_order
from lambdas.controllers.sweeps.sweep import Sweep
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod


def failing(error: Exception) -> object:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def skips(report: RunReport) -> set[tuple[str, str]]:
    return {(d.subject, d.reason) for d in report.decisions if d.kind == "skip"}


def mark(lab: Lab) -> None:
    """A taint without a command: work for one of the sweeps."""
    body = {"spec": {"taints": [{"key": DISRUPTED.key, "effect": DISRUPTED.effect}]}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, body)


def is_marked(lab: Lab) -> bool:
    return bool(lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["spec"]["taints"])


def test_an_unexpected_error_stops_one_sweep_and_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a defect in writing a status keeps orphans, expiry and lost messages from being handled."""
    monkeypatch.setattr(ObjectStatus, "write", failing(AttributeError("no such thing")))
    mark(lab)
    report = lab.reconcile()
    assert not is_marked(lab)
    assert ("sweep status", "UnexpectedError") in skips(report)
    assert (report.counts[FAILED_SWEEPS], report.counts["unexpectedErrors"]) == (1, 1)


def test_sweeps_that_need_no_snapshot_run_without_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, lost messages stay lost while an API server is down."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.provision()
    lab.work.take()
    lab.clock.advance(minutes=1)
    monkeypatch.setattr(lab.kubernetes, "list", failing(TransientError("kube:list nodes", "503")))
    report = lab.reconcile()
    assert len(lab.work.sent) == 1
    assert {("observation", "TransientError"), ("sweep expiry", "TransientError")} <= skips(report)
    assert "sweep stalled" not in {subject for subject, _ in skips(report)}


def test_sweeps_that_need_no_instances_run_without_them(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, statuses are out of date while EC2 throttles. A node is opened only once EC2 says that its instance runs."""
    mark(lab)
    monkeypatch.setattr(lab.cloud, "instances", failing(TransientError("ec2:DescribeInstances", "throttled")))
    report = lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["nodes"] == 1
    assert is_marked(lab)
    assert {("sweep lostInstances", "TransientError"), ("sweep strayTaints", "TransientError")} <= skips(report)


def test_a_sweep_that_is_not_clean_for_half_an_hour_is_counted_across_sandboxes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, its alarm never fires if each failure ends the sandbox."""
    assert lab.reconcile().counts[STALE_SWEEPS] == 0
    with monkeypatch.context() as broken:
        broken.setattr(ObjectStatus, "write", failing(ValueError("broken")))
        for _ in range(14):
            lab.clock.advance(minutes=2)
            lab.restart()
            assert lab.reconcile().counts[STALE_SWEEPS] == 0
        lab.clock.advance(minutes=2)
        lab.restart()
        assert lab.reconcile().counts[STALE_SWEEPS] == 1
    assert lab.rows.sweeps["status"].reason == "sweep status"
    lab.clock.advance(minutes=2)
    assert lab.reconcile().counts[STALE_SWEEPS] == 0
    assert lab.rows.sweeps["status"].failures == 0


def test_clean_rounds_write_only_every_few_minutes(lab: Lab) -> None:
    """Otherwise, a quiet cluster pays for a write a round."""
    lab.reconcile()
    first = lab.rows.sweeps
    lab.clock.advance(minutes=2)
    lab.reconcile()
    assert lab.rows.sweeps == first
    lab.clock.advance(minutes=4)
    lab.reconcile()
    assert lab.rows.sweeps != first


def test_sweeps_without_time_left_are_reported_and_none_starves(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the last sweep of the list never runs on a large cluster."""
    names = {sweep.name for sweep in lab.app.sweeps if not sweep.every}
    for rare in (sweep for sweep in lab.app.sweeps if sweep.every):
        monkeypatch.setattr(rare, "every", timedelta(days=1))
    lab.reconcile()
    lab.app.adapters.stores.changes.record(lab.clock.now())
    swept: set[str] = set()
    for sweep in lab.app.sweeps:

        def take_a_minute(round_: object, name: str = sweep.name) -> None:
            swept.add(name)
            lab.clock.advance(seconds=51)

        monkeypatch.setattr(sweep, "run", take_a_minute)
    begun = lab.clock.now()
    for number in range(1, 8 * len(names)):
        lab.clock.advance(seconds=(begun + number * ROUND - lab.clock.now()).total_seconds())
        report = lab.reconcile()
        assert report.counts[SKIPPED_SWEEPS] == len(names) - 2
    assert swept == names
    assert any(reason == "TimeShort" for _, reason in skips(report))


class Named(Sweep):
    def __init__(self, name: str, *, is_urgent: bool) -> None:
        self.name = name
        self.is_urgent = is_urgent

    def run(self, round_: object) -> None:
        """Does nothing."""


@pytest.mark.parametrize("urgent", range(9))
@pytest.mark.parametrize("others", range(1, 9))
def test_each_sweep_comes_first_in_turn_and_urgent_ones_three_times_as_often(urgent: int, others: int) -> None:
    """Otherwise, a sweep that takes all the time of its round starves another."""
    sweeps = [Named(f"{n}", is_urgent=n < urgent) for n in range(urgent + others)]
    orders = [in_order(sweeps, NOW + ROUND * n) for n in range(4 * 9)]
    assert all(sorted(order, key=lambda s: int(s.name)) == sweeps for order in orders)
    assert {order[0] for order in orders} == set(sweeps)
    assert sum(order[0].is_urgent for order in orders) == (27 if urgent else 0)


def test_the_turn_follows_the_interval_of_rounds() -> None:
    """Otherwise, the order does not change from one round to the next."""
    assert [schedule.every for schedule in BY_NAME["reconcile"].schedules] == [ROUND]
