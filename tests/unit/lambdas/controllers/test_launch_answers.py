"""What is stored of EC2's answer for each claim: its machine, another try, or nothing any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import (
    ConflictError,
    DeniedError,
    Instance,
    InsufficientCapacityError,
    Launched,
    LostReplyError,
    PortError,
    RefusedOffering,
    SilentError,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from core.launch.denials import FIRST_PAUSE, PROBE, DeniedLaunch, LaunchDenial, rule_of_end
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from core.lifecycle.steps import INSTANCE_CHECK_AFTER
from core.manifests.wire import resources
from core.model.catalogue import Catalogue, Offering, OfferingKey
from core.reasons.code import ONE_TRIES, ClaimReason, Stated, TerminationReason
from lambdas.controllers.launch_answers import (
    STORE_ATTEMPTS,
    TRIES,
    DenialMemory,
    LaunchAnswer,
    LaunchAnswerWriter,
)
from tests.builders import NOW, a_class_manifest, a_type
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.store import Rows
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

# Denials that several runs write at the same time, and a table that does not answer.


CODE = "UnauthorizedOperation"
FOUND = DeniedLaunch(
    node_class="default",
    code=CODE,
    call="ec2:CreateFleet",
    message="no",
    offerings=(OfferingKey("m5.large", "us-east-1a", "spot"),),
    node_pool="default",
    revision="u/1",
)


class Table:
    """The table, in which another run may write the same denial right before this one does."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.memory = DenialMemory(self.rows.stores().denials)
        self.report = RunReport()

    @property
    def denial(self) -> LaunchDenial:
        return self.rows.denials["default", CODE]

    def add(self) -> None:
        self.memory.add(FOUND, NOW, self.report)

    def before_writes(self, times: int, act: Callable[[], None]) -> None:
        """Act before this many of the next writes."""
        remaining = [act] * times

        def intrude(call: str) -> None:
            if call == "write" and remaining:
                remaining.pop()()

        self.rows.before_call = intrude

    def touch(self) -> None:
        denial = self.rows.denials.get(("default", CODE), LaunchDenial(node_class="default", code=CODE))
        self.rows.denials["default", CODE] = msgspec.structs.replace(denial, version=denial.version + 1)

    def skipped(self) -> list[tuple[str, str, str]]:
        return [(decision.kind, decision.subject, decision.reason) for decision in self.report.decisions]


@pytest.fixture
def table() -> Table:
    return Table()


def fail() -> None:
    raise TransientError("dynamodb:UpdateItem", "throttled")


def test_each_failure_counts_and_one_of_another_class_or_code_does_not(table: Table) -> None:
    for other in (msgspec.structs.replace(FOUND, node_class="other"), msgspec.structs.replace(FOUND, code="Other")):
        table.memory.add(other, NOW, table.report)
    table.add()
    table.add()
    assert (table.denial.in_a_row, len(table.rows.denials)) == (2, 3)
    assert (table.report.counts, table.report.decisions) == ({}, [])


def test_a_denial_that_others_write_too_is_written_again(table: Table) -> None:
    table.before_writes(TRIES - 1, table.touch)
    table.add()
    assert (table.denial.in_a_row, table.report.decisions) == (1, [])


def test_after_many_conflicts_it_is_reported_and_left(table: Table) -> None:
    table.before_writes(TRIES, table.touch)
    table.add()
    assert table.denial.in_a_row == 0
    assert (table.skipped(), table.report.counts) == ([("skip", f"denial {CODE}", "ConflictError")], {"portErrors": 1})


def test_a_table_that_does_not_answer_is_asked_once(table: Table) -> None:
    table.before_writes(1, fail)
    table.add()
    assert table.rows.denials == {}
    assert (table.skipped(), table.report.counts) == ([("skip", f"denial {CODE}", "TransientError")], {"portErrors": 1})


