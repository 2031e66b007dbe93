"""Stores claims for instances that exist: the claim's row that waited for one, or a new row in place of one that is lost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core import labels
from core.lifecycle.rebuilding import rebuilt, rebuilt_plan
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.node import Node
from core.model.node_pool import NodePool
from lambdas.controllers.launching.instance_description import machine_of
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.sweeps.sweep import Round
from lambdas.messages import work_on_claim
from lambdas.observation.cluster_state import View
from lambdas.observation.observer import Observer
from lambdas.ports import Clock, CloudProvider, ConflictError, Instance, NotFoundError, Queue
from lambdas.store import ClaimStore


class Stranger(msgspec.Struct, frozen=True):
    """An instance with our claim tag that no claim knows.

    Attributes:
        node: Its node, None where none has joined or several say that they are it.
        problem: Why no claim can be rebuilt for it, empty where one can.
    """

    instance: Instance
    node: Node | None
    problem: str


class Rebuilding:
    """Adopts and rebuilds."""

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
        self._read_for: View | None = None
        self._catalogues: dict[str, Catalogue] = {}

    def adopt(self, found: Instance, round_: Round) -> None:
        """Let the claim that asked for the instance have it; the answer to its launch was lost."""
        now = self._clock.now()
        record = round_.view.claims[found.tags[labels.CLAIM]]
        try:
            self._launcher.adopt(record, found, self._catalogue(record.plan.node_class.name, round_), now)
        except (ConflictError, NotFoundError):
            return
        round_.outcome.decide("adopt", record.name, "FoundByTag", f"instance {found.instance_id}")
        self._work.send([work_on_claim(record.name, now)])

    def rebuild(self, strangers: Sequence[Stranger], round_: Round) -> None:
        """Store the claims anew. EC2 is asked once more: a list may name what is terminated by now. Raises PortError."""
        if not strangers:
            return
        alive = {
            found.instance_id for found in self._cloud.instances([_id(found) for found in strangers]) if found.is_alive
        }
        there = [found for found in strangers if _id(found) in alive]
        round_.each(there, lambda found: self._rebuild(found, round_), subject=_id)

    def _rebuild(self, found: Stranger, round_: Round) -> None:
        record = self.record(found.instance.tags[labels.CLAIM], found, round_)
        if self._claims.restore(record) is None:
            return
        round_.outcome.count("rebuiltClaims")
        message = f"its row was lost; instance {_id(found)} was {record.phase}"
        round_.outcome.decide("adopt", record.name, "Rebuilt", message)
        self._work.send([work_on_claim(record.name, self._clock.now())])

    def record(self, name: str, found: Stranger, round_: Round) -> ClaimRecord:
        """The claim under this name, not stored. Raises NotFoundError before the market was read."""
        instance, node = found.instance, found.node
        pool_name = instance.tags.get(labels.NODEPOOL, "")
        pools = (pool for pool in round_.view.snapshot.node_pools if pool.name == pool_name)
        plan = rebuilt_plan(name, instance.tags, node, next(pools, NodePool(name=pool_name)))
        machine = machine_of(instance, plan, self._catalogue(plan.node_class.name, round_))
        return rebuilt(plan, machine, node, instance.launched_at, self._clock.now())

    def _catalogue(self, node_class: str, round_: Round) -> Catalogue:
        """The market for one class, read once a round; where the class is gone its types look as they do to a plain one."""
        if self._read_for is not round_.view:
            self._read_for, self._catalogues = round_.view, {}
        if node_class not in self._catalogues:
            manifest = round_.view.node_classes.get(node_class)
            read = self._observer.catalogue([manifest] if manifest else [], self._clock.now())
            self._catalogues[node_class] = read
        return self._catalogues[node_class]


def _id(found: Stranger) -> str:
    return found.instance.instance_id
