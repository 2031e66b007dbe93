"""A world of the campaign: everything except the faults, drawn from one seed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from simulator.aws.region import Region
from simulator.campaign.market import campaign_region
from simulator.campaign.options import Options, draw_options
from simulator.campaign.pools import draw_pools
from simulator.campaign.reservations import draw_reservations
from simulator.campaign.workloads import NAMESPACE, draw_workloads
from simulator.campaign.world_steps import draw_steps
from simulator.draws import stream
from simulator.scenario.scenario import Scenario, scenario_of

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
    """

    seed: int
    scenario: Scenario
    region: Region
    fault_time: timedelta
    objects: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    keeps_ledger: bool


def draw_world(seed: int, *, opts_in: bool = False) -> DrawnWorld:
    """The world of this seed, the same in every process.

    Args:
        seed: The world's number.
        opts_in: Whether it may have options beyond the defaults (`simulator.campaign.options`).
    """
    rng = stream(seed, "world")
    large = rng.random() < _LARGE
    fault_time = timedelta(minutes=rng.choice((10, 12) if large else (6, 7, 9)))
    objects = [*draw_pools(rng), *draw_workloads(rng, large=large)]
    gates = _feature_gates(rng)
    objects += _gated_objects(gates)
    reservations, reserved_steps = draw_reservations(stream(seed, "reservations"), objects, fault_time)
    steps = draw_steps(rng, objects, fault_time, replicas=(0, 1, 3, 8, 15) if large else (0, 1, 3, 6))
    options = draw_options(stream(seed, "options"), objects, steps, fault_time) if opts_in else Options()
    steps += [*reserved_steps, *options.steps]
    spec = {
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
    )


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
    return [found for found in (overlay, buffer) if gates.get(str(found["kind"]))]
