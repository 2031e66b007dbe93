"""Draws a world's options beyond the defaults by its seed: quotas of the account, settings, features of objects.

The options have a random stream of their own, so that they do not change what else is drawn for the world.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Final

import msgspec

from core.api.objects import JsonObject
from core.model.values.vcpu_quotas import STANDARD
from simulator.campaign.world_steps import BUDGETS_HOLD

Setting = str | int | bool

STATIC_CAPACITY: Final = "StaticCapacity"
"""The feature gate of NodePools with replicas."""

BY_HAND: Final = "by-hand"
STATIC: Final = "static"

_PREFIXES: Final = "fleetwright.dev/prefix-delegation"
_SURGE: Final = "fleetwright.dev/surge"
_EVICTIONS_PER_HOUR: Final = "fleetwright.dev/evictions-per-hour"
_QUOTAS: Final = (8, 16, 48)
_SETTINGS: Final[tuple[tuple[float, str, tuple[Setting, ...]], ...]] = (
    (0.15, "launchesPerRun", (1, 2)),
    (0.1, "rebalancePolicy", ("drain",)),
    (0.1, "surgeRestarts", (True,)),
    (0.1, "steerScaleIn", (True,)),
    (0.1, "bindPods", (False,)),
    (0.05, "mirrorNodeClaims", (False,)),
)
"""Share of worlds that have the setting, its name, its values."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A world's options in the form of a scenario."""

    quotas: dict[str, int] = {}
    settings: dict[str, Setting] = {}
    gates: dict[str, bool] = {}
    steps: list[JsonObject] = []


def draw_options(rng: Random, objects: list[JsonObject], steps: Sequence[JsonObject], fault_time: timedelta) -> Options:
    """Return the options of a world whose faults last for `fault_time`.

    Options that are fields of objects are written into `objects`, and into the same objects in `steps`.
    """
    last = round(fault_time.total_seconds())
    written = [*objects, *(found for step in steps for found in step.get("apply", ()))]
    quotas = _quotas(rng)
    settings = {name: rng.choice(values) for share, name, values in _SETTINGS if rng.random() < share}
    if settings.get("surgeRestarts"):
        _let_surge(written)
    if rng.random() < 0.1:
        _annotate(written, "EC2NodeClass", _PREFIXES, "true")
    # Not in worlds that lose rows: eviction counts are lost with them.
    if rng.random() < 0.1 and not any("table" in step for step in steps):
        _annotate(written, "NodePool", _EVICTIONS_PER_HOUR, rng.choice(("2", "5", "12")))
    is_static = not quotas and rng.random() < 0.1
    own = [*(_static(rng, objects, last) if is_static else ()), *_node_claims(rng, objects, last)]
    return Options(quotas=quotas, settings=settings, gates={STATIC_CAPACITY: True} if is_static else {}, steps=own)


def _quotas(rng: Random) -> dict[str, int]:
    """Draw quotas small enough to bind, in some worlds for one capacity type only."""
    if rng.random() >= 0.12:
        return {}
    codes = rng.choice(((STANDARD.on_demand,), (STANDARD.spot,), (STANDARD.on_demand, STANDARD.spot)))
    return {code: rng.choice(_QUOTAS) for code in codes}


def _let_surge(objects: Sequence[JsonObject]) -> None:
    for found in objects:
        if found["kind"] == "Deployment":
            metadata = found["spec"]["template"]["metadata"]
            metadata["annotations"] = {**metadata.get("annotations", {}), _SURGE: "true"}


def _annotate(objects: Sequence[JsonObject], kind: str, key: str, value: str) -> None:
    for found in objects:
        if found["kind"] == kind:
            found["metadata"]["annotations"] = {**found["metadata"].get("annotations", {}), key: value}


def _static(rng: Random, objects: list[JsonObject], last: int) -> Iterator[JsonObject]:
    """Draw a NodePool with replicas, and a user who changes their number, even to zero; its budgets open with the others'."""
    pool = copy.deepcopy(next(found for found in objects if found["kind"] == "NodePool"))
    pool["metadata"]["name"] = STATIC
    pool["spec"].pop("limits", None)
    pool["spec"].pop("weight", None)
    pool["spec"]["template"]["spec"]["expireAfter"] = "Never"
    pool["spec"]["replicas"] = rng.randint(1, 3)
    objects.append(pool)
    changed = copy.deepcopy(pool)
    changed["spec"]["replicas"] = rng.randint(0, 3)
    yield {"at": rng.randint(60, last), "apply": [changed]}
    opened = copy.deepcopy(changed)
    opened["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
    yield {"at": last + BUDGETS_HOLD, "apply": [opened]}


def _node_claims(rng: Random, objects: Sequence[JsonObject], last: int) -> Iterator[JsonObject]:
    """Draw a user who makes a NodeClaim and deletes it again, or who deletes a share of all NodeClaims."""
    if rng.random() < 0.08:
        at = rng.randint(20, last)
        yield {"at": at, "apply": [_by_hand(rng, objects)]}
        yield {"at": rng.randint(at, last) + 60, "delete": [{"kind": "NodeClaim", "name": BY_HAND}]}
    if rng.random() < 0.1:
        yield {"at": rng.randint(20, last), "deleteNodeClaims": {"fraction": rng.choice((0.3, 1.0))}}


def _by_hand(rng: Random, objects: Sequence[JsonObject]) -> JsonObject:
    pool = next(found for found in objects if found["kind"] == "NodePool")
    metadata: JsonObject = {"name": BY_HAND}
    if rng.random() < 0.5:
        metadata["labels"] = {"karpenter.sh/nodepool": pool["metadata"]["name"]}
    spec = pool["spec"]["template"]["spec"]
    reference = {"nodeClassRef": spec["nodeClassRef"], "requirements": spec["requirements"]}
    own = {**reference, "resources": {"requests": {"cpu": rng.choice(("1", "3"))}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": own}
