"""Marks of Karpenter's and of ours."""

from __future__ import annotations

from typing import Any

from core import labels
from core.lifecycle.takeover import ownership
from core.model.values.taints import DISRUPTED, HELD, Taint
from simulator.cluster.merge_patch import merged
from tests.unit.lifecycle.records_for_tests import a_plan, a_record
from tests.unit.lifecycle.takeover.karpenters_objects import NAME, a_manifest

HASHES = {labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "fleetwright-v2"}
OTHERS = "example.com/keep"
OWNER = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u"}


def the_record() -> Any:
    return a_record(plan=a_plan(name=NAME, annotations=HASHES))


def test_there_and_back_a_node_claim_is_karpenters_as_before_but_for_hashes() -> None:
    """Annotations of Karpenter's that we do not read survive, such as the one that keeps an instance profile."""
    before = a_manifest()
    before["metadata"]["ownerReferences"] = [OWNER, *before["metadata"]["ownerReferences"]]
    record = the_record()
    ours = merged(before, {"metadata": ownership.node_claim_made_ours(record, before)})
    assert ours["metadata"]["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert ours["metadata"]["ownerReferences"] == [OWNER], "what others wrote stays"
    patch = {"metadata": ownership.node_claim_made_karpenters(record, ours, ("default", "uid-of-pool"))}
    after = merged(ours, patch)
    for field in ("finalizers", "ownerReferences"):
        assert after["metadata"][field] == before["metadata"][field]
    assert after["metadata"]["annotations"] == {**before["metadata"]["annotations"], **HASHES}
    assert after["spec"] == before["spec"]


def test_there_and_back_a_node_keeps_what_others_put_on_it() -> None:
    node: dict[str, Any] = {
        "metadata": {
            "annotations": {"a": "b"},
            "labels": {labels.EXCLUDE_FROM_BALANCERS: "karpenter"},
            "finalizers": [OTHERS, "karpenter.sh/termination"],
            "ownerReferences": [OWNER, {"kind": "NodeClaim", "name": NAME, "uid": "1"}],
        }
    }
    metadata = node["metadata"]
    taken = ownership.node_made_ours(the_record(), metadata["finalizers"], metadata["ownerReferences"])
    ours = merged(node, {"metadata": taken})["metadata"]
    assert ours["finalizers"] == [OTHERS, labels.TERMINATION_FINALIZER]
    assert ours["ownerReferences"] == [OWNER]
    assert ours["annotations"][labels.CLAIM] == the_record().name
    given = ownership.node_made_karpenters(ours["finalizers"], ours["ownerReferences"], ours["labels"], (NAME, "2"))
    after = merged({"metadata": ours}, {"metadata": given})["metadata"]
    assert after["finalizers"] == [OTHERS, "karpenter.sh/termination"]
    assert [owner["uid"] for owner in after["ownerReferences"]] == ["u", "2"]
    assert after["annotations"].keys() == {"a", *HASHES}
    assert after["labels"] == {}


def test_taints_of_a_boot_or_a_drain_go_and_others_stay() -> None:
    team = Taint("team", "NoSchedule", "a")
    assert ownership.taints_that_stay((team, HELD, DISRUPTED)) == (team,)


def test_tags_say_whose_it_is() -> None:
    ours, theirs = ownership.our_tags(the_record(), "prod"), ownership.karpenters_tags(the_record(), "prod")
    assert theirs["kubernetes.io/cluster/prod"] == "owned"
    assert ours.keys() - theirs.keys() == {labels.CLAIM, *HASHES}
    assert set(ownership.OURS_ALONE) >= ours.keys() - theirs.keys()


def test_nobody_keeps_a_class_from_being_deleted() -> None:
    assert ownership.class_made_ours([OTHERS, "karpenter.k8s.aws/termination"]) == {"finalizers": [OTHERS]}


def test_an_object_without_metadata_or_finalizers_gets_ours() -> None:
    """A manifest may leave out what is empty."""
    for bare in ({}, {"metadata": None}, {"metadata": {"finalizers": None, "ownerReferences": None}}):
        taken = ownership.node_claim_made_ours(the_record(), bare)
        assert taken["finalizers"] == [labels.TERMINATION_FINALIZER]
        assert taken["ownerReferences"] == []
