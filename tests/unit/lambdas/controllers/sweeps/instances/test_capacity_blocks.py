"""Claims in a capacity block go before EC2 ends its instances."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.discovered.reservation_end import LEAVES_BEFORE, RECLAIMED_BEFORE, ULTRASERVER_RECLAIMED_BEFORE
from core.catalogue.node_class import CAPACITY_BLOCK
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Offering
from core.reasons.termination import TerminationReason
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend, sweep

NAME = "capacityBlocks"


def in_block(lab: Lab, kind: str = CAPACITY_BLOCK) -> Lab:
    """The claim's instance is in the reservation cr-1."""
    own = Offering("m5.large", "us-east-1a", labels.RESERVED, 0, reservation_id="cr-1", reservation_type=kind)
    amend(lab, machine=msgspec.structs.replace(lab.claim.machine, offering=own))
    return lab


def ending(lab: Lab, end: str, identity: str = "cr-1", **changes: Any) -> None:
    found = {"id": identity, "reservationType": CAPACITY_BLOCK, "endTime": end, **changes}
    body = {"status": {"capacityReservations": [found]}}
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", body)


def written(moment: datetime) -> str:
    return moment.isoformat()


@pytest.mark.parametrize("goes", [False, True])
@pytest.mark.parametrize(
    ("instance_type", "lead"), [("p5.48xlarge", RECLAIMED_BEFORE), ("trn2u.48xlarge", ULTRASERVER_RECLAIMED_BEFORE)]
)
def test_a_claim_goes_some_time_before_ec2_takes_it(instance_type: str, lead: timedelta, *, goes: bool) -> None:
    """Instances of UltraServers are taken earlier; their nodes ended without a drain."""
    lab = in_block(a_working_node())
    end = lab.clock.now() + lead + LEAVES_BEFORE + timedelta(seconds=0 if goes else 1)
    ending(lab, written(end), instanceType=instance_type)
    sweep(lab, NAME)
    deletion = lab.claim.deletion
    assert (deletion is not None) == goes
    if deletion is not None:
        assert deletion.reason == TerminationReason.CAPACITY_BLOCK_ENDS
        assert deletion.message == f"capacity block cr-1 ends at {end:%Y-%m-%dT%H:%M:%SZ}"
        assert deletion.ends_at == end - lead


def test_once_ec2_may_end_it_replacements_are_not_waited_for() -> None:
    lab = in_block(a_working_node())
    ending(lab, written(lab.clock.now() + timedelta(minutes=10)))
    sweep(lab, NAME)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.ends_at == lab.clock.now()


def test_other_claims_stay() -> None:
    """One of a plain reservation becomes on-demand at its end; others are in no block, or in another one."""
    plain, reserved, other, unreadable = (a_working_node() for _ in range(4))
    in_block(reserved, kind="default")
    in_block(other)
    in_block(unreadable)
    for lab in (plain, reserved):
        ending(lab, written(NOW))
    ending(other, written(NOW), identity="cr-2")
    ending(unreadable, "soon")
    for lab in (plain, reserved, other, unreadable):
        sweep(lab, NAME)
        assert lab.claim.deletion is None


def test_a_class_that_cannot_be_read_ends_nothing() -> None:
    lab = in_block(a_working_node())
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"status": {"capacityReservations": "many"}})
    assert sweep(lab, NAME).counts == {}
    assert lab.claim.deletion is None
