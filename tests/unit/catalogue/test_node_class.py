"""Reading an EC2NodeClass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.api.schemas import ec2_node_class as written
from core.api.schemas.fields import ApiModel
from core.catalogue import node_class as read
from core.catalogue.node_class import EC2NodeClass, has_address_reading, read_node_class, without_path
from core.errors import InvalidInputError
from tests.unit.catalogue.sized_types import (
    one_type,
)


def test_nulls_mean_not_set() -> None:
    """Manifests written by tools contain nulls; the API server drops them."""
    assert one_type("m5.large", kubelet=None, blockDeviceMappings=None, userData=None) == one_type("m5.large")


@pytest.mark.parametrize(("role", "name"), [("Nodes", "Nodes"), ("team/Nodes", "Nodes"), ("a/b/Nodes", "Nodes")])
def test_a_role_is_named_without_its_path(role: str, name: str) -> None:
    """Calls of IAM refuse a path."""
    assert without_path(role) == name


WRITTEN = {labels.SUBNET_ADDRESSES: "{}"}


@pytest.mark.parametrize(
    ("manifest", "has_one"),
    [
        ({}, False),
        ({"metadata": None, "status": None}, False),
        ({"metadata": {"annotations": None}, "status": {}}, False),
        ({"metadata": {"annotations": {"other": "{}"}}, "status": {"subnets": []}}, False),
        ({"metadata": {"annotations": WRITTEN}}, True),
        ({"status": {"subnetAddresses": {}}}, True),
        ({"status": ["subnetAddresses"]}, False),
        ({"status": "subnetAddresses"}, False),
    ],
)
def test_a_reading_of_addresses_is_in_an_annotation_or_the_status(manifest: dict[str, Any], *, has_one: bool) -> None:
    assert has_address_reading(manifest) is has_one


@pytest.mark.parametrize("manifest", [{}, {"metadata": None}, {"metadata": {}, "spec": None, "status": None}])
def test_an_empty_class_is_made_of_defaults(manifest: dict[str, Any]) -> None:
    assert read_node_class(manifest) == EC2NodeClass()


@pytest.mark.parametrize(("metadata", "name"), [({"name": "gpu"}, "gpu"), ({}, "?"), (None, "?")])
def test_a_field_of_the_wrong_type_is_named_with_its_class(metadata: dict[str, Any] | None, name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_node_class({"metadata": metadata, "spec": {"blockDeviceMappings": [{"ebs": {"iops": "x"}}]}})
    assert (caught.value.subject, caught.value.field) == (
        f"EC2NodeClass {name}",
        "spec.blockDeviceMappings[0].ebs.iops",
    )


@pytest.mark.parametrize(
    ("spec", "family", "alias"),
    [
        ({}, "Custom", ""),
        ({"amiFamily": "AL2"}, "AL2", ""),
        ({"amiSelectorTerms": [{"id": "ami-1"}, {"alias": "bottlerocket@latest"}, {"alias": "al2@latest"}]},
         "Bottlerocket", "bottlerocket@latest"),
        ({"amiFamily": "AL2", "amiSelectorTerms": [{"alias": "al2023@latest"}]}, "AL2", "al2023@latest"),
        ({"amiFamily": "Ubuntu"}, "Custom", ""),
    ],
)  # fmt: skip
def test_the_family_is_the_one_named_else_that_of_the_first_alias(
    spec: dict[str, Any], family: str, alias: str
) -> None:
    found = read_node_class({"spec": spec})
    assert (found.family.name, found.alias) == (family, alias)


@pytest.mark.parametrize(("value", "delegates"), [("true", True), ("false", False), ("", False), ("True", False)])
def test_only_the_word_true_gives_nodes_prefixes(value: str, *, delegates: bool) -> None:
    manifest = {"metadata": {"annotations": {labels.PREFIX_DELEGATION: value}}}
    assert read_node_class(manifest).delegates_prefixes is delegates
    assert not EC2NodeClass().delegates_prefixes


# What users may write and what the functions read are two models of one object: they have the same fields and defaults.


SAME: tuple[tuple[tuple[type[ApiModel], ...], type[msgspec.Struct]], ...] = (
    ((written.EC2NodeClassSpec,), read.NodeClassSpec),
    ((written.SubnetTerm, written.SecurityGroupTerm, written.AmiTerm), read.SelectorTerm),
    ((written.ReservationTerm,), read.ReservationTerm),
    ((written.BlockDevice,), read.BlockDevice),
    ((written.EbsVolume,), read.Ebs),
    ((written.NetworkInterface,), read.NetworkInterface),
    ((written.MetadataOptions,), read.MetadataOptions),
    ((written.ConnectionTracking,), read.ConnectionTracking),
    ((written.CpuOptions,), read.CpuOptions),
    ((written.EnclaveOptions,), read.EnclaveOptions),
    ((written.PlacementGroupSelector,), read.PlacementGroupSelector),
)


@pytest.mark.parametrize(("models", "struct"), SAME, ids=lambda kind: getattr(kind, "__name__", ""))
def test_the_functions_read_every_field_that_users_may_write(
    models: tuple[type[ApiModel], ...], struct: type[msgspec.Struct]
) -> None:
    """A field that is missing here is accepted, and has no effect."""
    assert {field.encode_name for field in msgspec.structs.fields(struct)} == {
        str(field.alias) for model in models for field in model.model_fields.values()
    }


@pytest.mark.parametrize(("models", "struct"), SAME, ids=lambda kind: getattr(kind, "__name__", ""))
def test_a_field_that_is_left_out_means_the_same_to_both(
    models: tuple[type[ApiModel], ...], struct: type[msgspec.Struct]
) -> None:
    """The API server writes the schema's default, files do not: a plan of files would launch other nodes than the cluster."""
    empty = msgspec.json.decode(msgspec.json.encode(struct()))
    for model in models:
        for field in model.model_fields.values():
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            stated = default.model_dump(by_alias=True) if isinstance(default, ApiModel) else default
            assert field.is_required() or (stated or None) == (empty[str(field.alias)] or None), field.alias
