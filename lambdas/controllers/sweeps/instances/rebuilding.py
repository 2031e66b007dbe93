"""Stores claims for existing instances: completes a claim that waits for its instance, or replaces a lost row."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.messages import work_on_claim
from adapters.observation.cluster_state import ClusterState
from adapters.observation.instance_description import machine_of
from adapters.observation.observer import Observer
from adapters.ports import Clock, CloudProvider, ConflictError, Instance, NotFoundError, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core import labels
from core.lifecycle.launching.shared_launch import is_unnamed
from core.lifecycle.rebuilding import rebuilt, rebuilt_plan
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.sweeps.instances.unclaimed import UnclaimedInstance


class Rebuilding:
    """Adopts instances and rebuilds claims."""

    def __init__(
        self,
        cloud: CloudProvider,
        launcher: Launcher,
        claims: ClaimStore,
        observer: Observer,
        work: Queue,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._launcher = launcher
        self._claims = claims
        self._observer = observer
        self._work = work
        self._clock = clock
        self._read_for: ClusterState | None = None
        self._catalogues: dict[str, Catalogue] = {}

    def adopt(self, found: Instance, claim: str, view: ClusterState, report: RunReport) -> None:
        """Assign the instance to the claim that requested it, whose launch response was lost."""
        now = self._clock.now()
        record = view.claims[claim]
        try:
            self._launcher.answer_writer.adopt(record, found, self._catalogue(record.plan.node_class.name, view), now)
        except (ConflictError, NotFoundError):
            return
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.FOUND_BY_TAG, f"instance {found.instance_id}")
        self._work.send([work_on_claim(record.name, now)])

    def still_there(self, unclaimed: Sequence[UnclaimedInstance]) -> tuple[UnclaimedInstance, ...]:
        """Return the instances that EC2 also finds by id: a list may contain terminated ones. Raises PortError."""
        if not unclaimed:
            return ()
        ids = [found.instance.instance_id for found in unclaimed]
        alive = {found.instance_id for found in self._cloud.instances(ids) if found.is_alive}
        return tuple(found for found in unclaimed if found.instance.instance_id in alive)

    def rebuild(self, found: UnclaimedInstance, view: ClusterState, report: RunReport) -> None:
        """Store the claim again, unless another run has. Raises PortError."""
        record = self.record(_claim_of(found.instance), found, view)
        if self._claims.restore(record) is None:
            return
        report.count("rebuiltClaims")
        message = f"its row was lost; instance {found.instance.instance_id} was {record.phase}"
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.REBUILT, message)
        self._work.send([work_on_claim(record.name, self._clock.now())])

    def record(self, name: str, found: UnclaimedInstance, view: ClusterState) -> ClaimRecord:
        """Return the claim with this name without storing it. Raises NotFoundError before the market was read."""
        instance, node = found.instance, found.node
        pool_name = instance.tags.get(labels.NODEPOOL, "")
        pools = (pool for pool in view.snapshot.node_pools if pool.name == pool_name)
        plan = rebuilt_plan(name, instance.tags, node, next(pools, NodePool(name=pool_name)))
        machine = machine_of(instance, plan, self._catalogue(plan.node_class.name, view))
        return rebuilt(plan, machine, node, instance.launched_at, self._clock.now())

    def _catalogue(self, node_class: str, view: ClusterState) -> Catalogue:
        """Return the market for one class, read once per observation; a missing class is replaced by a default one."""
        if self._read_for is not view:
            self._read_for, self._catalogues = view, {}
        if node_class not in self._catalogues:
            manifest = view.node_classes.get(node_class)
            read = self._observer.open_market.catalogue([manifest] if manifest else [], self._clock.now())
            self._catalogues[node_class] = read
        return self._catalogues[node_class]


def _claim_of(instance: Instance) -> str:
    """Return the name of the claim to rebuild; one derived from the instance if it is unnamed."""
    if not is_unnamed(instance.tags):
        return instance.tags[labels.CLAIM]
    return f"{instance.tags.get(labels.NODEPOOL, '')}-{instance.instance_id.removeprefix('i-')}"
