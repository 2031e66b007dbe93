"""The API server is away for a minute: what runs stays, and what came in that minute is handled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.e2e.play import Play
from tests.e2e.scenarios.objects import deployment, node_class, on, own_pool

POOL: Final = "outage"
SECONDS: Final = 60.0
FUNCTIONS: Final = ("provision", "disrupt", "execute", "reconcile", "interrupt")


def scene(playing: Play, ready: Callable[[], object]) -> None:
    """Two pods run, two more are asked for, and the server stops; `ready` is waited for first."""
    world = playing.world
    playing.forgiven |= {f"{name} error" for name in FUNCTIONS}
    playing.leave_unmeasured(f"{POOL}/later")
    playing.apply(node_class(), own_pool(POOL))
    playing.ready()
    playing.apply(deployment(POOL, "web", 2, **on(POOL)))
    playing.wait_until_running(2)
    playing.wait_until_settled()
    before = {record.instance_id for record in playing.claims()}
    ready()
    playing.apply(deployment(POOL, "later", 2, cpu="3", **on(POOL)))
    refused = Counter(world.read_audit_record().refused)
    world.control_plane.stop_api_server()
    time.sleep(SECONDS)
    world.control_plane.start_api_server()
    world.control_plane.restart_clients()
    # Before it is ready it knows no roles; behind EKS' balancer nobody would ask it then.
    world.read_audit_record().refused = refused
    playing.wait_until_running(4)
    if lost := before - {record.instance_id for record in playing.claims()}:
        playing.violations.append(f"instances were let go during the outage: {sorted(lost)}")
    if not _complaints(playing):
        playing.violations.append("no function said that it could not reach the API server")


def _complaints(playing: Play) -> list[str]:
    """What functions logged of it; one that never ran has no log."""
    logs = [log for name in FUNCTIONS if (log := playing.world.log_of(name)).exists()]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if "TransientError" in line and "kube:" in line]
