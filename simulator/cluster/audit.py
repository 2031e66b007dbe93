"""The part of the API server's audit log that functions subscribe to: pending, finished or deleted pods, changed NodePools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import (
    CONTROLLER,
    PROGRAM,
    USER,
    condition_of,
    is_deleting,
    is_finished,
    key_of,
    node_of,
    phase_of,
    uid_of,
)
from simulator.cluster.scheduling.nominations import nominated_node
from simulator.cluster.store import Change, Store

AuditListener = Callable[[JsonObject], None]

_USERS: Final = {
    PROGRAM: "fleetwright",
    USER: "kubernetes-admin",
    CONTROLLER: "system:serviceaccount:kube-system:controller",
}
_GROUPS: Final = {_USERS[PROGRAM]: ["fleetwright:execute", "system:authenticated"]}
_SCHEDULER: Final = "system:kube-scheduler"
_KUBELET: Final = "system:node:"
_OK: Final = 200
_CREATED: Final = 201


class AuditLog:
    """Turns changes into audit events of the stage ResponseComplete and passes them to its listeners."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: list[AuditListener] = []
        self._count = 0
        store.watch(self._pod_changed, kinds.PODS)
        store.watch(self._node_pool_changed, kinds.NODE_POOLS)
        store.watch(self._node_claim_changed, kinds.NODE_CLAIMS)

    def listen(self, listener: AuditListener) -> None:
        """Call `listener` with each event from now on."""
        self._listeners.append(listener)

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            graceful = change.old is not None and is_deleting(change.old)
            user = _KUBELET + change.obj["spec"].get("nodeName", "") if graceful else _USERS[change.by]
            self._emit(kinds.PODS, change.obj, "delete", user, None, response=change.obj)
        elif change.old is not None and is_deleting(change.new) and not is_deleting(change.old):
            # An eviction is logged as `create pods/eviction`, which no function is subscribed to.
            if change.cause != "eviction":
                self._emit(kinds.PODS, change.new, "delete", _USERS[change.by], None)
        elif _is_verdict(change):
            patch = {"status": {"conditions": [condition_of(change.new, "PodScheduled")]}}
            self._emit(kinds.PODS, change.new, "patch", _SCHEDULER, patch, subresource="status")
        elif change.old is not None and is_finished(change.new) and not is_finished(change.old) and node_of(change.new):
            finished = {"status": {"phase": phase_of(change.new)}}
            user = _KUBELET + node_of(change.new)
            self._emit(kinds.PODS, change.new, "patch", user, finished, subresource="status")
        elif change.old is not None and not node_of(change.new) and _renominated(change.old, change.new):
            user = _USERS[PROGRAM] if change.by == PROGRAM else _SCHEDULER
            named: JsonObject = {"nominatedNodeName": nominated_node(change.new) or None}
            renamed: JsonObject = {"status": named}
            self._emit(kinds.PODS, change.new, "patch", user, renamed, subresource="status", response=change.new)

    def _node_pool_changed(self, change: Change) -> None:
        user = _USERS[change.by]
        if change.new is None:
            self._emit(kinds.NODE_POOLS, change.obj, "delete", user, None)
        elif change.old is None:
            self._emit(kinds.NODE_POOLS, change.new, "create", user, change.new, code=_CREATED)
        else:
            subresource = "status" if change.old.get("spec") is change.new.get("spec") else ""
            self._emit(kinds.NODE_POOLS, change.new, "patch", user, change.new, subresource=subresource)

    def _node_claim_changed(self, change: Change) -> None:
        was_deleted = change.old is not None and is_deleting(change.old)
        if (change.new is None or is_deleting(change.new)) and not was_deleted:
            self._emit(kinds.NODE_CLAIMS, change.obj, "delete", _USERS[change.by], None)
        elif change.old is None:
            self._emit(kinds.NODE_CLAIMS, change.obj, "create", _USERS[change.by], change.new, code=_CREATED)

    def _emit(
        self,
        resource: Resource,
        obj: JsonObject,
        verb: str,
        user: str,
        request: JsonObject | None,
        *,
        response: JsonObject | None = None,
        subresource: str = "",
        code: int = _OK,
    ) -> None:
        if not self._listeners:
            return
        self._count += 1
        event = self._event(resource, obj, verb, user)
        if subresource:
            event["objectRef"]["subresource"] = subresource
        if request is not None:
            event["requestObject"] = request
        if response is not None:
            event["responseObject"] = response
        event["responseStatus"] = {"metadata": {}, "code": code}
        for listener in self._listeners:
            listener(event)

    def _event(self, resource: Resource, obj: JsonObject, verb: str, user: str) -> JsonObject:
        namespace, name = key_of(obj)
        stamp = self._store.clock.now().replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        reference = {"resource": resource.plural, "name": name, "uid": uid_of(obj), "apiVersion": resource.version}
        reference |= {"namespace": namespace} if namespace else {}
        reference |= {"apiGroup": resource.group} if resource.group else {}
        return {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"00000000-0000-4000-8000-{self._count:012d}",
            "stage": "ResponseComplete",
            "requestURI": resource.path(name, namespace),
            "verb": verb,
            "user": {"username": user, "groups": _GROUPS.get(user, [])},
            "objectRef": reference,
            "requestReceivedTimestamp": stamp,
            "stageTimestamp": stamp,
            "annotations": {"authorization.k8s.io/decision": "allow"},
        }


def _renominated(old: JsonObject, new: JsonObject) -> bool:
    return nominated_node(old) != nominated_node(new)


def _is_verdict(change: Change) -> bool:
    """Whether the scheduler has just reported, or repeated, that no node can take the pod."""
    condition = condition_of(change.obj, "PodScheduled")
    said = condition.get("status") == "False" and condition.get("reason") == "Unschedulable"
    return bool(said) and (change.old is None or condition_of(change.old, "PodScheduled") != condition)
