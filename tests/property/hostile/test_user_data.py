"""Law: with any text in a setting, user data has the outline that a harmless text gives, or the launch is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.ami_families.al2023 import AL2023
from core.ami_families.bootstrap import Bootstrap, Cluster, registered_labels, registered_taints
from core.ami_families.bootstrap_scripts import AL2
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.registry import FAMILIES
from core.errors import InvalidInputError
from tests.property.hostile.reading import outline
from tests.property.hostile.texts import HARMLESS, hostile

_FAMILIES = (AL2, AL2023, BOTTLEROCKET, FAMILIES["Windows2022"])
_CLUSTER = Cluster(
    name="shop",
    endpoint="https://api.example",
    certificate_authority="Q0E=",
    service_cidr="10.1.0.0/16",
    dns_ip="10.1.0.10",
)
_MAPS = ("kubeReserved", "systemReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod")


def _node(
    labels: Mapping[str, str] | None = None, taints: tuple[str, ...] = ("a=b:NoSchedule",), **changes: Any
) -> Bootstrap:
    start = Bootstrap(
        cluster=_CLUSTER,
        labels=registered_labels({"team": "a", **(labels or {})}, syncs_taints=False),
        taints=registered_taints(taints),
        kubelet={"kubeReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}},
        max_pods=29,
    )
    return msgspec.structs.replace(start, **changes)


def _of_cluster(name: str) -> Callable[[str], Bootstrap]:
    return lambda text: _node(cluster=msgspec.structs.replace(_CLUSTER, **{name: text}))


def _of_kubelet(name: str, *, as_key: bool) -> Callable[[str], Bootstrap]:
    return lambda text: _node(kubelet={name: {text: "1"} if as_key else {"memory.available": text}})


_FIELDS: dict[str, Callable[[str], Bootstrap]] = {
    "label value": lambda text: _node({"example.com/own": text}),
    "label key": lambda text: _node({text: "v"}),
    "taint value": lambda text: _node(taints=(f"own={text}:NoSchedule",)),
    "taint key": lambda text: _node(taints=(f"{text}=v:NoSchedule",)),
    "podsPerCore": lambda text: _node(kubelet={"podsPerCore": text}),
    "imageGCHighThresholdPercent": lambda text: _node(kubelet={"imageGCHighThresholdPercent": text}),
    "clusterDNS": lambda text: _node(kubelet={"clusterDNS": [text]}),
    **{f"cluster {name}": _of_cluster(name) for name in Cluster.__struct_fields__},
    **{f"value in {name}": _of_kubelet(name, as_key=False) for name in _MAPS},
    **{f"key in {name}": _of_kubelet(name, as_key=True) for name in _MAPS},
}


@settings(max_examples=200, deadline=None)
@given(text=hostile.filter(bool), family=st.sampled_from(_FAMILIES), field=st.sampled_from(sorted(_FIELDS)))
def test_no_setting_leaves_its_place(text: str, family: Any, field: str) -> None:
    """Otherwise, anyone who may set one field of an object could become root on a node, or open its kubelet."""
    try:
        told = family.user_data(_FIELDS[field](text))
    except InvalidInputError:
        return
    harmless = "10.1.0.11" if field in ("clusterDNS", "cluster dns_ip") else HARMLESS
    plain = family.user_data(_FIELDS[field](harmless))
    assert outline(family, told, text) == outline(family, plain, harmless)


@pytest.mark.parametrize("family", [AL2, AL2023])
@settings(max_examples=60, deadline=None)
@given(text=hostile)
def test_a_users_document_cannot_end_the_archive(text: str, family: Any) -> None:
    """Otherwise, a line of the user's script that looks like a MIME boundary cuts off the part that joins the cluster."""
    told = family.user_data(_node(user_data=f"#!/bin/sh\necho {text}\n"))
    plain = family.user_data(_node(user_data=f"#!/bin/sh\necho {HARMLESS}\n"))
    assert outline(family, told, "") == outline(family, plain, "")
