"""Assembles the sweeps of `reconcile`, in their order."""

from __future__ import annotations

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.node_claims.node_claim_status import NodeClaimStatus
from lambdas.controllers.status.object_status import ObjectStatus
from lambdas.controllers.sweeps.blocked_drains import BlockedDrains
from lambdas.controllers.sweeps.budget_windows import BudgetWindowSchedules
from lambdas.controllers.sweeps.expiry import Expiry
from lambdas.controllers.sweeps.instances.capacity_blocks import CapacityBlocks
from lambdas.controllers.sweeps.instances.demoted import DemotedInstances
from lambdas.controllers.sweeps.instances.impaired import ImpairedInstances
from lambdas.controllers.sweeps.instances.indexing import InstanceIndex
from lambdas.controllers.sweeps.instances.lost import LostInstances
from lambdas.controllers.sweeps.instances.unknown import UnknownInstances
from lambdas.controllers.sweeps.instances.untracked import UntrackedInstances
from lambdas.controllers.sweeps.nodes.deleted import DeletedNodes
from lambdas.controllers.sweeps.nodes.deleted_node_claims import DeletedNodeClaims
from lambdas.controllers.sweeps.nodes.inconsistent import InconsistentNodes
from lambdas.controllers.sweeps.nodes.node_claims import NodeClaims
from lambdas.controllers.sweeps.nodes.orphaned import OrphanedNodes
from lambdas.controllers.sweeps.nodes.stale_taints import StaleTaints
from lambdas.controllers.sweeps.nodes.uninitialized import UninitializedNodes
from lambdas.controllers.sweeps.pod_events import PodEvents
from lambdas.controllers.sweeps.pools.deleted_pools import DeletedPools
from lambdas.controllers.sweeps.pools.static_capacity import StaticCapacity
from lambdas.controllers.sweeps.requeue import Requeue
from lambdas.controllers.sweeps.scheduled_changes import ScheduledChanges
from lambdas.controllers.sweeps.stale_launch_templates import StaleLaunchTemplates
from lambdas.controllers.sweeps.status import Statuses
from lambdas.controllers.sweeps.sweep import Sweep
from lambdas.controllers.sweeps.unused_instance_profiles import UnusedInstanceProfiles
from lambdas.controllers.sweeps.usage import Usage


def sweeps(shared: SharedControllers) -> tuple[Sweep, ...]:
    """Return every sweep of this installation."""
    adapters, terminator = shared.adapters, shared.terminator
    kubernetes, cloud, stores, clock = adapters.kubernetes, adapters.cloud, adapters.stores, adapters.clock
    work = adapters.queues.work
    windows = (BudgetWindowSchedules(adapters.windows),) if adapters.windows is not None else ()
    return (
        *_instance_sweeps(shared),
        DeletedNodes(work),
        StaleTaints(kubernetes, cloud, stores, work),
        Requeue(stores, work),
        Usage(stores.claims),
        UninitializedNodes(),
        InconsistentNodes(work),
        OrphanedNodes(kubernetes, cloud),
        PodEvents(stores),
        Statuses(ObjectStatus(kubernetes, cloud, stores, adapters.catalogues, clock)),
        Expiry(terminator),
        ScheduledChanges(terminator),
        DeletedPools(kubernetes, terminator),
        StaticCapacity(stores.claims, terminator, adapters.queues.wake_ups),
        *windows,
        StaleLaunchTemplates(cloud),
        UnusedInstanceProfiles(cloud),
        BlockedDrains(),
        NodeClaims(
            kubernetes,
            stores.claims,
            shared.node_claims,
            DeletedNodeClaims(kubernetes, stores.claims, terminator),
            NodeClaimStatus(kubernetes, clock),
            work,
        ),
    )


def _instance_sweeps(shared: SharedControllers) -> tuple[Sweep, ...]:
    adapters, terminator, rebuilding = shared.adapters, shared.terminator, shared.rebuilding
    kubernetes, cloud, claims = adapters.kubernetes, adapters.cloud, adapters.stores.claims
    unknown = UnknownInstances(rebuilding, claims, adapters.brakes, held=adapters.brake_rows, queues=adapters.queues)
    return (
        UntrackedInstances(cloud, rebuilding, unknown),
        LostInstances(cloud, terminator, shared.failed_starts),
        InstanceIndex(claims),
        DemotedInstances(kubernetes, claims, shared.observer),
        CapacityBlocks(terminator),
        ImpairedInstances(cloud, terminator),
    )