class TestDropped:
    """A denial that was disproved."""

    @pytest.fixture(autouse=True)
    def denied(self, table: Table) -> None:
        table.add()

    def drop(self, table: Table) -> None:
        table.memory.drop(table.denial, ClaimReason.LAUNCHED, table.report)

    def test_that_held_launches_back_is_reported(self, table: Table) -> None:
        self.drop(table)
        assert table.rows.denials == {}
        (decision,) = table.report.decisions
        assert (decision.kind, decision.subject, decision.reason) == (
            "release",
            "EC2NodeClass default",
            ClaimReason.LAUNCHED,
        )
        assert decision.message == f"no longer {CODE}"

    def test_that_held_nothing_back_is_not(self, table: Table) -> None:
        table.rows.denials["default", CODE] = msgspec.structs.replace(table.denial, until=None)
        self.drop(table)
        assert (table.rows.denials, table.report.decisions) == ({}, [])

    def test_that_came_again_meanwhile_stays(self, table: Table) -> None:
        table.before_writes(1, table.touch)
        self.drop(table)
        assert (len(table.rows.denials), table.report.decisions, table.report.counts) == (1, [], {})

    def test_where_the_table_does_not_answer_is_reported(self, table: Table) -> None:
        table.before_writes(1, fail)
        self.drop(table)
        assert table.skipped() == [("skip", f"denial {CODE}", "TransientError")]


# Instances that EC2 ends before their nodes join: their claims end with EC2's reason, and launches avoid the cause.


STATE = "EC2 Instance State-change Notification"
KEY = "Client.InternalError"
CAPACITY = "Server.InsufficientInstanceCapacity"


@pytest.fixture
def lab() -> Lab:
    """Three pods that need a node each; their instances are launched and have not joined."""
    lab = Lab()
    for name in ("a", "b", "c"):
        lab.kubernetes.put(a_pending_pod(name, cpu="3"))
    lab.provision()
    lab.work.take()
    assert len(lab.claims) == 3
    return lab


def end(lab: Lab, code: str, *, count: int = 1) -> RunReport:
    """Let EC2 end instances of claims for this reason, say so, and have the functions do what follows."""
    for record in lab.claims[:count]:
        lab.cloud.end(record.instance_id, code, "because")
        event = {"source": "aws.ec2", "detail-type": STATE}
        detail = {"instance-id": record.instance_id, "state": "shutting-down"}
        lab.app.interruptions.run({**event, "detail": detail}, RunReport())
    return lab.execute()


def test_the_claim_ends_at_once_with_ecs_code(lab: Lab) -> None:
    """It waited for its registration to time out, or was replaced at once by one that ended like it."""
    name = lab.claims[0].name
    report = end(lab, KEY)
    removed = next(decision for decision in report.decisions if decision.reason == TerminationReason.START_FAILED)
    assert removed.subject == name
    assert f"{KEY}: because" in removed.message
    assert ("default", KEY) in lab.rows.denials
    assert rule_of_end(KEY).advice in lab.rows.denials["default", KEY].explanation()  # type: ignore[union-attr]  # it has one


