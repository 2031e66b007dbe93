"""The cluster's API (`adapters.ports.Kubernetes`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from adapters.kube import errors
from adapters.kube.transport import Transport
from adapters.ports import DeniedError, JsonObject, Listing, TransientError
from core.errors import InvalidInputError
from core.gc_pause import collector_paused
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import PODS, Resource

PAGE_SIZE: Final = 500
PAGES_MAX: Final = 2000
"""The most pages of a list: a million objects of one kind, more than any cluster has."""

RESTARTS_MAX: Final = 3
"""How often a list restarts because its continue token expired during the read (410)."""

EVICTION: Final = "eviction"
BINDING: Final = "binding"
_METHODS: Final = {"get": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
_MERGE_PATCH: Final = "application/merge-patch+json"


class HttpKubernetes:
    """Client of one API server. Writes are single attempts."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Yield the kind's objects in all namespaces that both selectors select, page by page. Raises PortError."""
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        query = {name: selector for name, selector in selectors.items() if selector}
        with collector_paused():
            for _ in range(RESTARTS_MAX):
                listing = self._list_once(resource, query)
                if listing is not None:
                    return listing
        raise TransientError(_call("list", resource), f"the list expired {RESTARTS_MAX} times while it was read")

    def count(self, resource: Resource) -> int | None:
        """Return how many objects of the kind there are: a page of one, plus the number that the server reports as remaining.

        Raises PortError.

        The server reports it only for lists without selectors, and may omit it (Kubernetes' ListMeta).
        """
        call = _call("list", resource)
        answer = self._transport.send(call, "GET", f"{resource.path()}?{urlencode({'limit': 1})}")
        if answer.status >= 300:
            raise errors.of_listing(call, resource, answer.status, answer.body)
        try:
            return wire.decode_count(answer.body)
        except InvalidInputError as error:
            raise TransientError(call, str(error)) from error

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """Return one object as its wire struct. Raises NotFoundError, PortError."""
        body = self._send("get", resource, resource.path(name, namespace))
        try:
            return wire.decode(resource, body)
        except InvalidInputError as error:
            raise DeniedError(_call("get", resource), str(error)) from error

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists, PortError."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        self._send("create", resource, resource.path(namespace=namespace), whole)

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """Apply a JSON merge patch.

        A `metadata.resourceVersion` in the body makes it conditional (ConflictError). Raises PortError.
        """
        path = resource.path(name, namespace, subresource)
        self._send("patch", resource, path, body, subresource=subresource)

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object, with a UID precondition if one is given. Raises NotFoundError, ConflictError, PortError."""
        options = _delete_options(uid, grace_seconds) | {"propagationPolicy": "Background"}
        self._send("delete", resource, resource.path(name, namespace), options)

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod that has no node. Raises NotFoundError, ConflictError, PortError."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._send("create", PODS, PODS.path(name, namespace, BINDING), binding, subresource=BINDING)

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod. Raises EvictionBlockedError, NotFoundError, ConflictError, PortError."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid, None),
        }
        self._send("create", PODS, PODS.path(name, namespace, EVICTION), eviction, subresource=EVICTION)

    def _list_once(self, resource: Resource, selectors: Mapping[str, str]) -> Listing | None:
        """Return the whole list, None if a continue token expired during the read."""
        items: list[Any] = []
        rejected: list[tuple[str, str]] = []
        token = ""
        for _ in range(PAGES_MAX):
            query = urlencode({"limit": PAGE_SIZE, **selectors, **({"continue": token} if token else {})})
            answer = self._transport.send(_call("list", resource), "GET", f"{resource.path()}?{query}")
            if answer.status == errors.GONE:
                return None
            if answer.status >= 300:
                raise errors.of_listing(_call("list", resource), resource, answer.status, answer.body)
            page = _decoded(resource, answer.body)
            items += page.items
            rejected += page.rejected
            token = page.continue_token
            if not token:
                return Listing(items=tuple(items), rejected=tuple(rejected))
        raise TransientError(_call("list", resource), f"more than {PAGES_MAX} pages")

    def _send(
        self, verb: str, resource: Resource, path: str, body: JsonObject | None = None, *, subresource: str = ""
    ) -> bytes:
        call = _call(verb, resource) + (f"/{subresource}" if subresource else "")
        raw = None if body is None else msgspec.json.encode(body)
        content_type = _MERGE_PATCH if verb == "patch" else ""
        answer = self._transport.send(call, _METHODS[verb], path, raw, content_type=content_type)
        if answer.status >= 300:
            is_eviction = subresource == EVICTION
            raise errors.of_answer(
                call, answer.status, answer.body, is_eviction=is_eviction, retry_after=answer.retry_after
            )
        return answer.body


def _decoded(resource: Resource, body: bytes) -> wire.Page:
    try:
        return wire.decode_page(resource, body)
    except InvalidInputError as error:
        raise TransientError(_call("list", resource), str(error)) from error


def _delete_options(uid: str, grace_seconds: int | None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _call(verb: str, resource: Resource) -> str:
    return f"kube:{verb} {resource.plural}"
