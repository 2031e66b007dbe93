"""An instance whose reservation has ended is an on-demand one from then on."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Offering
from core.model.values.quantity import nanodollars
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend, sweep

NAME = "demotedInstances"
OWN = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: "default", labels.RESERVATION_INTERRUPTIBLE: "false"}


@pytest.fixture
def lab() -> Lab:
    """The node's instance was launched into a reservation, and EC2 lists it as on-demand now."""
    found = a_working_node()
    machine = found.claim.machine
    assert machine is not None
    reserved = msgspec.structs.replace(machine.offering, capacity_type=labels.RESERVED, price=0, reservation_id="cr-1")
    own = {**machine.labels, labels.CAPACITY_TYPE: labels.RESERVED, **OWN}
    amend(found, machine=msgspec.structs.replace(machine, offering=reserved, labels=own))
    found.kubernetes.amend(kinds.NODES, found.claim.node_name, {"metadata": {"labels": own}})
    (instance,) = found.cloud.instances()
    found.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.ON_DEMAND))
    return found


def node_labels(lab: Lab) -> dict[str, str]:
    found: dict[str, str] = lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["metadata"]["labels"]
    return found


def test_its_claim_and_node_say_so_and_it_has_a_price(lab: Lab) -> None:
    """Otherwise, consolidation takes it for free and never replaces it."""
    report = sweep(lab, NAME)
    machine = lab.claim.machine
    assert machine is not None
    zone = machine.offering.zone
    assert machine.offering == Offering("m5.large", zone, labels.ON_DEMAND, nanodollars(0.1))
    for found in (machine.labels, node_labels(lab)):
        assert found[labels.CAPACITY_TYPE] == labels.ON_DEMAND
        assert not OWN.keys() & found.keys()
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("relabel", lab.claim.name, "ReservationEnded")
    assert decision.message == f"instance {lab.claim.instance_id} is on-demand now"
    assert lab.claim.deletion is None


def test_it_is_done_once(lab: Lab) -> None:
    sweep(lab, NAME)
    before = lab.claim
    assert sweep(lab, NAME).decisions == []
    assert lab.claim == before


def test_an_instance_still_in_its_reservation_stays_so(lab: Lab) -> None:
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.RESERVED))
    before = lab.claim
    assert sweep(lab, NAME).decisions == []
    assert (lab.claim, node_labels(lab)[labels.CAPACITY_TYPE]) == (before, labels.RESERVED)


def test_an_on_demand_instance_that_never_was_reserved_is_not_relabelled() -> None:
    lab = a_working_node()
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.ON_DEMAND))
    before = lab.claim
    assert sweep(lab, NAME).decisions == []
    assert lab.claim == before


def test_a_claim_without_a_node_yet_is_followed_too(lab: Lab) -> None:
    lab.kubernetes.drop(kinds.NODES, lab.claim.node_name)
    amend(lab, node_name="")
    sweep(lab, NAME)
    assert lab.claim.machine is not None
    assert lab.claim.machine.offering.capacity_type == labels.ON_DEMAND


def test_a_type_that_the_catalogue_lacks_has_no_price(lab: Lab) -> None:
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, instance_type="x9.large"))
    sweep(lab, NAME)
    assert lab.claim.machine is not None
    assert (lab.claim.machine.offering.instance_type, lab.claim.machine.offering.price) == ("x9.large", 0)
