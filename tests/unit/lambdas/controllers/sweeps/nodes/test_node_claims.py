"""NodeClaims of the cluster follow the claims of the table, but where users make or delete one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import made_node_claim
from adapters.store import UnreadableRow
from core import labels
from core.lifecycle.mirror.node_claim_object import new_object
from core.manifests.wire.api_resources import NODE_CLAIMS
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.nodes import node_claims
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, a_working_node, sweep
from tests.unit.lifecycle.records_for_tests import a_record

NAME = "nodeClaims"
HOLDER = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
LEASE = {
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
    own = new_object(record)
    metadata = {**own["metadata"], "name": name, "annotations": {labels.CLAIM: name}}
    lab.kubernetes.put({"kind": "NodeClaim", **own, "metadata": metadata})


def names(lab: Lab) -> list[str]:
    return lab.kubernetes.names(NODE_CLAIMS)


@pytest.fixture
def lab() -> Lab:
    """One working node whose NodeClaim is not in the cluster."""
    found = a_working_node()
    for name in names(found):
        found.kubernetes.drop(NODE_CLAIMS, name)
    found.work.take()
    return found


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
    lab.kubernetes.put(LEASE, by_hand("a"))
    put_mirror(lab, "gone")
    sweep(lab, NAME)
    assert (names(lab), lab.work.sent) == (["a"], [])


def test_where_claims_are_not_shown_those_that_were_go(lab: Lab) -> None:
    off = Lab(mirror_node_claims=False)
    off.kubernetes.put(by_hand("a"))
    put_mirror(off, "old")
    off.rows.claims["old"] = a_record()
    sweep(off, NAME)
    assert (names(off), off.work.sent) == (["a"], [])


class TestManyClaims:
    """A round does so many, and the next goes on behind them."""

    @pytest.fixture
    def lab(self, monkeypatch: pytest.MonkeyPatch) -> Lab:
        monkeypatch.setattr(node_claims, "CLAIMS_A_ROUND", 2)
        found = Lab()
        for name in "abcde":
            found.rows.claims[name] = msgspec.structs.replace(a_record(age=timedelta(hours=1)), name=name)
        return found

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

    def test_made_by_hand_are_passed_on_a_few_at_a_time(self, lab: Lab) -> None:
        lab.kubernetes.put(*(by_hand(f"hand-{number}") for number in range(3)))
        sweep(lab, NAME)
        assert [message["claim"] for message, _ in lab.work.sent] == ["hand-0", "hand-1"]

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

        left = []
        for _ in range(3):
            sweep(lab, NAME)
            left.append(wrong())
        assert left == ["bcd", "d", ""]  # the last round before wrote d
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
    lab.rows.unreadable[name] = UnreadableRow("cluster#claims#1", name, "cannot be read")
    sweep(lab, NAME)
    assert names(lab) == [name]
