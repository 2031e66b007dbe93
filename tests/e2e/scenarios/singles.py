"""One pod after the other, each for a node of its own: what the trigger takes when nothing else is going on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tests.e2e.play import Play
from tests.e2e.scenarios.objects import deployment, node_class, on, own_pool

POOL: Final = "singles"
PODS: Final = 6
APART: Final = 1.5
AFTER: Final = "5s"
"""consolidateAfter, for a node that kube-scheduler leaves empty."""


def scene(playing: Play, launched: Callable[[], None]) -> None:
    """Ask for the pods one by one; `launched` is called when each runs."""
    playing.apply(node_class(), own_pool(POOL, consolidate_after=AFTER, policy="WhenEmpty"))
    playing.ready()
    for number in range(PODS):
        playing.apply(deployment(POOL, f"single-{number}", 1, cpu="1500m", **on(POOL)))
        time.sleep(APART)
    playing.wait_until_running(PODS)
    playing.wait_until_none_is_empty()
    playing.wait_until_settled()
    launched()
