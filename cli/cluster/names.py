"""Replaces the names in a snapshot by pseudonyms; the market that a decision reads stays unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from core import labels
from core.api import node_class
from core.api.objects import JsonObject, mapping, sequence
from core.api.translation import without_unknown_fields
from core.catalogue.free_addresses import read_reading
from core.catalogue.node_class import AddressReading
from core.catalogue.node_memory import with_renamed_images
from core.catalogue.reservations import read_upcoming
from core.errors import InvalidInputError
from core.manifests.groups import NO_RETRY, RUNS_FOR, VALID_UNTIL
from core.manifests.wire import decoding
from core.manifests.wire.objects import ACTIVE_CAPACITY, WireMetadata
from core.manifests.wire.pod import WirePod
from core.manifests.wire.resources import Resource
from core.provisioning_requests import CLASSES, DETAIL, RESERVATION

# Reduces objects to the fields that decisions read: no environment, no images, only the annotations that matter.
#
# The structs that decode objects name every field that is read; other fields are left out. A field that a decision begins to
# read is therefore in the next snapshot automatically.


DECIDING_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws", "fleetwright.dev", "pv.kubernetes.io")
DECIDING: Final = (
    "controller.kubernetes.io/pod-deletion-cost",
    "volume.beta.kubernetes.io/storage-class",
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
    *labels.GROUP_ANNOTATIONS,
)
"""Annotations that decisions read, besides those in the domains above."""

_NOT_DECIDING: Final = (labels.CLAIM_SPEC, labels.DECISION, labels.LAUNCH_VALIDATION)
_UNREAD_METADATA: Final = ("managedFields", "resourceVersion", "selfLink", "generateName")


def lean(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return the object with only the fields that decisions read.

    Raises:
        InvalidInputError: If a field has the wrong type.
    """
    head = {"apiVersion": obj.get("apiVersion") or resource.api_version, "kind": obj.get("kind") or resource.kind}
    if resource.namespaced and not mapping(obj.get("metadata")).get("namespace"):
        obj = {**obj, "metadata": {**mapping(obj.get("metadata")), "namespace": "default"}}
    decoded = decoding.from_object(resource, obj)
    if isinstance(decoded, dict):
        return head | _lean_plain(decoded)
    written: JsonObject = _written(decoded)
    if isinstance(decoded, WirePod):
        node = written.pop("boundTo", "")
        if node:
            written.setdefault("spec", {})["nodeName"] = node
    return head | written


