"""What nodes have in the simulator is recorded; that our catalogue says the same is what these tests are for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.catalogue.build import instance_types
from core.model.catalogue import InstanceType
from simulator.aws.ec2.boot import KubeletConfig, node_size
from simulator.aws.installation import NAME, Region, builtin_region
from simulator.campaign.worlds import TYPES, campaign_region
from simulator.market.embedded import builtin_market, builtin_shapes
from simulator.market.node_facts import recording
from tests.builders import a_type

NOT_RECORDED = {"vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni"}


@pytest.fixture(scope="module")
def ours() -> dict[str, InstanceType]:
    """Our catalogue of us-east-1 as it is sized by default."""
    return {shape.name: shape for shape in instance_types(builtin_shapes(), builtin_market(NAME))}


def test_our_catalogue_says_what_is_recorded(ours: dict[str, InstanceType]) -> None:
    """If this failed, plans would count on room that nodes do not have, or leave room unused: the list says where."""
    unlike = {}
    for name in sorted(ours.keys() & recording().keys()):
        capacity, allocatable = node_size(recording()[name], KubeletConfig())
        for resource in sorted((ours[name].capacity.keys() | capacity.keys()) - NOT_RECORDED):
            our_amounts = (ours[name].capacity.get(resource), ours[name].allocatable().get(resource))
            if our_amounts != (capacity.get(resource), allocatable.get(resource)):
                unlike[name, resource] = (our_amounts, (capacity.get(resource), allocatable.get(resource)))
    assert unlike == {}


def test_every_type_of_the_campaign_is_recorded() -> None:
    """If this failed, nodes of its worlds would have what our catalogue says, which then is never put to the test."""
    assert sorted(TYPES - recording().keys()) == []


@pytest.mark.parametrize("region", [builtin_region(), campaign_region(described=False)], ids=["built-in", "campaign"])
def test_a_mistake_in_our_catalogue_is_none_of_the_nodes(region: Region) -> None:
    """If this failed, an error of our catalogue would be an error of the simulated world too, and no judge could see it."""
    types = [instance_type for instance_type in region.types if instance_type.name in recording()]
    doubled = tuple(replace(t, capacity={name: 2 * n for name, n in t.capacity.items()}, overhead={}) for t in types)
    node_facts = replace(region, types=doubled).node_facts()
    assert {name: (facts.capacity["memory"], facts.kube_reserved) for name, facts in node_facts.items()} == {
        t.name: (t.capacity["memory"], recording()[t.name].kube_reserved) for t in types
    }


def test_nodes_of_a_scenarios_own_types_have_what_they_state() -> None:
    """If this failed, a catalogue that gives a known name another size would be passed over."""
    region = Region(types=(a_type("m5.large", cpu="64", memory="1Gi"),))
    assert node_size(region.node_facts()["m5.large"], KubeletConfig())[0]["cpu"] == 64_000
