"""The wording of explanations."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodeClass
from core.model.pod import NodeSelectorTerm, Pod
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling.explanation_text import (
    PodOffer,
    PoolFinding,
    TypeElimination,
    amount_of,
    limits_left,
    nearness,
    pod_offers,
    pool_offers,
    shown,
    unlike,
)
from tests.builders import NOW, ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of, plan_of

# Which NodePool came nearest.


def finding(reason: str, *, is_asked_for: bool = False) -> PoolFinding:
    return PoolFinding(node_pool="p", reason=reason, message="", is_asked_for=is_asked_for)


def test_a_taint_is_the_last_reason_unless_the_pod_requests_the_pools_device() -> None:
    """A web pod should not be told to tolerate the GPU nodes' taint; a GPU pod should be."""
    order = [
        finding(PodReason.TAINT_NOT_TOLERATED),
        finding(PodReason.NO_NODE_POOL),
        finding(PodReason.REQUIREMENT_NOT_MET),
        finding(PodReason.NO_OFFERING_FITS),
        finding(PodReason.TAINT_NOT_TOLERATED, is_asked_for=True),
        finding(PodReason.LIMIT_REACHED),
    ]
    assert sorted([*order[3:], *order[:3]], key=nearness) == order


# The price of a node for one pod.


def test_every_suitable_pool_and_type_is_listed_cheapest_first() -> None:
    types = (
        a_type("small", cpu="2", price=0.1),
        a_type("mid", cpu="4", price=0.2),
        a_type("large", cpu="8", price=0.4),
    )
    pools = (a_pool("a"), a_pool("b", Requirement.one_of("team", "b")))
    context = context_of(types=types, node_pools=pools, pods=(a_pod("p", cpu="3"),))
    assert pod_offers(context, group_of(context, "p")) == [
        PodOffer(80_000_000, "a", "mid"),
        PodOffer(80_000_000, "b", "mid"),
        PodOffer(160_000_000, "a", "large"),
        PodOffer(160_000_000, "b", "large"),
    ]


# What a NodePool can launch before any pod asks.


TYPES = (a_type("large", cpu="8", price=0.4), a_type("small", cpu="2", price=0.1), a_type("mid", cpu="4", price=0.2))


def test_types_are_named_cheapest_first_with_the_lowest_price() -> None:
    (template,) = context_of(types=TYPES, pods=(a_pod(),)).templates
    offers = pool_offers(template)
    assert (offers.types, offers.price) == (("small", "mid", "large"), 40_000_000)
    assert (offers.conflict, dict(offers.missing)) == (None, {})


def test_the_requirement_that_leaves_nothing_is_named_by_its_position() -> None:
    """Several requirements may each leave something; the reader must know which one to change."""
    two = Requirement.one_of(labels.INSTANCE_TYPE, "small", "mid")
    arm = Requirement.one_of(labels.ARCH, "arm64")
    (template,) = context_of(types=TYPES, node_pools=(a_pool("default", two, arm),), pods=(a_pod(),)).templates
    offers = pool_offers(template)
    assert (offers.types, offers.price, offers.conflict, offers.before) == ((), 0, 1, 2)


def test_min_values_that_cannot_be_met_are_counted() -> None:
    several = Requirement(labels.INSTANCE_TYPE, True, (), min_values=5)
    (template,) = context_of(types=TYPES, node_pools=(a_pool("default", several),), pods=(a_pod(),)).templates
    assert dict(pool_offers(template).missing) == {labels.INSTANCE_TYPE: 3}


# Each type is counted once, by the first rule that it fails.


def test_the_last_rule_gives_the_reason_and_the_nearest_miss() -> None:
    """Otherwise, a user corrects the wrong field."""
    types = (a_type("arm", cpu="64", **{labels.ARCH: "arm64"}), a_type("a", cpu="4"), a_type("b", cpu="8"))
    amd64 = (Requirement.one_of(labels.ARCH, "amd64"),)
    context = context_of(types=types, pods=(a_pod("p", cpu="10", node_selector=amd64),))
    (template,), group = context.templates, group_of(context, "p")
    reqs = context.table.narrowed(template.offered, required=group.steps[0].alternatives[0])
    found = TypeElimination(context, context.plan_constraints(()), template, group, reqs).finding()
    assert (found.reason, found.ruled_out) == (PodReason.NO_OFFERING_FITS, {labels.ARCH: 1, "cpu": 2})
    assert found.nearest == "b lacks 2 cpu"


