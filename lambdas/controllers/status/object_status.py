"""Writes the status of NodePools and EC2NodeClasses: conditions, use, and what the class resolves to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from core import labels
from core.brakes.brake import Action, EngagedBrakes
from core.brakes.breaker import Breaker
from core.catalogue.discovered.node_memory import with_seen
from core.catalogue.node_class import read_node_class
from core.catalogue.reservations import selects_reservations, written_places
from core.disruption.budgets.node_pool_budgets import unreadable
from core.disruption.rollouts import Rollout
from core.errors import InvalidInputError
from core.labels import HASH_VERSION
from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.node_pool import NodeClass, NodePool
from core.model.values import resources
from core.reasons.decision import DecisionKind
from core.reasons.node import NodeReason
from core.reasons.run import RunReason
from lambdas.controllers.kube_events import about_node_pool, warning, write
from lambdas.controllers.status.launch_condition import denied_launches
from lambdas.controllers.status.market_condition import MarketCondition
from lambdas.controllers.status.node_memory import seen_memory
from lambdas.controllers.status.quota_condition import QuotaConditions
from lambdas.controllers.status.status_writer import Present, StatusWriter, condition, tolerate_gone
from lambdas.controllers.status.validation_events import ValidationEvents
from lambdas.metric_names import CHANGED_NODE_CLASSES
from lambdas.observation.cluster_state import ClusterState
from lambdas.observation.stores import Stores
from lambdas.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes
from lambdas.run_report import RunReport

Attempt = Callable[[str, Callable[[], object]], bool]

RESERVATIONS_EVERY: Final = timedelta(minutes=1)
"""The same for a class that selects capacity reservations: others use them too, and they end (Karpenter)."""

RESOLVE_EVERY: Final = timedelta(minutes=5)
"""How often a ready class is resolved again; images and subnets may change without an event (Karpenter)."""

REGISTRATION: Final = "NodeRegistrationHealthy"
"""A condition for people only: neither Ready nor planning depends on it (Karpenter)."""


ROLLOUT_STOPPED: Final = "RolloutStopped"


class ObjectStatus:
    """Writes a status only where it differs from the present one."""

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
        self._brakes = stores.brakes
        self._breakers = stores.breakers
        self._denials = stores.denials
        self._moves = stores.moves
        self._clock = clock
        self._market = MarketCondition(catalogues, clock)
        self._quotas = QuotaConditions(stores.quotas, clock)
        self._statuses = StatusWriter(kubernetes, clock)
        self._validations = ValidationEvents(kubernetes, clock)
        self._resolved: dict[tuple[str, int], datetime] = {}

    def write(self, view: ClusterState, report: RunReport, attempt: Attempt) -> None:
        """Bring the status of every class, then of every pool, up to date.

        Args:
            view: The observation.
            report: Collects the decisions.
            attempt: Runs a piece of work under its subject, so that a failure does not affect the others.
        """
        known = {found.name: found for found in view.snapshot.node_classes}
        pools = {found.name: found for found in view.snapshot.node_pools}
        ready = {name: _is_ready(manifest) for name, manifest in view.node_classes.items()}

        denials: list[LaunchDenial] = []
        are_denials_read = attempt("denials", lambda: denials.extend(self._denials.all()))

        def write_class(name: str, manifest: JsonObject) -> None:
            more = [denied_launches(name, denials)] if are_denials_read else []
            self._keep_memory(manifest, view)
            own = [pool for pool in pools.values() if pool.node_class.name == name]
            ready[name] = self._write_class(manifest, known[name], own, more, report)

        breakers: dict[str, Breaker] = {}
        are_read = attempt(
            "breakers", lambda: breakers.update({found.node_pool: found for found in self._breakers.breakers()})
        )

        stopped: dict[str, Rollout] = {}
        attempt("rollouts", lambda: stopped.update(self._moves.read(self._clock.now()).rollouts))

        is_market_read = attempt("market", self._market.read)
        are_quotas_read = attempt("quotas", self._quotas.read)

        def write_pool(name: str, manifest: JsonObject) -> None:
            found = self._registration(manifest, pools[name], view, breakers.get(name)) if are_read else None
            rollout = self._rollout(manifest, stopped[name]) if name in stopped else None
            more = [message for message in (found, rollout) if message is not None]
            if are_denials_read:
                more.append(denied_launches(pools[name].node_class.name, denials))
            if is_market_read:
                more.append(self._market.current())
            if are_quotas_read:
                more.append(self._quotas.of(pools[name]))
            self._write_pool(manifest, pools[name], more, ready, view.claims.values(), report)

        for name, manifest in view.node_classes.items():
            attempt(f"EC2NodeClass {name}", partial(write_class, name, manifest))
        for name, manifest in view.node_pools.items():
            attempt(f"NodePool {name}", partial(write_pool, name, manifest))

    def _write_class(
        self,
        manifest: JsonObject,
        node_class: NodeClass,
        node_pools: list[NodePool],
        more: list[JsonObject],
        report: RunReport,
    ) -> bool | None:
        """Resolve and write the class of these NodePools, with `more` conditions; return whether it is ready now."""
        name = node_class.name
        if node_class.problem:
            report.count("invalidNodeClasses")
            report.decide(DecisionKind.SKIP, f"EC2NodeClass {name}", RunReason.VALIDATION_FAILED, node_class.problem)
            status: JsonObject = {"conditions": [condition("ValidationSucceeded", "False", node_class.problem)]}
            status["conditions"] += [condition("Ready", "False", node_class.problem), *more]
            self._patch(kinds.EC2_NODE_CLASSES, manifest, status)
            return False
        key, now = (name, _generation(manifest)), self._clock.now()
        every = RESERVATIONS_EVERY if selects_reservations(manifest) else RESOLVE_EVERY
        if _is_ready(manifest) and now < self._resolved.get(key, datetime.min.replace(tzinfo=UTC)) + every:
            self._patch(kinds.EC2_NODE_CLASSES, manifest, {"conditions": more})
            return True
        status, places = _without_places(self._cloud.resolve(manifest, node_pools))
        validated = str(status.pop("launchValidation", ""))
        status = {**status, "conditions": [*status.get("conditions", ()), *more]}
        self._resolved[key] = now
        if self._patch(kinds.EC2_NODE_CLASSES, manifest, status):
            report.count(CHANGED_NODE_CLASSES)
        own: dict[str, str | None] = {
            labels.NODECLASS_HASH: node_class.spec_hash,
            labels.NODECLASS_HASH_VERSION: HASH_VERSION,
        }
        own[labels.RESERVATION_PLACES] = written_places(places) if places else None
        if validated:
            own[labels.LAUNCH_VALIDATION] = validated
            self._validations.report(manifest, validated, report)
        self._annotate(kinds.EC2_NODE_CLASSES, manifest, own)
        return _is_ready({"status": status})

    def _keep_memory(self, manifest: JsonObject, view: ClusterState) -> None:
        """Remember on the class how much memory its registered nodes have, where that is new."""
        try:
            written = with_seen(read_node_class(manifest), seen_memory(_name(manifest), view))
        except InvalidInputError:
            return
        if written is not None:
            self._annotate(kinds.EC2_NODE_CLASSES, manifest, {labels.NODE_MEMORY: written})

    def _write_pool(
        self,
        manifest: JsonObject,
        pool: NodePool,
        more: Iterable[JsonObject],
        ready_classes: Mapping[str, bool | None],
        claims: Iterable[ClaimRecord],
        report: RunReport,
    ) -> None:
        mine = [claim for claim in claims if claim.plan.node_pool == pool.name and claim.machine is not None]
        staying = [claim.machine.capacity for claim in mine if claim.machine is not None and claim.deletion is None]
        used = resources.add(*staying, {"nodes": len(staying)})
        if pool.problem:
            report.count("invalidNodePools")
            report.decide(DecisionKind.SKIP, f"NodePool {pool.name}", RunReason.VALIDATION_FAILED, pool.problem)
        conditions = [*_pool_conditions(pool, ready_classes), _paused(pool, self._brakes.engaged()), *more]
        status = {"resources": resources.render(used), "nodes": len(staying), "conditions": conditions}
        self._patch(kinds.NODE_POOLS, manifest, status)
        if pool.template_hash:
            hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
            self._annotate(kinds.NODE_POOLS, manifest, hashes)

    def _registration(
        self, manifest: JsonObject, pool: NodePool, view: ClusterState, breaker: Breaker | None
    ) -> JsonObject:
        """NodeRegistrationHealthy: results of the last few launches since NodePool and EC2NodeClass changed (Karpenter).

        Results of other generations are dropped here, where generations are known.
        """
        if breaker is None:
            return condition(REGISTRATION, "Unknown", "no node has been launched of late")
        generations = f"{_generation(manifest)}/{_generation(view.node_classes.get(pool.node_class.name) or {})}"
        if breaker.generations != generations:
            self._breakers.renew(pool.name, generations, self._clock.now())
        current = breaker.at(generations)
        if current.registers is None:
            return condition(
                REGISTRATION, "Unknown", "too few nodes were launched since NodePool or EC2NodeClass changed"
            )
        if current.registers:
            return condition(REGISTRATION, "True")
        message = f"{current.results.count(False)} of the last {len(current.results)} new nodes failed"
        last = f", the last: {current.message}" if current.message else ""
        return condition(REGISTRATION, "False", message + last, reason="RegistrationFailed")

    def _rollout(self, manifest: JsonObject, rollout: Rollout) -> JsonObject:
        """Whether drifted nodes stay because their replacements do not become ready; an event reports when that begins."""
        now = self._clock.now()
        if not rollout.is_stopped(now):
            return condition(ROLLOUT_STOPPED, "False", reason="NotStopped")
        message = f"drifted nodes stay until {rollout.stopped_until:%Y-%m-%dT%H:%M:%SZ}: {rollout.message}"
        present = (manifest.get("status") or {}).get("conditions") or ()
        if not any(c.get("type") == ROLLOUT_STOPPED and c.get("status") == "True" for c in present):
            event = warning(about_node_pool(manifest), NodeReason.ROLLOUT_STOPPED, message, now, identity=message)
            write(self._kubernetes, [event])
        return condition(ROLLOUT_STOPPED, "True", message, reason="ReplacementsNotReady")

    def _patch(self, kind: Resource, manifest: JsonObject, status: JsonObject) -> bool:
        found = Present(kind, _name(manifest), "", _generation(manifest), manifest.get("status") or {})
        return self._statuses.write(found, status)

    def _annotate(self, kind: Resource, manifest: JsonObject, annotations: Mapping[str, str | None]) -> None:
        """Set annotations that differ; None removes one."""
        present = (manifest.get("metadata") or {}).get("annotations") or {}
        if all(present.get(key) == value for key, value in annotations.items()):
            return
        body = {"metadata": {"annotations": dict(annotations)}}
        tolerate_gone(lambda: self._kubernetes.patch(kind, _name(manifest), body))


def _pool_conditions(pool: NodePool, ready_classes: Mapping[str, bool | None]) -> list[JsonObject]:
    class_ready = ready_classes.get(pool.node_class.name)
    found = [
        condition("ValidationSucceeded", "False" if pool.problem else "True", pool.problem),
        condition(
            "NodeClassReady",
            "True"
            if class_ready
            else "Unknown"
            if class_ready is None and pool.node_class.name in ready_classes
            else "False",
            "" if class_ready else f"EC2NodeClass {pool.node_class.name!r} is missing or not ready",
        ),
    ]
    worst = next((c for c in found if c["status"] == "False"), next((c for c in found if c["status"] != "True"), None))
    return [*found, condition("Ready", worst["status"] if worst else "True", worst["message"] if worst else "")]


def _paused(pool: NodePool, brakes: EngagedBrakes) -> JsonObject:
    """Return whether a brake, or an unreadable budget, prevents voluntary disruption in the pool, and what helps."""
    found = (brakes.stopping(action, pool.name) for action in (Action.DISRUPT, Action.EXPIRE, Action.REPAIR))
    brake = next((brake for brake in found if brake is not None), None)
    if brake is None:
        if problem := unreadable(pool):
            return condition("DisruptionPaused", "True", problem, reason="InvalidBudget")
        return condition("DisruptionPaused", "False", reason="NoBrakeEngaged")
    return condition("DisruptionPaused", "True", brake.message, reason=brake.kind)


def _without_places(status: JsonObject) -> tuple[JsonObject, dict[str, int]]:
    """Return the status in Karpenter's form, and the places of each reservation."""
    found = status.get("capacityReservations")
    if found is None:
        return status, {}
    entries = [{key: value for key, value in one.items() if key != "places"} for one in found]
    return {**status, "capacityReservations": entries}, {one["id"]: one["places"] for one in found}


def _is_ready(manifest: Mapping[str, Any]) -> bool | None:
    """Return the value of the condition Ready, None where there is none."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    found = next((c for c in conditions if c.get("type") == "Ready"), None)
    return None if found is None or found.get("status") == "Unknown" else found.get("status") == "True"


def _generation(manifest: JsonObject) -> int:
    return int((manifest.get("metadata") or {}).get("generation", 0))


def _name(manifest: JsonObject) -> str:
    return str((manifest.get("metadata") or {}).get("name", ""))
