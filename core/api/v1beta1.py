"""From `v1beta1` to `v1`: NodePool, NodeClaim and EC2NodeClass.

What changed: expireAfter moved into the template, WhenUnderutilized became WhenEmptyOrUnderutilized, nodeClassRef names a
group, images need a selector (a family by itself becomes an alias), and the kubelet's settings moved to the EC2NodeClass.
Defaults that differ between the versions are written out, so that the object keeps its meaning.
"""

from __future__ import annotations

import copy
import json
from typing import Final

from core import labels
from core.api.objects import JsonObject, mapping

EXPIRE_AFTER: Final = "720h"
KUBELET_ANNOTATION: Final = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
"""Annotation for the kubelet settings of a pool, as in Karpenter's own conversion, until they move to their EC2NodeClass."""

UBUNTU_ANNOTATION: Final = "compatibility.karpenter.sh/v1beta1-ubuntu"
PLACEHOLDER_AMI: Final = "ami-placeholder"
"""Stands for the Ubuntu images that v1 no longer finds on its own."""

_ALIAS_VERSION_ANNOTATION: Final = "compatibility.karpenter.sh/v1-alias-version"
_ALIASED_FAMILIES: Final = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022")
_METADATA_OPTIONS: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
_UBUNTU_ROOT: Final = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
}


def node_pool(old: JsonObject) -> JsonObject:
    """The NodePool in v1. A kubelet block is kept in an annotation of the pool."""
    new, spec = _in_v1(old, f"{labels.CORE_GROUP}/v1")
    disruption = dict(mapping(spec.get("disruption")))
    expiry = _duration(disruption.pop("expireAfter", EXPIRE_AFTER))
    template = mapping(spec.get("template"))
    if isinstance(template.get("spec"), dict):
        template["spec"] = _template_spec(new, template["spec"]) | {"expireAfter": expiry}
    if "consolidateAfter" in disruption:
        disruption["consolidateAfter"] = _duration(disruption["consolidateAfter"])
    policy = disruption.get("consolidationPolicy", "WhenUnderutilized")
    if policy == "WhenUnderutilized":
        disruption |= {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    else:
        disruption.setdefault("consolidateAfter", "Never")
    spec["disruption"] = disruption
    return new


def _duration(value: object) -> object:
    """A duration as v1 wants it: old manifests may give a bare number of seconds."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


def node_claim(old: JsonObject) -> JsonObject:
    """The NodeClaim in v1."""
    new, spec = _in_v1(old, f"{labels.CORE_GROUP}/v1")
    new["spec"] = _template_spec(new, spec)
    return new


def node_class(old: JsonObject) -> JsonObject:
    """The EC2NodeClass in v1."""
    new, spec = _in_v1(old, f"{labels.AWS_GROUP}/v1")
    annotations = mapping(mapping(new.get("metadata")).get("annotations"))
    version = annotations.pop(_ALIAS_VERSION_ANNOTATION, "latest")
    has_terms = bool(spec.get("amiSelectorTerms"))
    family = spec.get("amiFamily") or ("Custom" if has_terms else "AL2")
    if family == "Ubuntu":
        _from_ubuntu(new, spec)
    elif family in _ALIASED_FAMILIES and not has_terms:
        spec.pop("amiFamily", None)
        spec["amiSelectorTerms"] = [{"alias": f"{family.lower()}@{version}"}]
    else:
        spec["amiFamily"] = family
    spec["metadataOptions"] = _METADATA_OPTIONS | mapping(spec.get("metadataOptions"))
    return new


def _in_v1(old: JsonObject, api_version: str) -> tuple[JsonObject, JsonObject]:
    new = copy.deepcopy(old)
    new["apiVersion"] = api_version
    new["spec"] = mapping(new.get("spec"))
    return new, new["spec"]


def _template_spec(new: JsonObject, spec: JsonObject) -> JsonObject:
    kubelet = spec.pop("kubelet", None)
    if kubelet:
        metadata = new["metadata"] = mapping(new.get("metadata"))
        metadata["annotations"] = mapping(metadata.get("annotations"))
        metadata["annotations"][KUBELET_ANNOTATION] = json.dumps(kubelet, sort_keys=True)
    reference = spec.get("nodeClassRef")
    if isinstance(reference, dict):
        group = str(reference.get("apiVersion") or labels.AWS_GROUP).partition("/")[0]
        rest = {key: value for key, value in reference.items() if key != "apiVersion"}
        spec["nodeClassRef"] = {"group": group, "kind": "EC2NodeClass"} | {k: v for k, v in rest.items() if v}
    return spec


def _from_ubuntu(new: JsonObject, spec: JsonObject) -> None:
    """Ubuntu boots as AL2 does, on other devices; its images have no alias."""
    changes = ["amiFamily"]
    spec["amiFamily"] = "AL2"
    if "blockDeviceMappings" not in spec:
        changes.append("blockDeviceMappings")
        spec["blockDeviceMappings"] = [copy.deepcopy(_UBUNTU_ROOT)]
    if not spec.get("amiSelectorTerms"):
        changes.append("incompatible")
        spec["amiSelectorTerms"] = [{"id": PLACEHOLDER_AMI}]
    metadata = new["metadata"] = mapping(new.get("metadata"))
    metadata["annotations"] = mapping(metadata.get("annotations")) | {UBUNTU_ANNOTATION: ",".join(changes)}
