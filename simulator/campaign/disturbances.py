"""Draws what a world's users do not decide: kubelets, queues, other programs, neighbours, and what AWS leaves unsaid.

Each kind is a step of scenarios or a field of their `spec.aws`. Everything is over when the world's faults are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final

from core.api.objects import JsonObject
from installation.wiring import BY_NAME
from simulator.clock import stream
from simulator.step_forms import ANY

JOINED: Final = 110
"""Seconds after which most worlds have a node."""

CREATE_FLEET_WAIT: Final = 23
"""Seconds after which the SDK gives up a CreateFleet (`adapters.aws.services.LAUNCHING`)."""

_OTHERS: Final = (0, 0, 0, 1, 1, 2)
_NODE_COPY: Final = "copied"

Draw = Callable[[Random, int, Sequence[str], Sequence[JsonObject]], Iterator[JsonObject]]
"""Yields the steps of one kind, from a world's random stream, the seconds of its faults, its zones and its objects."""


def draw_disturbances(
    seed: int, fault_time: timedelta, zones: Sequence[str], objects: Sequence[JsonObject]
) -> list[JsonObject]:
    """Return the steps of one to three kinds in a world whose faults last for `fault_time`.

    Seeds take the kinds in turn, so that a short campaign has each, and draw the others.
    """
    rng, last = stream(seed, "disturbances"), round(fault_time.total_seconds())
    first = KINDS[seed % len(KINDS)]
    others = rng.sample([kind for kind in KINDS if kind is not first], rng.choice(_OTHERS))
    return [step for draw in (first, *others) for step in draw(rng, last, zones, objects)]


def _span(rng: Random, last: int) -> tuple[int, int]:
    """Return when something begins, after the first nodes have joined, and for how long it lasts at most."""
    at = rng.randint(JOINED, last - 60)
    return at, rng.randint(30, last - at)


# Kubelets.