FIRST = (Requirement.one_of(labels.ZONE, ZONES[0]),)
PLAIN = a_type("m", cpu="4", memory="16Gi")
SOLD_OUT = msgspec.structs.replace(
    PLAIN, offerings=tuple(msgspec.structs.replace(o, available=o.zone != ZONES[0]) for o in PLAIN.offerings)
)
TYPE_ELIMINATION_ARM = a_type("arm", cpu="64", zones=ZONES[1:], **{labels.ARCH: "arm64"})
SMALL = a_type("small", cpu="1", memory="64Gi")
TIGHT = a_type("tight", cpu="3", memory="1Gi")
DEVICES = {"example.com/a": "1", "example.com/b": "2"}


@pytest.mark.parametrize(
    ("types", "pod", "message"),
    [
        (
            (SOLD_OUT, TYPE_ELIMINATION_ARM, SMALL, TIGHT),
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
    reserved_only = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED)
    block = msgspec.structs.replace(BLOCK, reservation_capacity=places)
    with_block = msgspec.structs.replace(PLAIN, offerings=(*PLAIN.offerings, block))
    pool = a_pool("default", reserved_only) if pool_asks else a_pool("default")
    pod = a_pod("p", node_selector=() if pool_asks else (reserved_only,))
    (entry,) = plan_of(types=(with_block,), node_pools=(pool,), pods=(pod,), node_classes=node_classes).unschedulable
    assert (text in entry.message) == says


def test_requirements_and_amounts_are_written_as_in_kubernetes() -> None:
    """Otherwise, a user has to guess which field is meant."""
    assert shown(Requirement.one_of("team", "a", "b")) == "team In [a, b]"
    assert shown(Requirement.of("cpu-count", "Gt", ["4"])) == "cpu-count >= 5"
    assert shown(Requirement.of("team", "Exists")) == "team Exists"
    narrowed = Requirement.of("size", "Gt", ["4"]).intersection(Requirement.of("size", "Lt", ["9"]))
    assert shown(narrowed) == "size >= 5 and <= 8"
    assert (amount_of(2**30 + 1, "memory"), amount_of(1500, "cpu")) == ("2Gi", "1500m")
    assert (amount_of(2**30, "ephemeral-storage"), amount_of(2**29, "memory")) == ("1Gi", "512Mi")


def test_limits_are_written_with_what_is_left_and_never_below_zero() -> None:
    """A NodePool whose limit was lowered below its use has nothing left, not less than nothing."""
    text = limits_left({"cpu": 8_000, "memory": 64 * 2**30}, {"cpu": -500, "memory": 2**30})
    assert text == "cpu 0 of 8, memory 1Gi of 64Gi"


def test_the_values_of_types_are_shown_beside_the_required_ones() -> None:
    """Otherwise, a typo in a label is found by trial and error only."""
    types = tuple(a_type(f"t{n}", family=value) for n, value in enumerate(("aa", "ab", "ba", "zz")))
    (template,) = context_of(types=types).templates
    message = unlike(template, template.types.full, Requirement.one_of("family", "ac"))
    assert message == "family In [ac] is required, and its types have ab, ba, zz and 1 more"


@pytest.mark.parametrize(
    ("asked", "sizes", "message"),
    [
        (
            Requirement.of("size", "Gt", ["40"]),
            "1 2 10 20 30",
            "size >= 41 is required, and its types have 30, 20, 10 and 2 more",
        ),
        (
            Requirement.of("size", "Lt", ["1"]),
            "1 2 10 20",
            "size <= 0 is required, and its types have 1, 2, 10 and 1 more",
        ),
        (
            Requirement.one_of("size", "a"),
            "aa ab ba zz",
            "size In [a] is required, and its types have aa, ab, ba and 1 more",
        ),
        (
            Requirement.one_of("size", "zzz"),
            "aa ab ba zz",
            "size In [zzz] is required, and its types have ab, ba, zz and 1 more",
        ),
        (Requirement.one_of("size", "ac"), "aa ab ba", "size In [ac] is required, and its types have aa, ab, ba"),
        (Requirement.one_of("other", "ac"), "aa", "other In [ac] is required, and its types do not have the label"),
        (
            Requirement.one_of(labels.INSTANCE_TYPE, "t9"),
            "aa ab",
            "node.kubernetes.io/instance-type In [t9] is required, and its types have t0, t1",
        ),
    ],
)
def test_a_few_values_near_the_required_one_are_shown(asked: Requirement, sizes: str, message: str) -> None:
    """Of seven hundred values, a user looks for the neighbour of the one that was meant."""
    (template,) = context_of(types=tuple(a_type(f"t{n}", size=v) for n, v in enumerate(sizes.split()))).templates
    assert unlike(template, template.types.full, asked) == message


TEAM = Requirement.one_of("team", "a")
ARM, AMD = (Requirement.one_of(labels.ARCH, name) for name in ("arm64", "amd64"))
SPLIT = (
    a_type("a", zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,)),
    a_type("b", zones=ZONES[1:2], capacity_types=(labels.SPOT,)),
)


@pytest.mark.parametrize(
    ("pool", "spec", "message"),
    [
        (
            {},
            {"node_selector": (TEAM,)},
            "the pod's nodeSelector demands team In [a], but its nodes do not have the label",
        ),
        (
            {"labels": {"team": "b"}},
            {"node_selector": (TEAM,)},
            "the pod's nodeSelector demands team In [a], but it offers team In [b]",
        ),
        (
            {},
            {"required_terms": (NodeSelectorTerm((TEAM,)),)},
            "the pod's node affinity demands team In [a], but its nodes do not have the label",
        ),
        (
            {"labels": {"team": "b"}},
            {"node_selector": (TEAM,), "required_terms": (NodeSelectorTerm((TEAM,)),)},
            "the pod's nodeSelector with the pod's node affinity demands team In [a], but it offers team In [b]",
        ),
        (
            {},
            {"node_selector": (Requirement.one_of(labels.ZONE_ID, "use1-az1"),)},
            (
                f"the pod's nodeSelector demands {labels.ZONE_ID} In [use1-az1], but its nodes do not have the label; "
                f"no EC2NodeClass's subnets and no node tell which zone that is, use {labels.ZONE}"
            ),
        ),
        (
            {},
            {"node_selector": (TEAM, Requirement.one_of("team", "b"))},
            "the pod's requirements contradict each other: they allow no value of team",
        ),
        (
            {},
            {"node_selector": (AMD,), "required_terms": (NodeSelectorTerm((ARM,)),)},
            f"the pod's requirements contradict each other: they allow no value of {labels.ARCH}",
        ),
    ],
)
def test_a_conflict_names_who_demands_what_and_what_the_pool_has(
    pool: dict[str, object], spec: dict[str, object], message: str
) -> None:
    """Otherwise, a user compares every label of the pod with every label of the NodePool."""
    (entry,) = plan_of(types=(a_type(),), node_pools=(a_pool(**pool),), pods=(a_pod("p", **spec),)).unschedulable
    assert entry.message == f"NodePool default: {message}"


@pytest.mark.parametrize(
    ("requirements", "types", "message"),
    [
        (
            (Requirement.one_of(labels.ZONE, "z"),),
            SPLIT,
            f"no instance type meets its own requirements: none is on offer with {labels.ZONE} In [z]",
        ),
        (
            (ARM,),
            SPLIT,
            f"no instance type meets its own requirements: {labels.ARCH} In [arm64] is required, and its types have amd64",
        ),
        (
            (Requirement.one_of(labels.ZONE, ZONES[0]), Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)),
            SPLIT,
            (
                f"no instance type meets its own requirements: {labels.CAPACITY_TYPE} In [spot] excludes the only type "
                "that those before it allow"
            ),
        ),
        ((), (), "its EC2NodeClass has no instance type"),
    ],
)
def test_a_pool_without_types_names_its_own_requirement(
    requirements: tuple[Requirement, ...], types: tuple[object, ...], message: str
) -> None:
    """Otherwise, users change pods, of which none could run there."""
    (entry,) = plan_of(types=types, node_pools=(a_pool("default", *requirements),), pods=(a_pod("p"),)).unschedulable
    assert entry.message == f"NodePool default: {message}"


def test_labels_that_a_pool_lacks_are_named_and_those_that_it_has_are_not() -> None:
    """A pod that demands any value but one demands the label as well."""
    requirements = tuple(
        requirement
        for key in ("team", "rack")
        for requirement in (Requirement.of(key, "Exists"), Requirement.of(key, "NotIn", ["x"]))
    )
    term = NodeSelectorTerm(requirements)
    pool = a_pool("default", Requirement.one_of("team", "a"))
    (entry,) = plan_of(types=(a_type(),), node_pools=(pool,), pods=(a_pod("p", required_terms=(term,)),)).unschedulable
    assert entry.message == "NodePool default: its nodes do not have rack"
