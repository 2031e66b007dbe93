"""Instances without a row: those of others and of launches under way are left alone, known ones are adopted."""

from __future__ import annotations

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder
from tests.builders import a_type
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import ids, lose


def test_an_instance_that_was_just_launched_is_left_to_its_launch() -> None:
    """Its claim may be stored a moment later: rebuilt meanwhile, it would be known under two versions of one row."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    name = lab.claim.name
    lose(lab, name)
    lab.clock.advance(seconds=30)
    lab.reconcile()
    assert lab.claims == ()
    lab.clock.advance(seconds=31)
    lab.reconcile()
    assert [claim.name for claim in lab.claims] == [name]


def launch_behind_our_back(lab: Lab, claim: str, *, owned: bool = True) -> str:
    """An instance without a record."""
    tags = {"karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": claim} | (
        {labels.CLAIM: claim} if owned else {}
    )
    order = LaunchOrder(
        claim=claim,
        node_pool="default",
        token=f"behind-{claim}",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags=tags,
    )
    return lab.cloud.launch(order).instances[0].instance_id


def test_another_provisioners_instances_are_left_alone(lab: Lab) -> None:
    """Karpenter's nodes have the same tags; during a migration both run."""
    theirs = launch_behind_our_back(lab, "theirs", owned=False)
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert theirs in ids(lab)


def test_an_instance_whose_launch_reply_was_lost_is_adopted() -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.reconcile()
    assert lab.claim.instance_id == launched.instance_id
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_an_adopted_instance_of_an_unknown_type_keeps_what_its_claim_reserved() -> None:
    """What it has is not known, so the limits would seem to have its room: more would be launched than they allow."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.types = (a_type("c5.large"),)
    lab.restart()
    lab.reconcile()
    assert (lab.claim.instance_id, lab.claim.reserved) == (launched.instance_id, launched.reserved)
    assert launched.reserved["cpu"] > 0
