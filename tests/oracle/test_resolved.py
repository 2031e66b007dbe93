"""Our catalogue and user data beside the provider's own code: each type under each AMI family in six configurations.

A difference is a defect, or is listed here with its reason (docs/engineering/handbook/catalogue-and-api.md).
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from email import message_from_string
from functools import cache
from typing import Any, Final

import pytest
import yaml

from core import labels
from core.ami_families.family import Bootstrap, Cluster, registered_labels, registered_taints
from core.catalogue.build import build_catalogue
from core.catalogue.node_class import RAID0, read_node_class
from core.model.catalogue import Catalogue, InstanceType
from core.model.values import quantity
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.oracle.request_cases import FAMILIES, MAX_PODS, classes
from tests.oracle.resolved import LABELS, TAINT, resolved

REGION: Final = "us-east-1"
BANDWIDTH: Final = f"{labels.AWS_GROUP}/instance-network-bandwidth"
WINDOWS_ADDRESSES: Final = "vpc.amazonaws.com/PrivateIPv4Address"

OFFERING_KEYS: Final = (labels.CAPACITY_TYPE, labels.ZONE)
"""Ours are those of the offerings."""

DIFFERENT: Final = {BANDWIDTH: {"i7i", "i7ie", "i8g", "i8ge", "r9g", "r9gd", "t8i"}}
"""Label → families. The provider has a table of bandwidths, older than EC2's descriptions; newer types are missing there."""

NOT_IN_ITS_TABLE_OF_INTERFACES: Final = WINDOWS_ADDRESSES
"""The provider has a table for the addresses of Windows nodes; types that are missing there have none."""


@cache
def ours() -> Catalogue:
    return build_catalogue(builtin_shapes(), builtin_market(REGION), tuple(classes()))


def pairs(class_name: str) -> list[tuple[InstanceType, Any]]:
    return [(one, resolved().sizes[one.name][class_name]) for one in ours().types_for(class_name)]


@pytest.mark.ci
def test_all_our_types_are_compared() -> None:
    """Our types are sold in us-east-1; the recording has all that EC2 describes."""
    assert len(ours().by_node_class) == 30
    assert {len(types) for types in ours().by_node_class.values()} == {1366}


@pytest.mark.ci
def test_labels_are_the_providers() -> None:
    different: dict[str, set[str]] = defaultdict(set)
    for family in FAMILIES:
        for one in ours().types_for(f"{family}.plain"):
            own = {**one.labels, labels.INSTANCE_TYPE: (one.name,)}
            theirs = resolved().labels[one.name][family]
            for key in sorted(own.keys() | theirs.keys()):
                if key not in OFFERING_KEYS and sorted(own.get(key, ())) != theirs.get(key, []):
                    different[key].add(one.name.partition(".")[0])
    assert different == DIFFERENT


def test_capacity_and_what_is_allocatable_are_the_providers() -> None:
    different = set[tuple[str, str]]()
    for name in ours().by_node_class:
        for one, size in pairs(name):
            for own, theirs in ((one.capacity, size.capacity), (one.allocatable(), size.allocatable)):
                expected = {key: quantity.parse(text, key) for key, text in theirs.items()}
                for key in own.keys() | expected.keys():
                    if own.get(key, 0) != expected.get(key, 0):
                        assert expected.get(key, 0) == 0, (name, one.name, key)
                        different.add((name.partition(".")[0], key))
    assert different == {("windows2022", NOT_IN_ITS_TABLE_OF_INTERFACES)}


def test_user_data_says_the_same_to_a_node() -> None:
    """Order, quotes and comments are each side's own; what bootstrap programs and kubelets read is equal.

    We add the address of the cluster's DNS, which Karpenter asks the cluster for where a class names none.
    """
    assert {name for name, text in resolved().user_data.items() if not text} == {
        f"custom.{name}" for name in ("plain", "max-pods", "pods-per-core", "eviction", "raid0")
    }
    for manifest in classes(with_max_pods=True):
        node_class = read_node_class(manifest)
        family = node_class.family
        cluster = Cluster(
            name="demo", endpoint="https://demo.example", certificate_authority="Y2E=", service_cidr="10.100.0.0/16"
        )
        bootstrap = Bootstrap(
            cluster=cluster,
            labels=registered_labels(LABELS, syncs_taints=not family.registers_taints),
            taints=registered_taints([TAINT]),
            kubelet=node_class.spec.kubelet,
            max_pods=MAX_PODS,
            user_data=node_class.spec.user_data,
            raids_instance_store=node_class.spec.instance_store_policy == RAID0,
        )
        read = READERS[node_class.name.partition(".")[0]]
        own = read(family.user_data(bootstrap))
        assert own == read(resolved().user_data[node_class.name]), node_class.name


def parts_of(text: str) -> list[Any]:
    """Shell scripts as sets of words, NodeConfigs as documents without what is empty."""
    found: list[Any] = []
    for part in message_from_string(text).walk():
        if part.get_content_type() == "application/node.eks.aws":
            found.append(without_empty(yaml.safe_load(part.get_payload())))
        elif not part.is_multipart():
            found.append(words_of(part.get_payload().replace("--dns-cluster-ip '10.100.0.10'", "")))
    return found


def words_of(text: str) -> list[str]:
    """The words in any order: flags of a kubelet and entries of a map have none."""
    return sorted(filter(None, re.split(r"[\s\\,]+|(?<==)\"|\"(?=[\s'])", text)))


def settings_of(text: str) -> Any:
    return without_empty(tomllib.loads(text))


def windows_words(text: str) -> list[str]:
    return words_of(text.replace(" -DNSClusterIP '10.100.0.10'", ""))


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empty(inner) for key, inner in value.items()}
        kept.pop("flags", None)
        flags = {"flags": sorted(one.replace('"', "") for one in value["flags"])} if "flags" in value else {}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [])} | flags
    return value


READERS: Final[dict[str, Any]] = {
    "al2": parts_of,
    "al2023": parts_of,
    "bottlerocket": settings_of,
    "windows2022": windows_words,
    "custom": str,
}
