"""NodeClaims that a function writes at the end of its run, after others may have written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import made_node_claim
from adapters.observation.cluster_reader import KarpenterPresence
from adapters.observation.observer import ClusterState
from adapters.ports import TransientError
from adapters.run_report import RunReport
from adapters.runtime import Task, in_turn
from core import labels
from core.api.objects import JsonObject
from core.lifecycle.node_claim_objects import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire.resources import NODE_CLAIMS
from core.model.plan import CONSOLIDATABLE, DRIFTED, Condition
from core.model.plan import INITIALIZED as NODE_CLAIM_STATUS_INITIALIZED
from core.reasons.code import TerminationReason
from lambdas.controllers import node_claims
from lambdas.controllers.node_claims import Findings, NodeClaimMirror, NodeClaimStatus
from tests.builders import NOW, a_node_of, a_pool, a_snapshot, a_type
from tests.fakes.lab import Lab
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, a_working_node, sweep
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
        kubernetes, claims = self.lab.kubernetes, self.lab.app.adapters.stores.claims
        karpenter = KarpenterPresence(kubernetes, self.lab.clock)
        self.mirror = NodeClaimMirror(kubernetes, claims, karpenter, self.lab.clock, self._in_time, is_on=is_on)

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
        leaving = run.lab.kubernetes.raw(NODE_CLAIMS, INITIALIZED.name)
        assert (tuple(leaving["metadata"]["finalizers"]), bool(leaving["metadata"]["deletionTimestamp"])) == (
            others,
            True,
        )
        run.mirror.release(leaving)
        assert run.lab.kubernetes.raw(NODE_CLAIMS, INITIALIZED.name) == leaving, (
            "the next rounds of reconcile write nothing"
        )


# A NodeClaim says what is known of its claim, and is written only where it differs.


RECORD = a_record()


@pytest.fixture
def server() -> FakeKubernetes:
    server = FakeKubernetes(FakeClock(NOW))
    server.put({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **new_object(RECORD)})
    return server


def present(server: FakeKubernetes) -> dict[str, Any]:
    return server.raw(NODE_CLAIMS, "c")


def write(server: FakeKubernetes, wanted: Mirrored) -> bool:
    return NodeClaimStatus(server, FakeClock(NOW)).write(present(server), wanted)


def conditions(server: FakeKubernetes) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in present(server)["status"]["conditions"]
    }


def with_conditions(**conditions: Condition) -> Mirrored:
    return mirrored(RECORD, conditions)


def test_labels_and_status_are_written_once(server: FakeKubernetes) -> None:
    server.amend(NODE_CLAIMS, "c", {"metadata": {"labels": {"team": None, "own": "kept"}}})
    assert write(server, mirrored(RECORD))
    written = present(server)["metadata"]["labels"]
    assert written == {**RECORD.labels, "own": "kept"}
    assert present(server)["status"]["providerID"] == RECORD.provider_id
    calls: list[str] = []
    server.before_call = calls.append
    assert not write(server, mirrored(RECORD))
    assert calls == []


def test_a_label_alone_that_differs_counts_as_a_change(server: FakeKubernetes) -> None:
    write(server, mirrored(RECORD))
    server.amend(NODE_CLAIMS, "c", {"metadata": {"labels": {"team": "other"}}})
    assert write(server, mirrored(RECORD))
    assert present(server)["metadata"]["labels"]["team"] == RECORD.labels["team"]


def test_a_passing_condition_is_false_where_it_held_before_and_absent_else(server: FakeKubernetes) -> None:
    """Karpenter's users wait for `Consolidatable=False`; one that never held is not mentioned."""
    drifted = Condition("True", "NodePoolDrifted")
    assert write(server, with_conditions(**{DRIFTED: drifted}))
    assert conditions(server)[DRIFTED] == ("True", "NodePoolDrifted")
    assert write(server, mirrored(RECORD))
    assert conditions(server)[DRIFTED] == ("False", "NotDrifted")
    assert CONSOLIDATABLE not in conditions(server)
    assert not write(server, mirrored(RECORD))


def test_the_object_of_a_claim_that_leaves_is_deleted_once(server: FakeKubernetes) -> None:
    leaving = msgspec.structs.replace(a_leaving(is_final=True), plan=RECORD.plan)
    assert write(server, mirrored(leaving))
    assert present(server)["metadata"]["deletionTimestamp"]
    deletions: list[str] = []
    server.before_call = deletions.append
    write(server, mirrored(leaving))
    assert "delete nodeclaims" not in deletions


