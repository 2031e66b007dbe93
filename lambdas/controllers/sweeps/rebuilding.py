"""Finds instances with our claim tag that belong to no known claim, and classifies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from adapters.messages import work_on_claim
from adapters.observation.cluster_reader import machine_of
from adapters.observation.observer import ClusterState, Observer
from adapters.ports import Clock, CloudProvider, ConflictError, Instance, NotFoundError, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.launching import is_unnamed, launch_name
from core.lifecycle.records import ClaimRecord
from core.lifecycle.registration import rebuilt, rebuilt_plan
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.snapshot import Node
from core.reasons.code import ClaimReason, DecisionKind
from lambdas.controllers.launching import Launcher


class UnclaimedInstance(msgspec.Struct, frozen=True):
    """An instance with our claim tag and no known claim.

    Attributes:
        node: Its node, None if none has joined or several have its provider id.
        problem: Why no claim can be rebuilt for it, empty if one can.
        is_copy: Whether its claim has another instance, so that somebody has copied the tags.
    """

    instance: Instance
    node: Node | None
    problem: str
    is_copy: bool = False


class UnclaimedInstances(msgspec.Struct, frozen=True):
    """The instances with our claim tag and no known claim, each by id.

    Attributes:
        awaited: Instance → name of the stored claim that waits for it because its launch response was lost.
        unnamed: Instance of a shared launch → name of its claim, after which it is not named yet.
        unclaimed: Instances whose claim's row is lost, or that never had a claim of ours.
        tagged: How many instances have the tag, including known ones.
    """

    awaited: tuple[tuple[Instance, str], ...]
    unnamed: tuple[tuple[Instance, str], ...]
    unclaimed: tuple[UnclaimedInstance, ...]
    tagged: int

    @property
    def rebuildable(self) -> tuple[UnclaimedInstance, ...]:
        """Return the unclaimed instances for which a claim can be rebuilt now."""
        return tuple(stray for stray in self.unclaimed if not stray.problem)


def untracked(
    instances: Iterable[Instance], view: ClusterState, now: datetime, *, min_age: timedelta
) -> UnclaimedInstances:
    """Classify the instances. They must be listed before the view's claims are read, so that a missing claim is really gone.

    Args:
        instances: All of this cluster.
        view: The observation. Instances of claims whose rows cannot be read are left out: those claims are not gone.
        now: The time of the observation.
        min_age: Unclaimed instances that were launched more recently are left out.
    """
    tagged = [instance for instance in instances if instance.is_alive and labels.CLAIM in instance.tags]
    claim_by_instance = {record.instance_id: record.name for record in view.claims.values()}
    missing = (i for i in tagged if i.instance_id not in claim_by_instance and not _may_be_unreadable(i, view))
    without_claim = sorted(missing, key=lambda instance: instance.instance_id)
    nodes, awaited = _by_provider_id(view.snapshot.nodes), _awaited(without_claim, view)
    owners = _owners(tagged, nodes, view)
    return UnclaimedInstances(
        awaited=tuple(
            (instance, awaited[instance.instance_id]) for instance in without_claim if instance.instance_id in awaited
        ),
        unnamed=tuple(
            (instance, claim_by_instance[instance.instance_id])
            for instance in sorted(tagged, key=lambda instance: instance.instance_id)
            if instance.instance_id in claim_by_instance and is_unnamed(instance.tags)
        ),
        unclaimed=tuple(
            UnclaimedInstance(
                instance,
                nodes.get(instance.provider_id),
                _problem(instance, nodes, owners, view, now),
                is_copy=_owner_of(instance, owners) != instance.instance_id,
            )
            for instance in without_claim
            if instance.instance_id not in awaited and now - instance.launched_at >= min_age
        ),
        tagged=len(tagged),
    )


def _may_be_unreadable(instance: Instance, view: ClusterState) -> bool:
    """Whether the instance may belong to a claim whose row cannot be read.

    Names of claims that share a launch differ in what follows the last hyphen only.
    """
    if not is_unnamed(instance.tags):
        return instance.tags[labels.CLAIM] in view.unreadable_claims
    launched = [record for record in view.claims.values() if launch_name(record) == instance.tags[labels.LAUNCH]]
    if launched and len(launched) >= launched[0].shares:
        return False
    prefix = launched[0].name.rpartition("-")[0] if launched else instance.tags.get(labels.NODEPOOL, "")
    return any(name.startswith(f"{prefix}-") for name in view.unreadable_claims)


def _owners(tagged: Iterable[Instance], nodes: Mapping[str, Node], view: ClusterState) -> Mapping[str, str]:
    """Return claim → its instance: as stored, or of those with its name the one with a node, else the first.

    Whoever may launch instances can copy tags.
    """
    named = [instance for instance in tagged if not is_unnamed(instance.tags)]
    named.sort(key=lambda instance: (instance.provider_id not in nodes, instance.launched_at, instance.instance_id))
    first = {instance.tags[labels.CLAIM]: instance.instance_id for instance in reversed(named)}
    return first | {record.name: record.instance_id for record in view.claims.values()}


def _owner_of(instance: Instance, owners: Mapping[str, str]) -> str:
    return instance.instance_id if is_unnamed(instance.tags) else owners[instance.tags[labels.CLAIM]]


def _problem(
    instance: Instance, nodes: Mapping[str, Node], owners: Mapping[str, str], view: ClusterState, now: datetime
) -> str:
    """Return why no claim can be rebuilt for it now, empty if one can."""
    name, pool = instance.tags[labels.CLAIM], instance.tags.get(labels.NODEPOOL, "")
    owner = _owner_of(instance, owners)
    if owner != instance.instance_id or name in view.claims:
        return f"claim {name} has another instance, {owner}"
    if pool not in view.node_pools and labels.MADE_BY_HAND not in instance.tags:
        return f"its NodePool {pool or '(none)'} does not exist"
    # An older rebuilt claim would be removed at once as not having joined: an empty list of nodes would remove the whole
    # fleet.
    if instance.provider_id not in nodes and now - instance.launched_at >= REGISTRATION_TIMEOUT:
        return f"claim {name} is not in the table and no node of it has joined"
    return ""


def _awaited(instances: Iterable[Instance], view: ClusterState) -> Mapping[str, str]:
    """Return instance id → the name of the claim that waits for it; those of a shared launch are assigned in order."""
    waiting: dict[str, list[str]] = {}
    for record in sorted(view.claims.values(), key=lambda record: (record.share, record.name)):
        if record.machine is None:
            waiting.setdefault(launch_name(record), []).append(record.name)
            if record.shares > 1:
                waiting.setdefault(record.name, []).append(record.name)
    awaited: dict[str, str] = {}
    for instance in instances:
        names = waiting.get(instance.tags[labels.CLAIM], [])
        if names:
            awaited[instance.instance_id] = names.pop(0) if is_unnamed(instance.tags) else names[0]
    return awaited


def _by_provider_id(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    """Return the nodes that are the only ones with their provider id."""
    by_id: dict[str, list[Node]] = {}
    for node in nodes:
        by_id.setdefault(node.provider_id, []).append(node)
    return {provider_id: same[0] for provider_id, same in by_id.items() if provider_id and len(same) == 1}


# Stores claims for existing instances: completes a claim that waits for its instance, or replaces a lost row.


class Rebuilding:
    """Adopts instances and rebuilds claims."""

    def __init__(
        self,
        cloud: CloudProvider,
        launcher: Launcher,
        claims: ClaimStore,
        is_withdrawn: Callable[[str, str], bool],
        observer: Observer,
        work: Queue,
        clock: Clock,
    ) -> None:
        """`is_withdrawn` says whether the hand-made NodeClaim of this name and UID is gone."""
        self._cloud = cloud
        self._launcher = launcher
        self._claims = claims
        self._is_withdrawn = is_withdrawn
        self._observer = observer
        self._work = work
        self._clock = clock
        self._read_for: ClusterState | None = None
        self._catalogues: dict[str, Catalogue] = {}

    def adopt(self, instance: Instance, claim: str, view: ClusterState, report: RunReport) -> None:
        """Assign the instance to the claim that requested it, whose launch response was lost."""
        now = self._clock.now()
        record = view.claims[claim]
        try:
            self._launcher.answer_writer.adopt(
                record, instance, self._catalogue(record.plan.node_class.name, view), now
            )
        except (ConflictError, NotFoundError):
            return
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.FOUND_BY_TAG, f"instance {instance.instance_id}")
        self._work.send([work_on_claim(record.name, now)])

    def still_there(self, unclaimed: Sequence[UnclaimedInstance]) -> tuple[UnclaimedInstance, ...]:
        """Return the instances that EC2 also finds by id: a list may contain terminated ones. Raises PortError."""
        if not unclaimed:
            return ()
        ids = [stray.instance.instance_id for stray in unclaimed]
        alive = {stray.instance_id for stray in self._cloud.instances(ids) if stray.is_alive}
        return tuple(stray for stray in unclaimed if stray.instance.instance_id in alive)

    def judged(self, stray: UnclaimedInstance) -> UnclaimedInstance:
        """Return the instance, with a problem if its hand-made NodeClaim is gone. Raises PortError.

        Of two runs that request one launch, one may be denied and release the NodeClaim while the other gets the instance.
        """
        uid, name = stray.instance.tags.get(labels.MADE_BY_HAND, ""), stray.instance.tags[labels.CLAIM]
        if stray.problem or not uid or not self._is_withdrawn(name, uid):
            return stray
        return msgspec.structs.replace(stray, problem=f"NodeClaim {name}, for which it was launched, is gone")

    def rebuild(self, stray: UnclaimedInstance, view: ClusterState, report: RunReport) -> None:
        """Store the claim again, unless another run has. Raises PortError."""
        record = self.record(_claim_of(stray.instance), stray, view)
        if self._claims.restore(record) is None:
            return
        report.count("rebuiltClaims")
        message = f"its row was lost; instance {stray.instance.instance_id} was {record.phase}"
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.REBUILT, message)
        self._work.send([work_on_claim(record.name, self._clock.now())])

    def record(self, name: str, stray: UnclaimedInstance, view: ClusterState) -> ClaimRecord:
        """Return the claim with this name without storing it. Raises NotFoundError before the market was read."""
        instance, node = stray.instance, stray.node
        pool_name = instance.tags.get(labels.NODEPOOL, "")
        pools = (pool for pool in view.snapshot.node_pools if pool.name == pool_name)
        pool = next(pools, NodePool(name=pool_name))
        plan = rebuilt_plan(name, instance.tags, node, pool)
        machine = machine_of(instance, plan, self._catalogue(plan.node_class.name, view))
        return rebuilt(plan, machine, node, pool, instance.launched_at, self._clock.now())

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
