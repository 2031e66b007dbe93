"""The answers of `adopt` and `release`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class HandoverItemAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A NodeClaim, Node or instance; `reason` is a documented code, `drift` why its node counts as drifted once it is ours.

    `state` of `adopt`: adoptable, begun, ours, refused; adopted or failed after `--yes`. Of `release`: releasable, kept;
    released or failed after `--yes`. What is not known is an empty text.
    """

    subject: str
    state: str
    node_claim: str
    node: str
    instance: str
    instance_type: str
    node_pool: str
    reason: str
    message: str
    drift: str


class NodeClassHandoverAnswer(msgspec.Struct, kw_only=True):
    """An EC2NodeClass whose finalizer of Karpenter's is removed."""

    subject: str
    state: str


class AdoptionAnswer(JsonAnswer):
    """`fleetwright adopt -o json`. `acting`: whether `--yes` was given; `hindrances` prevent the start."""

    kind: Literal["Adoption"]
    cluster: str
    acting: bool
    hindrances: list[str]
    items: list[HandoverItemAnswer]
    node_classes: list[NodeClassHandoverAnswer]


class ReleaseAnswer(JsonAnswer):
    """`fleetwright release -o json`. `commands`: how many disruption commands are under way and are dropped."""

    kind: Literal["Release"]
    cluster: str
    acting: bool
    hindrances: list[str]
    commands: int
    items: list[HandoverItemAnswer]
