"""Nodes go with their NodePool, once it is certainly gone."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.manifests.wire import api_resources as kinds
from core.reasons.termination import TerminationReason
from lambdas.controllers.resync.reconciliation_resync import WITHOUT_PODS_EVERY
from tests.fakes.lab import Lab, a_node_pool
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, a_working_node, amend, sweep

NAME = "deletedPools"


def reason(lab: Lab) -> str:
    deletion = lab.claim.deletion
    return deletion.reason if deletion is not None else ""


@pytest.fixture
def lab() -> Lab:
    return a_working_node()


def test_a_pool_that_is_gone_takes_its_claims_along(lab: Lab) -> None:
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    sweep(lab, NAME)
    assert reason(lab) == TerminationReason.NODE_POOL_DELETED
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.message == "NodePool default is gone"


def test_a_pool_that_is_being_deleted_counts_as_gone(lab: Lab) -> None:
    """A finalizer of others may keep the object for ever."""
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"metadata": {"deletionTimestamp": "2026-11-20T00:00:00Z"}})
    sweep(lab, NAME)
    assert reason(lab) == TerminationReason.NODE_POOL_DELETED


def test_a_pool_that_a_stale_list_lacks_keeps_its_claims(lab: Lab) -> None:
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    round_ = a_round(lab)
    lab.kubernetes.put(a_node_pool())
    sweep(lab, NAME, round_)
    assert reason(lab) == ""


def test_a_node_claim_made_by_hand_stays(lab: Lab) -> None:
    """It belongs to whoever made it, and may name a NodePool that never was."""
    annotations = {**lab.claim.plan.annotations, labels.MADE_BY_HAND: "true"}
    amend(lab, plan=msgspec.structs.replace(lab.claim.plan, annotations=annotations))
    assert lab.claim.plan.made_by_hand
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    sweep(lab, NAME)
    assert reason(lab) == ""


def test_a_claim_that_is_leaving_keeps_its_reason(lab: Lab) -> None:
    lab.interrupt()
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    sweep(lab, NAME)
    assert reason(lab) == TerminationReason.SPOT_INTERRUPTED


def test_claims_of_other_pools_stay(lab: Lab) -> None:
    lab.kubernetes.put(a_node_pool("other"))
    lab.kubernetes.drop(kinds.NODE_POOLS, "other")
    sweep(lab, NAME)
    assert reason(lab) == ""


def test_nodes_go_with_their_node_pool_but_not_because_of_a_stale_list(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, one stale list costs a whole pool."""
    listed = lab.kubernetes.raw(kinds.NODE_POOLS, "default")
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    with monkeypatch.context() as stale:
        stale.setattr(lab.kubernetes, "get", lambda *_: listed)
        lab.reconcile()
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    lab.reconcile()
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "NodePoolDeleted"
