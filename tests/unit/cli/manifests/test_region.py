"""Which region's built-in prices answer a question."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.manifests.region import named_region
from core import labels


def node(region: str) -> Document:
    return Document("-", 0, {"kind": "Node", "metadata": {"name": "n", "labels": {labels.REGION: region}}})


def node_pool(*zones: str, operator: str = "In") -> Document:
    requirement = {"key": labels.ZONE, "operator": operator, "values": list(zones)}
    spec = {"template": {"spec": {"requirements": [requirement]}}}
    return Document("-", 0, {"kind": "NodePool", "metadata": {"name": "p"}, "spec": spec})


def regions(*values: Any) -> Document:
    requirements = [{"key": labels.REGION, "operator": "In", "values": list(values)}]
    spec = {"template": {"spec": {"requirements": requirements}}}
    return Document("-", 0, {"kind": "NodePool", "metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([node("eu-west-1"), node("eu-west-1")], "eu-west-1"),
        ([node_pool("ap-southeast-2a", "ap-southeast-2b")], "ap-southeast-2"),
        ([node_pool("us-gov-west-1a")], "us-gov-west-1"),
        ([], None),
        ([regions(7, "eu-west-1", None)], "eu-west-1"),
        ([node("eu-west-1"), node("eu-west-2")], None),
        ([node("kwok-1"), node_pool("test-zone-1")], None),
        ([node_pool("eu-west-1a", operator="NotIn")], None),
    ],
)
def test_the_region_is_the_one_that_the_input_names(documents: list[Document], expected: str | None) -> None:
    """A cluster of Ireland planned with Virginia's zones has no offering at all."""
    assert named_region(documents) == expected


@pytest.mark.parametrize(
    "spec", [None, [], {"template": None}, {"template": {"spec": {"requirements": ["x", None, {}]}}}]
)
def test_objects_that_are_not_well_formed_name_no_region(spec: Any) -> None:
    """`validate` reports them, so it must come that far."""
    assert named_region([Document("-", 0, {"kind": "NodePool", "spec": spec})]) is None
