"""The placement group of a class, and what it makes of instance types."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.catalogue.build import build_catalogue
from core.catalogue.discovered.placement_group import placement_group_of, written_group
from core.catalogue.node_class import read_node_class
from core.model.catalogue import InstanceType
from tests.builders import a_class_manifest
from tests.unit.catalogue.one_type import MARKET, shape

GROUP: dict[str, Any] = {"id": "pg-1", "name": "racks", "strategy": "partition", "partitions": 3}


def node_class(selector: dict[str, str] | None, written: str) -> dict[str, Any]:
    spec = {} if selector is None else {"placementGroupSelector": selector}
    return a_class_manifest(metadata={"annotations": {labels.PLACEMENT_GROUP: written}}, **spec)


def built(manifest: dict[str, Any], *strategies: str) -> InstanceType:
    described = shape(PlacementGroupInfo={"SupportedStrategies": list(strategies)})
    return build_catalogue([described], MARKET, [manifest]).types_for("default")[0]


@pytest.mark.parametrize(
    ("selector", "written", "expected"),
    [
        ({"name": "racks"}, written_group(GROUP), "pg-1"),
        ({"id": "pg-1"}, written_group(GROUP), "pg-1"),
        ({"name": "others"}, written_group(GROUP), ""),
        ({"id": "pg-2"}, written_group(GROUP), ""),
        (None, written_group(GROUP), ""),
        ({"name": "racks"}, "", ""),
        ({"name": "racks"}, "[}", ""),
        ({"name": "racks"}, '{"id": 1}', ""),
    ],
)
def test_an_annotation_counts_for_its_own_selector(
    selector: dict[str, str] | None, written: str, expected: str
) -> None:
    """After an edit it names the group of the earlier selector until the class is resolved again."""
    found = placement_group_of(read_node_class(node_class(selector, written)))
    assert (found.id if found is not None else "") == expected


def test_what_was_resolved_just_now_counts_before_the_annotation() -> None:
    manifest = {**node_class({"name": "new"}, written_group(GROUP))}
    manifest["status"] = {"placementGroup": {**GROUP, "id": "pg-2", "name": "new"}}
    found = placement_group_of(read_node_class(manifest))
    assert found is not None
    assert found.id == "pg-2"


def test_types_carry_the_group_and_its_partitions() -> None:
    found = built(node_class({"name": "racks"}, written_group(GROUP)), "partition")
    assert found.labels[labels.PLACEMENT_GROUP_ID] == ("pg-1",)
    assert found.labels[labels.PLACEMENT_GROUP_PARTITION] == ("1", "2", "3")
    assert all(offering.available for offering in found.offerings)


def test_a_type_that_the_strategy_excludes_is_not_launched() -> None:
    """Otherwise, EC2 refuses it, and the class pauses."""
    group = {**GROUP, "strategy": "cluster", "partitions": 0}
    found = built(node_class({"name": "racks"}, written_group(group)), "partition", "spread")
    assert labels.PLACEMENT_GROUP_PARTITION not in found.labels
    assert not any(offering.available for offering in found.offerings)


def test_without_a_group_types_have_no_such_label() -> None:
    assert not {labels.PLACEMENT_GROUP_ID, labels.PLACEMENT_GROUP_PARTITION} & built(node_class(None, "")).labels.keys()
