"""A claim takes all steps that are possible at that moment, to its end."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from adapters.messages import CHECKED_FOR, work_on_claim
from adapters.ports import LostReplyError
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.lifecycle.registration import claim_annotations
from core.manifests.wire import resources
from core.model.values.taints import DISRUPTED
from core.reasons.code import ClaimReason
from lambdas.controllers import node_lifecycle
from lambdas.controllers.node_lifecycle import CLOCKS_APART, CheckChains, ReadyNodes
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lifecycle.records_for_tests import a_record

# Of the chains of checks of a claim one goes on: the one that lasts longest.


SECOND = timedelta(seconds=1)
UNTIL = NOW + CHECKED_FOR


def check(stored: datetime | None, until: datetime | None, *, now: datetime = NOW) -> tuple[bool, datetime | None, int]:
    """Check a claim with a stored chain: whether the chain goes on, what is stored then, and the writes."""
    lab = Lab()
    claims = lab.app.adapters.stores.claims
    record = claims.restore(a_record(checked_until=stored))
    assert record is not None
    writes: list[str] = []
    lab.rows.before_call = writes.append
    goes_on = CheckChains(claims).goes_on(record, until, now)
    lab.rows.before_call = lambda _: None
    return goes_on, lab.claim.checked_until, writes.count("write")


def test_the_first_chain_and_a_longer_one_are_stored_and_go_on() -> None:
    assert check(None, UNTIL) == (True, UNTIL, 1)
    assert check(UNTIL - SECOND, UNTIL) == (True, UNTIL, 1)


def test_the_stored_chain_goes_on_without_a_write() -> None:
    """A claim is checked each second while it boots."""
    assert check(UNTIL, UNTIL) == (True, UNTIL, 0)


def test_a_shorter_chain_ends() -> None:
    assert check(UNTIL, UNTIL - SECOND) == (False, UNTIL, 0)


def test_a_single_check_belongs_to_no_chain_and_stores_none() -> None:
    assert check(UNTIL, None) == (True, UNTIL, 0)
    assert check(None, None) == (True, None, 0)


@pytest.mark.parametrize(("beyond", "goes_on"), [(timedelta(0), False), (SECOND, True)])
def test_a_stored_chain_of_a_clock_that_is_ahead_does_not_end_the_others(beyond: timedelta, goes_on: bool) -> None:
    """It may go on nowhere, and the claim would be checked by none until that moment."""
    stored = NOW + CHECKED_FOR + CLOCKS_APART + beyond
    until = UNTIL - SECOND
    assert check(stored, until) == ((True, until, 1) if goes_on else (False, stored, 0))


def test_a_chain_longer_than_any_clock_allows_ends_shorter_ones() -> None:
    """A message of a longer chain of ours is no wrong clock: the bound is the longer of the two."""
    until = NOW + timedelta(hours=1)
    assert check(until + SECOND, until) == (True, until, 1)
    assert check(until, until - SECOND) == (True, until - SECOND, 1)


def test_a_claim_that_changed_meanwhile_keeps_its_row_and_the_chain_goes_on() -> None:
    lab = Lab()
    claims = lab.app.adapters.stores.claims
    record = claims.restore(a_record())
    assert record is not None
    changed: ClaimRecord = claims.change(record, a_record(message="meanwhile"))
    assert CheckChains(claims).goes_on(record, UNTIL, NOW)
    assert (lab.claim.message, lab.claim.checked_until, changed.checked_until) == ("meanwhile", None, None)


def test_a_claim_with_many_steps_is_checked_again_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes a limited number of steps; the next message must not wait for a node that has already joined."""
    monkeypatch.setattr(node_lifecycle, "MAX_STEPS", 1)
    lab.interrupt()
    lab.work.take()
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    ((message, delay),) = lab.work.sent
    assert (message["claim"], delay) == (lab.claim.name, node_lifecycle.SOON)


def test_a_claim_without_a_next_step_is_neither_written_nor_checked_again(lab: Lab) -> None:
    before = lab.claim
    lab.execute(work_on_claim(before.name, lab.clock.now()))
    assert (lab.claim, lab.work.sent) == (before, [])


def test_a_series_of_checks_ends_where_a_longer_one_goes_on(lab: Lab) -> None:
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    lab.tick()
    lab.work.take()
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now(), checked_for=timedelta(minutes=1)))
    assert lab.work.sent == []


