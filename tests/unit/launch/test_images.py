"""Which image an instance type boots from."""

from __future__ import annotations

from core import labels
from tests.builders import a_type
from tests.unit.launch.orders import (
    GPU_COUNT,
    a_node_class,
    overrides,
    rendered,
    requires_arch,
)


def test_every_type_boots_from_an_image_that_fits_it() -> None:
    """An arm64 machine never boots an amd64 image; a GPU machine without drivers is useless."""
    arm = a_type("c7g.large", **{labels.ARCH: "arm64"})
    gpu = a_type("g5.xlarge", **{GPU_COUNT: "1"})
    assert {(t, image) for t, _, image in overrides(rendered(a_type("m5.large"), arm, gpu))} == {
        ("m5.large", "ami-x86"),
        ("c7g.large", "ami-arm"),
        ("g5.xlarge", "ami-gpu"),
    }


def test_a_type_without_an_image_is_not_launched() -> None:
    """Otherwise, EC2 refuses the whole request."""
    only_arm = a_node_class(status={"amis": [{"id": "ami-arm", "requirements": [requires_arch("arm64")]}]})
    assert rendered(a_type("m5.large"), node_class=only_arm).offerings == ()
