"""Each type is counted once, by the first rule that it fails."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodeClass
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.explanation.type_elimination import TypeElimination
from tests.builders import NOW, ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of, plan_of


def test_the_last_rule_gives_the_reason_and_the_nearest_miss() -> None:
    """Otherwise, a user corrects the wrong field."""
    types = (a_type("arm", cpu="64", **{labels.ARCH: "arm64"}), a_type("a", cpu="4"), a_type("b", cpu="8"))
    amd64 = (Requirement.one_of(labels.ARCH, "amd64"),)
    context = context_of(types=types, pods=(a_pod("p", cpu="10", node_selector=amd64),))
    (template,), group = context.templates, group_of(context, "p")
    reqs = context.table.narrowed(template.offered, asked=group.steps[0].alternatives[0])
    found = TypeElimination(context, context.plan_constraints(()), template, group, reqs).finding()
    assert (found.reason, found.ruled_out) == (PodReason.NO_OFFERING_FITS, {labels.ARCH: 1, "cpu": 2})
    assert found.nearest == "b lacks 2 cpu"


FIRST = (Requirement.one_of(labels.ZONE, ZONES[0]),)
PLAIN = a_type("m", cpu="4", memory="16Gi")
SOLD_OUT = msgspec.structs.replace(
    PLAIN, offerings=tuple(msgspec.structs.replace(o, available=o.zone != ZONES[0]) for o in PLAIN.offerings)
)
ARM = a_type("arm", cpu="64", zones=ZONES[1:], **{labels.ARCH: "arm64"})
SMALL = a_type("small", cpu="1", memory="64Gi")
TIGHT = a_type("tight", cpu="3", memory="1Gi")
DEVICES = {"example.com/a": "1", "example.com/b": "2"}


@pytest.mark.parametrize(
    ("types", "pod", "message"),
    [
        (
            (SOLD_OUT, ARM, SMALL, TIGHT),
            a_pod("p", cpu="2", memory="4Gi", node_selector=FIRST),
            (
                "4 types: 1 ruled out by its own requirements, 1 by unavailable offerings, 1 by cpu, 1 by memory; "
                "nearest: small lacks 1 cpu"
            ),
        ),
        (
            (SMALL, a_type("away", zones=ZONES[1:])),
            a_pod("p", cpu="100", node_selector=FIRST),
            "2 types: 1 ruled out by zone and capacity type, 1 by cpu; nearest: small lacks 99 cpu",
        ),
        (
            (PLAIN,),
            a_pod("p", node_selector=(Requirement.one_of(labels.CAPACITY_TYPE, "Spot"),)),
            (
                "1 type: 1 ruled out by zone and capacity type; "
                "nearest: karpenter.sh/capacity-type In [Spot] is required, and its types are offered with on-demand, spot"
            ),
        ),
        (
            (a_type("wide", cpu="4", memory="40Gi"), a_type("quick", cpu="8", memory="4Gi")),
            a_pod("p", cpu="9", memory="8Gi"),
            "2 types: 2 ruled out by cpu; nearest: wide lacks 5 cpu",
        ),
        (
            (a_type("even", cpu="6", memory="8Gi"), a_type("most", cpu="9", memory="6Gi")),
            a_pod("p", cpu="10", memory="10Gi"),
            "2 types: 2 ruled out by cpu; nearest: most lacks 1 cpu",
        ),
        (
            (PLAIN,),
            a_pod("p", extra=DEVICES),
            "1 type: 1 ruled out by example.com/a; nearest: none of its types has example.com/a, example.com/b",
        ),
        (
            (PLAIN, a_type("one", extra={"example.com/a": "1"})),
            a_pod("p", extra={"example.com/a": "2"}),
            "2 types: 2 ruled out by example.com/a; nearest: one lacks 1 example.com/a",
        ),
    ],
)
def test_every_type_is_counted_once_and_the_nearest_is_named(
    types: tuple[InstanceType, ...], pod: Pod, message: str
) -> None:
    """A type that lacks one resource is nearer than one that lacks two; of equals, the one that lacks the smaller shares."""
    pool = a_pool("default", Requirement.one_of(labels.ARCH, "amd64"))
    (entry,) = plan_of(types=types, node_pools=(pool,), pods=(pod,)).unschedulable
    assert entry.message == f"NodePool default: {message}"


BLOCK = Offering(
    "m", ZONES[0], labels.RESERVED, 1, available=False,
    reservation_id="cr-1", reservation_capacity=2, reservation_type="capacity-block",
)  # fmt: skip
ENDING = (NodeClass(name="default", reservation_ends={"cr-1": NOW + timedelta(minutes=5)}),)
BOOKED = (NodeClass(name="default", reservation_begins={"cr-1": NOW + timedelta(minutes=20)}),)
SAYS_WHEN = "capacity reservation cr-1 takes nodes once it has begun, at 2026-11-20 00:20 UTC"
SAYS_WHY = "capacity reservation cr-1 takes no more nodes, its nodes leave it at 2026-11-20 00:05 UTC"


@pytest.mark.parametrize("pool_asks", [False, True])
@pytest.mark.parametrize(("places", "says"), [(2, True), (0, False)])
@pytest.mark.parametrize(("node_classes", "text"), [(ENDING, SAYS_WHY), (BOOKED, SAYS_WHEN)])
def test_a_reservation_that_takes_no_nodes_yet_or_no_more_is_named(
    node_classes: tuple[NodeClass, ...], text: str, places: int, *, pool_asks: bool, says: bool
) -> None:
    """Its places are shown as free, so the pods seem to wait for nothing. One that is full is another matter."""
    asked = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED)
    block = msgspec.structs.replace(BLOCK, reservation_capacity=places)
    found = msgspec.structs.replace(PLAIN, offerings=(*PLAIN.offerings, block))
    pool = a_pool("default", asked) if pool_asks else a_pool("default")
    pod = a_pod("p", node_selector=() if pool_asks else (asked,))
    (entry,) = plan_of(types=(found,), node_pools=(pool,), pods=(pod,), node_classes=node_classes).unschedulable
    assert (text in entry.message) == says
