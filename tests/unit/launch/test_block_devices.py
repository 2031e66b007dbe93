"""Volumes that a node is launched with."""

from __future__ import annotations

from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    rendered,
    template_data,
)


def test_a_custom_image_brings_its_own_volumes() -> None:
    """Otherwise, EC2 attaches volumes that the image does not expect."""
    custom = a_node_class({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-x86"}]})
    assert "BlockDeviceMappings" not in template_data(rendered(a_type("m5.large"), node_class=custom))
