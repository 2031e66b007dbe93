"""Draws a world's events other than faults by its seed: users, EC2's market, interruptions, slow boots, new images."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final

from core.api.objects import JsonObject
from simulator.campaign.market import ZONES

FIRST: Final = 20
"""Seconds from the start to the first event: the world is set up before it."""

LATE: Final = "late"
"""Name of the NodePool and the EC2NodeClass that are added later."""

BUDGETS_HOLD: Final = 240
"""Seconds after the faults at which NodePools' budgets open."""


def draw_steps(
    rng: Random, objects: Sequence[JsonObject], lasting: timedelta, *, replicas: Sequence[int]
) -> list[JsonObject]:
    """Return the steps of a world whose faults last for `lasting`; removed capacity returns at their end.

    Workloads are scaled to one of `replicas`.
    """
    last = round(lasting.total_seconds())

    def moment() -> int:
        return rng.randint(FIRST, last)

    changes = list(_changes(rng, objects, moment))
    steps = [
        *_scaling(rng, objects, moment, replicas),
        *_interruptions(rng, moment),
        *_shortages(rng, moment, last),
        *_boots(rng, moment, last),
        *changes,
        *_losses(rng, moment),
        *_deleted_nodes(rng, moment),
        *_brakes(rng, moment, last),
        *_end_of_expiry(objects, changes, last),
    ]
    return sorted(steps, key=lambda step: int(step["at"]))


def _scaling(rng: Random, objects: Sequence[JsonObject], moment: Any, replicas: Sequence[int]) -> Iterator[JsonObject]:
    workloads = [found for found in objects if found["kind"] in ("Deployment", "StatefulSet")]
    for _ in range(rng.randint(1, 5)):
        found = rng.choice(workloads)
        scale = {"kind": found["kind"], "name": found["metadata"]["name"], "replicas": rng.choice(replicas)}
        yield {"at": moment(), "scale": scale}


def _interruptions(rng: Random, moment: Any) -> Iterator[JsonObject]:
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(("spot", "spot", "rebalance", "scheduledChange", "statusCheck"))
        yield {"at": moment(), "interrupt": {"fraction": rng.choice((0.3, 0.5, 1.0)), "kind": kind}}


def _shortages(rng: Random, moment: Any, last: int) -> Iterator[JsonObject]:
    for _ in range(rng.randint(0, 2)):
        capacity: JsonObject = {"available": rng.choice((0, 0, 1, 2))}
        if rng.random() < 0.7:
            capacity["zone"] = rng.choice(ZONES)
        if rng.random() < 0.5:
            capacity["capacityType"] = rng.choice(("spot", "on-demand"))
        yield {"at": moment(), "capacity": capacity}
        yield {"at": last, "capacity": {**capacity, "available": None}}


def _boots(rng: Random, moment: Any, last: int) -> Iterator[JsonObject]:
    for _ in range(rng.randint(0, 2)):
        boot = rng.choice(({"fail": 1}, {"fail": 2}, {"seconds": 200, "count": 2}))
        yield {"at": moment(), "boot": boot}
    yield {"at": last, "boot": {"seconds": 45}}
    if rng.random() < 0.2:
        yield {"at": moment(), "price": {"capacityType": "spot", "factor": rng.choice((0.5, 1.5, 3.0))}}


def _losses(rng: Random, moment: Any) -> Iterator[JsonObject]:
    """The table loses its newest rows or all, or is restored to an earlier state."""
    if rng.random() < 0.12:
        at = moment()
        lost = rng.choice(({"lose": 3}, {"lose": "all"}, {"restore": "2m"}, {"restore": "5m"}))
        yield {"at": at, "table": lost}


def _deleted_nodes(rng: Random, moment: Any) -> Iterator[JsonObject]:
    """A user runs `kubectl delete node`."""
    if rng.random() < 0.2:
        yield {"at": moment(), "deleteNodes": {"fraction": rng.choice((0.2, 0.5, 1.0))}}


def _brakes(rng: Random, moment: Any, last: int) -> Iterator[JsonObject]:
    """A person or alarm engages a brake for a while."""
    if rng.random() < 0.15:
        engaged, released = rng.choice(
            (
                ({"mode": "pause-disruption"}, {"mode": "run"}),
                ({"mode": "stop"}, {"mode": "run"}),
                ({"alarm": "ALARM"}, {"alarm": "OK"}),
                ({"shiftedZones": [rng.choice(ZONES)]}, {"shiftedZones": []}),
            )
        )
        at = moment()
        yield {"at": at, "brake": engaged}
        yield {"at": rng.randint(at, last), "brake": released}


def _changes(rng: Random, objects: Sequence[JsonObject], moment: Any) -> Iterator[JsonObject]:
    """Draw changes by users: a new image, a changed, deleted or added NodePool, a rollout of a Deployment."""
    pools = [found for found in objects if found["kind"] == "NodePool"]
    if rng.random() < 0.3:
        yield {"at": moment(), "ami": {"alias": "al2023", "id": "ami-0new"}}
    if len(pools) > 1 and rng.random() < 0.25:
        yield {"at": moment(), "delete": [{"kind": "NodePool", "name": pools[-1]["metadata"]["name"]}]}
    if rng.random() < 0.3:
        changed = copy.deepcopy(pools[0])
        changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
        yield {"at": moment(), "apply": [changed]}
    if rng.random() < 0.2:
        deployments = [found for found in objects if found["kind"] == "Deployment"]
        changed = copy.deepcopy(rng.choice(deployments))
        changed["spec"]["template"]["metadata"]["labels"]["version"] = "2"
        yield {"at": moment(), "apply": [changed]}
    if rng.random() < 0.3:
        at = moment()
        yield {"at": at, "apply": _late_pool(objects, pools[0])}
        name = next(found["metadata"]["name"] for found in objects if found["kind"] == "Deployment")
        yield {"at": at, "scale": {"kind": "Deployment", "name": name, "replicas": 9}}


def _late_pool(objects: Sequence[JsonObject], pool: JsonObject) -> list[JsonObject]:
    """Return a NodePool with a higher weight than all others, and its EC2NodeClass, which has no status yet."""
    first, own = copy.deepcopy(pool), copy.deepcopy(next(o for o in objects if o["kind"] == "EC2NodeClass"))
    first["metadata"]["name"] = own["metadata"]["name"] = LATE
    first["spec"]["weight"] = 100
    first["spec"]["template"]["spec"]["nodeClassRef"]["name"] = LATE
    return [own, first]


def _end_of_expiry(objects: Sequence[JsonObject], changes: Sequence[JsonObject], last: int) -> Iterator[JsonObject]:
    """End expiry after the faults, since a world that renews its nodes forever never comes to rest, and open budgets later.

    The changed NodePools make nodes drift. With a budget of one node and slow drains, replacing these would take hours.
    """
    deleted = {found["name"] for step in changes for found in step.get("delete", ())}
    latest = {found["metadata"]["name"]: found for found in objects if found["kind"] == "NodePool"}
    for step in sorted(changes, key=lambda step: int(step["at"])):
        latest.update({f["metadata"]["name"]: f for f in step.get("apply", ()) if f["kind"] == "NodePool"})
    for name, pool in latest.items():
        if name in deleted:
            continue
        lasting = copy.deepcopy(pool)
        lasting["spec"]["template"]["spec"]["expireAfter"] = "Never"
        if lasting != pool:
            yield {"at": last, "apply": [lasting]}
        opened = copy.deepcopy(lasting)
        opened["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
        yield {"at": last + BUDGETS_HOLD, "apply": [opened]}
