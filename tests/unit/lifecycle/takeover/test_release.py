"""Which claims of ours may be Karpenter's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.api.validation import problems
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.takeover.release import OwnedClaim, karpenters_object, karpenters_status, objection, released
from core.model.node_claim import Hold
from core.reasons.takeover import ReleaseReason
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_leaving, a_node, a_plan, a_record

MIRROR = {"metadata": {"name": "c"}, "status": {"providerID": PROVIDER_ID}}
DELETED = {"metadata": {"name": "c", "deletionTimestamp": "2026-11-20T00:00:00Z"}, "status": {}}


def owned(record: ClaimRecord | None = None, **changes: Any) -> OwnedClaim:
    fields = {
        "record": record or a_record(),
        "node_claim": MIRROR,
        "node": a_node(),
        "tagged": ("i-1",),
        "pool_uid": "p",
    }
    return OwnedClaim(**{**fields, **changes})


@pytest.mark.parametrize(
    "given",
    [
        owned(),
        owned(node_claim=None),
        owned(a_record(ClaimPhase.LAUNCHED), node=None),
        owned(a_record(ClaimPhase.REQUESTED), tagged=(), node=None),
        owned(a_leaving()),
    ],
)
def test_what_runs_and_stays_may_go(given: OwnedClaim) -> None:
    assert objection(given) is None


@pytest.mark.parametrize(
    ("given", "reason", "part"),
    [
        (owned(a_record(ClaimPhase.REQUESTED)), ReleaseReason.LAUNCHING, "i-1"),
        (owned(a_leaving(terminated_at=NOW)), ReleaseReason.LEAVING, "being terminated"),
        (owned(node=a_node(deleted_at=NOW)), ReleaseReason.LEAVING, "Node n"),
        (owned(node_claim=DELETED), ReleaseReason.LEAVING, "NodeClaim c"),
        (owned(tagged=()), ReleaseReason.GONE, "i-1"),
        (owned(node=None), ReleaseReason.GONE, "Node n does not exist"),
        (owned(pool_uid=""), ReleaseReason.POOL_NOT_FOUND, "NodePool default"),
        (owned(node_claim={"metadata": {}, "status": {"providerID": "x"}}), ReleaseReason.OTHER_NODE_CLAIM, "of x"),
    ],
)
def test_what_is_in_the_way_is_named_with_its_object(given: OwnedClaim, reason: ReleaseReason, part: str) -> None:
    found = objection(given)
    assert found is not None
    assert found.reason is reason
    assert part in found.message
    assert reason.advice


def test_a_drain_that_has_begun_is_called_off() -> None:
    hold = Hold(NOW, "r", "m")
    after = released(msgspec.structs.replace(a_leaving(), is_disrupting=True, hold=hold))
    assert (after.deletion, after.is_disrupting, after.hold) == (None, False, None)


def test_the_node_claim_is_one_that_karpenter_goes_on_from() -> None:
    """Valid for the API server, without a sign of ours, with every condition that Karpenter would wait for."""
    plan = a_plan(annotations={labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "v", labels.DECISION: "d"})
    record = a_record(plan=plan, initialized_at=NOW, last_pod_event_at=NOW - timedelta(minutes=1))
    status = karpenters_status(record, "")
    obj = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **karpenters_object(record), "status": status}
    assert problems(obj) == ()
    assert obj["metadata"]["finalizers"] == [labels.KARPENTER_FINALIZER]
    assert obj["metadata"]["annotations"] == {labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "v"}
    told = {c["type"]: c["status"] for c in status["conditions"]}
    assert {kind: told[kind] for kind in ("Launched", "Registered", "Initialized")} == dict.fromkeys(
        ("Launched", "Registered", "Initialized"), "True"
    )
    assert "Drifted" not in told
    assert (status["providerID"], status["nodeName"]) == (PROVIDER_ID, "n")
    assert status["lastPodEventTime"] == "2026-11-19T23:59:00Z"


def test_a_drifted_node_stays_drifted() -> None:
    told = {c["type"]: c for c in karpenters_status(a_record(initialized_at=NOW), "NodePoolDrifted")["conditions"]}
    assert (told["Drifted"]["status"], told["Drifted"]["reason"]) == ("True", "NodePoolDrifted")