def test_a_series_that_a_wrong_clock_stored_ends_no_other(lab: Lab) -> None:
    """If this failed, one sandbox whose clock is hours ahead would leave a spot node one look a minute until then."""
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    far = lab.clock.now() + timedelta(hours=9)
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, checked_until=far))
    lab.work.take()
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    (message,) = lab.work.take()
    assert message["claim"] == lab.claim.name
    lab.execute(message)
    assert lab.claim.checked_until is not None
    assert lab.claim.checked_until < far


def test_a_node_carries_what_its_claim_was_launched_from(lab: Lab) -> None:
    """From these annotations a lost row is rebuilt, and drift is found."""
    written = lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["metadata"]["annotations"]
    wanted = {**lab.claim.plan.annotations, **claim_annotations(lab.claim)}
    assert {key: written.get(key) for key in wanted} == wanted


def test_a_disruption_budget_keeps_a_pod_and_its_node(lab: Lab) -> None:
    """Otherwise, a PodDisruptionBudget has no effect."""
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    reports = lab.tick(3)
    assert {d.reason for report in reports for d in report.decisions} == {"PodDisruptionBudget"}
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected = set()
    lab.tick(5)
    assert lab.claims == ()


def test_a_drain_that_a_restored_table_does_not_know_goes_on(lab: Lab) -> None:
    """Found by seed 300010: the node was opened again in its last minute, and pods went to it while others were forced off."""
    lab.kubernetes.protected = {"default/p"}
    before = lab.claim
    lab.interrupt()
    lab.tick(2)
    lab.rows.claims[before.name] = before
    lab.work.take()
    lab.reconcile()
    assert DISRUPTED.key in lab.taints()
    (report,) = lab.tick()
    assert [d.reason for d in report.decisions if d.kind == "terminate"] == ["SpotInterrupted"]
    assert lab.claim.deletion is not None