def without_user_data(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the objects without the user data of EC2NodeClasses, which decisions do not read and which may hold secrets.

    Hashes include it. Where nodes and claims have the hash of the present class, they get the one without it, so that they have
    not drifted from what is left.
    """
    hashes, kept = dict[str, str](), list[JsonObject]()
    for item in items:
        spec = mapping(item.get("spec"))
        if item["kind"] == "EC2NodeClass" and spec.get("userData"):
            bare = {**item, "spec": {key: value for key, value in spec.items() if key != "userData"}}
            hashes[_spec_hash(item)] = _spec_hash(bare)
            item = bare  # noqa: PLW2901 - the object that is kept
        kept.append(item)
    return [_with_hash(item, hashes) for item in kept] if hashes else kept


def _spec_hash(manifest: JsonObject) -> str:
    try:
        return node_class(manifest).spec_hash
    except InvalidInputError:
        return ""


def _with_hash(item: JsonObject, hashes: Mapping[str, str]) -> JsonObject:
    annotations = mapping(mapping(item.get("metadata")).get("annotations"))
    new = hashes.get(str(annotations.get(labels.NODECLASS_HASH, "")))
    if not new:
        return item
    return {**item, "metadata": {**item["metadata"], "annotations": {**annotations, labels.NODECLASS_HASH: new}}}


def _lean_plain(obj: JsonObject) -> JsonObject:
    """Return Karpenter's object completely, except for metadata of other writers."""
    kept = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    kept["metadata"] = _lean_plain_metadata(mapping(obj.get("metadata")))
    template = mapping(kept.get("spec")).get("template")
    if isinstance(template, dict) and isinstance(template.get("metadata"), dict):
        lean_template = {**template, "metadata": _lean_plain_metadata(template["metadata"])}
        kept["spec"] = {**kept["spec"], "template": lean_template}
    return kept


def _lean_plain_metadata(metadata: JsonObject) -> JsonObject:
    kept = {key: value for key, value in metadata.items() if key not in _UNREAD_METADATA}
    annotations = metadata.get("annotations")
    if annotations:
        kept["annotations"] = _deciding(annotations)
    return {key: value for key, value in kept.items() if value not in ({}, [], "", None)}


def _deciding(annotations: JsonObject) -> JsonObject:
    return {key: value for key, value in annotations.items() if _decides(key)}


def _decides(key: str) -> bool:
    domain = key.partition("/")[0]
    in_domain = any(
        domain == deciding_domain or domain.endswith(f".{deciding_domain}") for deciding_domain in DECIDING_DOMAINS
    )
    return (in_domain or key in DECIDING) and key not in _NOT_DECIDING


def _written(value: Any) -> Any:
    """Return a struct of the wire as it was written, without fields at their defaults."""
    if isinstance(value, WireMetadata):
        value = msgspec.structs.replace(value, annotations=_deciding(value.annotations), resource_version="")
    if isinstance(value, msgspec.Struct):
        encoded = {}
        for field in msgspec.structs.fields(value):
            inner = getattr(value, field.name)
            if inner != _default(field):
                encoded[field.encode_name] = _written(inner)
        return encoded
    if isinstance(value, tuple | list):
        return [_written(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    return msgspec.to_builtins(value) if isinstance(value, datetime) else value


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


# Tables of the fields of objects that name a user's objects, and of those that are left out.


NAMES: Final = frozenset(
    {
        *(
            "name",
            "nodeName",
            "nominatedNodeName",
            "claimName",
            "volumeName",
            "storageClassName",
            "volumeAttributesClassName",
            "persistentVolumeName",
        ),
        *("priorityClassName", "uid", "schedulerName", "id", "instanceProfile", "imageID", "role"),
        *("kmsKeyID", "snapshotID", "ssmParameter"),
        *("runtimeClassName", "currentRevision", "updateRevision"),
        *("podGroup", "podGroupName", "podGroupReplicaKey"),
    }
)
"""Fields whose text names a user's object."""

LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "tags"})
SELECTOR: Final = "selector"
"""A selector: a map of labels in Services and ReplicationControllers, an object elsewhere."""

KEYED: Final = frozenset({"key", "topologyKey", "managedBy"})
KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
QUANTITIES: Final = frozenset(
    {
        *("requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "podFixed"),
        *("hard", "used"),
        *("default", "defaultRequest", "min", "max", "maxLimitRequestRatio"),
    }
)
"""Maps of amounts: of containers, pods and nodes, of ResourceQuotas, and of LimitRanges."""

_OF_QUOTAS: Final = ("requests.", "limits.")
_COUNTED_PODS: Final = "count/pods"
LEFT_OUT: Final = frozenset({"userData", "message", "context", "kubeletUserData"})
GROUPS: Final = ("apiVersion", "apiGroup", "group")
ACCOUNTS: Final = frozenset({"owner", "ownerID"})
DRIVERS: Final = frozenset({"driver", "provisioner"})
KUBELET: Final = "kubelet"
"""An open object: decisions read numbers and amounts of it, and its other texts name hosts, files, images and networks."""

HEADERS: Final = "staticPodURLHeader"
"""A setting of the kubelet that may hold a password."""

_NUMBER: Final = r"[0-9]{1,11}(?:\.[0-9]{1,9})?"
AMOUNT: Final = re.compile(
    rf"[+-]?(?:{_NUMBER}(?:%|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{{1,2}})?|(?:{_NUMBER}(?:h|ms|us|µs|μs|ns|m|s)){{1,6}})"
)
"""A number, a quantity, a share or a duration, in the units of Kubernetes and Go. Longer numbers may be an account's."""

ADDRESS: Final = "192.0.2.1"
"""Replaces a cluster's addresses (RFC 5737: for documentation)."""

ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - all addresses, as Kubernetes writes them
ACCOUNT: Final = re.compile(r"\d{12}")
"""The id of an account."""

RENAMED_ANNOTATIONS: Final = frozenset(
    {
        labels.CLAIM,
        labels.MADE_BY_HAND,
        labels.NODEPOOL_HASH,
        labels.NODECLASS_HASH,
        "volume.beta.kubernetes.io/storage-class",
    }
)
"""Annotations that name an object or contain a hash. Hashes are only compared; real ones would confirm guesses."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SOURCES: Final = frozenset({"awsElasticBlockStore", "local", "hostPath"})
"""Sources of volumes. Decisions read only whether they are there."""

NAMESPACES: Final = "namespaces"


# Recognizes texts of a cluster's objects that do not identify the cluster.


PUBLIC_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "karpenter.k8s.aws",
    "eks.amazonaws.com",
    "k8s.aws",
    "fleetwright.dev",
)
_PUBLIC_DRIVERS: Final = (".csi.aws.com", ".csi.eks.amazonaws.com")
_PUBLIC_GROUPS: Final = ("", "apps", "batch", "autoscaling", "policy", "extensions")
_PUBLIC_RESOURCES: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "nodes", "storage"),
    *(
        "nvidia.com/",
        "amd.com/",
        "aws.amazon.com/",
        "vpc.amazonaws.com/",
        "habana.ai/",
        "hugepages-",
        "attachable-volumes-",
    ),
)
_IDS: Final = {labels.NODEPOOL, labels.RESERVATION_ID, labels.PLACEMENT_GROUP_ID}
"""Labels that all nodes have, but whose values name objects of the user."""

_PUBLIC_VALUES_OF: Final = (labels.WELL_KNOWN - _IDS) | {
    labels.ZONE_ID,
    *labels.ALIASES,
    "karpenter.sh/initialized",
    "karpenter.sh/registered",
    "karpenter.sh/do-not-disrupt",
}
_PUBLIC_TEXTS: Final = ("default-scheduler", "system-cluster-critical", "system-node-critical", "*")
_TELLS_NOTHING: Final = re.compile(r"-?[0-9]{1,11}(\.[0-9]{1,9})?|true|false|True|False|Unknown|")
"""Longer numbers may be the id of an account, or a hash."""
_TOPOLOGIES: Final = (
    labels.GROUP_TOPOLOGY,
    labels.KUEUE_TOPOLOGY,
    labels.LEADER_WORKER_TOPOLOGY,
    labels.JOB_SET_TOPOLOGY,
)
"""Annotations whose values are keys of labels."""
_WORDS_OF_JOB_SETS: Final = {
    "startupPolicyOrder": ("InOrder", "AnyOrder"),
    "terminalState": ("Completed", "Failed"),
}
"""Fields of a JobSet, each with the words that it may have."""
_OF_REQUESTS: Final = {
    "parameters": (VALID_UNTIL, NO_RETRY, RUNS_FOR, RESERVATION),
    "provisioningClassDetails": (DETAIL, RESERVATION),
}
"""Maps of a ProvisioningRequest, each with the keys that decisions read; users add their own."""
_FIELD_KEYS: Final = ("metadata.name",)
_PUBLIC_ANNOTATIONS: Final = (
    *(labels.DO_NOT_DISRUPT, labels.POD_DELETION_COST, labels.STEERED, labels.SURGE, labels.MODE, labels.MOVES),
    *(labels.NODEPOOL_HASH_VERSION, labels.NODECLASS_HASH_VERSION, labels.TERMINATION_TIMESTAMP, labels.EXPIRY),
    *(labels.MIN_VALUES_RELAXED, labels.PRICE_FACTORS, labels.LARGEST_NODE, labels.EVICTIONS_PER_HOUR),
    labels.PREFIX_DELEGATION,
    *(labels.GROUP_MINIMUM, labels.GROUP_DISRUPTION, labels.KUEUE_GROUP_COUNT, labels.LEADER_WORKER_SIZE),
    *("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"),
    *("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
)
"""Annotations that decisions read, and whose values are numbers, times, fixed words or instance types."""


def is_public_key(key: str) -> bool:
    """Whether a key of a label or annotation, or a finalizer, is common to all clusters."""
    domain = key.partition("/")[0] if "/" in key else ""
    return key in _FIELD_KEYS or any(
        domain == public_domain or domain.endswith(f".{public_domain}") for public_domain in PUBLIC_DOMAINS
    )


def has_public_values(key: str) -> bool:
    """Whether all values of a label are defined by Kubernetes or AWS."""
    return labels.normalized(key) in _PUBLIC_VALUES_OF


def has_public_text(annotation: str) -> bool:
    """Whether the value of an annotation may be shown."""
    return annotation in _PUBLIC_ANNOTATIONS


def is_public_text(text: str) -> bool:
    """Whether a text in the place of a name is not a user's name, or one that every cluster has."""
    return bool(_TELLS_NOTHING.fullmatch(text)) or text in _PUBLIC_TEXTS


def is_public_resource(resource: str) -> bool:
    """Whether a container resource is common to all clusters."""
    return resource.startswith(_PUBLIC_RESOURCES)


def is_public_driver(driver: str) -> bool:
    """Whether a CSI driver or provisioner of volumes is AWS' or Kubernetes' own."""
    return driver.endswith(_PUBLIC_DRIVERS) or is_public_key(driver)


def is_public_group(api_version: str) -> bool:
    """Whether an API group, with or without its version, is Kubernetes', Karpenter's or ours."""
    group = api_version.partition("/")[0] if "/" in api_version or "." in api_version else ""
    return group in _PUBLIC_GROUPS or is_public_key(f"{group}/")


Rename = Callable[[str], str]
"""Name → its replacement."""


def _images(node_class: JsonObject) -> list[str]:
    return [str(image.get("id", "")) for image in sequence(mapping(node_class.get("status")).get("amis"))]


def _read(text: str) -> JsonObject | None:
    """Return the JSON object in an annotation, None if it has none: users may write anything there."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _is_amounts(amounts: JsonObject) -> bool:
    """Whether a map has amounts of resources, as in the status of a NodePool, and not requests and limits."""
    return all(isinstance(value, str | int) for value in amounts.values())


class ObjectRenaming:
    """Walks through an object and replaces names of the user's objects."""

    def __init__(self, namespace: Rename, name: Rename) -> None:
        self._namespace = namespace
        self._name = name

    def object(self, obj: JsonObject) -> JsonObject:
        """Return the object with renamed names."""
        if obj.get("kind") == "Namespace":
            other_fields = {key: value for key, value in obj["metadata"].items() if key != "name"}
            named = {"name": self._namespace(obj["metadata"]["name"])}
            return {**self._mapping(obj), "metadata": named | self._mapping(other_fields)}
        renamed = self._mapping(obj)
        memory = mapping(obj["metadata"].get("annotations")).get(labels.NODE_MEMORY)
        if memory is not None and (kept := with_renamed_images(memory, _images(obj), _images(renamed))) is not None:
            renamed["metadata"]["annotations"][labels.NODE_MEMORY] = kept
        return renamed

    def _mapping(self, value: JsonObject) -> JsonObject:
        return dict(self._fields(value))

    def _fields(self, value: JsonObject) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            if key in LEFT_OUT:
                continue
            yield key, self._field(value, key, inner)

    def _field(self, parent: JsonObject, key: str, inner: Any) -> Any:
        if isinstance(inner, str):
            return self._text(parent, key, inner)
        if isinstance(inner, list):
            return self._list(parent, key, inner)
        return self._map(key, inner) if isinstance(inner, dict) else inner

    def _map(self, key: str, inner: JsonObject) -> JsonObject:
        is_flat = not any(isinstance(value, dict) for value in inner.values())
        if key in SOURCES:
            return {"path": "left-out"}
        if key == KUBELET:
            return {name: self._setting(inner, name, value) for name, value in inner.items()}
        if key in LABEL_MAPS or (key == SELECTOR and all(isinstance(value, str) for value in inner.values())):
            return {self._key(name): self._tag(name, text) for name, text in inner.items()}
        if (key in QUANTITIES and is_flat) or (key == "resources" and _is_amounts(inner)):
            return {self._resource(name): amount for name, amount in inner.items()}
        if key in _OF_REQUESTS:
            return {name: self._amount_or_name(text) for name, text in inner.items() if name in _OF_REQUESTS[key]}
        if key == "annotations":
            texts = ((name, self._annotation(name, text)) for name, text in inner.items())
            return {name: text for name, text in texts if text is not None}
        return self._mapping(inner)

    def _amount_or_name(self, text: str) -> str:
        return text if _TELLS_NOTHING.fullmatch(text) else self._any(text)

    def _setting(self, parent: JsonObject, key: str, value: Any) -> Any:
        """Return a setting of the kubelet, of whose texts only amounts are shown."""
        if key == HEADERS:
            return {}
        if isinstance(value, dict):
            return {
                self._setting_key(setting): self._setting(value, setting, inner) for setting, inner in value.items()
            }
        if isinstance(value, list):
            return (
                self._list(parent, key, value)
                if key == "clusterDNS"
                else [self._setting({}, "", address) for address in value]
            )
        if not isinstance(value, str) or AMOUNT.fullmatch(value):
            return value
        return self._text(parent, key, value) if key in ("apiVersion", "kind") else self._any(value)

    def _setting_key(self, key: str) -> str:
        return self._key(key) if "/" in key else key

    def _text(self, parent: JsonObject, key: str, text: str) -> str:
        if key == "namespace" and text:
            return self._namespace(text)
        if key in KEYED:
            return self._key(text)
        if key == "value" and "key" in parent:
            return self._value(str(parent["key"]), text)
        if key in GROUPS:
            return text if is_public_group(text) else self._any(text)
        if key in ACCOUNTS:
            return self._account(text)
        if key in DRIVERS:
            return self._driver(text)
        if key in _WORDS_OF_JOB_SETS:
            return text if text in _WORDS_OF_JOB_SETS[key] else self._any(text)
        if key == "provisioningStrategy":
            return text if text == ACTIVE_CAPACITY else self._any(text)
        if key == "provisioningClassName":
            return text if text in CLASSES else self._any(text)
        if key in ("kind", "type", "reason"):
            return self._word(parent, key, text)
        if key == "hostIP":
            return text if text in ANY_ADDRESS else self._any(text)
        return self._any(text) if key in NAMES or key == "providerID" else text

    def _word(self, parent: JsonObject, key: str, text: str) -> str:
        """Return a kind, a type, or a condition's reason; a pseudonym if its group or type is the user's own."""
        if key == "kind":
            group = next((str(parent[name]) for name in GROUPS if name in parent), "")
            return text if is_public_group(group) else self._any(text)
        type_name = str(parent.get("type", ""))
        is_users = "/" in type_name and not is_public_key(type_name) and (key == "type" or "status" in parent)
        return self._any(text) if is_users else text

    def _list(self, parent: JsonObject, key: str, inner: list[Any]) -> list[Any]:
        if key == NAMESPACES:
            return [self._namespace(text) for text in inner]
        if key in KEY_LISTS or key == "finalizers":
            return [self._key(text) for text in inner]
        if key == "values":
            return [self._value(str(parent.get("key", "")), text) for text in inner]
        if key == "drivers":
            return [{**driver, "name": self._driver(driver["name"])} for driver in inner]
        if key == "clusterDNS":
            return [ADDRESS for _ in inner]
        return [self._mapping(entry) if isinstance(entry, dict) else entry for entry in inner]

    def _key(self, key: str) -> str:
        return key if is_public_key(key) else self._any(key)

    def _value(self, key: str, text: str) -> str:
        if has_public_values(key):
            return text
        if key == "kubernetes.io/metadata.name":
            return self._namespace(text)
        return self._any(text)

    def _tag(self, key: str, text: str) -> str:
        """Return the value of a label or tag, with a pseudonym for long numbers too: no decision compares these."""
        return self._account(text) if ACCOUNT.fullmatch(text) else self._value(key, text)

    def _account(self, text: str) -> str:
        return self._name(text) if ACCOUNT.fullmatch(text) else text

    def _annotation(self, key: str, text: str) -> str | None:
        if key in RENAMED_ANNOTATIONS:
            return self._name(text)
        if key == PROVISIONED_BY:
            return self._driver(text)
        if key in (labels.GROUP, labels.VOLCANO_GROUP):
            return self._any(text)
        if key in _TOPOLOGIES:
            return self._key(text)
        if key == labels.SHARED_LIMITS:
            parts = (part.partition(":") for part in text.split(","))
            return ",".join(f"{self._any(group.strip())}:{amount}" for group, _, amount in parts)
        if key == labels.RESERVATION_PLACES:
            places = _read(text)
            return (
                None
                if places is None
                else json.dumps({self._any(identity): count for identity, count in places.items()})
            )
        if key == labels.UPCOMING_RESERVATIONS:
            upcoming = read_upcoming(text)
            return (
                None
                if upcoming is None
                else json.dumps([self._mapping(msgspec.to_builtins(reservation)) for reservation in upcoming])
            )
        if key == labels.SUBNET_ADDRESSES:
            reading = read_reading(text)
            return None if reading is None else self._addresses(reading)
        if key == labels.PLACEMENT_GROUP:
            group = _read(text)
            return None if group is None else json.dumps(self._mapping(group))
        return text if has_public_text(key) else None

    def _addresses(self, reading: AddressReading) -> str:
        free = {self._any(subnet): count for subnet, count in reading.free.items()}
        return msgspec.json.encode(msgspec.structs.replace(reading, free=free)).decode()

    def _driver(self, driver: str) -> str:
        return driver if is_public_driver(driver) else self._any(driver)

    def _resource(self, resource: str) -> str:
        """Return a resource, or an entry of a quota, which has a part before the resource or counts objects."""
        part = next((part for part in _OF_QUOTAS if resource.startswith(part)), "")
        resource = resource.removeprefix(part)
        return part + (resource if is_public_resource(resource) or resource == _COUNTED_PODS else self._any(resource))

    def _any(self, text: str) -> str:
        return text if is_public_text(text) else self._name(text)


# Replaces names by pseudonyms in the same order, since ties are broken by name, so that plans differ only in names.
#
# The market that a decision reads stays unchanged: zones, instance types, architectures, capacity types, quantities, times.


_AWS_ID: Final = re.compile(r"(subnet|sg|ami|cr|pg|snap)-[0-9a-z]+")


class Pseudonyms:
    """Replaces names in the objects of one cluster, the same name everywhere by the same pseudonym."""

    def __init__(self, objects: Iterable[JsonObject]) -> None:
        namespaces, names = set[str](), set[str]()
        collect = ObjectRenaming(_noted(namespaces), _noted(names))
        for obj in objects:
            collect.object(without_unknown_fields(obj))
        # `namespace/name` is the form in which pods are compared.
        self._namespaces = _ranked("ns", sorted(namespaces, key=lambda name: f"{name}/"))
        self._names = _ranked("n", sorted(names))
        self._renaming = ObjectRenaming(self._namespaces.__getitem__, self._names.__getitem__)

    def of(self, obj: JsonObject) -> JsonObject:
        """Return the object with pseudonyms. A field that its kind lacks is left out: nobody knows what its text names."""
        return self._renaming.object(without_unknown_fields(obj))

    @property
    def names(self) -> Mapping[str, str]:
        """Name → pseudonym."""
        return self._names

    @property
    def namespaces(self) -> Mapping[str, str]:
        """Namespace → pseudonym."""
        return self._namespaces


def _ranked(prefix: str, names: list[str]) -> dict[str, str]:
    """Return pseudonyms of equal width, so that they sort like the names; ids of AWS keep their form."""
    width = len(str(len(names)))
    ids = {}
    for rank, name in enumerate(names):
        if name.startswith("aws:///"):
            ids[name] = f"{name.rpartition('/')[0]}/i-{rank:017x}"
        elif aws_id := _AWS_ID.fullmatch(name):
            ids[name] = f"{aws_id[1]}-{rank:017x}"
        elif ACCOUNT.fullmatch(name):
            ids[name] = f"{rank:012d}"
        else:
            ids[name] = f"{prefix}{rank:0{width}d}"
    return ids


def _noted(names: set[str]) -> Rename:
    """Collect the names without renaming."""

    def note(name: str) -> str:
        names.add(name)
        return name

    return note
