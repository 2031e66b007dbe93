"""The answer of `explain`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class PoolFindingAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What a NodePool lacks for a pod; `ruledOut` counts each instance type once, by the first rule that it fails."""

    name: str
    reason: str | None
    message: str
    nearest: str | None
    ruled_out: dict[str, int]


class ExplanationAnswer(JsonAnswer):
    """`fleetwright explain -o json`; `pod`, `node`, `workload`, `nodePool` or `code` names what it is about.

    `nodePools` is about a pod without a place, the nearest NodePool first; of a workload, about its first pod without a place.
    """

    kind: Literal["Explanation"]
    outcome: str
    reason: str | None
    details: list[str]
    node_pools: list[PoolFindingAnswer]
    page: str | None = None
    pod: str = ""
    node: str = ""
    workload: str = ""
    node_pool: str = ""
    code: str = ""
