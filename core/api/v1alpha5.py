"""From the first API to `v1beta1`: Provisioner (`v1alpha5`) to NodePool, AWSNodeTemplate (`v1alpha1`) to EC2NodeClass.

The old API added requirements implicitly; they are written out, so that the pool keeps its meaning. A selector was a map with
comma-separated values; it becomes one term for each combination.
"""

from __future__ import annotations

import copy
from itertools import product
from typing import Final

from core import labels
from core.api.objects import JsonObject, mapping, name_of, sequence
from core.errors import InvalidInputError

PLACEHOLDER_ROLE: Final = "KarpenterNodeRole-${CLUSTER_NAME}"
"""Stands for the cluster-wide default instance profile, which was not part of the object."""

_CATEGORY: Final = f"{labels.AWS_GROUP}/instance-category"
_GENERATION: Final = f"{labels.AWS_GROUP}/instance-generation"
_SHAPES: Final = (labels.INSTANCE_TYPE, f"{labels.AWS_GROUP}/instance-family", _CATEGORY, _GENERATION)
_RENAMED_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-consolidate": labels.DO_NOT_DISRUPT,
    "karpenter.sh/do-not-evict": labels.DO_NOT_DISRUPT,
}
_IDS: Final = ("aws-ids", "aws::ids")
_KEPT_CLASS_FIELDS: Final = (
    "amiFamily",
    "blockDeviceMappings",
    "context",
    "detailedMonitoring",
    "instanceProfile",
    "metadataOptions",
    "tags",
    "userData",
)


def provisioner(old: JsonObject) -> JsonObject:
    """The Provisioner as a NodePool in v1beta1. A provider written inline is named after the Provisioner."""
    spec = copy.deepcopy(mapping(old.get("spec")))
    reference = mapping(spec.get("providerRef"))
    template = {"nodeClassRef": {"name": reference.get("name") or name_of(old)}, "requirements": _requirements(spec)}
    template |= {key: spec[key] for key in ("taints", "startupTaints") if spec.get(key)}
    kubelet = {k: v for k, v in mapping(spec.get("kubeletConfiguration")).items() if k != "containerRuntime"}
    if kubelet:
        template["kubelet"] = kubelet
    new_spec: JsonObject = {"template": _with_metadata(spec, template), "disruption": _disruption(spec)}
    limits = mapping(mapping(spec.get("limits")).get("resources"))
    new_spec |= {"limits": limits} if limits else {}
    new_spec |= {"weight": spec["weight"]} if spec.get("weight") is not None else {}
    return _renamed(old, f"{labels.CORE_GROUP}/v1beta1", "NodePool", new_spec)


def inline_provider(old: JsonObject) -> JsonObject | None:
    """Return the provider inside a Provisioner, as an EC2NodeClass in v1beta1; None where it has none."""
    spec = mapping(old.get("spec"))
    if spec.get("providerRef") or not spec.get("provider"):
        return None
    return node_template({"metadata": {"name": name_of(old)}, "spec": spec["provider"]})


def node_template(old: JsonObject) -> JsonObject:
    """The AWSNodeTemplate as an EC2NodeClass in v1beta1.

    Raises:
        InvalidInputError: If it names a launch template of its own, which no later version supports.
    """
    spec = copy.deepcopy(mapping(old.get("spec")))
    if spec.get("launchTemplate"):
        subject = f"AWSNodeTemplate {name_of(old)}"
        raise InvalidInputError(
            "custom launch templates were removed in v1beta1; describe the nodes with userData and amiSelector",
            subject=subject,
            field="spec.launchTemplate",
        )
    new_spec: JsonObject = {key: spec[key] for key in _KEPT_CLASS_FIELDS if key in spec}
    if not new_spec.get("instanceProfile"):
        new_spec.pop("instanceProfile", None)
        new_spec["role"] = PLACEHOLDER_ROLE
    new_spec["subnetSelectorTerms"] = _terms(mapping(spec.get("subnetSelector")))
    new_spec["securityGroupSelectorTerms"] = _terms(mapping(spec.get("securityGroupSelector")))
    if spec.get("amiSelector"):
        new_spec["amiSelectorTerms"] = _image_terms(mapping(spec["amiSelector"]))
    new_spec.setdefault("amiFamily", "AL2")
    return _renamed(old, f"{labels.AWS_GROUP}/v1beta1", "EC2NodeClass", new_spec)


def _renamed(old: JsonObject, api_version: str, kind: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": copy.deepcopy(mapping(old.get("metadata"))),
        "spec": spec,
    }


def _with_metadata(spec: JsonObject, template: JsonObject) -> JsonObject:
    annotations = {_RENAMED_ANNOTATIONS.get(k, k): v for k, v in mapping(spec.get("annotations")).items()}
    metadata = {"labels": mapping(spec.get("labels")), "annotations": annotations}
    kept = {key: value for key, value in metadata.items() if value}
    return {"metadata": kept, "spec": template} if kept else {"spec": template}


def _disruption(spec: JsonObject) -> JsonObject:
    """Expiry was off unless set, and so was consolidation; an empty node went after a time, or never."""
    seconds = spec.get("ttlSecondsUntilExpired")
    expiry: JsonObject = {"expireAfter": "Never" if seconds is None else f"{seconds}s"}
    if mapping(spec.get("consolidation")).get("enabled"):
        return expiry | {"consolidationPolicy": "WhenUnderutilized"}
    empty = spec.get("ttlSecondsAfterEmpty")
    return expiry | {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" if empty is None else f"{empty}s"}


def _requirements(spec: JsonObject) -> list[JsonObject]:
    """Return the requirements, with those that the old webhook added: Linux, amd64, on-demand, c, m and r from generation 3."""
    given = [entry for entry in sequence(spec.get("requirements")) if isinstance(entry, dict)]
    keys = {labels.normalized(str(entry.get("key"))) for entry in given} | set(mapping(spec.get("labels")))
    added = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in ((labels.OS, "linux"), (labels.ARCH, "amd64"), (labels.CAPACITY_TYPE, labels.ON_DEMAND))
        if key not in keys
    ]
    if not any(key in keys for key in _SHAPES):
        added.append({"key": _CATEGORY, "operator": "In", "values": ["c", "m", "r"]})
        added.append({"key": _GENERATION, "operator": "Gt", "values": ["2"]})
    return given + added


def _terms(selector: JsonObject) -> list[JsonObject]:
    ids = [one for key in _IDS for one in _split(selector.get(key))]
    if ids:
        return [{"id": one} for one in ids]
    return [{"tags": tags} for tags in _tag_combinations(selector) if tags]


def _image_terms(selector: JsonObject) -> list[JsonObject]:
    ids = [one for key in _IDS for one in _split(selector.get(key))]
    if ids:
        return [{"id": one} for one in ids]
    tags = {key: value for key, value in selector.items() if not key.startswith("aws::")}
    names, owners = _split(selector.get("aws::name")), _split(selector.get("aws::owners"))
    combinations = product(names or [""], owners or [""], _tag_combinations(tags))
    terms = ({"name": name, "owner": owner, "tags": some} for name, owner, some in combinations)
    return [{key: value for key, value in term.items() if value} for term in terms]


def _tag_combinations(selector: JsonObject) -> list[dict[str, str]]:
    tags = {key: _split(value) for key, value in selector.items() if key not in _IDS}
    return [dict(zip(tags, values, strict=True)) for values in product(*tags.values())]


def _split(value: object) -> list[str]:
    return [part.strip() for part in str(value).split(",")] if value else []
