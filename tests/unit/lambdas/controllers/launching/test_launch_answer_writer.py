"""What is stored of EC2's answer for each claim: its machine, another try, or nothing any more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.ports import (
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    PortError,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.catalogue import Catalogue, Offering
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.launch_answer_writer import STORE_ATTEMPTS, LaunchAnswerWriter
from tests.builders import NOW, a_type
from tests.unit.lambdas.controllers.launching.test_launch_answer import launched
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

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
    kept, report, asked = claims or Claims(), RunReport(), record or requested()
    answer = launched(count)
    answer = msgspec.structs.replace(answer, asked={**answer.asked, asked.name: asked}, error=error)
    writer: Any = LaunchAnswerWriter(kept, Tokens())  # type: ignore[arg-type]
    return writer.settle(asked, answer, CATALOGUE, NOW, report), kept, report


def test_an_instance_is_stored_with_what_it_has_in_place_of_what_was_reserved() -> None:
    found, claims, report = settled(record=requested(reason="x", message="y", awaits_pods=True))
    assert found is not None
    assert found.machine is not None
    assert (found.phase, found.phase_since, found.instance_id) == (ClaimPhase.LAUNCHED, NOW, "i-0")
    assert found.reserved == {**found.machine.capacity, "nodes": 1}
    assert (found.reason, found.message, found.awaits_pods, found.offerings, found.subnets) == ("", "", False, (), {})
    assert found.plan.instance_types == ()
    ((kind, subject, reason, message),) = [(one.kind, one.subject, one.reason, one.message) for one in report.decisions]
    assert (kind, subject, reason) == ("launch", "c0", ClaimReason.LAUNCHED)
    assert message == "i-0 (m5.large spot in us-east-1a) for 1 pods"
    assert report.outcomes[0].part == "c0"
    assert report.outcomes[0].state == "done"
    assert (report.counts, claims.forgotten) == ({}, [])


def test_a_machine_of_unknown_size_keeps_the_reservation() -> None:
    found, _, _ = settled()
    assert found is not None
    assert found.machine is not None
    unknown = msgspec.structs.replace(found.machine, capacity={})
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
    found, claims, report = settled(error=error)
    assert (found, claims.forgotten, claims.changed, report.counts) == (None, ["c0"], [], {count: 1})
    assert [(one.kind, one.reason, one.message) for one in report.decisions] == [("forget", reason, str(error))]
    assert [(one.state, one.reason, one.message) for one in report.outcomes] == [("refused", reason, str(error))]


def test_a_claim_for_which_no_instance_is_left_is_deleted() -> None:
    found, claims, report = settled(record=requested(2), count=2)
    assert (found, claims.forgotten, report.counts) == (None, ["c2"], {"refusedLaunches": 1})
    assert report.decisions[0].message == "EC2 launched 2 of the 3 asked for"


def test_an_unclear_answer_is_noted_and_the_same_order_tried_again() -> None:
    """Its token stays, so that EC2 launches nothing twice."""
    error = TransientError("ec2:CreateFleet", "x" * 400)
    found, claims, report = settled(error=error)
    assert found is not None
    assert (found.token, found.attempts, found.shares, found.reason) == ("t", 1, 3, ClaimReason.LAUNCH_FAILED)
    assert len(found.message) == 300
    assert (report.counts, len(claims.changed)) == ({"unclearLaunches": 1}, 1)


def test_a_throttled_request_is_noted_once() -> None:
    error = ThrottledError("ec2:CreateFleet", "slow down")
    found, claims, report = settled(error=error)
    assert found is not None
    assert (found.attempts, found.reason, report.counts) == (0, ClaimReason.LAUNCH_FAILED, {"throttledLaunches": 1})
    again, claims, _ = settled(error=error, record=found)
    assert (again, claims.changed) == (found, [])


@pytest.mark.parametrize(("attempts", "shares", "token"), [(0, 3, "t"), (1, 3, "c0 for try 2"), (0, 1, "c0 for try 1")])
def test_a_token_of_another_order_is_replaced_and_the_claim_goes_on_alone(
    attempts: int, shares: int, token: str
) -> None:
    """One that shares a launch first looks once whether an instance of it is left."""
    record = requested(attempts=attempts, shares=shares, first="c0")
    found, _, _ = settled(error=ConflictError("ec2:CreateFleet", "other parameters"), record=record)
    assert found is not None
    assert (found.token, found.attempts) == (token, attempts + 1)
    assert (found.shares, found.share, found.first) == ((shares, 0, "c0") if token == "t" else (1, 0, ""))


def test_an_order_that_ec2_could_not_fulfil_gets_another_token_also_if_the_row_has_changed() -> None:
    error = UnfulfilledError("ec2:CreateFleet", "nothing came of it")
    conflict = ConflictError("store", "changed")
    latest = requested(message="another run", first="c0")
    found, claims, _ = settled(error=error, claims=Claims(conflict, latest=latest), record=requested(first="c0"))
    assert found is not None
    assert (found.token, found.reason) == ("t again", ClaimReason.LAUNCH_FAILED)
    assert claims.changed[-1][0] == latest
    for kept in (Claims(*[conflict] * STORE_ATTEMPTS, latest=latest), Claims(conflict, latest=None)):
        with pytest.raises(ConflictError):
            settled(error=error, claims=kept, record=requested(first="c0"))
    assert len(kept.changed) == 1


def test_an_instance_is_stored_on_the_present_row_after_a_conflict() -> None:
    conflict, latest = ConflictError("store", "changed"), requested(message="another run")
    found, claims, _ = settled(claims=Claims(conflict, TransientError("store", "500"), latest=latest))
    assert found is not None
    assert (found.instance_id, [before for before, _ in claims.changed]) == ("i-0", [requested(), latest, latest])
    adopted = a_record(ClaimPhase.LAUNCHED)
    assert settled(claims=Claims(conflict, latest=adopted))[0] == adopted
    for kept, tries in ((Claims(*[conflict] * 9, latest=latest), STORE_ATTEMPTS), (Claims(conflict), 1)):
        with pytest.raises(ConflictError):
            settled(claims=kept)
        assert len(kept.changed) == tries


def test_one_claim_whose_answer_cannot_be_stored_hinders_no_other() -> None:
    claims, report = Claims(DeniedError("store", "no")), RunReport()
    writer: Any = LaunchAnswerWriter(claims, Tokens())  # type: ignore[arg-type]
    found = writer.settle_each([requested(n) for n in range(3)], launched(2), CATALOGUE, NOW, report)
    assert (found.unclear, [one.name for one in found.launched], found.refused) == (["c0"], ["c1"], ["c2"])


def test_what_only_the_launch_needed_is_dropped_with_it() -> None:
    """Rows are read by every function, each run."""
    offering = Offering("m5.large", "us-east-1a", "spot", 1)
    plan = a_plan(instance_types=("m5.large", "m5.xlarge"), pods=("default/p",))
    found, _, _ = settled(record=requested(plan=plan, offerings=(offering,), subnets={"us-east-1a": "subnet-1"}))
    assert found is not None
    assert (found.plan.instance_types, found.offerings, found.subnets) == ((), (), {})
    assert found.plan.pods == ("default/p",)


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_an_unclear_answer_keeps_the_launch_shared_however_often_it_comes(attempts: int) -> None:
    found, _, _ = settled(error=TransientError("ec2:CreateFleet", "500"), record=requested(attempts=attempts))
    assert found is not None
    assert (found.token, found.shares, found.attempts) == ("t", 3, attempts + 1)


def test_of_two_claims_that_share_a_launch_each_looks_once_for_its_instance() -> None:
    error = ConflictError("ec2:CreateFleet", "other parameters")
    found, _, _ = settled(error=error, record=requested(shares=2, first="c0"))
    assert found is not None
    assert (found.token, found.shares, found.first) == ("t", 2, "c0")


def test_a_throttled_request_keeps_the_first_failure() -> None:
    """Each further write would meet those of the claims that share the launch."""
    record = requested(reason=ClaimReason.LAUNCH_FAILED, message="the first")
    found, claims, _ = settled(error=ThrottledError("ec2:CreateFleet", "slow down"), record=record)
    assert (found, claims.changed) == (record, [])


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
    claims, report, asked = Claims(), RunReport(), requested()
    answer = msgspec.structs.replace(launched(3), held_back=Refusal(ClaimReason.LAUNCH_DENIED, "paused"))
    writer: Any = LaunchAnswerWriter(claims, Tokens())  # type: ignore[arg-type]
    assert writer.settle(asked, answer, CATALOGUE, NOW, report) is None
    assert (claims.forgotten, claims.changed, report.counts) == (["c0"], [], {"heldBackLaunches": 1})
    assert [(one.kind, one.reason, one.message) for one in report.decisions] == [
        ("forget", ClaimReason.LAUNCH_DENIED, "paused")
    ]
