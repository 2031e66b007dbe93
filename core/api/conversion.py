"""Converts objects of older API versions to the current one, one by one or a whole input together."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import Final

from core import labels
from core.api import v1alpha5, v1beta1
from core.api.objects import JsonObject, group_and_version, kind_of, mapping, name_of, sequence

_STEPS: Final[dict[tuple[str, str, str], Callable[[JsonObject], JsonObject]]] = {
    (labels.CORE_GROUP, "v1beta1", "NodePool"): v1beta1.node_pool,
    (labels.CORE_GROUP, "v1beta1", "NodeClaim"): v1beta1.node_claim,
    (labels.AWS_GROUP, "v1beta1", "EC2NodeClass"): v1beta1.node_class,
    (labels.CORE_GROUP, "v1alpha5", "Provisioner"): v1alpha5.provisioner,
    (labels.AWS_GROUP, "v1alpha1", "AWSNodeTemplate"): v1alpha5.node_template,
}

OLD_VERSIONS: Final = tuple(_STEPS)
"""Group, version and kind of all that is converted."""


def is_old(obj: JsonObject) -> bool:
    """Whether the object is of a version that is converted."""
    return (*group_and_version(obj), kind_of(obj)) in _STEPS


def as_v1(obj: JsonObject) -> JsonObject:
    """Return the object in its current form; unchanged if it is current or not one of ours.

    Raises:
        InvalidInputError: If it contains something that v1 cannot express.
    """
    while is_old(obj):
        obj = _STEPS[*group_and_version(obj), kind_of(obj)](obj)
    return obj


def all_as_v1(objects: Iterable[JsonObject]) -> list[JsonObject]:
    """Return all objects in their current form, in order, resolving what depends on the whole input.

    The kubelet settings of a pool move to its EC2NodeClass (to a copy for this pool alone, where other pools need others); a
    claim takes its pool's expiry; a provider written inside a Provisioner becomes an EC2NodeClass.

    Raises:
        InvalidInputError: If an object contains something that v1 cannot express.
    """
    given = list(objects)
    converted = [as_v1(obj) for obj in given]
    for old, new in zip(given, list(converted), strict=True):
        provider = v1alpha5.inline_provider(old) if kind_of(old) == "Provisioner" else None
        if provider is not None:
            converted.insert(_place(converted, new) + 1, as_v1(provider))
    _give_claims_their_expiry(given, converted)
    return _with_kubelets(given, converted)


def remarks(obj: JsonObject) -> list[str]:
    """Return what a person must still do to a converted object before it works."""
    annotations, spec = mapping(mapping(obj.get("metadata")).get("annotations")), mapping(obj.get("spec"))
    found = []
    if kind_of(obj) == "NodePool" and v1beta1.KUBELET_ANNOTATION in annotations:
        found.append(f"move the kubelet settings in its annotation {v1beta1.KUBELET_ANNOTATION} to its EC2NodeClass")
    if spec.get("role") == v1alpha5.PLACEHOLDER_ROLE:
        found.append("it had no instance profile; put the nodes' role in spec.role")
    if {"id": v1beta1.PLACEHOLDER_AMI} in sequence(spec.get("amiSelectorTerms")):
        found.append("Ubuntu images have no alias; put their selector in spec.amiSelectorTerms")
    return found


def _place(objects: list[JsonObject], wanted: JsonObject) -> int:
    return next(index for index, obj in enumerate(objects) if obj is wanted)


def _give_claims_their_expiry(given: list[JsonObject], converted: list[JsonObject]) -> None:
    expiry = {
        name_of(obj): mapping(mapping(mapping(obj.get("spec")).get("template")).get("spec")).get("expireAfter")
        for obj in converted
        if kind_of(obj) == "NodePool"
    }
    old_claims = {name_of(obj) for obj in given if kind_of(obj) == "NodeClaim" and is_old(obj)}
    for obj in converted:
        if kind_of(obj) == "NodeClaim" and name_of(obj) in old_claims:
            pool = mapping(mapping(obj.get("metadata")).get("labels")).get(labels.NODEPOOL)
            if expiry.get(str(pool)) is not None:
                obj["spec"]["expireAfter"] = expiry[str(pool)]


def _with_kubelets(given: list[JsonObject], converted: list[JsonObject]) -> list[JsonObject]:
    """Move the settings from pools' annotations to the classes; only pools that were converted just now are touched."""
    fresh = {name_of(obj) for obj in given if is_old(obj) and kind_of(obj) in ("NodePool", "Provisioner")}
    pools = [obj for obj in converted if kind_of(obj) == "NodePool"]
    result: list[JsonObject] = []
    for obj in converted:
        result.append(obj)
        if kind_of(obj) != "EC2NodeClass" or mapping(obj.get("spec")).get("kubelet"):
            continue
        users = [pool for pool in pools if _class_name(pool) == name_of(obj)]
        wanted = {_kubelet(pool) if name_of(pool) in fresh else "" for pool in users}
        movers = [pool for pool in users if name_of(pool) in fresh and _kubelet(pool)]
        if len(wanted) == 1 and movers:
            result[-1] = _with_kubelet(obj, movers[0])
        else:
            result += [_copy_for(pool, obj) for pool in movers]
        for pool in movers:
            del pool["metadata"]["annotations"][v1beta1.KUBELET_ANNOTATION]
    return result


def _copy_for(pool: JsonObject, node_class: JsonObject) -> JsonObject:
    own = _with_kubelet(node_class, pool)
    own["metadata"] = {**own["metadata"], "name": f"{name_of(node_class)}-{name_of(pool)}"}
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name_of(own)
    return own


def _with_kubelet(node_class: JsonObject, pool: JsonObject) -> JsonObject:
    changed = copy.deepcopy(node_class)
    changed["spec"]["kubelet"] = json.loads(_kubelet(pool))
    return changed


def _kubelet(pool: JsonObject) -> str:
    annotations = mapping(mapping(pool.get("metadata")).get("annotations"))
    return str(annotations.get(v1beta1.KUBELET_ANNOTATION, ""))


def _class_name(pool: JsonObject) -> str:
    spec = mapping(mapping(mapping(pool.get("spec")).get("template")).get("spec"))
    return str(mapping(spec.get("nodeClassRef")).get("name") or "")
