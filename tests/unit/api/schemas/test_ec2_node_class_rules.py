"""Rules across the fields of an EC2NodeClass."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.ec2_node_class_rules import TAGS_MAX, _no_primary_interface, ami_family
from tests.unit.api.objects import NODE_CLASS

ALIAS: list[JsonObject] = [{"alias": "al2023@latest"}]
IMAGE: list[JsonObject] = [{"id": "ami-1"}]


def places(**spec: object) -> list[Location]:
    whole = {**NODE_CLASS["spec"], **spec}
    given = {name: value for name, value in whole.items() if value is not None}
    return [location[1:] for location, _ in examined(EC2NodeClassObject, NODE_CLASS | {"spec": given})[1]]


@pytest.mark.parametrize(
    ("spec", "family"),
    [
        ({"amiFamily": "AL2"}, "AL2"),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, "Bottlerocket"),
        ({"amiSelectorTerms": IMAGE}, "Custom"),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"alias": "al2@latest"}]}, "AL2023"),
        ({}, "Custom"),
    ],
)
def test_the_family_is_the_one_named_or_that_of_the_alias(spec: JsonObject, family: str) -> None:
    assert ami_family(spec) == family


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"role": None, "instanceProfile": "p"}, []),
        ({"role": None}, [("role",)]),
        ({"instanceProfile": "p"}, [("instanceProfile",)]),
        ({"amiFamily": None, "amiSelectorTerms": ALIAS}, []),
        ({"amiFamily": None, "amiSelectorTerms": IMAGE}, [("amiFamily",)]),
        ({"amiFamily": "AL2", "amiSelectorTerms": ALIAS}, [("amiFamily",)]),
        ({"amiFamily": None, "amiSelectorTerms": [*ALIAS, *IMAGE]}, [("amiSelectorTerms", 0, "alias")]),
        ({"tags": {"team": "a"}}, []),
        ({"tags": {"karpenter.sh/nodepool": "a"}}, [("tags", "karpenter.sh/nodepool")]),
        ({"tags": {"kubernetes.io/cluster/x": "owned"}}, [("tags", "kubernetes.io/cluster/x")]),
    ],
)
def test_faults_are_named_by_field(spec: JsonObject, found: list[Location]) -> None:
    assert places(**spec) == found


def test_tags_leave_room_for_ours() -> None:
    """With one more, EC2 refuses every launch."""
    assert places(tags={f"t{n}": "v" for n in range(TAGS_MAX)}) == []
    assert places(tags={f"t{n}": "v" for n in range(TAGS_MAX + 1)}) == [("tags",)]


@pytest.mark.parametrize("card", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("kind", ["interface", "efa-only"])
def test_only_an_interface_in_the_first_slot_of_the_first_card_is_primary(card: int, device: int, kind: str) -> None:
    """EC2 launches no instance without one."""
    only = {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}
    is_primary = (card, device, kind) == (0, 0, "interface")
    assert (_no_primary_interface({"networkInterfaces": [only]}) == []) is is_primary
    primary = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    assert _no_primary_interface({"networkInterfaces": [only, primary]}) == []
    assert _no_primary_interface({}) == []