def test_a_claim_that_may_still_stay_keeps_its_object(server: FakeKubernetes) -> None:
    """A deletion cannot be taken back."""
    write(server, mirrored(a_leaving()))
    assert "deletionTimestamp" not in present(server)["metadata"]


def test_an_object_that_is_gone_is_no_error(server: FakeKubernetes) -> None:
    obj = present(server)
    server.drop(NODE_CLAIMS, "c")
    leaving = a_leaving(is_final=True)
    assert NodeClaimStatus(server, FakeClock(NOW)).write(
        {**obj, "metadata": {**obj["metadata"], "labels": None}}, mirrored(leaving)
    )


class TestFindings:
    """What a look says of a claim beyond its record."""

    def found(self, record: ClaimRecord, hash_of_pool: str = "1", **changes: Any) -> dict[str, Condition]:
        claim, _ = a_node_of(a_type())
        version = {labels.NODEPOOL_HASH_VERSION: labels.HASH_VERSION}
        annotations = {labels.NODEPOOL_HASH: "1", **version}
        claim = msgspec.structs.replace(claim, name="c", annotations=annotations, **changes)
        pool = a_pool(own_annotations={labels.NODEPOOL_HASH: hash_of_pool, **version})
        snapshot = a_snapshot(types=(a_type(),), node_claims=(claim,), node_pools=(pool,))
        view = ClusterState(snapshot=snapshot, claims={"c": record}, commands=(), node_pools={}, node_classes={})
        return Findings(view).of(record).conditions

    def test_are_that_it_drifted_and_may_be_consolidated(self) -> None:
        conditions = self.found(RECORD, hash_of_pool="2")
        assert (conditions[DRIFTED].status, conditions[DRIFTED].reason) == ("True", "NodePoolDrifted")
        assert conditions[CONSOLIDATABLE].status == "True"

    def test_are_nothing_of_drift_where_it_is_as_its_pool_is(self) -> None:
        assert DRIFTED not in self.found(RECORD)

    def test_leave_drift_open_where_the_pool_is_gone(self) -> None:
        gone = msgspec.structs.replace(RECORD, plan=a_plan(node_pool="gone"))
        assert DRIFTED not in self.found(gone, hash_of_pool="2")

    def test_say_of_the_node_what_the_look_saw(self) -> None:
        not_yet = {NODE_CLAIM_STATUS_INITIALIZED: Condition("False", "NotReady", "kubelet is down")}
        assert self.found(RECORD, conditions=not_yet)[NODE_CLAIM_STATUS_INITIALIZED].status == "False"

    def test_are_the_records_own_where_the_look_did_not_see_the_claim(self) -> None:
        other = msgspec.structs.replace(RECORD, name="other")
        assert self.found(other) == mirrored(other).conditions


# NodeClaims of the cluster follow the claims of the table, but where users make or delete one.


NAME = "nodeClaims"
HOLDER = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
NODE_CLAIMS_LEASE = {
    "kind": "Lease",
    "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
    "spec": HOLDER,
}


def by_hand(name: str, **metadata: Any) -> dict[str, Any]:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    return {"kind": "NodeClaim", "metadata": {"name": name, **metadata}, "spec": {"nodeClassRef": reference}}


def put_mirror(lab: Lab, name: str) -> None:
    """The NodeClaim of a claim of ours, which may be gone."""
    record = a_record()
    obj = new_object(record)
    metadata = {**obj["metadata"], "name": name, "annotations": {labels.CLAIM: name}}
    lab.kubernetes.put({"kind": "NodeClaim", **obj, "metadata": metadata})


def names(lab: Lab) -> list[str]:
    return lab.kubernetes.names(NODE_CLAIMS)


@pytest.fixture
def lab() -> Lab:
    """One working node whose NodeClaim is not in the cluster."""
    lab = a_working_node()
    for name in names(lab):
        lab.kubernetes.drop(NODE_CLAIMS, name)
    lab.work.take()
    return lab


def test_a_claim_without_a_node_claim_gets_one_with_its_status(lab: Lab) -> None:
    sweep(lab, NAME)
    assert names(lab) == [lab.claim.name]
    assert lab.kubernetes.raw(NODE_CLAIMS, lab.claim.name)["status"]["providerID"] == lab.claim.provider_id


def test_one_of_a_claim_that_is_gone_goes(lab: Lab) -> None:
    put_mirror(lab, "gone")
    lab.kubernetes.put(by_hand("theirs", finalizers=[labels.KARPENTER_FINALIZER]))
    sweep(lab, NAME)
    assert names(lab) == [lab.claim.name, "theirs"]


