"""Many launches at once, and the result of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import DeniedError, JsonObject, ThrottledError, TransientError
from adapters.runtime.parallel_tasks import Task, TaskRunners, in_turn
from adapters.store import Requested
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import CrashError


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(6)))
    return lab


@pytest.fixture
def unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim has a launch of its own."""
    monkeypatch.setattr("lambdas.controllers.provisioning.claim_records.SHARES_MAX", 1)


def runs(lab: Lab) -> list[int]:
    """How many launches run at once, wave by wave."""
    found: list[int] = []

    def noted(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        found.append(len(tasks))
        return in_turn(tasks, patience)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, noted)
    return found


@pytest.mark.usefixtures("unlike")
def test_the_first_launch_of_a_class_goes_ahead_and_the_others_follow_at_once(lab: Lab) -> None:
    """Otherwise, thirty launches at once are denied thirty times."""
    found = runs(lab)
    lab.provision()
    assert found == [1, 5]
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}


def test_a_launch_denied_to_the_first_is_not_tried_by_the_others(lab: Lab) -> None:
    asked: list[str] = []

    def deny(_: str) -> None:
        asked.append("launch")
        raise DeniedError("ec2:CreateFleet", "UnauthorizedOperation: no", code="UnauthorizedOperation")

    lab.cloud.before_call = lambda call: deny(call) if call == "launch" else None
    lab.provision()
    assert asked == ["launch"]
    assert lab.claims == ()
    ((_, denial),) = lab.rows.denials.items()
    assert denial.is_engaged


@pytest.mark.usefixtures("unlike")
def test_a_launch_that_does_not_end_in_time_is_left_to_another_run(lab: Lab) -> None:
    """Its instance may exist; a claim without follow-up would lose it."""

    def hang(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        in_turn(tasks[:-1], patience)
        return (*(True for _ in tasks[:-1]), False)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, hang)
    report = lab.provision()
    assert report.counts["unfinishedLaunches"] == 2
    messages: list[JsonObject] = lab.work.take()
    assert all(claim.name in str(messages) for claim in lab.claims)


@pytest.mark.usefixtures("unlike")
def test_no_launch_begins_close_to_the_end_of_the_run(lab: Lab) -> None:
    """The run would be cut off in the middle of it, and its instance be known to nobody until it is listed."""
    lab.cloud.before_call = lambda call: lab.clock.advance(seconds=50) if call == "launch" else None
    lab.provision()
    assert sorted(claim.phase for claim in lab.claims) == [ClaimPhase.LAUNCHED] + [ClaimPhase.REQUESTED] * 5
    messages: list[JsonObject] = lab.work.take()
    assert all(claim.name in str(messages) for claim in lab.claims if claim.phase is ClaimPhase.REQUESTED)


@pytest.mark.usefixtures("unlike")
@pytest.mark.parametrize(("seconds", "begun"), [(45, 6), (46, 1)])
def test_a_launch_begins_up_to_fifteen_seconds_before_the_end(lab: Lab, seconds: int, begun: int) -> None:
    spent = [seconds]
    lab.cloud.before_call = lambda call: (
        lab.clock.advance(seconds=spent.pop() if spent else 0) if call == "launch" else None
    )
    lab.provision()
    assert sum(claim.phase is ClaimPhase.LAUNCHED for claim in lab.claims) == begun


@pytest.mark.usefixtures("unlike")
def test_a_failing_launch_affects_no_other(lab: Lab) -> None:
    left = [TransientError("ec2:CreateFleet", "503")]

    def fail_once(call: str) -> None:
        if call == "launch" and left:
            raise left.pop()

    lab.cloud.before_call = fail_once
    lab.provision()
    assert sorted(claim.phase for claim in lab.claims) == [ClaimPhase.LAUNCHED] * 5 + [ClaimPhase.REQUESTED]


def test_claims_of_one_shape_are_asked_for_with_one_request(lab: Lab) -> None:
    """EC2 takes five requests a second; a thousand nodes would take minutes."""
    lab.provision()
    (order,) = lab.cloud.orders
    assert order.count == 6
    assert len({claim.instance_id for claim in lab.claims}) == 6


def test_claims_that_got_no_instance_are_planned_again(lab: Lab) -> None:
    """Of a fleet that is fulfilled in part the others have nothing to wait for."""
    lab.cloud.room = 4
    report = lab.provision()
    assert report.counts["refusedLaunches"] == 2
    assert [order.count for order in lab.cloud.orders] == [6, 2]
    assert len({claim.instance_id for claim in lab.claims}) == 6


