"""Caches lists of nodes, so that claims looking for their nodes share them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

import msgspec

from adapters.ports import Clock, Kubernetes
from adapters.runtime.observability import logger
from core import labels
from core.errors import InvalidInputError
from core.manifests import nodes
from core.manifests.wire import api_resources as kinds
from core.model.node import Node

JOINING: Final = f"!{labels.INITIALIZED},!eks.amazonaws.com/nodegroup,eks.amazonaws.com/compute-type!=fargate"
"""Label selector: nodes that may belong to claims without a known node; there are few at any time.

A claim's node is identified by its provider id, by which the API server cannot select nodes. Our labels come with the kubelet,
but not if a class has custom user data, so the selector excludes: nodes that EKS itself runs, and initialized nodes. A claim
stores its node's name long before it initializes the node.
"""

FRESH_FOR: Final = timedelta(milliseconds=900)
"""How old a list may be for a claim that waits for its node. A claim is checked every second while nodes join
(`core.lifecycle.claims.BOOT_RECHECKED`), so a sandbox makes at most sixty such lists a minute, regardless of the number of
booting claims."""


class ObservedNode(msgspec.Struct, frozen=True):
    """A node and the version of the object that it was read from."""

    node: Node
    resource_version: str


class _Listed(msgspec.Struct, frozen=True):
    begun_at: datetime
    nodes: tuple[ObservedNode, ...]


class NodeLists:
    """Lists by label selector, shared by the messages and threads that one sandbox handles within a short time."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._lock = Lock()
        self._listed: dict[str, _Listed] = {}

    def recent(self, selector: str) -> tuple[ObservedNode, ...]:
        """Return the nodes that had these labels at most `FRESH_FOR` ago. Raises PortError."""
        return self.since(selector, self._clock.now() - FRESH_FOR)

    def since(self, selector: str, moment: datetime) -> tuple[ObservedNode, ...]:
        """Return a list begun at `moment` or later; a caller during another's listing waits for that list. Raises PortError."""
        with self._lock:
            known = self._listed.get(selector)
            if known is None or known.begun_at < moment:
                begun = self._clock.now()
                # A list that is older than this is never used, so only those in use are kept.
                kept = {key: found for key, found in self._listed.items() if found.begun_at >= begun - FRESH_FOR}
                found = tuple(readable(self._kubernetes.list(kinds.NODES, labels=selector).items))
                known = _Listed(begun, found)
                self._listed = kept | {selector: known}
            return known.nodes


def readable(items: Iterable[Any]) -> Iterable[ObservedNode]:
    """Return the nodes that can be parsed, as decoded from the wire."""
    for written in items:
        try:
            yield seen_node(written)
        except InvalidInputError:
            logger.exception("node cannot be read", extra={"node": written.metadata.name})


def seen_node(written: Any) -> ObservedNode:
    """Return a node as decoded from the wire. Raises InvalidInputError."""
    return ObservedNode(nodes.node(written), written.metadata.resource_version)
