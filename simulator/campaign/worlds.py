"""A world of the campaign: everything but the faults, drawn from one seed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from simulator.aws.region import Region
from simulator.campaign.happenings import draw_steps
from simulator.campaign.market import campaign_region
from simulator.campaign.pools import draw_pools
from simulator.campaign.workloads import draw_workloads
from simulator.draws import stream
from simulator.scenario import Scenario, scenario_of

SETTLING: Final = timedelta(minutes=53)
"""How long a world has after its faults to come to rest, the minutes included in which it must be. The longest chain: a launch
that never joins is given up after 15 minutes, and a message that failed is seen again every 6."""

_DESCRIBED: Final = 0.25
"""Share of the worlds in which EC2 describes its types, and the functions read the market themselves."""


class DrawnWorld(msgspec.Struct, frozen=True, kw_only=True):
    """A world to play.

    Attributes:
        troubled: For how long after its start faults befall it.
    """

    seed: int
    scenario: Scenario
    region: Region
    troubled: timedelta
    objects: list[dict[str, Any]]
    steps: list[dict[str, Any]]


def draw_world(seed: int) -> DrawnWorld:
    """The world of this seed, the same in every process."""
    rng = stream(seed, "world")
    troubled = timedelta(minutes=rng.choice((12, 16, 20)))
    objects = [*draw_pools(rng), *draw_workloads(rng)]
    steps = draw_steps(rng, objects, troubled)
    spec = {
        "duration": (troubled + SETTLING).total_seconds(),
        "seed": seed,
        "nodeBootSeconds": rng.choice((20, 45, 90)),
        "featureGates": _feature_gates(rng),
        "steps": steps,
    }
    scenario = scenario_of(Path("campaign"), {"metadata": {"name": f"seed-{seed}"}, "spec": spec})
    return DrawnWorld(
        seed=seed,
        scenario=msgspec.structs.replace(scenario, manifests=tuple(objects)),
        region=campaign_region(described=rng.random() < _DESCRIBED),
        troubled=troubled,
        objects=objects,
        steps=steps,
    )


def _feature_gates(rng: Random) -> dict[str, bool]:
    return {"SpotToSpotConsolidation": True} if rng.random() < 0.3 else {}
