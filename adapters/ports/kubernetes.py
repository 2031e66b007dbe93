"""The part of the cluster's API that controllers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from core.api.objects import JsonObject
    from core.manifests.wire.api_resources import Resource


class Listing(msgspec.Struct, frozen=True):
    """All objects of one kind: decoded ones (structs of `core.manifests.wire`), and the undecodable ones with the reason."""

    items: tuple[Any, ...]
    rejected: tuple[tuple[str, str], ...] = ()


class Kubernetes(Protocol):
    """The part of the cluster's API that we need.

    Every method raises PortError subclasses only. Writes are single attempts; the caller decides about retries.
    """

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Every object of the kind in all namespaces, page by page; `fields` and `labels` are Kubernetes' selectors."""
        ...

    def count(self, resource: Resource) -> int | None:
        """Return how many objects of the kind there are, for the cost of one; None if the server does not report it."""
        ...

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """One object as its wire struct. Raises NotFoundError."""
        ...

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists."""
        ...

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """Apply a JSON merge patch. A `metadata.resourceVersion` in the body makes it conditional (ConflictError)."""
        ...

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object, with a UID precondition if one is given. Raises NotFoundError, ConflictError."""
        ...

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod to a node. Raises NotFoundError; ConflictError if it has a node, or is another pod by now."""
        ...

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod through the eviction API.

        Raises EvictionBlockedError, SeveralBudgetsError, ThrottledError, NotFoundError, ConflictError.
        """
        ...
