"""Plays a cluster and counts the usage of its measured hour."""

from __future__ import annotations

import tempfile
from contextlib import redirect_stdout
from datetime import datetime
from pathlib import Path

from benchmarks.operations import clusters
from benchmarks.operations.usage import Usage
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.scenario import read_scenario
from simulator.world import QUICK, World, open_world, seeded


class Played:
    """The result of playing a cluster.

    Attributes:
        usage: The usage of the measured hour, and every metric from the start.
        nodes: How many nodes exist at the end.
    """

    def __init__(self, world: World, usage: Usage, since: datetime) -> None:
        self.usage = usage
        self.since = since
        self.nodes = world.summary.figures({})["nodesAtEnd"]


def played(path: Path) -> Played:
    """Play the scenario at `path`."""
    scenario = read_scenario(path)
    region = read_region(scenario.catalogue_file)
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    since = scenario.start + clusters.WARM_UP
    with seeded(1), open_world(scenario, region, 1, recorder, clock, QUICK) as world:
        usage = Usage(world, since)
        with redirect_stdout(usage.output):
            world.play([])
            clock.run_until(scenario.start + scenario.duration)
        world.finish()
        return Played(world, usage, since)


def cluster(nodes: int) -> Played:
    """Play a cluster of this many nodes."""
    with tempfile.TemporaryDirectory() as folder:
        return played(clusters.scenario(Path(folder), nodes))
