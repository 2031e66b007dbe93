"""Law: no text in an EC2NodeClass changes anything in a launch template or a fleet request except its own value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core import labels
from core.ami_families.al2023 import AL2023
from core.ami_families.bootstrap_scripts import AL2
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import Bootstrap, Cluster, registered_labels, registered_taints
from core.ami_families.registry import FAMILIES
from core.catalogue.node_class import read_node_class
from core.errors import InvalidInputError
from core.launch.request import RenderedLaunch, render_launch
from core.model.plan import LaunchOrder
from tests.builders import a_type
from tests.property.hostile.reading import outline
from tests.property.hostile.test_objects import CLASS, CLUSTER
from tests.property.hostile.texts import HARMLESS, Place, hostile, places, planted

TYPE: Final = a_type("m5.large")
IDENTITY: Final = {
    labels.CLUSTER_TAG: "shop",
    labels.NODEPOOL: "default",
    labels.NODECLAIM: "default-1",
    labels.CLAIM: "default-1",
}
"""Tags that identify the owner of an instance, by which it is found, adopted and terminated."""

ORDER: Final = LaunchOrder(
    claim="default-1",
    token="t",
    node_class={},
    node_pool="default",
    offerings=tuple(TYPE.offerings),
    instance_types=(TYPE,),
    node_labels={labels.NODEPOOL: "default"},
    taints=(),
    tags=IDENTITY,
)
SPEC_PLACES: Final = [place for place in places({"spec": CLASS["spec"]}) if place[0][:2] != ("spec", "userData")]


def launched(manifest: dict[str, Any]) -> RenderedLaunch | None:
    """The requests to EC2 for a node of the class, None if the class is refused."""
    try:
        return render_launch(ORDER, read_node_class(manifest), CLUSTER)
    except InvalidInputError:
        return None


def skeleton(part: Any, text: str) -> Any:
    """The fields of a request without values; a key that is the planted text counts as one of ours."""
    if isinstance(part, dict):
        return sorted((name, skeleton(value, text)) for name, value in part.items() if name != "UserData")
    if isinstance(part, list | tuple):
        tags = [entry["Key"] for entry in part if isinstance(entry, dict) and set(entry) == {"Key", "Value"}]
        return sorted("*" if key == text else key for key in tags) or [skeleton(entry, text) for entry in part]
    return "*"


@example(place=(("spec", "tags", "team"), True), text=labels.MADE_BY_HAND)
@example(place=(("spec", "tags", "team"), True), text=labels.LAUNCH)
@given(place=st.sampled_from(SPEC_PLACES), text=hostile)
def test_a_node_class_sets_only_its_own_fields_of_a_launch(place: Place, text: str) -> None:
    """Otherwise, whoever may edit a class could make functions adopt or terminate instances of somebody else."""
    manifest = planted(CLASS, place, text)
    rendered, tame = launched(manifest), launched(planted(CLASS, place, HARMLESS if place[1] else _own(place)))
    if rendered is None or not text:
        return  # an empty field is left out of the request, or refused
    assert tame is not None
    assert {key: rendered.tags[key] for key in IDENTITY} == IDENTITY
    assert {key for key in rendered.tags if key.startswith(labels.OWN_PREFIX)} == {labels.CLAIM}
    if place[1] and (text in tame.tags or text.startswith(labels.OWN_PREFIX)):
        return  # one tag less: ours has the name already
    assert skeleton(rendered.request, text) == skeleton(tame.request, HARMLESS)
    assert _templates(rendered, text) == _templates(tame, HARMLESS)


def _templates(rendered: RenderedLaunch, text: str) -> list[Any]:
    return [(skeleton(template.data, text), skeleton(_listed(template.tags), text)) for template in rendered.templates]


def _listed(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _own(place: Place) -> str:
    """The text at that place in the harmless class."""
    value: Any = CLASS
    for step in place[0]:
        value = value[step]
    return str(value)


def test_the_harmless_class_is_launched() -> None:
    """Otherwise, the law above would hold only because nothing is launched."""
    rendered = launched(CLASS)
    assert rendered is not None
    assert rendered.templates
    assert msgspec.json.encode(rendered.request)


# Law: with any text in a setting, user data has the outline that a harmless text gives, or the launch is refused.


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
@given(text=hostile)
def test_a_users_document_cannot_end_the_archive(text: str, family: Any) -> None:
    """Otherwise, a line of the user's script that looks like a MIME boundary cuts off the part that joins the cluster."""
    told = family.user_data(_node(user_data=f"#!/bin/sh\necho {text}\n"))
    plain = family.user_data(_node(user_data=f"#!/bin/sh\necho {HARMLESS}\n"))
    assert outline(family, told, "") == outline(family, plain, "")
