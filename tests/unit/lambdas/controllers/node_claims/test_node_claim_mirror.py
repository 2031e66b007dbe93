"""NodeClaims that a function writes at the end of its run, after others may have written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest

from adapters.observation.karpenter_presence import KarpenterPresence
from adapters.ports import TransientError
from adapters.run_report import RunReport
from adapters.runtime.parallel_tasks import Task, in_turn
from core import labels
from core.api.objects import JsonObject
from core.lifecycle.mirror.node_claim_object import new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from lambdas.controllers.node_claims.node_claim_mirror import NodeClaimMirror
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

AGE = timedelta(hours=1)
LAUNCHED = a_record(ClaimPhase.LAUNCHED, age=AGE)
INITIALIZED = a_record(age=AGE)
BY_HAND = a_record(plan=a_plan(annotations={labels.MADE_BY_HAND: "uid-1"}))
LEASE = {
    "kind": "Lease",
    "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
    "spec": {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"},
}


class Run:
    """Runs of a function, one after the other, and the cluster in which they write."""

    def __init__(self, *, is_on: bool = True, seconds: int = 60) -> None:
        self.lab = Lab()
        self.seconds = seconds
        self.patience: list[timedelta] = []
        karpenter = KarpenterPresence(self.lab.kubernetes, self.lab.clock)
        self.mirror = NodeClaimMirror(self.lab.kubernetes, karpenter, self.lab.clock, self._in_time, is_on=is_on)

    def write(self, *changes: tuple[ClaimRecord | None, ClaimRecord | None]) -> tuple[int, int] | None:
        """One run with these changes; how many NodeClaims it wrote and left, None where it said nothing of them."""
        for before, after in changes:
            self.mirror.note(before, after)
        report = RunReport()
        self.mirror.write(report, deadline=self.lab.clock.now() + timedelta(seconds=self.seconds))
        counted = report.counts
        return (counted["nodeClaimsWritten"], counted["nodeClaimsLeft"]) if "nodeClaimsLeft" in counted else None

    def _in_time(self, tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        self.patience.append(patience)
        return in_turn(tasks, patience)

    @property
    def names(self) -> list[str]:
        return self.lab.kubernetes.names(NODE_CLAIMS)

    @property
    def shown(self) -> JsonObject:
        return self.lab.kubernetes.raw(NODE_CLAIMS, "c")


@pytest.mark.parametrize(
    ("before", "after", "comes_back"),
    [
        (a_record(ClaimPhase.LAUNCHED, age=AGE), a_record(age=AGE), True),
        (a_record(age=AGE), a_leaving(reason="SpotInterrupted"), False),
        (a_leaving(is_final=True), a_leaving(terminated_at=NOW), False),
    ],
    ids=["it stays", "it goes", "it has been going"],
)
def test_a_lost_node_claim_is_made_again_unless_its_claim_goes(
    before: ClaimRecord, after: ClaimRecord, comes_back: bool
) -> None:
    """A run with an old row made the NodeClaim again that another had let go with its claim; it stayed for minutes."""
    run = Run()
    run.write((before, after))
    assert run.names == (["c"] if comes_back else [])


def test_a_claim_is_shown_from_its_first_change_to_its_last() -> None:
    """Labels that it no longer has are taken off, and a deletion waits for the finalizer as any other would."""
    run = Run()
    assert run.write((None, LAUNCHED)) == (1, 0)
    assert {c["type"]: c["status"] for c in run.shown["status"]["conditions"]}["Initialized"] != "True"
    fewer = msgspec.structs.replace(INITIALIZED, plan=a_plan(labels={labels.NODEPOOL: "default", "new": "x"}))
    assert run.write((LAUNCHED, fewer)) == (1, 0)
    assert {c["type"]: c["status"] for c in run.shown["status"]["conditions"]}["Initialized"] == "True"
    assert run.shown["metadata"]["labels"] == dict(sorted(fewer.labels.items()))
    leaving = a_leaving(reason="SpotInterrupted")
    assert run.write((fewer, leaving)) == (1, 0)
    assert run.shown["metadata"]["deletionTimestamp"]
    assert run.write((leaving, None)) == (1, 0)
    assert run.names == []


def test_what_changes_several_times_in_a_run_is_written_once() -> None:
    run = Run()
    assert run.write((None, LAUNCHED), (LAUNCHED, INITIALIZED)) == (1, 0)
    assert run.shown["status"]["nodeName"] == INITIALIZED.node_name
    assert run.write((INITIALIZED, LAUNCHED), (LAUNCHED, INITIALIZED)) is None
    assert run.write() is None


@pytest.mark.parametrize(("record", "is_asked_for"), [(LAUNCHED, False), (BY_HAND, True)], ids=["ours", "made by hand"])
def test_a_claim_that_came_and_went_in_one_run_is_never_shown(record: ClaimRecord, is_asked_for: bool) -> None:
    """The NodeClaim that somebody made by hand goes with it."""
    run = Run()
    run.lab.kubernetes.create(NODE_CLAIMS, new_object(record))
    assert run.write((None, record), (record, None)) == ((1, 0) if is_asked_for else None)
    assert run.names == ([] if is_asked_for else ["c"])


def test_a_node_claim_made_by_hand_is_shown_like_any_other_while_its_claim_lasts() -> None:
    run = Run()
    assert run.write((None, BY_HAND)) == (1, 0)
    launched = msgspec.structs.replace(BY_HAND, phase=ClaimPhase.LAUNCHED, node_name="")
    assert run.write((launched, BY_HAND), (BY_HAND, None)) == (1, 0)
    assert run.names == []


def test_nothing_is_shown_where_claims_are_not_to_be_shown() -> None:
    run = Run(is_on=False)
    assert run.write((None, LAUNCHED)) is None
    assert run.names == []


def test_no_node_claim_is_made_while_karpenter_would_launch_a_node_for_it() -> None:
    """What is there already is kept up to date."""
    run = Run()
    run.write((None, LAUNCHED))
    run.lab.kubernetes.put(LEASE)
    run.lab.clock.advance(minutes=1)
    other = msgspec.structs.replace(LAUNCHED, name="other")
    assert run.write((LAUNCHED, INITIALIZED), (None, other)) == (1, 1)
    assert (run.names, run.shown["status"]["nodeName"]) == (["c"], INITIALIZED.node_name)
    run.lab.kubernetes.drop(NODE_CLAIMS, "c")
    assert run.write((LAUNCHED, INITIALIZED)) == (1, 0)
    assert run.names == []


def test_karpenter_is_asked_for_only_where_a_node_claim_is_to_be_made() -> None:
    """One that cannot be asked for is taken to be there."""
    run = Run()
    run.write((None, LAUNCHED))
    calls: list[str] = []
    run.lab.kubernetes.before_call = calls.append
    run.lab.clock.advance(minutes=1)
    run.write((LAUNCHED, INITIALIZED))
    assert not [call for call in calls if "leases" in call]

    def fails(call: str) -> None:
        if "leases" in call:
            raise TransientError(call, "no answer")

    run.lab.kubernetes.before_call = fails
    assert run.write((None, msgspec.structs.replace(LAUNCHED, name="other"))) == (0, 1)


def test_a_run_writes_so_many_and_keeps_five_seconds_for_its_answer() -> None:
    run = Run(seconds=12)
    records = [msgspec.structs.replace(LAUNCHED, name=f"c-{n:03}") for n in range(252)]
    assert run.write(*((None, record) for record in records)) == (250, 2)
    assert run.names == [record.name for record in records[:250]]
    late = Run(seconds=3)
    late.write((None, LAUNCHED))
    assert (run.patience, late.patience) == ([timedelta(seconds=7)], [timedelta(0)])


def test_a_node_claim_that_cannot_be_written_keeps_no_other_from_it() -> None:
    run = Run()
    run.write((None, INITIALIZED), (None, other := msgspec.structs.replace(INITIALIZED, name="other")))
    run.lab.kubernetes.undeletable = {"/c"}
    gone = msgspec.structs.replace(other, deletion=a_leaving(reason="SpotInterrupted").deletion)
    assert run.write((INITIALIZED, a_leaving(reason="SpotInterrupted")), (other, gone)) == (1, 1)
    assert "deletionTimestamp" not in run.shown["metadata"]
    assert run.lab.kubernetes.raw(NODE_CLAIMS, "other")["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("others", [(), ("example.com/backup",)])
def test_finalizers_of_others_stay_on_a_node_claim_whose_claim_is_gone(others: tuple[str, ...]) -> None:
    """Whatever another controller does before the object goes would never be done: our patch took all finalizers off."""
    run = Run()
    run.write((None, INITIALIZED))
    held = {"metadata": {"finalizers": [labels.TERMINATION_FINALIZER, *others]}}
    run.lab.kubernetes.amend(NODE_CLAIMS, INITIALIZED.name, held)
    run.write((INITIALIZED, None))
    assert run.names == ([INITIALIZED.name] if others else [])
    if others:
        left = run.lab.kubernetes.raw(NODE_CLAIMS, INITIALIZED.name)
        assert (tuple(left["metadata"]["finalizers"]), bool(left["metadata"]["deletionTimestamp"])) == (others, True)
        run.mirror.release(left)
        assert run.lab.kubernetes.raw(NODE_CLAIMS, INITIALIZED.name) == left, (
            "the next rounds of reconcile write nothing"
        )
