"""The complete input of a decision, at one moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.model.catalogue import Catalogue
from core.model.feature_gates import FeatureGates
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodeClass, NodePool, RolloutGate
from core.model.overlay import CapacityBuffer, NodeOverlay
from core.model.plan import StoredTarget
from core.model.pod import DO_NOT_SCHEDULE, Pod, TopologySpread
from core.model.policy import DaemonSet, Namespace, PodDisruptionBudget, Service, WorkloadSelector
from core.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from core.model.values.commitment import Commitment

RESPECT: Final = "Respect"
IGNORE: Final = "Ignore"
STRICT: Final = "Strict"
BEST_EFFORT: Final = "BestEffort"
THOROUGH_MOVES: Final = "thorough"
BALANCED_MOVES: Final = "balanced"
GENTLE_MOVES: Final = "gentle"

TARGET_AGE_MAX: Final = timedelta(hours=6)
"""The maximum age of a stored target; after that, prices and pods have changed a little everywhere."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a decision by the operator.

    Attributes:
        requires_unschedulable_mark: Plan only for pods that the scheduler has reported as unschedulable. On in a live cluster,
            where the scheduler may be about to bind other pods; off for manifests on a command line.
        default_spreads: The cluster's default topology spread constraints, for pods that have none.
        improve_iterations: Bound on the optimiser's steps; None leaves the bound to the caller's clock.
        moves: How much moving pods counts against savings: thorough (nothing), balanced or gentle.
        evictions_per_hour: How many pods commands may evict in any hour, None for any number.
        ranks_by_own_prices: Whether the catalogue's prices rank types differently from EC2's list, so that launches follow the
            catalogue.
        dedicated_ppm: How much more nodes on dedicated hardware cost than the catalogue says, in millionths.
        commitments: Usage that is paid for in advance, for this cluster; by name.
        move_price: The price of a move in nano-dollars per hour, which overrides `moves`; None for no override.
        seed: Seeds every random draw.
    """

    preference_policy: str = RESPECT
    min_values_policy: str = STRICT
    feature_gates: FeatureGates = FeatureGates()
    default_spreads: tuple[TopologySpread, ...] = ()
    requires_unschedulable_mark: bool = False
    karpenter_moves_only: bool = False
    ignore_budgets: bool = False
    improve_iterations: int | None = None
    moves: str = BALANCED_MOVES
    move_price: int | None = None
    evictions_per_hour: int | None = None
    ranks_by_own_prices: bool = False
    dedicated_ppm: int = 0
    commitments: tuple[Commitment, ...] = ()
    seed: int = 0

    @property
    def requires_default_spreads(self) -> bool:
        """Whether a default topology spread constraint must hold, for pods without constraints of their own."""
        return any(default.when_unsatisfiable == DO_NOT_SCHEDULE for default in self.default_spreads)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its market at one moment. The order of the tuples has no meaning: decisions sort.

    Attributes:
        marked_for_deletion: Names of claims that a command is removing; their pods need a new place, and their nodes offer
            none.
        paused_pools: NodePool → why none of its nodes may currently be disrupted.
        nominated_until: Node or claim name → until when pods are expected on it, so that it is not a candidate.
        rollouts: NodePool → which of its drifted nodes may go; pools that only budgets limit are missing.
        stored_target: The current target of the fleet, stored by the previous pass.
        evicted_nodes: NodeClaim → evictions by commands from its node in the last hour.
        vcpu_quotas: Code of an EC2 quota → vCPUs that this cluster may run in total: the quota less the usage of others in the
            account. Missing quotas are unknown and limit nothing.
        subnet_addresses: Id of a subnet with few free addresses → how many are left beside launches in flight.
        moved_workloads: Workload (`Pod.workload`) → its recent moves; settled ones are missing.
    """

    now: datetime
    cluster: str = ""
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_claims: tuple[NodeClaim, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    buffers: tuple[CapacityBuffer, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    workload_selectors: tuple[WorkloadSelector, ...] = ()
    catalogue: Catalogue = Catalogue()
    vcpu_quotas: dict[str, int] = {}
    subnet_addresses: dict[str, int] = {}
    marked_for_deletion: tuple[str, ...] = ()
    paused_pools: dict[str, str] = {}
    nominated_until: dict[str, datetime] = {}
    moved_workloads: dict[str, MovedWorkload] = {}
    evicted_nodes: dict[str, EvictedNode] = {}
    rollouts: dict[str, RolloutGate] = {}
    stored_target: StoredTarget | None = None
    options: Options = Options()

    @property
    def drained_later(self) -> frozenset[str]:
        """Names of the nodes that the stored target has yet to drain; none if it is too old, or under Karpenter's policy."""
        target = self.stored_target
        if target is None or self.now - target.made_at > TARGET_AGE_MAX or self.options.karpenter_moves_only:
            return frozenset()
        return frozenset(drain.node for drain in target.drains)
