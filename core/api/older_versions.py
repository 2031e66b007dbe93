"""Older API versions as `v1`: Provisioner and AWSNodeTemplate (`v1alpha5`, `v1alpha1`), and `v1beta1`.

From the first API to `v1beta1`: Provisioner (`v1alpha5`) to NodePool, AWSNodeTemplate (`v1alpha1`) to EC2NodeClass.

The old API added requirements implicitly; they are written out, so that the pool keeps its meaning. A selector was a map with
comma-separated values; it becomes one term for each combination.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Final

from core import labels
from core.api.objects import (
    JsonObject,
    group_and_version,
    identity_problems,
    is_ours,
    kind_of,
    mapping,
    name_of,
    sequence,
    without_nulls,
)
from core.api.schemas.calendar import CalendarObject, annotation_faults
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.fields import ApiModel, examined
from core.api.schemas.node_pool import NodeClaimObject, NodeOverlayObject, NodePoolObject
from core.api.status import Problem, path_of
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
    written = [entry for entry in sequence(spec.get("requirements")) if isinstance(entry, dict)]
    keys = {labels.normalized(str(entry.get("key"))) for entry in written} | set(mapping(spec.get("labels")))
    added = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in ((labels.OS, "linux"), (labels.ARCH, "amd64"), (labels.CAPACITY_TYPE, labels.ON_DEMAND))
        if key not in keys
    ]
    if not any(key in keys for key in _SHAPES):
        added.append({"key": _CATEGORY, "operator": "In", "values": ["c", "m", "r"]})
        added.append({"key": _GENERATION, "operator": "Gt", "values": ["2"]})
    return written + added


def _terms(selector: JsonObject) -> list[JsonObject]:
    ids = [part for key in _IDS for part in _split(selector.get(key))]
    if ids:
        return [{"id": part} for part in ids]
    return [{"tags": tags} for tags in _tag_combinations(selector) if tags]


def _image_terms(selector: JsonObject) -> list[JsonObject]:
    ids = [part for key in _IDS for part in _split(selector.get(key))]
    if ids:
        return [{"id": part} for part in ids]
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


# From `v1beta1` to `v1`: NodePool, NodeClaim and EC2NodeClass.
#
# What changed: expireAfter moved into the template, WhenUnderutilized became WhenEmptyOrUnderutilized, nodeClassRef names a
# group, images need a selector (a family by itself becomes an alias), and the kubelet's settings moved to the EC2NodeClass.
# Defaults that differ between the versions are written out, so that the object keeps its meaning.


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


# Converts objects of older API versions to the current one, one by one or a whole input together.


_STEPS: Final[dict[tuple[str, str, str], Callable[[JsonObject], JsonObject]]] = {
    (labels.CORE_GROUP, "v1beta1", "NodePool"): node_pool,
    (labels.CORE_GROUP, "v1beta1", "NodeClaim"): node_claim,
    (labels.AWS_GROUP, "v1beta1", "EC2NodeClass"): node_class,
    (labels.CORE_GROUP, "v1alpha5", "Provisioner"): provisioner,
    (labels.AWS_GROUP, "v1alpha1", "AWSNodeTemplate"): node_template,
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
    written = list(objects)
    converted = [as_v1(obj) for obj in written]
    for old, new in zip(written, list(converted), strict=True):
        provider = inline_provider(old) if kind_of(old) == "Provisioner" else None
        if provider is not None:
            converted.insert(_place(converted, new) + 1, as_v1(provider))
    _give_claims_their_expiry(written, converted)
    return _with_kubelets(written, converted)


def remarks(obj: JsonObject) -> list[str]:
    """Return what a person must still do to a converted object before it works."""
    annotations, spec = mapping(mapping(obj.get("metadata")).get("annotations")), mapping(obj.get("spec"))
    advice = []
    if kind_of(obj) == "NodePool" and KUBELET_ANNOTATION in annotations:
        advice.append(f"move the kubelet settings in its annotation {KUBELET_ANNOTATION} to its EC2NodeClass")
    if spec.get("role") == PLACEHOLDER_ROLE:
        advice.append("it had no instance profile; put the nodes' role in spec.role")
    if {"id": PLACEHOLDER_AMI} in sequence(spec.get("amiSelectorTerms")):
        advice.append("Ubuntu images have no alias; put their selector in spec.amiSelectorTerms")
    return advice


def _place(objects: list[JsonObject], wanted: JsonObject) -> int:
    return next(index for index, obj in enumerate(objects) if obj is wanted)


def _give_claims_their_expiry(written: list[JsonObject], converted: list[JsonObject]) -> None:
    expiry = {
        name_of(obj): mapping(mapping(mapping(obj.get("spec")).get("template")).get("spec")).get("expireAfter")
        for obj in converted
        if kind_of(obj) == "NodePool"
    }
    old_claims = {name_of(obj) for obj in written if kind_of(obj) == "NodeClaim" and is_old(obj)}
    for obj in converted:
        if kind_of(obj) == "NodeClaim" and name_of(obj) in old_claims:
            pool = mapping(mapping(obj.get("metadata")).get("labels")).get(labels.NODEPOOL)
            if expiry.get(str(pool)) is not None:
                obj["spec"]["expireAfter"] = expiry[str(pool)]


def _with_kubelets(written: list[JsonObject], converted: list[JsonObject]) -> list[JsonObject]:
    """Move the settings from pools' annotations to the classes; only pools that were converted just now are touched."""
    fresh = {name_of(obj) for obj in written if is_old(obj) and kind_of(obj) in ("NodePool", "Provisioner")}
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
            del pool["metadata"]["annotations"][KUBELET_ANNOTATION]
    return result