def test_its_pods_wait_and_are_told_why(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick()
    launched = len(lab.cloud.orders)
    lab.provision()
    assert len(lab.cloud.orders) == launched
    told = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    assert any(KEY in event["message"] and event["involvedObject"]["kind"] == "Pod" for event in told)


def test_when_the_pause_ends_one_instance_is_launched_and_the_others_wait_until_its_node_joins(lab: Lab) -> None:
    """CreateFleet succeeds for instances that end: its success says nothing."""
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    orders = len(lab.cloud.orders)
    lab.provision()
    lab.provision()
    assert [order.count for order in lab.cloud.orders[orders:]] == [1]
    lab.boot()
    lab.tick(2)
    assert lab.rows.denials == {}
    assert {"wakeUp": "a node joined"} in [message for message, _ in lab.wake_ups.sent]
    lab.provision()
    assert sum(order.count for order in lab.cloud.orders[orders:]) == 3


def test_an_instance_that_ends_like_the_others_pauses_launches_for_longer(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    end(lab, KEY)
    denial = lab.rows.denials["default", KEY]
    assert denial.until == lab.clock.now() + 2 * FIRST_PAUSE
    assert denial.probing_until is None


def test_a_node_that_takes_long_does_not_hold_the_others_for_ever(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    orders = len(lab.cloud.orders)
    lab.clock.advance(seconds=PROBE.total_seconds())
    lab.provision()
    assert len(lab.cloud.orders) == orders + 1


def test_an_end_for_want_of_capacity_closes_the_offering_alone(lab: Lab) -> None:
    machine = lab.claims[0].machine
    assert machine is not None
    offering = machine.offering
    report = end(lab, CAPACITY)
    assert TerminationReason.INSTANCE_WITHDRAWN in [decision.reason for decision in report.decisions]
    assert OfferingKey(offering.instance_type, offering.zone, offering.capacity_type) in lab.rows.refused
    assert not lab.rows.denials["default", CAPACITY].is_engaged
    orders = len(lab.cloud.orders)
    lab.tick()
    lab.provision()
    assert len(lab.cloud.orders) == orders + 1


def test_an_instance_that_somebody_ended_closes_nothing(lab: Lab) -> None:
    report = end(lab, "Client.UserInitiatedShutdown")
    ended = next(decision for decision in report.decisions if decision.reason == TerminationReason.INSTANCE_TERMINATED)
    assert "Client.UserInitiatedShutdown: because" in ended.message
    assert lab.rows.denials == {}


def test_the_end_of_an_instance_of_an_older_class_closes_nothing(lab: Lab) -> None:
    """Whoever has just corrected the key must not wait for a pause that the old one earned."""
    edited = a_class_manifest(metadata={"generation": 2})
    edited["spec"]["tags"] = {"key": "edited"}
    lab.kubernetes.put(edited)
    report = end(lab, KEY)
    assert TerminationReason.START_FAILED in [decision.reason for decision in report.decisions]
    assert lab.rows.denials == {}


def test_ec2_is_asked_again_while_it_does_not_know_of_the_end(lab: Lab) -> None:
    """Its descriptions may be older than its events."""
    record = lab.claims[0]
    detail = {"instance-id": record.instance_id, "state": "shutting-down"}
    lab.app.interruptions.run({"source": "aws.ec2", "detail-type": STATE, "detail": detail}, RunReport())
    lab.execute()
    assert lab.app.adapters.stores.claims.get(record.name) == record
    lab.cloud.end(record.instance_id, KEY)
    lab.tick(2)
    assert ("default", KEY) in lab.rows.denials


def test_an_end_whose_event_was_lost_is_noticed_by_the_check_of_the_claim(lab: Lab) -> None:
    record = lab.claims[0]
    lab.cloud.end(record.instance_id, KEY)
    lab.clock.advance(seconds=(INSTANCE_CHECK_AFTER + timedelta(seconds=1)).total_seconds())
    report = lab.execute({"claim": record.name})
    assert TerminationReason.START_FAILED in [decision.reason for decision in report.decisions]
    assert ("default", KEY) in lab.rows.denials


def test_a_node_disproves_nothing_that_was_denied_after_its_launch(lab: Lab) -> None:
    """It started before the cause, so that another instance would still end."""
    end(lab, KEY, count=2)
    lab.tick(2)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    trying = next(claim for claim in lab.claims if claim.tries)
    lab.clock.advance(seconds=1)
    others = [claim for claim in lab.claims if not claim.tries and claim.deletion is None]
    lab.cloud.end(others[0].instance_id, KEY)
    detail = {"instance-id": others[0].instance_id, "state": "shutting-down"}
    lab.app.interruptions.run({"source": "aws.ec2", "detail-type": STATE, "detail": detail}, RunReport())
    lab.execute()
    lab.boot()
    lab.tick(2)
    assert lab.app.adapters.stores.claims.get(trying.name).is_registered  # type: ignore[union-attr]  # it is there
    assert ("default", KEY) in lab.rows.denials


def test_a_launch_that_was_released_says_so(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    lab.boot()
    released = [decision for report in lab.tick(2) for decision in report.decisions if decision.kind == "release"]
    assert (released[0].reason, released[0].message) == (ClaimReason.NODE_JOINED, f"no longer {KEY}")


# What EC2's answer to one request means for each claim of a shared launch.


LAUNCH_ANSWER_KEY = OfferingKey("m5.large", "us-east-1a", "spot")


def a_claim(share: int) -> ClaimRecord:
    return msgspec.structs.replace(a_record(ClaimPhase.REQUESTED, shares=3, share=share), name=f"c{share}")


def launched(count: int, *refused: RefusedOffering, **changes: Any) -> LaunchAnswer:
    """An answer for three claims with this many instances."""
    instances = tuple(
        Instance(
            instance_id=f"i-{number}",
            instance_type=LAUNCH_ANSWER_KEY.instance_type,
            zone=LAUNCH_ANSWER_KEY.zone,
            capacity_type=LAUNCH_ANSWER_KEY.capacity_type,
            state="running",
            launched_at=NOW,
        )
        for number in range(count)
    )
    requested_claims = {claim.name: claim for claim in map(a_claim, range(3))}
    return LaunchAnswer(
        **{"asked": requested_claims, "launched": Launched(instances=instances, refused=refused), **changes}
    )


def test_each_claim_has_the_instance_of_its_share() -> None:
    instances = [launched(2).instance_of(a_claim(share)) for share in range(3)]
    assert [instance and instance.instance_id for instance in instances] == ["i-0", "i-1", None]


def test_without_an_answer_no_claim_has_an_instance() -> None:
    assert LaunchAnswer().instance_of(a_claim(0)) is None
    assert LaunchAnswer().shortage() == ""


def test_a_shortage_names_each_refusal_once_and_stays_short() -> None:
    refused = [RefusedOffering(LAUNCH_ANSWER_KEY, code, "sold out") for code in ("B", "A", "B")]
    assert launched(1, *refused).shortage() == "EC2 launched 1 of the 3 asked for; B: sold out; A: sold out"
    assert len(launched(1, RefusedOffering(LAUNCH_ANSWER_KEY, "B", "x" * 600)).shortage()) == 500


class TestATry:
    """Of a class whose instances ended while they started, one is launched until its node joins."""

    def test_leaves_out_the_claims_that_were_not_asked_for(self) -> None:
        answer = launched(1, asked={"c0": a_claim(0)}, is_try=True)
        assert answer.left_out(a_claim(0)) is None
        assert answer.left_out(a_claim(1)) == ONE_TRIES

    def test_is_said_of_no_other_launch(self) -> None:
        assert launched(1, asked={}).left_out(a_claim(1)) is None


CATALOGUE = Catalogue(default=(a_type("m5.large"),))


class Claims:
    """Rows in memory; the first changes fail as asked, and meanwhile another run may have written `latest`."""

    def __init__(self, *failures: PortError, latest: ClaimRecord | None = None) -> None:
        self.failures, self.latest = list(failures), latest
        self.changed: list[tuple[ClaimRecord, ClaimRecord]] = []
        self.forgotten: list[str] = []

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        self.changed.append((before, after))
        if self.failures:
            raise self.failures.pop(0)
        return after

    def get(self, name: str) -> ClaimRecord | None:
        return self.latest

    def forget(self, record: ClaimRecord) -> None:
        self.forgotten.append(record.name)


class Tokens:
    def of(self, name: str, attempts: int, made_by_hand: Any) -> str:
        return f"{name} for try {attempts}"

    def again(self, token: str) -> str:
        return f"{token} again"


def requested(share: int = 0, **changes: Any) -> ClaimRecord:
    made = a_record(ClaimPhase.REQUESTED, shares=3, share=share, reserved={"cpu": 9000, "nodes": 1})
    return msgspec.structs.replace(made, name=f"c{share}", **changes)


def settled(
    *, error: PortError | None = None, claims: Claims | None = None, record: ClaimRecord | None = None, count: int = 3
) -> tuple[ClaimRecord | None, Claims, RunReport]:
    """The claim after an answer with this error, or with so many instances."""
    kept, report, claim = claims or Claims(), RunReport(), record or requested()
    answer = launched(count)
    answer = msgspec.structs.replace(answer, asked={**answer.asked, claim.name: claim}, error=error)
    writer: Any = LaunchAnswerWriter(kept, Tokens())  # type: ignore[arg-type]
    return writer.settle(claim, answer, CATALOGUE, NOW, report), kept, report


def test_an_instance_is_stored_with_what_it_has_in_place_of_what_was_reserved() -> None:
    stored, claims, report = settled(record=requested(reason="x", message="y", awaits_pods=True))
    assert stored is not None
    assert stored.machine is not None
    assert (stored.phase, stored.phase_since, stored.instance_id) == (ClaimPhase.LAUNCHED, NOW, "i-0")
    assert stored.reserved == {**stored.machine.capacity, "nodes": 1}
    assert (stored.reason, stored.message, stored.awaits_pods, stored.offerings, stored.subnets) == (
        "",
        "",
        False,
        (),
        {},
    )
    assert stored.plan.instance_types == ()
    ((kind, subject, reason, message),) = [
        (decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions
    ]
    assert (kind, subject, reason) == ("launch", "c0", ClaimReason.LAUNCHED)
    assert message == "i-0 (m5.large spot in us-east-1a) for 1 pods"
    assert report.outcomes[0].part == "c0"
    assert report.outcomes[0].state == "done"
    assert (report.counts, claims.forgotten) == ({}, [])


def test_a_machine_of_unknown_size_keeps_the_reservation() -> None:
    stored, _, _ = settled()
    assert stored is not None
    assert stored.machine is not None
    unknown = msgspec.structs.replace(stored.machine, capacity={})
    writer: Any = LaunchAnswerWriter(Claims(), Tokens())  # type: ignore[arg-type]
    assert writer.take_over(requested(), unknown, NOW).reserved == {"cpu": 9000, "nodes": 1}


@pytest.mark.parametrize(
    ("error", "count", "reason"),
    [
        (
            InsufficientCapacityError("ec2:CreateFleet", "sold out", ()),
            "refusedLaunches",
            ClaimReason.INSUFFICIENT_CAPACITY,
        ),
        (DeniedError("ec2:CreateFleet", "no"), "deniedLaunches", ClaimReason.LAUNCH_DENIED),
    ],
)
def test_a_refused_claim_is_deleted_with_the_reason(error: PortError, count: str, reason: ClaimReason) -> None:
    stored, claims, report = settled(error=error)
    assert (stored, claims.forgotten, claims.changed, report.counts) == (None, ["c0"], [], {count: 1})
    assert [(decision.kind, decision.reason, decision.message) for decision in report.decisions] == [
        ("forget", reason, str(error))
    ]
    assert [(outcome.state, outcome.reason, outcome.message) for outcome in report.outcomes] == [
        ("refused", reason, str(error))
    ]


def test_a_claim_for_which_no_instance_is_left_is_deleted() -> None:
    stored, claims, report = settled(record=requested(2), count=2)
    assert (stored, claims.forgotten, report.counts) == (None, ["c2"], {"refusedLaunches": 1})
    assert report.decisions[0].message == "EC2 launched 2 of the 3 asked for"


def test_an_unclear_answer_is_noted_and_the_same_order_tried_again() -> None:
    """Its token stays, so that EC2 launches nothing twice."""
    error = TransientError("ec2:CreateFleet", "x" * 400)
    stored, claims, report = settled(error=error)
    assert stored is not None
    assert (stored.token, stored.attempts, stored.shares, stored.reason) == ("t", 1, 3, ClaimReason.LAUNCH_FAILED)
    assert len(stored.message) == 300
    assert (report.counts, len(claims.changed)) == ({"unclearLaunches": 1}, 1)


def test_a_throttled_request_is_noted_once() -> None:
    error = ThrottledError("ec2:CreateFleet", "slow down")
    stored, claims, report = settled(error=error)
    assert stored is not None
    assert (stored.attempts, stored.reason, report.counts) == (0, ClaimReason.LAUNCH_FAILED, {"throttledLaunches": 1})
    again, claims, _ = settled(error=error, record=stored)
    assert (again, claims.changed) == (stored, [])


@pytest.mark.parametrize(("attempts", "shares", "token"), [(0, 3, "t"), (1, 3, "c0 for try 2"), (0, 1, "c0 for try 1")])
def test_a_token_of_another_order_is_replaced_and_the_claim_goes_on_alone(
    attempts: int, shares: int, token: str
) -> None:
    """One that shares a launch first looks once whether an instance of it is left."""
    record = requested(attempts=attempts, shares=shares, first="c0")
    stored, _, _ = settled(error=ConflictError("ec2:CreateFleet", "other parameters"), record=record)
    assert stored is not None
    assert (stored.token, stored.attempts) == (token, attempts + 1)
    assert (stored.shares, stored.share, stored.first) == ((shares, 0, "c0") if token == "t" else (1, 0, ""))


def test_an_order_that_ec2_could_not_fulfil_gets_another_token_also_if_the_row_has_changed() -> None:
    error = UnfulfilledError("ec2:CreateFleet", "nothing came of it")
    conflict = ConflictError("store", "changed")
    latest = requested(message="another run", first="c0")
    stored, claims, _ = settled(error=error, claims=Claims(conflict, latest=latest), record=requested(first="c0"))
    assert stored is not None
    assert (stored.token, stored.reason) == ("t again", ClaimReason.LAUNCH_FAILED)
    assert claims.changed[-1][0] == latest
    for kept in (Claims(*[conflict] * STORE_ATTEMPTS, latest=latest), Claims(conflict, latest=None)):
        with pytest.raises(ConflictError):
            settled(error=error, claims=kept, record=requested(first="c0"))
    assert len(kept.changed) == 1


def test_an_instance_is_stored_on_the_present_row_after_a_conflict() -> None:
    conflict, latest = ConflictError("store", "changed"), requested(message="another run")
    stored, claims, _ = settled(claims=Claims(conflict, TransientError("store", "500"), latest=latest))
    assert stored is not None
    assert (stored.instance_id, [before for before, _ in claims.changed]) == ("i-0", [requested(), latest, latest])
    adopted = a_record(ClaimPhase.LAUNCHED)
    assert settled(claims=Claims(conflict, latest=adopted))[0] == adopted
    for kept, tries in ((Claims(*[conflict] * 9, latest=latest), STORE_ATTEMPTS), (Claims(conflict), 1)):
        with pytest.raises(ConflictError):
            settled(claims=kept)
        assert len(kept.changed) == tries


def test_one_claim_whose_answer_cannot_be_stored_hinders_no_other() -> None:
    claims, report = Claims(DeniedError("store", "no")), RunReport()
    writer: Any = LaunchAnswerWriter(claims, Tokens())  # type: ignore[arg-type]
    answered = writer.settle_each([requested(n) for n in range(3)], launched(2), CATALOGUE, NOW, report)
    assert (answered.unclear, [record.name for record in answered.launched], answered.refused) == (
        ["c0"],
        ["c1"],
        ["c2"],
    )


def test_what_only_the_launch_needed_is_dropped_with_it() -> None:
    """Rows are read by every function, each run."""
    offering = Offering("m5.large", "us-east-1a", "spot", 1)
    plan = a_plan(instance_types=("m5.large", "m5.xlarge"), pods=("default/p",))
    stored, _, _ = settled(record=requested(plan=plan, offerings=(offering,), subnets={"us-east-1a": "subnet-1"}))
    assert stored is not None
    assert (stored.plan.instance_types, stored.offerings, stored.subnets) == ((), (), {})
    assert stored.plan.pods == ("default/p",)


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_an_unclear_answer_keeps_the_launch_shared_however_often_it_comes(attempts: int) -> None:
    stored, _, _ = settled(error=TransientError("ec2:CreateFleet", "500"), record=requested(attempts=attempts))
    assert stored is not None
    assert (stored.token, stored.shares, stored.attempts) == ("t", 3, attempts + 1)


def test_of_two_claims_that_share_a_launch_each_looks_once_for_its_instance() -> None:
    error = ConflictError("ec2:CreateFleet", "other parameters")
    stored, _, _ = settled(error=error, record=requested(shares=2, first="c0"))
    assert stored is not None
    assert (stored.token, stored.shares, stored.first) == ("t", 2, "c0")


@pytest.mark.parametrize(
    ("error", "before", "unclear_at"),
    [
        (LostReplyError("ec2:CreateFleet", "timed out"), NOW - timedelta(seconds=5), NOW),  # it may have launched
        (SilentError("ec2:CreateFleet", "nothing"), NOW - timedelta(seconds=5), NOW - timedelta(seconds=5)),
        (SilentError("ec2:CreateFleet", "nothing"), None, NOW),  # a sandbox that ended after its request stored nothing
        (UnfulfilledError("ec2:CreateFleet", "nothing", is_silent=True), NOW - timedelta(minutes=2), None),
    ],
)
def test_a_claim_knows_when_its_token_may_have_launched_last(
    error: PortError, before: datetime | None, unclear_at: datetime | None
) -> None:
    stored, _, _ = settled(error=error, record=requested(attempts=1, moments=Moments(unclear_at=before)))
    assert stored is not None
    assert stored.moments.unclear_at == unclear_at
    is_renewed = isinstance(error, UnfulfilledError)
    assert (stored.token != "t", stored.moments.renewed_at) == (is_renewed, NOW if is_renewed else None)


def test_a_throttled_request_keeps_the_first_failure() -> None:
    """Each further write would meet those of the claims that share the launch."""
    record = requested(reason=ClaimReason.LAUNCH_FAILED, message="the first")
    stored, claims, _ = settled(error=ThrottledError("ec2:CreateFleet", "slow down"), record=record)
    assert (stored, claims.changed) == (record, [])


def test_a_claim_that_another_run_has_launched_gets_no_further_token() -> None:
    error, conflict = UnfulfilledError("ec2:CreateFleet", "nothing"), ConflictError("store", "changed")
    claims = Claims(conflict, latest=a_record(ClaimPhase.LAUNCHED))
    with pytest.raises(ConflictError, match="changed"):
        settled(error=error, claims=claims, record=requested(first="c0"))
    assert len(claims.changed) == 1
    claims = Claims(*[conflict] * STORE_ATTEMPTS, latest=requested(first="c0"))
    with pytest.raises(ConflictError, match="changed"):
        settled(error=error, claims=claims, record=requested(first="c0"))
    assert len(claims.changed) == STORE_ATTEMPTS


def test_a_claim_that_is_held_back_is_deleted_with_the_reason_of_the_gate() -> None:
    claims, report, claim = Claims(), RunReport(), requested()
    answer = msgspec.structs.replace(launched(3), held_back=Stated(ClaimReason.LAUNCH_DENIED, "paused"))
    writer: Any = LaunchAnswerWriter(claims, Tokens())  # type: ignore[arg-type]
    assert writer.settle(claim, answer, CATALOGUE, NOW, report) is None
    assert (claims.forgotten, claims.changed, report.counts) == (["c0"], [], {"heldBackLaunches": 1})
    assert [(decision.kind, decision.reason, decision.message) for decision in report.decisions] == [
        ("forget", ClaimReason.LAUNCH_DENIED, "paused")
    ]
