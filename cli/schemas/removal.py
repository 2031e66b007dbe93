"""The answer of `drain`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class DrainedClaimAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A claim. `state`: running, draining or terminating; `message`: why it is removed. Unknown values are empty."""

    subject: str
    state: str
    node: str
    instance: str
    node_pool: str
    message: str


class DrainAnswer(JsonAnswer):
    """`fleetwright drain -o json`. `acting`: whether `--yes` was given; `begun`: whether this run has changed anything.

    `hindrances` prevent the start, or stopped the run.

    `leftovers`: instances without a claim, NodePools, EC2NodeClasses, mirrored NodeClaims, Nodes with our finalizer, launch
    templates and instance profiles, as Kind/name.
    """

    kind: Literal["Drain"]
    cluster: str
    acting: bool
    begun: bool
    hindrances: list[str]
    items: list[DrainedClaimAnswer]
    leftovers: list[str]
