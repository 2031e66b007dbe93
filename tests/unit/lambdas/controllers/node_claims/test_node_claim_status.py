"""A NodeClaim says what is known of its claim, and is written only where it differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from core import labels
from core.lifecycle.mirror.node_claim_object import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from core.model.node_claim import CONSOLIDATABLE, DRIFTED, INITIALIZED, Condition
from lambdas.controllers.node_claims.node_claim_status import Findings, NodeClaimStatus
from tests.builders import NOW, a_node_of, a_pool, a_snapshot, a_type
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

RECORD = a_record()


@pytest.fixture
def server() -> FakeKubernetes:
    found = FakeKubernetes(FakeClock(NOW))
    found.put({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **new_object(RECORD)})
    return found


def present(server: FakeKubernetes) -> dict[str, Any]:
    return server.raw(NODE_CLAIMS, "c")


def write(server: FakeKubernetes, wanted: Mirrored) -> bool:
    return NodeClaimStatus(server, FakeClock(NOW)).write(present(server), wanted)


def conditions(server: FakeKubernetes) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in present(server)["status"]["conditions"]}


def with_conditions(**found: Condition) -> Mirrored:
    return mirrored(RECORD, found)


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
        own = {labels.NODEPOOL_HASH: "1", **version}
        claim = msgspec.structs.replace(claim, name="c", annotations=own, **changes)
        pool = a_pool(own_annotations={labels.NODEPOOL_HASH: hash_of_pool, **version})
        snapshot = a_snapshot(types=(a_type(),), node_claims=(claim,), node_pools=(pool,))
        view = ClusterState(snapshot=snapshot, claims={"c": record}, commands=(), node_pools={}, node_classes={})
        return Findings(view).of(record).conditions

    def test_are_that_it_drifted_and_may_be_consolidated(self) -> None:
        found = self.found(RECORD, hash_of_pool="2")
        assert (found[DRIFTED].status, found[DRIFTED].reason) == ("True", "NodePoolDrifted")
        assert found[CONSOLIDATABLE].status == "True"

    def test_are_nothing_of_drift_where_it_is_as_its_pool_is(self) -> None:
        assert DRIFTED not in self.found(RECORD)

    def test_leave_drift_open_where_the_pool_is_gone(self) -> None:
        gone = msgspec.structs.replace(RECORD, plan=a_plan(node_pool="gone"))
        assert DRIFTED not in self.found(gone, hash_of_pool="2")

    def test_say_of_the_node_what_the_look_saw(self) -> None:
        not_yet = {INITIALIZED: Condition("False", "NotReady", "kubelet is down")}
        assert self.found(RECORD, conditions=not_yet)[INITIALIZED].status == "False"

    def test_are_the_records_own_where_the_look_did_not_see_the_claim(self) -> None:
        other = msgspec.structs.replace(RECORD, name="other")
        assert self.found(other) == mirrored(other).conditions
