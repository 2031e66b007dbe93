"""What `adopt` finds of Karpenter's: each NodeClaim, instance and Node once, with why it cannot be adopted."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cli.takeover.adoption_survey import AdoptionCandidate, AdoptionSurvey, adoption_survey
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.takeover.adoption import AdoptionState
from core.reasons.takeover import AdoptionReason
from tests.builders import NOW, a_class_manifest
from tests.unit.cli.takeover.site import a_site, an_instance
from tests.unit.lifecycle.records_for_tests import a_record
from tests.unit.lifecycle.takeover.karpenters_objects import (
    INSTANCE,
    NAME,
    NODE,
    PROVIDER_ID,
    TAGS,
    a_karpenter_node,
    a_manifest,
)

KEPT = {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}


def survey(**world: Any) -> AdoptionSurvey:
    return adoption_survey(a_site(**world))


def one(**world: Any) -> AdoptionCandidate:
    (candidate,) = survey(**world).candidates
    return candidate


def our_row(provider_id: str = PROVIDER_ID) -> Any:
    record = a_record()
    own = {"provider_id": provider_id, "instance_id": provider_id.rpartition("/")[2]}
    return msgspec.structs.replace(record, name=NAME, machine=msgspec.structs.replace(record.machine, **own))


def test_a_working_node_can_be_adopted() -> None:
    found = one(node_claims=[a_manifest()], instances=[an_instance()])
    assert (found.subject, found.state, found.objection) == (f"NodeClaim/{NAME}", AdoptionState.ADOPTABLE, None)
    assert (found.node_claim, found.node, found.node_pool, found.drift) == (NAME, NODE, "default", "")
    assert found.instance == an_instance()
    assert found.record is not None
    assert (found.record.name, found.record.instance_id, found.record.node_name) == (NAME, INSTANCE, NODE)
    assert found.record.machine is not None
    assert found.record.machine.offering.instance_type == "m5.large"


def test_instances_are_asked_for_by_what_node_claims_name() -> None:
    site = a_site(node_claims=[a_manifest(), {"metadata": {"name": "new"}}], instances=[an_instance()])
    adoption_survey(site)
    assert site.asked == [[INSTANCE], ["market"]]
    without = a_site(nodes=())
    assert adoption_survey(without) == AdoptionSurvey(candidates=(), classes=())
    assert without.asked == [[]]


def test_a_node_that_boots_has_the_name_that_its_node_claim_says() -> None:
    booting = {"nodes": (), "instances": [an_instance(launched_at=NOW - timedelta(minutes=1))]}
    assert one(node_claims=[a_manifest()], **booting).node == NODE
    assert one(node_claims=[a_manifest(nodeName="")], **booting).node == ""
    for waited, state in ((0, AdoptionState.ADOPTABLE), (1, AdoptionState.REFUSED)):
        launched_at = NOW - REGISTRATION_TIMEOUT + timedelta(seconds=1 - waited)  # joins within 15 minutes
        assert (
            one(node_claims=[a_manifest()], nodes=(), instances=[an_instance(launched_at=launched_at)]).state == state
        )


def test_without_an_instance_nothing_is_adopted() -> None:
    found = one(node_claims=[a_manifest()])
    assert (found.state, found.instance, found.record) == (AdoptionState.REFUSED, None, None)
    assert found.objection is not None
    assert found.objection.reason == AdoptionReason.INSTANCE_NOT_FOUND


def test_an_adoption_that_has_begun_goes_on_with_its_row() -> None:
    found = one(node_claims=[a_manifest()], instances=[an_instance()], rows=[our_row()])
    assert (found.state, found.record, found.drift) == (AdoptionState.BEGUN, our_row(), "")
    other = one(node_claims=[a_manifest()], instances=[an_instance()], rows=[our_row("aws:///us-east-1a/i-other")])
    assert (other.state, other.record) == (AdoptionState.REFUSED, None)


def test_what_is_ours_is_listed_as_such() -> None:
    manifest = a_manifest()
    manifest["metadata"]["annotations"][labels.CLAIM] = NAME
    manifest["metadata"]["finalizers"] = [labels.TERMINATION_FINALIZER]
    node = a_karpenter_node(annotations={labels.CLAIM: NAME}, finalizers=(labels.TERMINATION_FINALIZER,))
    instance = an_instance(tags={**TAGS, labels.CLAIM: NAME})
    found = one(node_claims=[manifest], nodes=[node], instances=[instance], rows=[our_row()])
    assert (found.state, found.record) == (AdoptionState.OURS, our_row())
    manifest["metadata"]["finalizers"] = None
    assert (
        one(node_claims=[manifest], nodes=[node], instances=[instance], rows=[our_row()]).state == AdoptionState.BEGUN
    )


def test_a_node_claim_that_cannot_be_read_stops_no_other() -> None:
    broken = a_manifest()
    broken["metadata"]["name"] = "a-broken"
    broken["spec"]["requirements"] = "none"
    first, second = survey(node_claims=[a_manifest(), broken], instances=[an_instance()]).candidates
    assert (first.subject, first.state, first.node_claim) == ("NodeClaim/a-broken", AdoptionState.REFUSED, "a-broken")
    assert first.objection is not None
    assert first.objection.reason == AdoptionReason.UNREADABLE
    assert "requirements" in first.objection.message
    assert second.state == AdoptionState.ADOPTABLE


def test_an_instance_of_karpenters_that_no_node_claim_names_is_refused() -> None:
    found = one(instances=[an_instance()])
    assert (found.subject, found.state, found.node, found.node_pool) == (
        f"Instance/{INSTANCE}",
        AdoptionState.REFUSED,
        NODE,
        "default",
    )
    assert found.instance == an_instance()
    assert found.objection is not None
    assert (found.objection.reason, found.objection.message) == (
        AdoptionReason.NO_NODE_CLAIM,
        f"no NodeClaim names instance {INSTANCE}",
    )
    assert one(instances=[an_instance()], nodes=()).node == ""


@pytest.mark.parametrize(
    "known",
    [
        {"instances": [an_instance(tags={**TAGS, labels.CLAIM: NAME})]},
        {"instances": [an_instance(tags={"Name": "bastion"})]},
        {"instances": [an_instance()], "rows": [our_row()]},
    ],
    ids=["ours", "anybody's", "a row's"],
)
def test_an_instance_that_is_not_karpenters_is_not_listed(known: dict[str, Any]) -> None:
    assert survey(nodes=(), **known).candidates == ()


def test_a_node_of_karpenters_that_no_node_claim_names_is_refused() -> None:
    found = one()
    assert (found.subject, found.state, found.node, found.node_pool) == (
        f"Node/{NODE}",
        AdoptionState.REFUSED,
        NODE,
        "default",
    )
    assert found.objection is not None
    assert found.objection.reason == AdoptionReason.NO_NODE_CLAIM
    assert found.objection.message == f"no NodeClaim names Node {NODE}"


@pytest.mark.parametrize(
    "node",
    [
        a_karpenter_node(annotations={labels.CLAIM: NAME}),
        a_karpenter_node(labels={labels.NODEPOOL: "default", labels.CLAIM: NAME}),
        a_karpenter_node(labels={"eks.amazonaws.com/nodegroup": "system"}),
    ],
    ids=["ours", "labelled as ours", "a node group's"],
)
def test_a_node_that_is_not_karpenters_is_not_listed(node: Any) -> None:
    assert survey(nodes=[node]).candidates == ()


def test_a_node_of_a_known_instance_is_not_listed_twice() -> None:
    assert [found.subject for found in survey(instances=[an_instance()]).candidates] == [f"Instance/{INSTANCE}"]
    assert survey(rows=[our_row()]).candidates == ()


@pytest.mark.parametrize(
    ("metadata", "is_freed"),
    [
        (KEPT, True),
        ({"finalizers": None}, False),
        ({"finalizers": ["acme.example/other"]}, False),
        ({**KEPT, "deletionTimestamp": "2026-11-20T00:00:00Z"}, False),
    ],
)
def test_classes_lose_karpenters_finalizer(metadata: dict[str, Any], is_freed: bool) -> None:
    found = survey(node_classes=[a_class_manifest(metadata=metadata)], nodes=())
    assert found.classes == (("default",) if is_freed else ())


def test_a_class_of_a_refused_node_claim_keeps_it() -> None:
    """Karpenter still needs the class for that node."""
    classes = [a_class_manifest(metadata=KEPT), a_class_manifest("other", metadata=KEPT)]
    world = {"node_classes": classes, "nodes": ()}
    assert survey(node_claims=[a_manifest()], **world).classes == ("other",)
    for spec in (None, {}, {"nodeClassRef": None}):
        without = {**copy.deepcopy(a_manifest()), "spec": spec}
        assert survey(node_claims=[without], **world).classes == ("default", "other")
    assert survey(node_claims=[a_manifest()], instances=[an_instance()], node_classes=classes).classes == (
        "default",
        "other",
    )
