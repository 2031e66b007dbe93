"""`adopt` and `release`: what prevents them is said first, a fault of one node hides no other, and another run goes on."""

from __future__ import annotations

import msgspec
import pytest

from cli.takeover import directions
from core import labels
from core.manifests.wire import api_resources as kinds
from tests.unit.cli.simulated_installation import SimulatedInstallation, failing_once

OURS, KARPENTERS = ["ours", "ours"], ["Karpenter's", "Karpenter's"]
GO_ON = "run this again: it continues from here"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> SimulatedInstallation:
    """Two nodes of ours, in a NodePool with the version of its hash."""
    site = SimulatedInstallation(monkeypatch, nodes=2)
    site.lab.kubernetes.amend(
        kinds.NODE_POOLS, "default", {"metadata": {"annotations": {labels.NODEPOOL_HASH_VERSION: "v4"}}}
    )
    return site


@pytest.fixture
def karpenters(site: SimulatedInstallation) -> SimulatedInstallation:
    """Two nodes of Karpenter's, whose EC2NodeClass has its finalizer."""
    assert release(site) == (["released", "released"], True)
    site.lab.kubernetes.amend(
        kinds.EC2_NODE_CLASSES, "default", {"metadata": {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}}
    )
    return site


def adopt(site: SimulatedInstallation, *, is_acting: bool = True) -> tuple[list[str], bool]:
    """The states of nodes and classes, and whether nothing remains."""
    document, is_complete = directions.adoption(site.environment(), is_acting=is_acting)
    assert document["acting"] == is_acting
    return [item["state"] for item in (*document["items"], *document["nodeClasses"])], is_complete


def release(site: SimulatedInstallation, *, is_acting: bool = True) -> tuple[list[str], bool]:
    """The states of the nodes, and whether nothing remains."""
    document, is_complete = directions.release(site.environment(), is_acting=is_acting)
    assert document["acting"] == is_acting
    return [item["state"] for item in document["items"]], is_complete


def keeps_finalizer(site: SimulatedInstallation) -> bool:
    metadata = site.lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    return bool(metadata["finalizers"])


