"""A world of the campaign: everything except the faults, drawn from one seed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from core.api.objects import JsonObject
from core.model.catalogue import InstanceType
from core.model.values.quotas import STANDARD
from simulator.aws.installation import Region, builtin_region
from simulator.campaign.disturbances import draw_disturbances, draw_silences, draw_work
from simulator.campaign.workloads import NAMESPACE, draw_groups, draw_workloads
from simulator.clock import stream
from simulator.scenario import Scenario, scenario_of

# EC2's market in a campaign: a dozen real types in three zones, few enough that planning is fast.


ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPES: Final = frozenset(
    f"{family}.{size}" for family in ("m6i", "m7g", "c6i", "r6i") for size in ("large", "xlarge", "2xlarge", "4xlarge")
)
ARCHITECTURES: Final = ("amd64", "arm64")


@cache
def campaign_region(*, described: bool) -> Region:
    """The region of a campaign's worlds.

    Args:
        described: Whether EC2 describes its types, so that the functions read the market themselves; else they get a catalogue.
    """
    region = builtin_region()
    types = tuple(_in_zones(instance_type) for instance_type in region.types if instance_type.name in TYPES)
    shapes = tuple(shape for shape in region.shapes if shape.instance_type in TYPES) if described else ()
    ids = {zone: region.zone_ids[zone] for zone in ZONES}
    return Region(types=types, zone_ids=ids, shapes=shapes, name=region.name, is_recorded=region.is_recorded)


def _in_zones(instance_type: InstanceType) -> InstanceType:
    offerings = tuple(offering for offering in instance_type.offerings if offering.zone in ZONES)
    return msgspec.structs.replace(instance_type, offerings=offerings)


# NodePools and EC2NodeClasses of a world, drawn by its seed.


NAMES: Final = ("default", "other", "third")
WINDOW: Final = {"schedule": "*/5 * * * *", "duration": "2m"}
"""A budget window that opens several times during a world."""

_CLASS: Final = "default"


def draw_pools(rng: Random) -> list[JsonObject]:
    """One to three NodePools with limits, budgets, expiry and grace periods of all kinds, and their EC2NodeClass."""
    names = NAMES[: rng.choice((1, 2, 2, 3))]
    return [_node_class(), *(_node_pool(rng, name) for name in names)]


def _node_class() -> JsonObject:
    terms = [{"tags": {"karpenter.sh/discovery": "fleetwright"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": _CLASS},
        "spec": {
            "role": "FleetwrightNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


def _node_pool(rng: Random, name: str) -> JsonObject:
    spec: JsonObject = {"template": {"spec": _template(rng)}, "disruption": _disruption(rng)}
    if rng.random() < 0.5:
        spec["weight"] = rng.choice((1, 10, 50))
    if rng.random() < 0.4:
        spec["limits"] = rng.choice(({"cpu": "16"}, {"cpu": "32"}, {"cpu": "64"}, {"memory": "128Gi"}, {"nodes": "6"}))
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _template(rng: Random) -> JsonObject:
    capacity_types = rng.choice((["spot"], ["on-demand"], ["spot", "on-demand"], ["spot", "on-demand"]))
    architectures = rng.choice((ARCHITECTURES[:1], ARCHITECTURES[:1], ARCHITECTURES))
    template: JsonObject = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": _CLASS},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
            {"key": "kubernetes.io/arch", "operator": "In", "values": list(architectures)},
        ],
    }
    template["expireAfter"] = rng.choice(("1s", "7m", "12m")) if rng.random() < 0.35 else "Never"
    if rng.random() < 0.5:
        template["terminationGracePeriod"] = rng.choice(("1m", "3m", "6m"))
    return template


def _disruption(rng: Random) -> JsonObject:
    return {
        "consolidationPolicy": rng.choice(("WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized")),
        "consolidateAfter": rng.choice(("0s", "30s", "1m", "2m")),
        "budgets": [_budget(rng) for _ in range(rng.choice((1, 1, 2)))],
    }


def _budget(rng: Random) -> JsonObject:
    budget: JsonObject = {"nodes": rng.choice(("1", "2", "10%", "50%", "100%"))}
    if rng.random() < 0.2:
        budget["reasons"] = [rng.choice(("Empty", "Drifted", "Underutilized"))]
    if rng.random() < 0.15:
        budget |= {"nodes": "0", **WINDOW}
    return budget


# Capacity reservations of a world, drawn by its seed.


SHARE: Final = 0.15
"""Share of worlds with a reservation; launches into it are free, which changes the course of a world."""

_ID: Final = "cr-campaign"
_TYPES: Final = ("m6i.large", "m6i.xlarge", "c6i.2xlarge")
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"


def draw_reservations(
    rng: Random, objects: Sequence[JsonObject], fault_time: timedelta
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the reservations of a world and the steps that concern them.

    In `objects`, the EC2NodeClasses get selectors for them, and the first NodePool uses them.
    """
    if rng.random() >= SHARE:
        return [], []
    reservation: JsonObject = {
        "id": _ID,
        "instanceType": rng.choice(_TYPES),
        "zone": rng.choice(ZONES),
        "total": rng.randint(1, 3),
        "instanceMatchCriteria": rng.choice(("targeted", "open")),
    }
    _use(objects)
    at = rng.randint(round(fault_time.total_seconds()) // 3, round(fault_time.total_seconds()))
    is_cancelled = rng.choice((False, True))
    return [reservation], [{"at": at, "capacityReservation": {"id": _ID, "cancel": True}}] if is_cancelled else []


def _use(objects: Sequence[JsonObject]) -> None:
    for obj in objects:
        if obj["kind"] == "EC2NodeClass":
            obj["spec"]["capacityReservationSelectorTerms"] = [{"id": _ID}]
    pool = next(obj for obj in objects if obj["kind"] == "NodePool")
    for requirement in pool["spec"]["template"]["spec"]["requirements"]:
        if requirement["key"] == _CAPACITY_TYPE:
            requirement["values"] = ["reserved", *requirement["values"]]


# Draws a world's events other than faults by its seed: users, EC2's market, interruptions, slow boots, new images.


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
    workloads = [obj for obj in objects if obj["kind"] in ("Deployment", "StatefulSet")]
    for _ in range(rng.randint(1, 5)):
        obj = rng.choice(workloads)
        scale = {"kind": obj["kind"], "name": obj["metadata"]["name"], "replicas": rng.choice(replicas)}
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
    pools = [obj for obj in objects if obj["kind"] == "NodePool"]
    if rng.random() < 0.3:
        yield {"at": moment(), "ami": {"alias": "al2023", "id": "ami-0new"}}
    if len(pools) > 1 and rng.random() < 0.25:
        yield {"at": moment(), "delete": [{"kind": "NodePool", "name": pools[-1]["metadata"]["name"]}]}
    if rng.random() < 0.3:
        changed = copy.deepcopy(pools[0])
        changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
        yield {"at": moment(), "apply": [changed]}
    if rng.random() < 0.2:
        deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
        changed = copy.deepcopy(rng.choice(deployments))
        changed["spec"]["template"]["metadata"]["labels"]["version"] = "2"
        yield {"at": moment(), "apply": [changed]}
    if rng.random() < 0.3:
        at = moment()
        yield {"at": at, "apply": _late_pool(objects, pools[0])}
        name = next(obj["metadata"]["name"] for obj in objects if obj["kind"] == "Deployment")
        yield {"at": at, "scale": {"kind": "Deployment", "name": name, "replicas": 9}}


def _late_pool(objects: Sequence[JsonObject], pool: JsonObject) -> list[JsonObject]:
    """Return a NodePool with a higher weight than all others, and its EC2NodeClass, which has no status yet."""
    first, node_class = copy.deepcopy(pool), copy.deepcopy(next(o for o in objects if o["kind"] == "EC2NodeClass"))
    first["metadata"]["name"] = node_class["metadata"]["name"] = LATE
    first["spec"]["weight"] = 100
    first["spec"]["template"]["spec"]["nodeClassRef"]["name"] = LATE
    return [node_class, first]


def _end_of_expiry(objects: Sequence[JsonObject], changes: Sequence[JsonObject], last: int) -> Iterator[JsonObject]:
    """End expiry after the faults, since a world that renews its nodes forever never comes to rest, and open budgets later.

    The changed NodePools make nodes drift. With a budget of one node and slow drains, replacing these would take hours.
    """
    deleted = {reference["name"] for step in changes for reference in step.get("delete", ())}
    latest = {reference["metadata"]["name"]: reference for reference in objects if reference["kind"] == "NodePool"}
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


# Draws a world's options beyond the defaults by its seed: quotas of the account, settings, features of objects.
#
# The options have a random stream of their own, so that they do not change what else is drawn for the world.


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
    written = [*objects, *(obj for step in steps for obj in step.get("apply", ()))]
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
    claim_steps = [*(_static(rng, objects, last) if is_static else ()), *_node_claims(rng, objects, last)]
    if rng.random() < _CAPPED:
        objects.append(_calendar(rng, written))
    if rng.random() < _WITH_HOURS:
        objects.append(_hours(rng, objects, last))
    if rng.random() < _FORECASTING:
        settings["forecast"] = rng.choice(("on", "shadow"))
    if rng.random() < _DISTRIBUTED:
        settings |= {"partNodes": 1, "distributeFrom": 1}
        for team in TEAMS:
            objects += _team(rng, team, objects)
            scale = {"kind": "Deployment", "name": team, "namespace": NAMESPACE, "replicas": rng.choice((0, 1, 3))}
            claim_steps.append({"at": rng.randint(60, last), "scale": scale})
    return Options(
        quotas=quotas, settings=settings, gates={STATIC_CAPACITY: True} if is_static else {}, steps=claim_steps
    )


_DISTRIBUTED: Final = 0.15
"""Share of worlds in which functions of their own decide about the parts of the cluster."""

TEAMS: Final = ("team-a", "team-b")
"""NodePools whose nodes no other pods tolerate, so that the cluster has parts."""


def _team(rng: Random, name: str, objects: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield a NodePool like the first one, with a taint, and a Deployment that tolerates it."""
    pool = copy.deepcopy(next(obj for obj in objects if obj["kind"] == "NodePool"))
    pool["metadata"] = {"name": name}
    pool["spec"]["template"]["spec"]["taints"] = [{"key": "team", "value": name, "effect": "NoSchedule"}]
    yield pool
    requests = {"cpu": rng.choice(("300m", "900m", "1500m")), "memory": "512Mi"}
    spec = {
        "containers": [{"name": "main", "image": name, "resources": {"requests": requests}}],
        "tolerations": [{"key": "team", "operator": "Equal", "value": name, "effect": "NoSchedule"}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": rng.choice((2, 4, 6)), "selector": {"matchLabels": {"app": name}}, "template": template},
    }


_CAPPED: Final = 0.15
"""Share of worlds with caps."""


def _calendar(rng: Random, objects: Sequence[JsonObject]) -> JsonObject:
    """Draw a Calendar with a cap on all nodes and one on those for one workload.

    Dollars are capped where EC2's prices are those of the decisions: not with NodeOverlays, which change the latter, nor with
    capacity reservations, whose hours are paid for already.
    """
    is_priced = not any(
        obj["kind"] == NODE_OVERLAY or "capacityReservationSelectorTerms" in obj.get("spec", {}) for obj in objects
    )
    hourly = ({"dollars-per-hour": "0.4"}, {"dollars-per-hour": "1"}) if is_priced else ()
    limits = ({"nodes": "2"}, {"nodes": "5"}, {"cpu": "12"}, {"cpu": "32"}, *hourly)
    workload = rng.choice([obj for obj in objects if obj["kind"] in ("Deployment", "StatefulSet")])
    labels = workload["spec"]["selector"]["matchLabels"]
    caps = [
        {"name": "all", "limits": rng.choice(limits[1:])},
        {"name": "team", "pods": {"matchLabels": labels}, "limits": rng.choice(limits)},
    ]
    metadata = {"name": "costs"}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": metadata, "spec": {"caps": caps}}


_WITH_HOURS: Final = 0.15
"""Share of worlds whose Calendar closes a NodePool for minutes of the faults, and keeps room warm afterwards."""

_FORECASTING: Final = 0.05
"""Share of worlds whose functions learn ramps from the ledger. A world is too short for any to recur."""


def _hours(rng: Random, objects: Sequence[JsonObject], last: int) -> JsonObject:
    """Draw a Calendar for one NodePool, which is open again when the faults end."""
    pool = rng.choice([obj["metadata"]["name"] for obj in objects if obj["kind"] == "NodePool"])
    start, lasting = rng.randint(1, last // 120), rng.choice((1, 2))
    moments = [_START + timedelta(minutes=start + number * lasting) for number in range(3)]
    closed, warm = ({"start": f"{begin:{_WALL}}", "end": f"{end:{_WALL}}"} for begin, end in pairwise(moments))
    settings = {"closed": True, "leadTime": "30s", "podsThatStay": rng.choice(("Leave", "TerminationGracePeriod"))}
    room = {"warm": {"pods": rng.choice((1, 3)), "requests": {"cpu": "500m", "memory": "512Mi"}}, "leadTime": "30s"}
    rules = [
        {"name": "closed", "windows": [closed], "settings": settings},
        {"name": "warm", "windows": [warm], "settings": room},
    ]
    spec = {"nodePools": {"names": [pool]}, "rules": rules}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": {"name": "hours"}, "spec": spec}


_WALL: Final = "%Y-%m-%dT%H:%M"
_START: Final = datetime(2026, 11, 20, tzinfo=UTC)
"""When scenarios start unless they say otherwise, on the clocks of UTC."""


def _quotas(rng: Random) -> dict[str, int]:
    """Draw quotas small enough to bind, in some worlds for one capacity type only."""
    if rng.random() >= 0.12:
        return {}
    codes = rng.choice(((STANDARD.on_demand,), (STANDARD.spot,), (STANDARD.on_demand, STANDARD.spot)))
    return {code: rng.choice(_QUOTAS) for code in codes}


def _let_surge(objects: Sequence[JsonObject]) -> None:
    for obj in objects:
        if obj["kind"] == "Deployment":
            metadata = obj["spec"]["template"]["metadata"]
            metadata["annotations"] = {**metadata.get("annotations", {}), _SURGE: "true"}


def _annotate(objects: Sequence[JsonObject], kind: str, key: str, value: str) -> None:
    for obj in objects:
        if obj["kind"] == kind:
            obj["metadata"]["annotations"] = {**obj["metadata"].get("annotations", {}), key: value}


def _static(rng: Random, objects: list[JsonObject], last: int) -> Iterator[JsonObject]:
    """Draw a NodePool with replicas, and a user who changes their number, even to zero; its budgets open with the others'."""
    pool = copy.deepcopy(next(obj for obj in objects if obj["kind"] == "NodePool"))
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
    pool = next(obj for obj in objects if obj["kind"] == "NodePool")
    metadata: JsonObject = {"name": BY_HAND}
    if rng.random() < 0.5:
        metadata["labels"] = {"karpenter.sh/nodepool": pool["metadata"]["name"]}
    spec = pool["spec"]["template"]["spec"]
    reference = {"nodeClassRef": spec["nodeClassRef"], "requirements": spec["requirements"]}
    claim_spec = {**reference, "resources": {"requests": {"cpu": rng.choice(("1", "3"))}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": claim_spec}


NODE_OVERLAY: Final = "NodeOverlay"
CAPACITY_BUFFER: Final = "CapacityBuffer"
"""Gates, each named after the kind of object that it enables."""

SETTLING: Final = timedelta(minutes=100)
"""How long after its faults a world may take to come to rest, including the minutes in which it must stay at rest. The longest
delays: a launch that never joins is abandoned after 15 minutes, and a failed message is delivered again after 6."""

_LARGE: Final = 0.1
"""Share of the worlds with many pods and long faults. Most bugs need neither, and ten small worlds cost as much as three of
these."""

_DESCRIBED: Final = 0.25
"""Share of the worlds in which EC2 describes its types, and the functions read the market themselves."""

_WITH_LEDGER: Final = 0.5
"""Share of the worlds whose functions keep a ledger: its writes are call sites, too."""


class DrawnWorld(msgspec.Struct, frozen=True, kw_only=True):
    """A drawn world.

    Attributes:
        fault_time: For how long after its start it has faults.
        keeps_ledger: Whether its functions keep a ledger.
        drawn: The names of its disturbances and of what AWS does in its own way.
    """

    seed: int
    scenario: Scenario
    region: Region
    fault_time: timedelta
    objects: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    keeps_ledger: bool
    drawn: tuple[str, ...] = ()


def draw_world(seed: int, options_seed: int | None = None) -> DrawnWorld:
    """The world of this seed, the same in every process.

    Args:
        seed: The world's number.
        options_seed: The seed of its options, disturbances and silences of AWS; None: it has none.
    """
    rng = stream(seed, "world")
    large = rng.random() < _LARGE
    fault_time = timedelta(minutes=rng.choice((10, 12) if large else (6, 7, 9)))
    objects = [*draw_pools(rng), *draw_workloads(rng, large=large)]
    gates = _feature_gates(rng)
    objects += _gated_objects(gates)
    reservations, reserved_steps = draw_reservations(stream(seed, "reservations"), objects, fault_time)
    steps = draw_steps(rng, objects, fault_time, replicas=(0, 1, 3, 8, 15) if large else (0, 1, 3, 6))
    options, disturbances, named, spec = Options(), list[JsonObject](), set[str](), dict[str, Any]()
    if options_seed is not None:
        options = draw_options(stream(options_seed, "options"), objects, steps, fault_time)
        disturbances, named = _drawn_beside(options_seed, fault_time, objects)
        work = {} if large else draw_work(stream(options_seed, "work"))
        spec = {"aws": draw_silences(stream(options_seed, "silences")), **work}
    steps += [*reserved_steps, *options.steps, *disturbances]
    spec |= {
        "duration": (fault_time + SETTLING).total_seconds(),
        "seed": seed,
        "nodeBootSeconds": rng.choice((20, 45, 90)),
        "featureGates": gates | options.gates,
        "settings": options.settings,
        "vcpuQuotas": options.quotas,
        "capacityReservations": reservations,
        "steps": steps,
    }
    scenario = scenario_of(Path("campaign"), {"metadata": {"name": f"seed-{seed}"}, "spec": spec})
    return DrawnWorld(
        seed=seed,
        scenario=msgspec.structs.replace(scenario, manifests=tuple(objects)),
        region=campaign_region(described=rng.random() < _DESCRIBED),
        fault_time=fault_time,
        objects=objects,
        steps=steps,
        keeps_ledger=stream(seed, "ledger").random() < _WITH_LEDGER,
        drawn=tuple(sorted({*named, *_silent(spec)})),
    )


def _drawn_beside(seed: int, fault_time: timedelta, objects: list[JsonObject]) -> tuple[list[JsonObject], set[str]]:
    """Return the steps of disturbances and groups, with their names; groups that are there from the start join `objects`."""
    steps = draw_disturbances(seed, fault_time, ZONES, objects)
    named = {name for step in steps for name in step if name != "at"}
    groups, group_steps = draw_groups(stream(seed, "groups"), round(fault_time.total_seconds()))
    objects += groups
    return [*steps, *group_steps], named | ({"groups"} if groups or group_steps else set())


def _silent(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what AWS does in its own way, and of a clock that counts."""
    yield from (f"aws.{name}" for name in spec.get("aws", ()))
    yield from (name for name in ("clock", "memoryMiB") if name in spec)


def _feature_gates(rng: Random) -> dict[str, bool]:
    chances = {"SpotToSpotConsolidation": 0.3, "NodeRepair": 0.3, NODE_OVERLAY: 0.15, CAPACITY_BUFFER: 0.15}
    return {gate: True for gate, chance in chances.items() if rng.random() < chance}


def _gated_objects(gates: dict[str, bool]) -> list[dict[str, Any]]:
    """Draw objects that the functions read only if a feature gate is on."""
    arm = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": NODE_OVERLAY,
        "metadata": {"name": "arm"},
        "spec": {"requirements": [arm], "priceAdjustment": "-20%"},
    }
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": CAPACITY_BUFFER,
        "metadata": {"name": "room", "namespace": NAMESPACE},
        "spec": {"scalableRef": {"kind": "Deployment", "name": "app0"}, "percentage": 50},
    }
    return [obj for obj in (overlay, buffer) if gates.get(str(obj["kind"]))]
