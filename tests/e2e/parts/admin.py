"""The tests' client of the API server, as administrator: apply, read, wait."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from adapters import kube
from adapters.kube import Endpoint, Transport
from adapters.ports import EvictionBlockedError, JsonObject, LostReplyError, NotFoundError, PortError

OK: Final = 200
FIELD_MANAGER: Final = "fleetwright-e2e"
POLL_SECONDS: Final = 0.1
ESTABLISHED_SECONDS: Final = 120.0
APPLIED_SECONDS: Final = 120.0
"""Right after new definitions, the server builds its schemas again, and one request was not answered for 20 s."""

PAGE_SIZE: Final = 1000

_FIRST: Final = ("Namespace", "CustomResourceDefinition", "StorageClass", "PriorityClass")
"""Kinds on which others depend; they are applied first."""

T = TypeVar("T")


class Kind(msgspec.Struct, frozen=True):
    """Where objects of one kind are: `path` without namespace and name."""

    path: str
    plural: str
    is_namespaced: bool

    def at(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of one object or of a collection."""
        space = f"namespaces/{namespace}" if namespace and self.is_namespaced else ""
        return "/".join(part for part in (self.path, space, self.plural, name, subresource) if part)


class Admin:
    """One identity at one API server. Every method raises `PortError` as the functions' own client does.

    Kinds are named as kubectl does: `pods`, `deployments.apps`, `nodepools.karpenter.sh`.
    """

    def __init__(self, url: str, ca: bytes, token: str) -> None:
        self._endpoint = Endpoint(url, base64.b64encode(ca).decode())
        self._token = _FixedToken(token)
        self._threads = threading.local()
        self._kinds: dict[tuple[str, str], Kind] = {}

    @property
    def _transport(self) -> Transport:
        """One connection for each thread that asks."""
        if not hasattr(self._threads, "transport"):
            self._threads.transport = Transport(lambda: self._endpoint, self._token)
        transport: Transport = self._threads.transport
        return transport

    def is_ready(self) -> bool:
        """Return whether the server reports that it is ready."""
        return self._transport.send("kube:readyz", "GET", "/readyz").status == OK

    def version(self) -> str:
        """Return the server's version, such as `v1.35.1`."""
        return str(self._send("version", "GET", "/version")["gitVersion"])

    def apply(self, objects: Iterable[JsonObject]) -> None:
        """Server-side apply, what others need first; CustomResourceDefinitions can be used when it returns.

        A request that got no answer is sent again: applying the same object twice changes nothing.
        """
        ordered = sorted(objects, key=lambda one: _FIRST.index(one["kind"]) if one["kind"] in _FIRST else len(_FIRST))
        for one in ordered:
            what = f"{one['kind']} {one['metadata']['name']} applied"
            until(partial(self._apply, one), seconds=APPLIED_SECONDS, what=what, forgive=(LostReplyError,))
            if one["kind"] == "CustomResourceDefinition":
                self._await_established(one)

    def create(self, one: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """Create an object, or only have the server judge it (`dry_run`); what the server made of it."""
        kind, metadata = self._kind_of(one), one["metadata"]
        query = "?dryRun=All" if dry_run else ""
        return self._send("create", "POST", kind.at(metadata.get("namespace", "default")) + query, one)

    def get(self, resource: str, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, or None if it does not exist."""
        try:
            return self._send("get", "GET", self._kind(resource).at(namespace, name))
        except NotFoundError:
            return None

    def some(self, resource: str, number: int, namespace: str = "", *, fields: str = "") -> list[JsonObject]:
        """Return at most this many of the objects: a cheap way to learn whether there are any."""
        query = urlencode({"limit": number, "fieldSelector": fields})
        found: list[JsonObject] = self._send("list", "GET", f"{self._kind(resource).at(namespace)}?{query}")["items"]
        return found

    def list(self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[JsonObject]:
        """Return all objects of a kind, in one namespace or in all, that match the selectors."""
        path, found, more = self._kind(resource).at(namespace), [], ""
        while True:
            query = urlencode({"limit": PAGE_SIZE, "labelSelector": labels, "fieldSelector": fields, "continue": more})
            page = self._send("list", "GET", f"{path}?{query}")
            found.extend(page["items"])
            more = page["metadata"].get("continue", "")
            if not more:
                return found

    def patch(
        self, resource: str, name: str, body: JsonObject, namespace: str = "", *, subresource: str = ""
    ) -> JsonObject:
        """Apply a JSON merge patch and return the patched object."""
        path = self._kind(resource).at(namespace, name, subresource)
        return self._send("patch", "PATCH", path, body, content_type="application/merge-patch+json")

    def delete(self, resource: str, name: str, namespace: str = "", *, grace_seconds: int | None = None) -> None:
        """Delete an object if it exists."""
        options = {"propagationPolicy": "Background"} | (
            {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        )
        try:
            self._send("delete", "DELETE", self._kind(resource).at(namespace, name), options)
        except NotFoundError:
            return

    def delete_all(self, resource: str, namespace: str = "", *, grace_seconds: int | None = None) -> None:
        """Delete every object of a kind, in one namespace where the kind has namespaces."""
        options = {"propagationPolicy": "Background"} | (
            {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        )
        self._send("delete", "DELETE", self._kind(resource).at(namespace), options)

    def post(self, path: str, body: JsonObject) -> JsonObject:
        """Post a request that creates no stored object, such as a token or a review, and return the answer."""
        return self._send("create", "POST", path, body)

    def evict(self, namespace: str, name: str) -> bool:
        """Call the eviction API; returns whether it evicted the pod (a PodDisruptionBudget may refuse)."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            self._send("evict", "POST", self._kind("pods").at(namespace, name, "eviction"), body)
        except EvictionBlockedError:
            return False
        return True

    def _apply(self, one: JsonObject) -> JsonObject:
        kind, metadata = self._kind_of(one), one["metadata"]
        path = kind.at(metadata.get("namespace", "default"), metadata["name"])
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        return self._send("apply", "PATCH", f"{path}?{query}", one, content_type="application/apply-patch+yaml")

    def _kind_of(self, one: JsonObject) -> Kind:
        group, _, version = str(one["apiVersion"]).rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return self._look_up(path, str(one["kind"]))

    def _kind(self, resource: str) -> Kind:
        plural, _, group = resource.partition(".")
        if not group:
            return self._look_up("/api/v1", plural)
        # A copy: another thread may look up a kind at the same time.
        for (path, name), kind in list(self._kinds.items()):
            if name == plural and path.startswith(f"/apis/{group}/"):
                return kind
        preferred = self._send("discover", "GET", f"/apis/{group}")["preferredVersion"]["groupVersion"]
        return self._look_up(f"/apis/{preferred}", plural)

    def _look_up(self, path: str, name: str) -> Kind:
        """Return the kind with this CamelCase name or plural."""
        if (path, name) not in self._kinds:
            for row in self._send("discover", "GET", path)["resources"]:
                if "/" not in row["name"]:
                    kind = Kind(path, row["name"], row["namespaced"])
                    self._kinds[path, row["name"]] = self._kinds[path, row["kind"]] = kind
        if (path, name) not in self._kinds:
            raise NotFoundError(f"kube:discover {path}", f"the server knows no {name} there")
        return self._kinds[path, name]

    def _await_established(self, definition: JsonObject) -> None:
        spec = definition["spec"]
        paths = [f"/apis/{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]

        def known() -> bool:
            try:
                return all(self._look_up(path, spec["names"]["kind"]) for path in paths)
            except NotFoundError:
                return False

        until(known, seconds=ESTABLISHED_SECONDS, what=f"{definition['metadata']['name']} established")

    def _send(self, verb: str, method: str, path: str, body: Any = None, *, content_type: str = "") -> JsonObject:
        call = f"kube:{verb} {path.partition('?')[0]}"
        content = None if body is None else msgspec.json.encode(body)
        status, answer, _ = self._transport.send(call, method, path, content, content_type=content_type)
        if not 200 <= status < 300:
            raise kube.of_answer(call, status, answer, is_eviction=verb == "evict")
        return msgspec.json.decode(answer, type=dict[str, Any])


def until(
    check: Callable[[], T],
    *,
    seconds: float,
    what: str,
    forgive: Sequence[type[PortError]] = (),
    every: float = POLL_SECONDS,
    rests: float = 0.0,
) -> T:
    """Call `check` until it returns something true, and return that; errors in `forgive` count as false.

    Between two questions are `every` seconds, or `rests` times as long as the last one took, if that is longer.

    Raises:
        TimeoutError: If it returns nothing true in time; the message says what was awaited.
    """
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        try:
            if answer := check():
                return answer
            last = ""
        except tuple(forgive) as error:
            last = f" (last: {error})"
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}{last}")
        time.sleep(max(every, rests * (time.monotonic() - asked)))


class _FixedToken:
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self) -> str:
        return self._token

    def renew(self) -> None:
        """There is no other."""
