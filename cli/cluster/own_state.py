"""Reads the functions' view of a cluster without writing: their present observation, and what holds them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.composition.cli_adapters import ReadOnlyAdapters
from adapters.composition.cluster_api import kubernetes_of
from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.ports import Clock, Kubernetes, Listing, NotFoundError, PortError
from adapters.runtime.clock import SystemClock
from adapters.store import SweepState
from adapters.store.current_target import current_target
from cli.cluster.installation import Installation
from cli.cluster.proposals import open_proposals
from cli.errors import InputError
from cli.manifests.inventory import Inventory
from core.approval.proposal import Proposal
from core.approval.verification import without_proposed
from core.brakes.brake import Action, BrakeKind, EngagedBrakes
from core.brakes.breaker import Breaker
from core.disruption.rollouts import Rollout, rollouts
from core.manifests.wire.api_resources import Resource
from core.model.snapshot import Snapshot

if TYPE_CHECKING:
    from adapters.composition.adapters import Adapters
    from core.catalogue.facts import StalePart


_HINT: Final = (
    "--profile and --region say whose permissions count, and where; docs/how-to/see-a-cluster.md lists what is read, "
    "and docs/how-to/deploy.md says how a lost table is restored"
)


class OwnState(msgspec.Struct, frozen=True, kw_only=True):
    """The functions' view at one moment.

    Attributes:
        view: The functions' observation.
        snapshot: Their input for decisions: the observation with the effects of brakes, rollouts and proposals, and the target
            that they follow.
        brakes: The engaged brakes; one that these credentials cannot read is included as unreadable.
        breakers: The state of each NodePool's breaker.
        sweeps: The states of `reconcile`'s sweeps, by name.
        prices_read_at: When prices were last read; None before the first time.
        proposals: Commands that wait for approval; None if the installation needs no approvals.
        stale_market: Parts of the market that were last read long ago.
    """

    view: ClusterState
    snapshot: Snapshot
    brakes: EngagedBrakes
    breakers: tuple[Breaker, ...]
    sweeps: Mapping[str, SweepState]
    prices_read_at: datetime | None
    proposals: tuple[Proposal, ...] | None = None
    stale_market: tuple[StalePart, ...] = ()


def read_own_state(installation: Installation, given: Inventory | None, now: datetime | None = None) -> OwnState:
    """Read the table, the market and the cluster.

    Args:
        installation: The installation to read.
        given: The cluster's objects, if already read; None to read them from EKS with the session's permissions.
        now: The moment of the observation; None: the present.

    Raises:
        InputError: If any of it cannot be read; there is no partial result.
    """
    settings, clock = installation.settings, SystemClock() if now is None else _Stopped(now)
    reader = ReadOnlyAdapters(settings, installation.session, clock)
    kubernetes: Any = _kubernetes(installation, clock) if given is None else GivenObjects(given.objects)
    catalogues, stores = reader.catalogues, reader.stores
    try:
        view = Observer(kubernetes, catalogues, stores, settings, clock).observe()
        known = stores.moves.read(view.snapshot.now).rollouts
        facts, brakes = catalogues.facts(), stores.brakes.engaged()
        proposals = _waiting(reader, view.snapshot.now)
        observed = without_proposed(_held_back(view.snapshot, brakes, known), proposals or ())
        target = current_target(reader.targets, observed, brakes)
        return OwnState(
            view=view,
            snapshot=msgspec.structs.replace(observed, stored_target=target),
            brakes=brakes,
            breakers=stores.breakers.breakers(),
            sweeps=reader.sweep_log.read(),
            prices_read_at=facts.prices_read_at if facts is not None else None,
            proposals=proposals,
            stale_market=facts.stale_parts(view.snapshot.now) if facts is not None else (),
        )
    except PortError as error:
        raise InputError(f"cluster {installation.cluster} cannot be read: {error}", hint=_HINT) from error


def _waiting(reader: Adapters, now: datetime) -> tuple[Proposal, ...] | None:
    if reader.settings.approval_rule() is None:
        return None
    return open_proposals(reader.proposals.all(), now)


def _kubernetes(installation: Installation, clock: Clock) -> Kubernetes:
    return kubernetes_of(installation.session, installation.cluster, clock)


def _held_back(snapshot: Snapshot, brakes: EngagedBrakes, known: Mapping[str, Rollout]) -> Snapshot:
    """Return the snapshot with the effects of brakes and rollouts, as `disrupt` applies them before it decides."""
    gates = {pool: seen.gate for pool, seen in rollouts(snapshot, known).items() if seen.gate is not None}
    others = brakes.without(BrakeKind.OBSERVED)
    stopping = {pool.name: others.stopping(Action.DISRUPT, pool.name) for pool in snapshot.node_pools}
    paused = {pool: brake.message for pool, brake in stopping.items() if brake is not None}
    return msgspec.structs.replace(snapshot, rollouts=gates, paused_pools=paused)


class _Stopped:
    """A clock that always shows the same moment (`adapters.ports.Clock`)."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def worked(self) -> timedelta:
        return timedelta(0)


class GivenObjects:
    """Serves objects that were already read to the observer (the part of `adapters.ports.Kubernetes` that it uses)."""

    def __init__(self, objects: Mapping[Resource, Iterable[Any]]) -> None:
        self._objects = objects

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Return every object of the kind; an observation lists no others."""
        if fields or labels:
            raise NotFoundError(f"list {resource.plural}", "objects that were read before cannot be selected")
        return Listing(tuple(self._objects.get(resource, ())))
