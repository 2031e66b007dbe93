"""The common part of all workload controllers: waking when an owned object changes, and creating pods from a template."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import (
    controller_of,
    is_deleting,
    labels_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue

_HASH_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH: Final = 10


def wake_for(store: Store, queue: WorkQueue, resource: Resource, *owned: Resource) -> None:
    """Mark objects of the kind when they change, or when something of these kinds changes that they control."""

    def itself(change: Change) -> None:
        namespace = namespace_of(change.obj)
        queue.add((namespace, change.obj["metadata"]["name"]))

    def controller(change: Change) -> None:
        reference = controller_of(change.obj)
        if reference is None or reference["kind"] != resource.kind:
            return
        if change.old is None or change.new is None or _watched_fields(change.old) != _watched_fields(change.new):
            queue.add((namespace_of(change.obj), reference["name"]))

    store.watch(itself, resource)
    store.watch(controller, *owned)


def _watched_fields(obj: JsonObject) -> tuple[object, ...]:
    """Return the fields of an object that a controller observes, without its node and scheduling reasons."""
    status = status_of(obj)
    counts = {key: value for key, value in status.items() if key != "conditions"}
    over = [c["type"] for c in status.get("conditions") or () if c["status"] == "True" and c["type"] != "PodScheduled"]
    return is_deleting(obj), labels_of(obj), counts, over, spec_of(obj).get("replicas")


def create_pod(
    store: Store,
    resource: Resource,
    owner: JsonObject,
    *,
    template: JsonObject | None = None,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: JsonObject | None = None,
) -> JsonObject:
    """Create a pod from the owner's template; without a name one is generated from the owner's."""
    template = template or owner["spec"]["template"]
    given = template.get("metadata") or {}
    metadata: JsonObject = {
        "namespace": namespace_of(owner),
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "annotations": {**(given.get("annotations") or {}), **(annotations or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    metadata |= {"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}
    if given.get("finalizers"):
        metadata["finalizers"] = given["finalizers"]
    body = {"metadata": metadata, "spec": {**(template.get("spec") or {}), **(spec or {})}}
    return store.create(kinds.PODS, body)


def template_hash(template: Any) -> str:
    """Return ten letters that identify a pod template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest[:_HASH_LENGTH])
