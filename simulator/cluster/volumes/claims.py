"""Claims, classes and volumes: what a pod claims, and which existing volume suits a claim."""

from __future__ import annotations

from typing import Any, Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.model.values import quantity
from simulator.cluster.objects import labels_of, name_of, namespace_of, spec_of, status_of, uid_of
from simulator.cluster.selectors import matches_node_terms, selects
from simulator.cluster.store import Store

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def claim_names(pod: JsonObject) -> list[str]:
    """The names of the PersistentVolumeClaims that the pod mounts; generic ephemeral volumes have one of their own."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            names.append(f"{name_of(pod)}-{volume['name']}")
    return names


def claims_of(store: Store, pod: JsonObject) -> list[JsonObject | None]:
    """Return the pod's claims, None for each missing one."""
    namespace = namespace_of(pod)
    return [store.find(kinds.PERSISTENT_VOLUME_CLAIMS, name, namespace) for name in claim_names(pod)]


def class_of(store: Store, claim: JsonObject) -> JsonObject | None:
    """Return the claim's storage class, None if it names none or a missing one."""
    name = spec_of(claim).get("storageClassName")
    return store.find(kinds.STORAGE_CLASSES, name) if name else None


def is_bound(claim: JsonObject) -> bool:
    """Whether the claim has its volume."""
    return status_of(claim).get("phase") == "Bound"


def volume_of(store: Store, claim: JsonObject) -> JsonObject | None:
    """The claim's volume, None before it is bound or when that is gone."""
    name = spec_of(claim).get("volumeName") if is_bound(claim) else None
    return store.find(kinds.PERSISTENT_VOLUMES, name) if name else None


def admits_node(volume: JsonObject, node: JsonObject) -> bool:
    """Whether the volume can be reached from the node."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    return required is None or matches_node_terms(required.get("nodeSelectorTerms") or [], node)


def waits_for_consumer(storage_class: JsonObject | None) -> bool:
    """Whether volumes of the class are made where the first pod goes."""
    return storage_class is not None and storage_class["volumeBindingMode"] == WAIT_FOR_FIRST_CONSUMER


def can_provision(storage_class: JsonObject | None) -> bool:
    """Whether volumes of the class are made on demand."""
    return storage_class is not None and storage_class.get("provisioner") not in (None, "", NO_PROVISIONER)


def suitable_volumes(store: Store, claim: JsonObject) -> list[JsonObject]:
    """The free volumes that the claim could bind, the smallest first."""
    found = [volume for volume in store.all(kinds.PERSISTENT_VOLUMES) if _suits(volume, claim)]
    return sorted(found, key=lambda volume: (_size(spec_of(volume).get("capacity")), name_of(volume)))


def topologies_admit(storage_class: JsonObject, node: JsonObject) -> bool:
    """Whether the class may provision where the node is."""
    allowed = storage_class.get("allowedTopologies")
    if not allowed:
        return True
    labels = labels_of(node)
    return any(
        all(labels.get(e["key"]) in e["values"] for e in term.get("matchLabelExpressions") or ()) for term in allowed
    )


def _suits(volume: JsonObject, claim: JsonObject) -> bool:
    spec, wanted = spec_of(volume), spec_of(claim)
    reference: dict[str, Any] = spec.get("claimRef") or {}
    is_reserved = (reference.get("namespace"), reference.get("name")) == (namespace_of(claim), name_of(claim))
    if reference and (not is_reserved or reference.get("uid", uid_of(claim)) != uid_of(claim)):
        return False
    if wanted.get("volumeName"):
        return bool(wanted["volumeName"] == name_of(volume))
    return (
        (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _size(spec.get("capacity")) >= _size((wanted.get("resources") or {}).get("requests"))
        and (wanted.get("selector") is None or selects(wanted["selector"], volume))
        and spec["volumeMode"] == wanted["volumeMode"]
        and status_of(volume).get("phase") != "Released"
    )


def _size(resources: JsonObject | None) -> int:
    return quantity.parse((resources or {}).get("storage", 0), "storage")
