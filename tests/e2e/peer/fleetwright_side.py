"""Fleetwright's side: the functions as processes in the suite's world, invoked as deployed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from installation.wiring import BY_NAME
from tests.e2e.cloud.kubelets import Pace as KubeletPace
from tests.e2e.functions.pump import Pace
from tests.e2e.functions.sandbox import OK
from tests.e2e.parts.admin import Admin, until
from tests.e2e.peer import objects
from tests.e2e.peer.figures import Footprint
from tests.e2e.report import seconds_since_pods
from tests.e2e.scenarios.objects import is_ready, node_class
from tests.e2e.world import World

READY_SECONDS: Final = 180.0


class FleetwrightSide:
    """Schedules, queues and the audit log as deployed; the audit log arrives some seconds late, as in AWS."""

    name = "fleetwright"

    def __init__(self, folder: Path) -> None:
        self._open = ExitStack()
        self._world = World(folder, Pace(), KubeletPace(boot=objects.BOOT))

    def __enter__(self) -> Self:
        self._open.enter_context(self._world)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def admin(self) -> Admin:
        """The cluster's administrator."""
        return self._world.admin

    def apply_pools(self, pools: Iterable[dict[str, Any]]) -> None:
        """With an EC2NodeClass, as they are."""
        own = list(pools)
        self.admin.apply([node_class(), *own])
        self._world.wake("reconcile")
        until(lambda: all(map(self._is_ready, own)), seconds=READY_SECONDS, what="our NodePools ready")

    def claims(self) -> list[datetime]:
        """Return the time at which each claim's row was first written."""
        return [record.requested_at for record in self._world.planned.current()]

    def claim_moments(self) -> list[dict[str, float]]:
        """Return each claim's moments, from its row."""
        return [seconds_since_pods(record) for record in self._world.planned.current()]

    def evictions(self) -> int:
        """Return how many evictions by the functions the API server granted, by its audit log."""
        return self._world.read_audit_record().evictions[201]

    def footprint(self) -> Footprint:
        """Return the resource usage of all ended invocations."""
        memory: dict[str, float] = defaultdict(float)
        billed: dict[str, int] = defaultdict(int)
        for one in list(self._world.functions.invocations):
            memory[one.function] = max(memory[one.function], round(one.memory_kb / 1024, 1))
            billed[one.function] += one.billed_ms
        gigabytes = {name: BY_NAME[name].memory_mb / 1024 for name in billed}
        return Footprint(
            memory_mb=dict(sorted(memory.items())),
            billed_ms=dict(sorted(billed.items())),
            gb_seconds=round(sum(billed[name] / 1000 * gigabytes[name] for name in sorted(billed)), 1),
        )

    def failures(self) -> list[str]:
        """Return failed invocations and failures of the parts."""
        invocations = [one for one in list(self._world.functions.invocations) if one.outcome != OK]
        return [
            *(f"{one.function} ({one.trigger}): {one.outcome}: {str(one.response)[:300]}" for one in invocations),
            *self._world.cloud.http.failures,
            *self._world.kubelets.failures,
        ]

    def _is_ready(self, pool: dict[str, Any]) -> bool:
        return is_ready(self.admin.get("nodepools.karpenter.sh", pool["metadata"]["name"]))
