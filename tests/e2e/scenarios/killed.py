"""A function that is killed in the middle of a launch, and runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from installation.wiring import BY_NAME
from tests.e2e.cloud.aws_protocol import SignedRequest
from tests.e2e.play import Play
from tests.e2e.scenarios.objects import deployment, node_class, on, own_pool

POOL: Final = "killed"


def scene(playing: Play, was_killed: Callable[[], None]) -> None:
    """The function dies between EC2's launch and its answer: the instance is found again, and no second one is launched."""
    world, provision = playing.world, BY_NAME["provision"]
    killed: list[int] = []

    def kill(request: SignedRequest) -> None:
        if not killed and POOL.encode() in request.body:
            killed.append(world.functions.kill(provision))
            was_killed()

    playing.forgiven.add("provision crash")
    playing.leave_unmeasured(f"{POOL}/")
    playing.apply(node_class(), own_pool(POOL))
    playing.ready()
    world.cloud.http.after("ec2:CreateFleet", kill)
    playing.apply(deployment(POOL, "web", 1, **on(POOL)))
    playing.wait_until_running(1)
    if not killed or not killed[0]:
        playing.violations.append(f"the function was to be killed: {killed}")
    launched = [found for found in world.cloud.instances.all() if found.tags.get("karpenter.sh/nodepool") == POOL]
    if len(launched) != 1:
        playing.violations.append(f"{len(launched)} instances were launched for one pod")
