"""Structs that all kinds of Kubernetes objects share on the wire: metadata, selectors, quantities."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

Quantity = str | int | float
Quantities = dict[str, Quantity]
IntOrString = int | str
Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]


class Wire(msgspec.Struct, rename="camel"):
    """Base of the structs: names are camelCase in JSON and snake_case here; fields that we do not read are dropped."""


class OwnerReference(Wire):
    """One entry of `metadata.ownerReferences`."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool = False


class WireMetadata(Wire):
    """The fields of `metadata` that we read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None


class WireCondition(Wire):
    """One entry of `status.conditions`."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class SelectorExpression(Wire):
    """One entry of a `matchExpressions`, of a label selector or of a node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class WireLabelSelector(Wire):
    """A selector of objects by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorExpression, ...] = ()


class WireNodeSelectorTerm(Wire):
    """One alternative of a node affinity."""

    match_expressions: tuple[SelectorExpression, ...] = ()
    match_fields: tuple[SelectorExpression, ...] = ()


class NodeSelector(Wire):
    """Alternatives, any one of which is enough."""

    node_selector_terms: tuple[WireNodeSelectorTerm, ...] = ()


class Labelled(Wire):
    """A kind of which we only read the metadata: Namespace, CronJob."""

    metadata: WireMetadata
