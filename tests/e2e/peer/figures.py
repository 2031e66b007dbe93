"""The measurements of each side; `build/e2e-peer.json` has these names in camelCase."""

from __future__ import annotations

from typing import Any

import msgspec


class Footprint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A side's resource usage so far.

    Attributes:
        memory_mb: Peak resident memory: of the controller, or of each function in its largest sandbox.
        cpu_seconds: Processor time of the controller; 0 for functions, which are billed by time.
        billed_ms: Of all invocations by function, cold starts included; empty for the controller, which runs all the time.
        gb_seconds: The same as Lambda bills it, by each function's configured memory.
    """

    memory_mb: dict[str, float]
    cpu_seconds: float = 0.0
    billed_ms: dict[str, int] = {}
    gb_seconds: float = 0.0


class Burst(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """From the moment the first Deployment is applied.

    Attributes:
        first_claim_seconds, last_claim_seconds: Until the claims were made.
        last_running_seconds: Until the last pod ran; None: not all did in time.
        waiting: Pods that did not run in time.
        pod_seconds: Until pods were bound and ready, by moment: the first, the median, the last.
        claim_seconds: Of each claim, from its first pod to each moment of it, in the same way; ours alone.
    """

    first_claim_seconds: float
    last_claim_seconds: float
    last_running_seconds: float | None
    waiting: int
    claims: int
    nodes: int
    dollars_per_hour: float
    footprint: Footprint
    pod_seconds: dict[str, tuple[float, float, float]] = {}
    claim_seconds: dict[str, tuple[float, float, float]] = {}


class Halved(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """From the moment the Deployments are scaled to half and the NodePools begin to consolidate.

    Attributes:
        seconds: Until the last change of the nodes.
        is_settled: Nothing changed for the time agreed; False: the wait ended first.
        evictions: Pods that the eviction API let go.
        launched: Nodes of afterwards that were not there before.
        waiting: Pods that did not run at the end.
        trail: Seconds, nodes and $/h at each change.
    """

    seconds: float
    is_settled: bool
    evictions: int
    launched: int
    waiting: int
    nodes: int
    dollars_per_hour: float
    trail: list[tuple[float, int, float]]
    footprint: Footprint


class Result(msgspec.Struct, kw_only=True, rename="camel"):
    """One side with one size. `load` is the machine's one-minute average before and after; `failures` what went wrong."""

    side: str
    pods: int
    taken_at: str
    burst: Burst | None = None
    halved: Halved | None = None
    load: list[float] = []
    failures: list[str] = []


def to_json(results: list[Result], conditions: dict[str, Any]) -> bytes:
    """Return the report as indented JSON."""
    report = {"conditions": conditions, "results": msgspec.to_builtins(results)}
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