def test_one_that_a_user_deletes_ends_its_claim(lab: Lab) -> None:
    sweep(lab, NAME)
    lab.kubernetes.delete(NODE_CLAIMS, lab.claim.name)
    sweep(lab, NAME)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message) == (
        TerminationReason.NODE_CLAIM_DELETED,
        f"NodeClaim {lab.claim.name} was deleted",
    )


def test_one_that_is_out_of_date_is_corrected(lab: Lab) -> None:
    sweep(lab, NAME)
    lab.kubernetes.amend(NODE_CLAIMS, lab.claim.name, {"metadata": {"labels": {labels.NODEPOOL: "other"}}})
    sweep(lab, NAME)
    assert lab.kubernetes.raw(NODE_CLAIMS, lab.claim.name)["metadata"]["labels"][labels.NODEPOOL] == "default"


def test_one_made_by_hand_is_passed_on_to_be_launched(lab: Lab) -> None:
    lab.kubernetes.put(by_hand("b"), by_hand("a"))
    sweep(lab, NAME)
    expected = [made_node_claim(name, lab.clock.now()) for name in ("a", "b")]
    assert [message for message, _ in lab.work.sent] == expected


def test_beside_karpenter_none_is_made(lab: Lab) -> None:
    """It would take a new NodeClaim for an order to launch a node."""
    lab.kubernetes.put(NODE_CLAIMS_LEASE, by_hand("a"))
    put_mirror(lab, "gone")
    sweep(lab, NAME)
    assert (names(lab), lab.work.sent) == (["a"], [])


def test_where_claims_are_not_shown_those_that_were_go(lab: Lab) -> None:
    off = Lab(mirror_node_claims=False)
    off.kubernetes.put(by_hand("a"))
    put_mirror(off, "old")
    off.rows.claims["old"] = msgspec.structs.replace(a_record(), name="old")
    sweep(off, NAME)
    assert (names(off), off.work.sent) == (["a"], [])


class TestManyClaims:
    """A round does so many, and the next goes on behind them."""

    @pytest.fixture
    def lab(self, monkeypatch: pytest.MonkeyPatch) -> Lab:
        monkeypatch.setattr(node_claims, "CLAIMS_A_ROUND", 2)
        lab = Lab()
        for name in "abcde":
            lab.rows.claims[name] = msgspec.structs.replace(a_record(age=timedelta(hours=1)), name=name)
        return lab

    def test_are_made_a_few_at_a_time(self, lab: Lab) -> None:
        made = []
        for _ in range(3):
            sweep(lab, NAME)
            made.append(names(lab))
        assert made == [["a", "b"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"]]

    def test_go_a_few_at_a_time(self, lab: Lab) -> None:
        lab.rows.claims.clear()
        for name in "xyz":
            put_mirror(lab, name)
        sweep(lab, NAME)
        assert names(lab) == ["z"]

    def test_made_by_hand_are_passed_on_in_turn(self, lab: Lab) -> None:
        """All of them are refused for good; the market is read once in a round."""
        lab.kubernetes.put(*(by_hand(f"hand-{number}") for number in range(3)))
        for number, expected in enumerate(("01", "20", "12"), 1):
            sweep(lab, NAME)
            assert [message["claim"] for message in lab.work.take()] == [f"hand-{digit}" for digit in expected], number

    def test_are_brought_up_to_date_in_turn(self, lab: Lab) -> None:
        for _ in range(3):
            sweep(lab, NAME)
        for name in "abcde":
            lab.kubernetes.amend(NODE_CLAIMS, name, {"metadata": {"labels": {"team": "wrong"}}})

        def wrong() -> str:
            return "".join(
                name
                for name in "abcde"
                if lab.kubernetes.raw(NODE_CLAIMS, name)["metadata"]["labels"]["team"] == "wrong"
            )

        outdated = []
        for _ in range(3):
            sweep(lab, NAME)
            outdated.append(wrong())
        assert outdated == ["bcd", "d", ""]  # the last round before wrote d
        lab.kubernetes.amend(NODE_CLAIMS, "a", {"metadata": {"labels": {"team": "wrong"}}})
        sweep(lab, NAME)
        assert wrong() == ""


def test_a_round_without_an_observation_still_lets_go(lab: Lab) -> None:
    """What stands for nothing needs no look."""
    put_mirror(lab, "gone")
    round_ = a_round(lab)
    sweep(lab, NAME, round_)
    assert "gone" not in names(lab)


def test_the_node_claim_of_a_claim_that_cannot_be_read_stays(lab: Lab) -> None:
    """Its claim is not gone, and one that a user made by hand would not come back."""
    name = lab.claim.name
    put_mirror(lab, name)
    lab.rows.spoil("claims", name)
    sweep(lab, NAME)
    assert names(lab) == [name]