def _copy_for(pool: JsonObject, node_class: JsonObject) -> JsonObject:
    copied = _with_kubelet(node_class, pool)
    copied["metadata"] = {**copied["metadata"], "name": f"{name_of(node_class)}-{name_of(pool)}"}
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name_of(copied)
    return copied


def _with_kubelet(node_class: JsonObject, pool: JsonObject) -> JsonObject:
    changed = copy.deepcopy(node_class)
    changed["spec"]["kubelet"] = json.loads(_kubelet(pool))
    return changed


def _kubelet(pool: JsonObject) -> str:
    annotations = mapping(mapping(pool.get("metadata")).get("annotations"))
    return str(annotations.get(KUBELET_ANNOTATION, ""))


def _class_name(pool: JsonObject) -> str:
    spec = mapping(mapping(mapping(pool.get("spec")).get("template")).get("spec"))
    return str(mapping(spec.get("nodeClassRef")).get("name") or "")


# Finds every problem of an object of any of our kinds and versions.


MODELS: Final[dict[tuple[str, str, str], type[ApiModel]]] = {
    (labels.CORE_GROUP, "v1", "NodePool"): NodePoolObject,
    (labels.CORE_GROUP, "v1", "NodeClaim"): NodeClaimObject,
    (labels.CORE_GROUP, "v1alpha1", "NodeOverlay"): NodeOverlayObject,
    (labels.AWS_GROUP, "v1", "EC2NodeClass"): EC2NodeClassObject,
    (labels.OWN_GROUP, "v1alpha1", "Calendar"): CalendarObject,
}
"""The kinds with a model; objects of older versions are converted to these first."""


def problems(obj: JsonObject) -> tuple[Problem, ...]:
    """Return every problem of an object of ours; for other API groups only what every object must satisfy.

    An object of an older version is judged by what it becomes in v1, so its field paths are v1's; what becomes of a provider
    inside a Provisioner is judged with it, below `spec.provider`.
    """
    kind, name = kind_of(obj), name_of(obj)
    nameless = identity_problems(obj)
    if nameless or not is_ours(obj):
        what = "object" if any(field == "kind" for field, _ in nameless) else kind
        return tuple(Problem(what, name, field, problem) for field, problem in nameless)
    try:
        present = without_nulls(as_v1(obj))
    except InvalidInputError as error:
        return (Problem(kind, name, error.field, error.problem),)
    model = MODELS.get((*group_and_version(present), kind_of(present)))
    if model is None:
        return (Problem(kind, name, "apiVersion", f"{obj['apiVersion']} has no kind {kind}"),)
    own_problems = [
        Problem(kind, name, path_of(location), message) for location, message in examined(model, present)[1]
    ]
    if kind_of(present) == "NodePool":
        own_problems += [Problem(kind, name, place, message) for place, message in annotation_faults(present)]
    return (*own_problems, *(_problems_inside(obj) if kind == "Provisioner" else ()))


def _problems_inside(provisioner: JsonObject) -> Iterator[Problem]:
    """Return the problems of the EC2NodeClass that a provider inside a Provisioner becomes."""
    try:
        node_class = inline_provider(provisioner)
        inner_problems = () if node_class is None else problems(node_class)
    except InvalidInputError as error:
        inner_problems = (Problem("EC2NodeClass", "", error.field, error.problem),)
    for problem in inner_problems:
        field = f"spec.provider{problem.field.removeprefix('spec')}"
        yield Problem("Provisioner", name_of(provisioner), field, problem.message)
