"""Which instance types the published images are for."""

from __future__ import annotations

from core.ami_families.image_parameters import NEURON, NVIDIA, STANDARD


def test_no_instance_type_is_served_by_two_kinds_of_image() -> None:
    """Otherwise, a GPU node boots without its driver, by the order in which images are listed."""
    operators = [{entry["key"]: entry["operator"] for entry in kind} for kind in (STANDARD, NVIDIA, NEURON)]
    plain, nvidia, neuron = operators
    assert set(plain) == {*nvidia, *neuron}
    assert set(plain.values()) == {"DoesNotExist"}
    assert {*nvidia.values(), *neuron.values()} == {"Exists"}
    assert not set(nvidia) & set(neuron)
