"""Restores lost rows before a plan relies on them.

`reconcile` does the same every two minutes. Until then, a plan would underestimate the usage of each NodePool's limits, and
launch a second node for pods whose first one boots.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.observation.stores import OwnRows
from adapters.ports import Clock, CloudProvider, Instance
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.pool_usage import mismatches, recount
from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
from lambdas.controllers.sweeps.instances.unclaimed import UnclaimedInstance, untracked


class LostRows:
    """Observes the cluster, and rebuilds claims that are missing from the table."""

    def __init__(
        self, cloud: CloudProvider, observer: Observer, rebuilding: Rebuilding, claims: ClaimStore, clock: Clock
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._rebuilding = rebuilding
        self._claims = claims
        self._clock = clock

    def observe(self, report: RunReport, rows: OwnRows | None = None) -> ClusterState:
        """Return an observation in which every instance with our tag has its claim, if one can be rebuilt.

        Failures here are reported and left to `reconcile`: pods must not wait because of a failing EC2 list.

        Args:
            report: Receives the failures.
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation itself fails.
        """
        boundary = Boundary(report)
        instances: list[Instance] = []
        boundary.attempt("instances", lambda: instances.extend(self._cloud.instances()))
        view = self._observer.observe(rows=rows)
        if rows is not None and self._found(instances, view):
            view = self._observer.observe()  # a claim that was stored after the rows were read is not lost
        if self._rebuilt(instances, view, boundary, report):
            view = self._observer.observe()
        boundary.attempt("usage", lambda: self._recount(view, report))
        return view

    def _rebuilt(
        self, instances: Sequence[Instance], view: ClusterState, boundary: Boundary, report: RunReport
    ) -> bool:
        """Rebuild the claims of instances that were listed before the observation; return whether there were any."""
        found = self._found(instances, view)
        if not found:
            return False

        def rebuild() -> None:
            for unclaimed in self._rebuilding.still_there(found):
                work = partial(self._rebuilding.rebuild, unclaimed, view, report)
                boundary.attempt(unclaimed.instance.instance_id, work)

        boundary.attempt("untracked instances", rebuild)
        return True

    def _found(self, instances: Sequence[Instance], view: ClusterState) -> tuple[UnclaimedInstance, ...]:
        """Return the instances for which a claim can be rebuilt."""
        return untracked(instances, view, self._clock.now(), min_age=timedelta(0)).rebuildable

    def _recount(self, view: ClusterState, report: RunReport) -> None:
        """Correct counters, unless a claim cannot be read: what it holds is unknown."""
        if view.unreadable_claims:
            return
        for mismatch in mismatches(self._claims, view.claims.values()):
            recount(self._claims, mismatch, report)
