"""Writes the status of every EC2NodeClass and NodePool: what the class resolves to, the pool's use, and conditions of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.observation.pool_user_data import measured
from adapters.observation.stores import Stores
from adapters.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes
from adapters.run_report import RunReport
from core import labels
from core.api.status import readiness
from core.disruption.rollouts import Rollout
from core.labels import HASH_VERSION
from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.model.node_pool import NodePool
from core.model.values import resources
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from lambdas.controllers.status.launch_condition import denied_launches
from lambdas.controllers.status.market_condition import MarketCondition
from lambdas.controllers.status.node_class_status import NodeClassStatus
from lambdas.controllers.status.node_pool_conditions import disruption_paused, pool_readiness
from lambdas.controllers.status.quota_condition import QuotaConditions
from lambdas.controllers.status.registration_condition import RegistrationConditions
from lambdas.controllers.status.rollout_condition import rollout_condition
from lambdas.controllers.status.user_objects import UserObjects
from lambdas.controllers.status.validation_events import ValidationEvents

Attempt = Callable[[str, Callable[[], object]], bool]


class Readings(msgspec.Struct, frozen=True):
    """The sources of conditions; a condition whose source could not be read stays unchanged.

    Attributes:
        denials: Denied launches; None if they could not be read.
        rollouts: NodePool → its rollout.
        registrations: Whether the breakers were read.
        market: Whether the market was read.
        quotas: Whether the quotas were read.
    """

    denials: tuple[LaunchDenial, ...] | None
    rollouts: Mapping[str, Rollout]
    registrations: bool
    market: bool
    quotas: bool

    def launches(self, node_class: str) -> list[JsonObject]:
        """Return the condition of a class's launches; none if denials could not be read."""
        return [] if self.denials is None else [denied_launches(node_class, self.denials)]


class ObjectStatus:
    """Writes a status only if it differs from the present one."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cloud: CloudProvider,
        stores: Stores,
        catalogues: CatalogueStore,
        clock: Clock,
    ) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._stores = stores
        self._clock = clock
        self._market = MarketCondition(catalogues, clock)
        self._quotas = QuotaConditions(stores.quotas, clock)
        self._registrations = RegistrationConditions(stores.breakers, clock)
        self._objects = UserObjects(kubernetes, clock)
        self._classes = NodeClassStatus(cloud, self._objects, ValidationEvents(kubernetes, clock), clock)

    def write(self, view: ClusterState, report: RunReport, attempt: Attempt) -> None:
        """Bring the status of every class, then of every pool, up to date.

        Args:
            view: The observation.
            report: Collects the decisions.
            attempt: Runs a piece of work under its subject, so that a failure does not affect the others; returns whether it
                succeeded.
        """
        known = {found.name: found for found in view.snapshot.node_classes}
        pools = {found.name: found for found in view.snapshot.node_pools}
        ready = {name: readiness(manifest) for name, manifest in view.node_classes.items()}
        readings = self._read(attempt)

        def write_class(name: str, manifest: JsonObject) -> None:
            self._classes.keep_memory(manifest, view)
            own = [pool for pool in pools.values() if pool.node_class.name == name]
            ready[name] = self._classes.write(manifest, known[name], own, readings.launches(name), report)

        def write_pool(name: str, manifest: JsonObject) -> None:
            pool = measured(pools[name], view.node_classes, self._cloud.user_data_problem)
            more = self._pool_conditions(pool, manifest, view, readings)
            self._write_pool(manifest, pool, [*pool_readiness(pool, ready), *more], view, report)

        for name, manifest in view.node_classes.items():
            attempt(f"EC2NodeClass {name}", partial(write_class, name, manifest))
        for name, manifest in view.node_pools.items():
            attempt(f"NodePool {name}", partial(write_pool, name, manifest))

    def _read(self, attempt: Attempt) -> Readings:
        denials = list[LaunchDenial]()
        are_denials_read = attempt("denials", lambda: denials.extend(self._stores.denials.all()))
        registrations = attempt("breakers", self._registrations.read)
        rollouts = dict[str, Rollout]()
        attempt("rollouts", lambda: rollouts.update(self._stores.moves.read(self._clock.now()).rollouts))
        return Readings(
            denials=tuple(denials) if are_denials_read else None,
            rollouts=rollouts,
            registrations=registrations,
            market=attempt("market", self._market.read),
            quotas=attempt("quotas", self._quotas.read),
        )

    def _pool_conditions(
        self, pool: NodePool, manifest: JsonObject, view: ClusterState, readings: Readings
    ) -> list[JsonObject]:
        """Return the conditions about the NodePool's nodes and launches."""
        found = list[JsonObject]()
        if readings.registrations:
            node_class = view.node_classes.get(pool.node_class.name)
            found.append(self._registrations.of(pool, manifest, node_class))
        if rollout := readings.rollouts.get(pool.name):
            found.append(rollout_condition(rollout, manifest, self._kubernetes, self._clock.now()))
        found += readings.launches(pool.node_class.name)
        if readings.market:
            found.append(self._market.current())
        if readings.quotas:
            found.append(self._quotas.of(pool))
        return found

    def _write_pool(
        self, manifest: JsonObject, pool: NodePool, conditions: list[JsonObject], view: ClusterState, report: RunReport
    ) -> None:
        if pool.problem:
            report.count("invalidNodePools")
            report.decide(DecisionKind.SKIP, f"NodePool {pool.name}", RunReason.VALIDATION_FAILED, pool.problem)
        used = _used(pool, view.claims.values())
        status = {
            "resources": resources.render(used),
            "nodes": used["nodes"],
            "conditions": [*conditions, disruption_paused(pool, self._stores.brakes.engaged())],
        }
        self._objects.write_status(kinds.NODE_POOLS, manifest, status)
        if pool.template_hash:
            hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
            self._objects.annotate(kinds.NODE_POOLS, manifest, hashes)


def _used(pool: NodePool, claims: Iterable[ClaimRecord]) -> resources.Resources:
    """Return the capacity of the NodePool's nodes that stay, and their number."""
    mine = [claim for claim in claims if claim.plan.node_pool == pool.name and claim.deletion is None]
    capacities = [claim.machine.capacity for claim in mine if claim.machine is not None]
    return resources.add(*capacities, {"nodes": len(capacities)})
