"""Lists of nodes, each made once for all claims that look for theirs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests import nodes
from core.manifests.wire import api_resources as kinds
from core.model.node import Node
from lambdas.observability import logger
from lambdas.ports import Clock, Kubernetes

JOINING: Final = f"!{labels.INITIALIZED},!eks.amazonaws.com/nodegroup,eks.amazonaws.com/compute-type!=fargate"
"""Label selector: nodes that may be those of claims which know no node yet, few at any time.

A claim is known by its provider id, which the API server selects no nodes by. Our labels come with the kubelet, but not where
a class brings its own user data, so it is the other way round: not what EKS itself runs, and not what is initialized. A
claim has written its node's name down long before it initializes the node.
"""

FRESH_FOR: Final = timedelta(milliseconds=900)
"""How old a list may be that a claim waits by. A claim is checked every second while nodes join
(`core.lifecycle.claims.BOOT_RECHECKED`), so a sandbox makes sixty such lists a minute at most, however many claims boot."""


class ObservedNode(msgspec.Struct, frozen=True):
    """A node and the version of the object that it was read from."""

    node: Node
    resource_version: str


class _Listed(msgspec.Struct, frozen=True):
    begun_at: datetime
    nodes: tuple[ObservedNode, ...]


class NodeLists:
    """Lists by label selector, shared by the messages that one sandbox handles within a short time; by its threads, too."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._lock = Lock()
        self._listed: dict[str, _Listed] = {}

    def lately(self, selector: str) -> tuple[ObservedNode, ...]:
        """The nodes that had these labels at most `FRESH_FOR` ago. Raises PortError."""
        return self.since(selector, self._clock.now() - FRESH_FOR)

    def since(self, selector: str, moment: datetime) -> tuple[ObservedNode, ...]:
        """By a list begun at `moment` or later; who asks while another lists waits for that list. Raises PortError."""
        with self._lock:
            known = self._listed.get(selector)
            if known is None or known.begun_at < moment:
                begun = self._clock.now()
                # Nobody takes a list that is older than this; so as many are kept as are in use.
                kept = {key: found for key, found in self._listed.items() if found.begun_at >= begun - FRESH_FOR}
                found = tuple(readable(self._kubernetes.list(kinds.NODES, labels=selector).items))
                known = _Listed(begun, found)
                self._listed = kept | {selector: known}
            return known.nodes


def readable(items: Iterable[Any]) -> Iterable[ObservedNode]:
    """The nodes that can be understood, as decoded from the wire."""
    for written in items:
        try:
            yield seen_node(written)
        except InvalidInputError:
            logger.exception("node cannot be read", extra={"node": written.metadata.name})


def seen_node(written: Any) -> ObservedNode:
    """A node as decoded from the wire. Raises InvalidInputError."""
    return ObservedNode(nodes.node(written), written.metadata.resource_version)
