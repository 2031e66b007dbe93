"""Our catalogue beside the figures that Karpenter's provider publishes: every label and resource of 1,340 types.

A difference is a defect, or is listed here with its reason. Both sides compute from EC2's descriptions, ours of 2026-07-20 and
theirs of an earlier day, so what EC2 has described otherwise since is no difference of the computation.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from core import labels
from core.catalogue.build import instance_types
from core.catalogue.capacity import POD_ENI
from core.model.catalogue import InstanceType
from core.model.values import quantity
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.oracle.published import PublishedType, published, read_page

REGION = "us-east-1"
CLOCK = f"{labels.AWS_GROUP}/instance-cpu-sustained-clock-speed-mhz"
BANDWIDTH = f"{labels.AWS_GROUP}/instance-network-bandwidth"

DESCRIBED_OTHERWISE_SINCE = {
    CLOCK: {"c9g", "c9gd", "i7i", "i7ie", "m9g", "m9gd"},
    BANDWIDTH: {"g7", "i7i", "i7ie", "i8g", "i8ge"},
}
"""Label → families for which EC2's description has another figure now."""

TWO_CARDS_SINCE = ("i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl")
"""EC2 describes their interfaces on two network cards now. Pods have addresses of the first alone, so there are fewer, and more
memory is left."""

OURS_ALONE = {
    labels.REGION: "the page leaves out labels of the place",
    labels.TENANCY: "the page's generator has no tenancy",
}


@cache
def ours() -> dict[str, InstanceType]:
    return {one.name: one for one in instance_types(builtin_shapes(), builtin_market(REGION))}


def both() -> list[tuple[InstanceType, PublishedType]]:
    return [(ours()[name], published()[name]) for name in sorted(ours().keys() & published().keys())]


def family(instance_type: InstanceType) -> str:
    return instance_type.name.partition(".")[0]


def test_nearly_all_types_can_be_compared() -> None:
    """A comparison of few types would prove little. The others are not sold in us-east-1, or are newer than the page."""
    assert len(both()) == 1340
    assert {name.partition(".")[0] for name in ours().keys() - published().keys()} == {"r9g", "r9gd", "t8i"}


def test_labels_are_karpenters() -> None:
    """A pod that selects a label would get another node than under Karpenter, or none."""
    different: dict[str, set[str]] = defaultdict(set)
    for one, theirs in both():
        own = {**one.labels, labels.INSTANCE_TYPE: (one.name,)}
        for key, value in theirs.labels.items():
            if own.get(key) != (value,):
                different[key].add(family(one))
    assert different == DESCRIBED_OTHERWISE_SINCE


def test_labels_that_only_we_have_are_known() -> None:
    extra = {key for one, theirs in both() for key in one.labels.keys() - theirs.labels.keys()}
    assert extra == OURS_ALONE.keys()


def test_what_is_allocatable_is_karpenters() -> None:
    """More would leave pods without room on their node; less would cost money."""
    different = set[str]()
    for one, theirs in both():
        own = {
            name: amount for name, amount in one.allocatable().items() if name != POD_ENI
        }  # the page's table is older
        expected = {name: quantity.parse(text, name) for name, text in theirs.allocatable.items() if name != POD_ENI}
        if {name: amount for name, amount in own.items() if amount} != expected:
            different.add(one.name)
            assert own.keys() == expected.keys()
            assert {name for name in own if own[name] != expected[name]} == {quantity.MEMORY, quantity.PODS}
    assert different == set(TWO_CARDS_SINCE)


def test_types_with_two_network_cards_have_them_in_our_description() -> None:
    """The reason that is listed for their difference."""
    shapes = {shape.instance_type: shape for shape in builtin_shapes()}
    assert all(len(shapes[name].network_info.network_cards) == 2 for name in TWO_CARDS_SINCE)


def test_a_page_is_read_by_its_headings() -> None:
    page = """### `m5.large`
#### Labels
 | Label | Value |
 |--|--|
 |kubernetes.io/arch|amd64|
#### Resources
 | Resource | Quantity |
 |--|--|
 |cpu|1930m|
"""
    assert read_page(page.splitlines()) == {
        "m5.large": PublishedType({"kubernetes.io/arch": "amd64"}, {"cpu": "1930m"})
    }