def _unready(rng: Random, last: int, zones: Sequence[str], _: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    ready = rng.choice((False, "unknown"))
    chosen: JsonObject = rng.choice(({"fraction": 0.3}, {"zone": rng.choice(zones)}, {"count": 2}))
    cut_off = {"cutOff": True} if ready == "unknown" and rng.random() < 0.5 else {}
    yield {"at": at, "kubelet": {**chosen, "ready": ready, "for": lasting, **cut_off}}


def _lies(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Kubelets report more, or less, than their machines have."""
    at, lasting = _span(rng, last)
    cpu, memory = rng.choice((("512", "4Ti"), ("1", "1Gi")))
    amounts = {"cpu": cpu, "memory": memory}
    lie = {"fraction": rng.choice((0.3, 1.0)), "capacity": amounts, "allocatable": amounts, "for": lasting}
    yield {"at": at, "kubelet": lie}


def _stuck(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Kubelets do not end their pods."""
    at, lasting = _span(rng, last)
    yield {"at": at, "kubelet": {"fraction": rng.choice((0.3, 1.0)), "stuck": [ANY], "for": lasting}}


def _never_ready(rng: Random, last: int, zones: Sequence[str], _: Sequence[JsonObject]) -> Iterator[JsonObject]:
    yield {"at": rng.randint(0, last), "boot": {"notReady": rng.choice((1, 3)), "zone": rng.choice(zones)}}


# Messages and calls.


def _queues(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    name = rng.choice(({}, {"name": "work"}, {"name": "wake-ups"}, {"name": "looks"}))
    what = rng.choice(({"lag": rng.choice((90, 600, 1200)), "for": lasting}, {"down": True, "for": lasting}))
    yield {"at": at, "queue": {**name, **what}}
    yield {"at": last, "queue": {**name, "replay": {"since": at}}}


def _failing_calls(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    call = rng.choice(("*:*", "kube:*", "ec2:*", "dynamodb:*"))
    yield {"at": at, "fault": {"call": call, "kind": "error", "share": rng.choice((0.1, 0.3)), "for": lasting}}


def _late_launches(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """CreateFleet launches, and answers after the SDK has given up."""
    at, lasting = _span(rng, last)
    lost: JsonObject = {"call": "ec2:CreateFleet", "kind": "lostReply", "seconds": CREATE_FLEET_WAIT, "for": lasting}
    yield {"at": at, "fault": {**lost, "share": rng.choice((0.3, 1.0))}}


# Other programs in the cluster.


def _actors(rng: Random, last: int, _: Sequence[str], objects: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    pool = next(obj for obj in objects if obj["kind"] == "NodePool")
    turns = [[_labelled(pool, colour)] for colour in ("red", "green")]
    few = {"fraction": 0.2}
    act = rng.choice(
        (
            *({"deleteNodes": few}, {"deleteNodeClaims": few}, {"terminateInstances": few}),
            *({"cordon": few}, {"untaint": {"fraction": 0.5}}, {"apply": turns}),
        )
    )
    yield {"at": at, "actor": {"name": "cleaner", "every": rng.choice((45, 90)), "for": lasting, **act}}


def _labelled(pool: JsonObject, colour: str) -> JsonObject:
    changed = copy.deepcopy(pool)
    changed["spec"]["template"]["metadata"] = {"labels": {"colour": colour}}
    return changed


def _schedulers(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    app = rng.choice(("app0", "app1"))
    yield {"at": at, "scheduler": {"name": "other", "binds": {"app": app}, "for": lasting}}


def _webhooks(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, lasting = _span(rng, last)
    on = rng.choice(("pods/create", "nodeclaims/create", "events/create", "nodes/update"))
    patch = {"patch": {"metadata": {"labels": {"injected": "true"}}}} if rng.random() < 0.3 else {}
    hook = {"on": on, "delay": rng.choice((0, 5)), "fail": rng.choice((0.1, 0.5)), "for": lasting, **patch}
    yield {"at": at, "webhook": hook}


def _restores(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, _lasting = _span(rng, last)
    yield {"at": at, "etcd": {"restore": rng.choice((30, 60, 180))}}


def _copies(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Somebody makes a second Node of an instance, and deletes it."""
    at, lasting = _span(rng, last)
    yield {"at": at, "copy": {"kind": "Node", "name": ANY, "as": _NODE_COPY}}
    yield {"at": at + lasting, "delete": [{"kind": "Node", "name": _NODE_COPY}]}


# Neighbours in the account.


def _strangers(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Somebody launches instances with our tags, and terminates them."""
    at, lasting = _span(rng, last)
    yield {"at": at, "instances": {"launch": rng.choice((1, 3)), "tagsOf": ANY, "for": lasting}}


def _stops(rng: Random, last: int, _: Sequence[str], __: Sequence[JsonObject]) -> Iterator[JsonObject]:
    at, _lasting = _span(rng, last)
    yield {"at": at, "instances": {"stop": ANY}}


def _rows(rng: Random, last: int, zones: Sequence[str], _: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """A neighbour's row closes an offering for ten years."""
    at, _lasting = _span(rng, last)
    parts = (
        rng.choice(("m6i.large", "c6i.2xlarge", "r6i.xlarge")),
        rng.choice(zones),
        rng.choice(("spot", "on-demand")),
    )
    yield {"at": at, "row": {"put": {"pk": "unavailable-offerings", "sk": "#".join(parts), "until": 2_100_000_000}}}


KINDS: Final[tuple[Draw, ...]] = (
    *(_unready, _lies, _stuck, _never_ready),
    *(_queues, _failing_calls, _late_launches),
    *(_actors, _schedulers, _webhooks, _restores, _copies),
    *(_strangers, _stops, _rows),
)


# What AWS does not promise, and what the functions' own work takes.


_SILENT: Final = 0.4
"""Share of the worlds with options in which AWS behaves in one of these ways."""

_COUNTED: Final = 0.06
"""Share of the worlds with options whose functions' processor time counts, and whose memory has its real bound."""


def draw_silences(rng: Random) -> dict[str, Any]:
    """Draw how AWS behaves where it promises nothing (docs/engineering/aws-facts.md)."""
    chosen: dict[str, Any] = {
        "auditLogLag": rng.choice(("2s", "8s", {"p50": "8s", "p99": "60s"}, {"p50": "60s", "p99": "180s"})),
        "boot": rng.choice(("25s", "60s", {"p50": "45s", "p99": "180s"})),
        "describeLag": rng.choice(({"p50": "1s", "p99": "10s"}, {"p50": "5s", "p99": "30s"})),
        "scheduleJitter": {"p50": "5s", "p99": "60s"},
        "repeatedLaunch": rng.choice(("whole", "silent")),
        "tagLag": rng.choice((2, 10, 30)),
        "partialLists": rng.choice((0.1, 0.3)),
        "requestTokens": rng.choice(({"burst": 5, "perSecond": 1.0}, {"burst": 20, "perSecond": 2.0})),
        "instanceTokens": rng.choice(({"burst": 2, "perSecond": 0.1}, {"burst": 5, "perSecond": 2.0})),
        "terminationTokens": rng.choice(({"burst": 2, "perSecond": 0.2}, {"burst": 10, "perSecond": 2.0})),
        "eventLag": {"p50": "2s", "p99": "90s"},
        "repeats": rng.choice((0.1, 0.3)),
        "unordered": True,
        "healthUpdates": True,
    }
    return {name: value for name, value in chosen.items() if rng.random() < _SILENT}


def draw_work(rng: Random) -> dict[str, Any]:
    """Draw a clock that counts processor time, which takes five times as long, and the memory of the functions."""
    if rng.random() >= _COUNTED:
        return {}
    memory = max(function.memory_mb for function in BY_NAME.values())
    return {"clock": {"cpu": "counted", "factor": rng.choice((1, 3))}, "memoryMiB": memory}