def test_nodes_and_their_class_become_ours_only_on_request(karpenters: SimulatedInstallation) -> None:
    assert adopt(karpenters, is_acting=False) == (["adoptable"] * 3, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (KARPENTERS, True)
    assert adopt(karpenters) == (["adopted"] * 3, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (OURS, False)
    assert karpenters.lab.rows.changed_at == karpenters.lab.clock.now(), "functions use no older observation"
    assert adopt(karpenters) == (["ours", "ours"], True), "there is nothing left to do"


@pytest.mark.parametrize("is_acting", [False, True])
def test_what_prevents_a_change_of_hands_is_said_and_nothing_is_changed(
    karpenters: SimulatedInstallation, *, is_acting: bool
) -> None:
    karpenters.switch = "run"
    document, is_complete = directions.adoption(karpenters.environment(), is_acting=is_acting)
    assert "pause --cluster test --everything" in document["hindrances"][0]
    assert [item["state"] for item in document["items"]] == ["adoptable", "adoptable"]
    assert (is_complete, karpenters.owners(), keeps_finalizer(karpenters)) == (False, KARPENTERS, True)
    karpenters.switch = "stop"
    adopt(karpenters)
    karpenters.switch = "run"
    assert release(karpenters, is_acting=is_acting) == (["releasable", "releasable"], False)
    assert karpenters.owners() == OURS


@pytest.mark.parametrize(
    ("fault", "states", "then"),
    [
        ("patch nodes", ["failed", "adopted", "adoptable"], ["adopted", "ours", "adopted"]),
        ("patch nodeclaims", ["failed", "adopted", "adoptable"], ["adopted", "ours", "adopted"]),
        ("patch ec2nodeclasses", ["adopted", "adopted", "failed"], ["ours", "ours", "adopted"]),
    ],
)
def test_after_a_fault_the_class_stays_karpenters_until_another_run_has_adopted_all(
    fault: str, states: list[str], then: list[str], karpenters: SimulatedInstallation
) -> None:
    """As long as a node is Karpenter's, its EC2NodeClass cannot be deleted: only the finalizer sees to that."""
    karpenters.lab.kubernetes.before_call = failing_once(fault)
    document, is_complete = directions.adoption(karpenters.environment(), is_acting=True)
    parts = (*document["items"], *document["nodeClasses"])
    assert [part["state"] for part in parts] == states
    assert [part["subject"] for part in parts if part["state"] == "failed" and GO_ON in part["message"]]
    assert (is_complete, keeps_finalizer(karpenters)) == (False, True)
    assert adopt(karpenters) == (then, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (OURS, False)


def test_a_change_that_cannot_be_recorded_is_told(karpenters: SimulatedInstallation) -> None:
    karpenters.lab.rows.before_call = failing_once("record")
    document, is_complete = directions.adoption(karpenters.environment(), is_acting=True)
    assert (is_complete, karpenters.owners()) == (False, OURS)
    assert GO_ON in document["hindrances"][0]
    assert adopt(karpenters) == (["ours", "ours"], True)
    assert karpenters.lab.rows.changed_at == karpenters.lab.clock.now()


def test_a_node_that_cannot_be_adopted_keeps_no_other_from_it(karpenters: SimulatedInstallation) -> None:
    """An instance of Karpenter's that no NodeClaim names stays as it is, and the answer says that something remains."""
    (first, *_) = karpenters.lab.cloud.instances()
    karpenters.lab.cloud.put(msgspec.structs.replace(first, instance_id="i-lost"))
    assert adopt(karpenters, is_acting=False) == (["adoptable", "adoptable", "refused", "adoptable"], False)
    assert adopt(karpenters) == (["adopted", "adopted", "refused", "adopted"], False)
    assert karpenters.owners() == [*OURS, "Karpenter's"]


def test_nodes_become_karpenters_only_on_request(site: SimulatedInstallation) -> None:
    assert release(site, is_acting=False) == (["releasable", "releasable"], True)
    assert (site.owners(), site.lab.kubernetes.raw(kinds.NODE_POOLS, "default")["metadata"]["annotations"]) == (
        OURS,
        {labels.NODEPOOL_HASH_VERSION: "v4"},
    )
    assert release(site) == (["released", "released"], True)
    assert site.owners() == KARPENTERS
    assert release(site) == ([], True), "there is nothing left to do"


@pytest.mark.parametrize(
    ("fault", "states", "owners", "told"),
    [
        ("patch nodepools", ["releasable", "releasable"], OURS, True),
        ("create nodeclaims", ["failed", "released"], ["ours", "Karpenter's"], False),
        ("patch nodeclaims", ["failed", "released"], ["ours", "Karpenter's"], False),
        ("patch nodes", ["failed", "released"], ["ours", "Karpenter's"], False),
    ],
)
def test_a_fault_keeps_one_node_ours_unless_all_depend_on_it(
    fault: str, states: list[str], owners: list[str], told: bool, site: SimulatedInstallation
) -> None:
    """With the version of our hash on their NodePool, all nodes would count as drifted for Karpenter: then none is released."""
    site.lab.kubernetes.before_call = failing_once(fault)
    document, is_complete = directions.release(site.environment(), is_acting=True)
    assert [item["state"] for item in document["items"]] == states
    assert (is_complete, site.owners(), [GO_ON in one for one in document["hindrances"]]) == (
        False,
        owners,
        [True] if told else [],
    )
    done = ["released"] * owners.count("ours")
    assert release(site) == (done, True)
    assert site.owners() == KARPENTERS


def test_a_node_that_stays_ours_keeps_no_other_from_being_released(site: SimulatedInstallation) -> None:
    """One whose Node is gone is left to our functions, which end its instance."""
    (gone, _) = site.lab.claims
    site.lab.kubernetes.drop(kinds.NODES, gone.node_name)
    assert release(site, is_acting=False) == (["kept", "releasable"], False)
    assert release(site) == (["kept", "released"], False)
    assert site.owners() == ["ours", "Karpenter's"]
    assert [record.name for record in site.lab.claims] == [gone.name]
