"""Writes the status of users' objects if it differs, and preserves the conditions of other writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Any

import msgspec

from adapters.ports import Clock, JsonObject, Kubernetes, NotFoundError
from core.api.objects import generation_of, mapping, name_of, sequence
from core.manifests.wire.api_resources import Resource


class Present(msgspec.Struct, frozen=True):
    """An object and its present status."""

    kind: Resource
    name: str
    namespace: str
    generation: int
    status: JsonObject

    @classmethod
    def of(cls, kind: Resource, obj: JsonObject) -> Present:
        """The object of a cluster-wide kind, as listed."""
        return cls(kind, name_of(obj), "", generation_of(obj), mapping(obj.get("status")))


class StatusWriter:
    """Patches the status subresource."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def write(self, present: Present, status: JsonObject) -> bool:
        """Update an object's status; return whether it differed. No error if the object is gone. Raises PortError."""
        merged = {**status, "conditions": self._merged(present, status.get("conditions") or ())}
        if all(present.status.get(name) == value for name, value in merged.items()):
            return False
        body = {"status": {name: _replacing(present.status.get(name), value) for name, value in merged.items()}}
        tolerate_gone(
            lambda: self._kubernetes.patch(
                present.kind, present.name, body, namespace=present.namespace, subresource="status"
            )
        )
        return True

    def _merged(self, present: Present, wanted: Iterable[JsonObject]) -> list[JsonObject]:
        """Merge the new conditions with those of other writers; a condition with an unchanged status keeps its time."""
        written = map(mapping, sequence(present.status.get("conditions")))  # others may write anything there
        conditions = {str(found["type"]): found for found in written if "type" in found}
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for entry in wanted:
            before = conditions.get(entry["type"]) or {}
            same = before.get("status") == entry["status"]
            since = before.get("lastTransitionTime", now) if same else now
            conditions[entry["type"]] = {
                **entry,
                "lastTransitionTime": since,
                "observedGeneration": present.generation,
            }
        return [conditions[name] for name in sorted(conditions)]


def _replacing(present: Any, wanted: Any) -> Any:
    """Return the merge patch that replaces a mapping entirely: a merge patch keeps every key that it does not name."""
    if not isinstance(present, dict) or not isinstance(wanted, dict):
        return wanted
    return {**dict.fromkeys(sorted(present.keys() - wanted.keys())), **wanted}


def condition(kind: str, status: str, message: str = "", *, reason: str = "") -> JsonObject:
    """Return a condition; without a given reason it gets the default one."""
    usual = kind if status == "True" else f"{kind}Failed" if status == "False" else "AwaitingReconciliation"
    return {"type": kind, "status": status, "reason": reason or usual, "message": message}


def tolerate_gone(write: Callable[[], None]) -> None:
    """Run the write; ignore an error that the object is gone."""
    try:
        write()
    except NotFoundError:
        return
