"""Which NodeClaims of Karpenter's may be ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.takeover.adoption import AdoptionState, adoption_state, is_marked
from core.reasons.takeover import AdoptionReason
from tests.builders import NOW, a_pool
from tests.unit.lifecycle.records_for_tests import a_record
from tests.unit.lifecycle.takeover.karpenters_objects import (
    CLUSTER,
    NAME,
    PROVIDER_ID,
    TAGS,
    a_class,
    a_karpenter_node,
    a_launched_claim,
    a_manifest,
    the_owners,
)


def with_claim(**changes: Any) -> Any:
    found = a_launched_claim()
    return msgspec.structs.replace(found, node_claim=msgspec.structs.replace(found.node_claim, **changes))


def our_record(provider_id: str = PROVIDER_ID) -> Any:
    record = a_record()
    machine = msgspec.structs.replace(
        record.machine, provider_id=provider_id, instance_id=provider_id.rpartition("/")[2]
    )
    return msgspec.structs.replace(record, name=NAME, machine=machine)


def test_a_working_node_may_be_ours() -> None:
    assert adoption_state(a_launched_claim(), the_owners(), NOW) == (AdoptionState.ADOPTABLE, None)


def test_one_that_boots_may_be_ours_as_long_as_it_may_still_join() -> None:
    booting = a_launched_claim(nodes=(), launched_at=NOW - timedelta(minutes=14))
    assert adoption_state(booting, the_owners(), NOW) == (AdoptionState.ADOPTABLE, None)


@pytest.mark.parametrize(
    ("found", "owners", "reason", "part"),
    [
        (with_claim(node_class=None), the_owners(), AdoptionReason.OTHER_PROVIDER, "(none)"),
        (with_claim(deleted_at=NOW), the_owners(), AdoptionReason.BEING_DELETED, f"NodeClaim {NAME}"),
        (
            a_launched_claim(nodes=(a_karpenter_node(deleted_at=NOW),)),
            the_owners(),
            AdoptionReason.BEING_DELETED,
            "Node ip-10",
        ),
        (with_claim(provider_id=""), the_owners(), AdoptionReason.NOT_LAUNCHED, "status.providerID"),
        (
            a_launched_claim(),
            the_owners(pools={}),
            AdoptionReason.NODE_POOL_NOT_FOUND,
            "NodePool default does not exist",
        ),
        (
            a_launched_claim(),
            the_owners(pools={"default": a_pool(deleted_at=NOW)}),
            AdoptionReason.NODE_POOL_NOT_FOUND,
            "is being deleted",
        ),
        (with_claim(labels={}), the_owners(), AdoptionReason.NODE_POOL_NOT_FOUND, "(none)"),
        (a_launched_claim(), the_owners(node_classes={}), AdoptionReason.NODE_CLASS_NOT_FOUND, "does not exist"),
        (
            a_launched_claim(),
            the_owners(node_classes={"default": a_class(deleted_at=NOW)}),
            AdoptionReason.NODE_CLASS_NOT_FOUND,
            "is being deleted",
        ),
        (a_launched_claim(tags=None), the_owners(), AdoptionReason.INSTANCE_NOT_FOUND, "i-0abc"),
        (
            a_launched_claim(tags={**TAGS, labels.CLUSTER_TAG: "other"}),
            the_owners(),
            AdoptionReason.OTHER_OWNER,
            "'other' and not 'prod'",
        ),
        (
            a_launched_claim(tags={**TAGS, labels.CLAIM: "other"}),
            the_owners(),
            AdoptionReason.OTHER_OWNER,
            "fleetwright.dev/claim",
        ),
        (
            a_launched_claim(nodes=(a_karpenter_node(), a_karpenter_node(name="twin"))),
            the_owners(),
            AdoptionReason.SEVERAL_NODES,
            "twin",
        ),
        (a_launched_claim(nodes=()), the_owners(), AdoptionReason.NOT_JOINED, PROVIDER_ID),
        (
            a_launched_claim(),
            the_owners({NAME: our_record("aws:///us-east-1a/i-other")}),
            AdoptionReason.NAME_TAKEN,
            "i-other",
        ),
    ],
)
def test_what_is_in_the_way_is_named_with_its_object(
    found: Any, owners: Any, reason: AdoptionReason, part: str
) -> None:
    state, objection = adoption_state(found, owners, NOW)
    assert state is AdoptionState.REFUSED
    assert objection is not None
    assert objection.reason is reason
    assert part in objection.message
    assert objection.reason.advice or objection.reason is AdoptionReason.OTHER_PROVIDER


@pytest.mark.parametrize(("early", "refused"), [(timedelta(microseconds=1), False), (timedelta(0), True)])
def test_a_node_that_has_not_joined_in_time_is_an_obstacle(early: timedelta, *, refused: bool) -> None:
    found = a_launched_claim(nodes=(), launched_at=NOW - REGISTRATION_TIMEOUT + early)
    objection = adoption_state(found, the_owners(), NOW)[1]
    assert (objection is not None and objection.reason is AdoptionReason.NOT_JOINED) == refused


def test_missing_tags_are_added_and_no_obstacle() -> None:
    """Karpenter tags instances a moment after their nodes register."""
    assert adoption_state(a_launched_claim(tags={}), the_owners(), NOW)[0] is AdoptionState.ADOPTABLE


def ours(**changes: Any) -> Any:
    obj = a_manifest()
    obj["metadata"]["annotations"][labels.CLAIM] = NAME
    obj["metadata"]["finalizers"] = [labels.TERMINATION_FINALIZER]
    node = a_karpenter_node(annotations={labels.CLAIM: NAME}, finalizers=(labels.TERMINATION_FINALIZER,))
    return a_launched_claim(obj, **{"nodes": (node,), "tags": {**TAGS, labels.CLAIM: NAME}, **changes})


def test_a_run_that_died_is_gone_on_with() -> None:
    """With the row stored, each mark that is missing makes it unfinished."""
    owners = the_owners({NAME: our_record()})
    assert adoption_state(ours(), owners, NOW) == (AdoptionState.OURS, None)
    unnamed = msgspec.structs.replace(ours().node_claim, annotations={})
    halves = (
        ours(tags=TAGS),
        ours(nodes=(a_karpenter_node(),)),
        ours(finalizers=("karpenter.sh/termination",)),
        msgspec.structs.replace(ours(), node_claim=unnamed),
    )
    for half in halves:
        assert not is_marked(half, CLUSTER)
        assert adoption_state(half, owners, NOW) == (AdoptionState.BEGUN, None)


def test_a_half_done_one_that_went_meanwhile_is_refused() -> None:
    owners = the_owners({NAME: our_record()})
    gone, deleted = a_launched_claim(tags=None), with_claim(deleted_at=NOW)
    reasons = [
        objection.reason
        for _, objection in (adoption_state(found, owners, NOW) for found in (gone, deleted))
        if objection
    ]
    assert reasons == [AdoptionReason.INSTANCE_NOT_FOUND, AdoptionReason.BEING_DELETED]