@pytest.mark.parametrize("dies_at", range(1, 30, 2))
def test_a_run_that_dies_anywhere_leaves_one_instance_for_each_claim(lab: Lab, dies_at: int) -> None:
    """Between the request and the last row, some claims have their instance and others do not know of theirs."""
    left = dies_at

    def die(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CrashError

    lab.rows.before_call = lab.rows.after_call = lab.cloud.after_call = die
    with suppress(CrashError):
        lab.provision()
    lab.rows.before_call = lab.rows.after_call = lab.cloud.after_call = lambda _: None
    lab.restart()
    lab.clock.advance(minutes=2)
    lab.provision()
    lab.tick(3)
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.claims) == 6


def test_claims_whose_answer_is_lost_find_an_instance_each(lab: Lab) -> None:
    """The instances exist; nobody knows which is whose."""
    lost = [TransientError("ec2:CreateFleet", "timed out")]

    def lose(call: str) -> None:
        if call == "launch" and lost:
            raise lost.pop()

    lab.cloud.after_call = lose
    lab.provision()
    assert all(claim.machine is None for claim in lab.claims)
    lab.tick(3)
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.cloud.orders) == 1


def test_a_launch_that_lost_a_claim_to_a_limit_launches_no_instance_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was made before other claims took the room; an instance without a claim would be beyond the limit."""
    claims = lab.app.adapters.stores.claims
    request = claims.request

    def without_room(wanted: Sequence[ClaimRecord], *more: Any) -> Requested:
        return Requested(request(wanted[:-1], *more).accepted, tuple(wanted[-1:]))

    monkeypatch.setattr(claims, "request", without_room)
    lab.provision()
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.claims) == 5


class TestAThrottledLaunch:
    """EC2 did nothing, so it is requested again as a whole; split, a launch of 50 would be 50 requests."""

    @pytest.fixture(autouse=True)
    def throttle(self, lab: Lab) -> None:
        self.asked = 0

        def refuse(call: str) -> None:
            if call == "launch":
                self.asked += 1
                raise ThrottledError("ec2:CreateFleet", "RequestLimitExceeded")

        lab.cloud.before_call = refuse
        lab.provision()
        assert len(lab.claims) == 6

    def end(self, lab: Lab) -> None:
        lab.cloud.before_call = lambda _: None

    def test_is_requested_by_one_claim_for_all(self, lab: Lab) -> None:
        lab.tick(3)
        assert self.asked <= 4
        assert {claim.shares for claim in lab.claims} == {6}
        self.end(lab)
        lab.tick(1)
        assert [order.count for order in lab.cloud.orders] == [6]
        assert len({claim.instance_id for claim in lab.claims}) == 6

    def test_leaves_out_a_claim_whose_pods_have_found_a_place(self, lab: Lab) -> None:
        """The others are launched alone: the token stands for six instances."""
        self.end(lab)
        gone = lab.claims[3]
        namespace, _, name = gone.plan.pods[0].partition("/")
        lab.kubernetes.amend(kinds.PODS, name, {"spec": {"nodeName": "elsewhere"}}, namespace)
        lab.tick(3)
        assert gone.name not in {claim.name for claim in lab.claims}
        assert [order.count for order in lab.cloud.orders] == [1] * 5
        assert len({claim.instance_id for claim in lab.claims}) == 5

    def test_does_not_wait_for_a_first_claim_that_is_gone(self, lab: Lab) -> None:
        """Somebody may have deleted it."""
        self.end(lab)
        del lab.rows.claims[min(lab.claims, key=lambda claim: claim.share).name]
        lab.tick(3)
        assert len(lab.claims) == 5
        assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]

    def test_is_requested_as_a_whole_after_a_run_died_while_it_gave_new_tokens(self, lab: Lab) -> None:
        """EC2 repeats its answer to the old token, and the claims with the new one are not all."""
        self.end(lab)
        first, *others = sorted(lab.claims, key=lambda claim: claim.share)
        for claim in (first, *others[:2]):
            lab.rows.claims[claim.name] = msgspec.structs.replace(claim, token="new")
        lab.tick(3)
        assert [(order.token, order.count) for order in lab.cloud.orders] == [("new", 6)]
        assert len({claim.instance_id for claim in lab.claims}) == 6

    def test_does_not_launch_again_what_an_answer_is_known_to(self, lab: Lab) -> None:
        """The first claim was settled, and the run died then: the others look for their instances."""
        self.end(lab)
        first, *_ = sorted(lab.claims, key=lambda claim: claim.share)
        lab.rows.claims[first.name] = msgspec.structs.replace(first, attempts=1)
        lab.tick(4)
        assert all(claim.machine is not None for claim in lab.claims)
        assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