def test_no_pod_is_forced_off_a_node_that_was_opened_meanwhile() -> None:
    """Listing pods may take half a minute; until then another run may have let the node stay."""
    lab = Lab()
    pool = a_node_pool(template={"terminationGracePeriod": "1m", "expireAfter": "1h"})
    lab.kubernetes.put(pool, a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    before = lab.claim
    lab.kubernetes.protected = {"default/p"}
    lab.clock.advance(hours=1)
    lab.reconcile()
    lab.tick(2, seconds=20)

    def restore(call: str) -> None:
        if call == f"list pods spec.nodeName={before.node_name}":
            lab.kubernetes.before_call = lambda _: None
            lab.rows.claims[before.name] = before
            lab.kubernetes.amend(resources.NODES, before.node_name, {"spec": {"taints": []}})

    lab.kubernetes.before_call = restore
    lab.tick(seconds=20)
    assert lab.kubernetes.names(resources.PODS) == ["p"]
    assert (lab.claim.deletion, lab.taints()) == (None, [])


class TestUnderABrake:
    """What has not begun waits, and is reported once a check."""

    def stop(self, lab: Lab) -> None:
        lab.brakes.hold(Brake(BrakeKind.STOP, "stopped by a test"), lab.clock.now())

    def check(self, lab: Lab) -> list[tuple[str, str, str]]:
        report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        return [(decision.kind, decision.subject, decision.reason) for decision in report.decisions]

    def test_a_claim_is_not_launched_before_it_is_released(self) -> None:
        lab = lost_launch()
        self.stop(lab)
        assert self.check(lab) == [("skip", lab.claim.name, BrakeKind.STOP)]
        assert (lab.cloud.orders, [delay for _, delay in lab.work.sent]) == ([], [node_lifecycle.HELD_BACK])
        lab.brakes.release(BrakeKind.STOP)
        lab.tick()
        assert lab.claim.machine is not None

    def test_no_pod_is_evicted(self, lab: Lab) -> None:
        lab.interrupt()
        self.stop(lab)
        assert self.check(lab) == [("skip", lab.claim.name, BrakeKind.STOP)]
        assert (lab.kubernetes.evicted, lab.taints()) == ([], [])

    def test_a_node_that_joined_is_registered_all_the_same(self) -> None:
        """A brake stops what removes or launches nodes; one that runs would stay closed."""
        lab = Lab(bind_pods=False)
        lab.kubernetes.put(a_pending_pod("p"))
        lab.provision()
        lab.boot()
        self.stop(lab)
        assert [kind for kind, *_ in self.check(lab)] == ["register", "initialize"]


def lost_launch(*pods: str, after: bool = False) -> Lab:
    """Claims for these pods, a node each, whose launch got no answer; `after`: EC2 launched."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(name, cpu="3") for name in pods or ("p",)))

    def lose(call: str) -> None:
        if call == "launch":
            raise LostReplyError("ec2:CreateFleet", "timed out")

    hook = "after_call" if after else "before_call"
    setattr(lab.cloud, hook, lose)
    lab.provision()
    setattr(lab.cloud, hook, lambda _: None)
    lab.work.take()
    return lab


def test_an_unclear_launch_is_asked_once_a_check() -> None:
    """Each question may launch: the instance of the last one is looked for first."""
    lab = lost_launch()
    tried: list[str] = []

    def lose(call: str) -> None:
        if call == "launch":
            tried.append(call)
            raise LostReplyError("ec2:CreateFleet", "timed out")

    lab.cloud.before_call = lose
    lab.clock.advance(seconds=40)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert (len(tried), [delay for _, delay in lab.work.sent]) == (1, [timedelta(seconds=4)])


def test_a_claim_that_ends_without_a_launch_is_checked_no_more() -> None:
    lab = lost_launch()
    lab.clock.advance(minutes=6)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert (lab.claims, lab.work.sent, report.failed_messages) == ((), [], [])
    assert [(decision.kind, decision.reason) for decision in report.decisions] == [
        ("forget", ClaimReason.LAUNCH_TIMEOUT)
    ]


def test_claims_of_a_launch_whose_answer_was_lost_get_an_instance_each() -> None:
    lab = lost_launch("a", "b", after=True)
    assert [claim.shares for claim in lab.claims] == [2, 2]
    lab.execute(*(work_on_claim(claim.name, lab.clock.now()) for claim in lab.claims))
    assert sorted(claim.instance_id for claim in lab.claims) == ["i-0000", "i-0001"]
    assert len(lab.cloud.orders) == 1


class TestANodeSmallerThanPlanned:
    """It stays, and is reported: its pods may wait for room that it does not have."""

    @pytest.fixture
    def small(self, lab: Lab) -> Lab:
        lab.kubernetes.amend(resources.NODES, lab.claim.node_name, {"status": {"capacity": {"cpu": "100m"}}})
        return lab

    def test_is_reported_once(self, small: Lab) -> None:
        for reasons in ([ClaimReason.FAILED_CONSISTENCY_CHECK], []):
            report = small.execute(work_on_claim(small.claim.name, small.clock.now()))
            assert [decision.reason for decision in report.decisions] == reasons
        assert small.claim.reason == ClaimReason.FAILED_CONSISTENCY_CHECK
        events = [
            small.kubernetes.raw(resources.EVENTS, name, "default") for name in small.kubernetes.names(resources.EVENTS)
        ]
        about = [event["involvedObject"]["kind"] for event in events if event["reason"] == "FailedConsistencyCheck"]
        assert about == ["Node"]

    def test_costs_no_list_of_pods(self, small: Lab) -> None:
        """No pod waits for it in particular, and all pods of the cluster would be read."""
        calls: list[str] = []
        small.kubernetes.before_call = calls.append
        small.execute(work_on_claim(small.claim.name, small.clock.now()))
        assert [call for call in calls if call.startswith("list pods")] == []


def test_a_node_that_vanishes_while_its_pods_are_listed_ends_with_its_claim(lab: Lab) -> None:
    lab.kubernetes.drop(resources.PODS, "p", "default")
    node = lab.claim.node_name
    lab.interrupt()

    def vanish(call: str) -> None:
        if call.startswith("list volumeattachments"):
            lab.kubernetes.drop(resources.NODES, node)

    lab.kubernetes.before_call = vanish
    reports = lab.tick(4)
    assert [report.failed_messages for report in reports] == [[]] * 4
    assert (lab.claims, lab.cloud.instances()) == ((), ())


def test_a_node_that_joins_after_its_kind_failed_lets_launches_go_on() -> None:
    """Launches of the class wait for whether this one joins."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.rows.claims[lab.claim.name] = msgspec.structs.replace(lab.claim, tries=("Client.InternalError",))
    lab.boot()
    lab.wake_ups.take()
    lab.tick(seconds=20)
    assert lab.wake_ups.take() == [{"wakeUp": "a node joined"}]


def test_a_node_that_joins_as_always_wakes_nobody() -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    lab.wake_ups.take()
    lab.tick(seconds=20)
    assert lab.claim.phase is ClaimPhase.REGISTERED
    assert lab.wake_ups.take() == []


def test_who_waits_for_room_is_woken_when_a_claim_lets_go_of_it(lab: Lab) -> None:
    """`provision` waits for its share of the limits, `disrupt` for its place in the budgets."""
    lab.interrupt()
    lab.wake_ups.take()
    lab.run_requests.take()
    woken: list[tuple[int, int]] = []
    for _ in range(5):
        lab.tick()
        woken.append((len(lab.wake_ups.take()), len(lab.run_requests.take())))
    assert lab.claims == ()
    assert [sum(column) for column in zip(*woken, strict=True)] == [1, 1]


def test_a_node_claim_made_by_hand_that_is_launched_gets_no_event_of_failure() -> None:
    lab = lost_launch()
    plan = msgspec.structs.replace(lab.claim.plan, annotations={labels.MADE_BY_HAND: "uid"})
    lab.rows.claims[lab.claim.name] = msgspec.structs.replace(lab.claim, plan=plan)
    before = lab.kubernetes.names(resources.EVENTS)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.claim.machine is not None
    assert lab.kubernetes.names(resources.EVENTS) == before


def test_a_node_claim_made_by_hand_that_cannot_be_launched_says_why() -> None:
    """Its object is deleted with the claim, so that nothing else is left to read."""
    lab = lost_launch()
    name = lab.claim.name
    plan = msgspec.structs.replace(lab.claim.plan, annotations={labels.MADE_BY_HAND: "uid"})
    lab.rows.claims[name] = msgspec.structs.replace(lab.claim, plan=plan)
    lab.clock.advance(minutes=6)
    lab.execute(work_on_claim(name, lab.clock.now()))
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    told = [(event["involvedObject"]["name"], event["reason"]) for event in events]
    assert (name, "LaunchTimeout") in told


def test_steps_to_a_node_name_the_decision_that_wanted_it_and_its_removal_does_not(lab: Lab) -> None:
    """The end of a node has a cause of its own; under the old decision, the log would say that this one had failed."""
    made = Lab()
    made.kubernetes.put(a_pending_pod("p"))
    made.provision()
    wanted = made.claim.decision
    made.boot()
    reports = [made.execute(work_on_claim(made.claim.name, made.clock.now()))]
    assert wanted
    assert {decision.decision_id for report in reports for decision in report.decisions} == {wanted}
    lab.interrupt()
    ended = [decision for report in lab.tick(5) for decision in report.decisions if decision.kind == "terminate"]
    assert [outcome.decision_id for outcome in ended] == [""]


def test_a_leaving_claim_that_is_forgotten_with_its_share_of_the_limits_wakes_provision() -> None:
    """Its instance never came; pods may wait for the share."""
    lab = Lab()
    deletion = Deletion(reason="NodeClaimDeleted", asked_at=lab.clock.now())
    record = a_record(ClaimPhase.REQUESTED, deletion=deletion, reserved={"cpu": 1000, "nodes": 1})
    lab.app.adapters.stores.claims.restore(record)
    lab.execute(work_on_claim(record.name, lab.clock.now()))
    assert lab.claims == ()
    assert lab.wake_ups.take() == [{"wakeUp": "NodeClaimDeleted"}]


# How long a sandbox has known that a node is ready.


def usable(name: str = "default-x-0", *, is_bound: bool = False) -> ClaimRecord:
    """A claim whose row says that its node was usable a minute ago."""
    moments = Moments(usable_at=NOW - 60 * SECOND)
    record = a_record(ClaimPhase.REGISTERED, moments=moments, is_bound=is_bound)
    return msgspec.structs.replace(record, name=name)


def test_it_counts_from_the_first_look_of_its_own_and_not_from_the_row() -> None:
    nodes = ReadyNodes()
    assert nodes.known_for(usable(), NOW) == timedelta(0)
    assert nodes.known_for(usable(), NOW + SECOND) == SECOND


@pytest.mark.parametrize(
    "record",
    [
        a_record(ClaimPhase.REGISTERED),
        usable(is_bound=True),
        a_record(ClaimPhase.INITIALIZED, moments=Moments(usable_at=NOW)),
    ],
)
def test_nothing_is_known_of_a_node_that_is_not_waiting_for_its_pods(record: ClaimRecord) -> None:
    nodes = ReadyNodes()
    assert [nodes.known_for(record, NOW + after) for after in (timedelta(0), SECOND)] == [timedelta(0)] * 2


def test_it_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lifecycle, "REMEMBERED", 2)
    nodes = ReadyNodes()
    for name in ("one", "two", "three"):
        nodes.known_for(usable(name), NOW)
    assert [nodes.known_for(usable(name), NOW + SECOND) for name in ("three", "one")] == [SECOND, timedelta(0)]
