"""Assembles the sweeps of `reconcile`, in their order."""

from __future__ import annotations

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.node_claims import DeletedNodeClaims, NodeClaims, NodeClaimStatus
from lambdas.controllers.status import ObjectStatus
from lambdas.controllers.status_writer import UnknownFields
from lambdas.controllers.sweeps.account import (
    BudgetWindowSchedules,
    CapMembers,
    CapPeriods,
    PodEvents,
    StaleLaunchTemplates,
    Statuses,
    UnusedInstanceProfiles,
    Usage,
)
from lambdas.controllers.sweeps.claims import (
    BlockedDrains,
    DeletedPools,
    Expiry,
    Hours,
    Requeue,
    ScheduledChanges,
    StaticCapacity,
)
from lambdas.controllers.sweeps.instances import (
    CapacityBlocks,
    DemotedInstances,
    ImpairedInstances,
    InstanceIndex,
    LostInstances,
    UnknownInstances,
    UntrackedInstances,
)
from lambdas.controllers.sweeps.nodes import (
    ChangingSpecifications,
    DeletedNodes,
    InconsistentNodes,
    MarkedNodes,
    OrphanedNodes,
    SettlingChanges,
    StaleTaints,
    UninitializedNodes,
)
from lambdas.controllers.sweeps.sweep import Sweep


def sweeps(shared: SharedControllers) -> tuple[Sweep, ...]:
    """Return every sweep of this installation."""
    adapters, terminator = shared.adapters, shared.terminator
    kubernetes, cloud, stores, clock = adapters.kubernetes, adapters.cloud, adapters.stores, adapters.clock
    work = adapters.queues.work
    changes = SettlingChanges(kubernetes, stores.moves)
    windows = (BudgetWindowSchedules(adapters.windows),) if adapters.windows is not None else ()
    return (
        *_instance_sweeps(shared),
        DeletedNodes(kubernetes, cloud, terminator, work),
        StaleTaints(kubernetes, cloud, stores, work),
        Requeue(stores, work),
        Usage(stores.claims),
        MarkedNodes(kubernetes, adapters.targets, stores),
        UninitializedNodes(),
        InconsistentNodes(work),
        OrphanedNodes(kubernetes, cloud),
        PodEvents(stores),
        ChangingSpecifications(kubernetes, changes),
        Statuses(ObjectStatus(kubernetes, cloud, stores, adapters.catalogues, clock, adapters.pause)),
        Expiry(kubernetes, terminator),
        Hours(terminator, changes, adapters.queues.wake_ups),
        CapMembers(stores.claims, shared.observer),
        CapPeriods(kubernetes, stores.claims),
        ScheduledChanges(terminator),
        DeletedPools(kubernetes, terminator, changes),
        StaticCapacity(stores.claims, terminator, changes, adapters.queues.wake_ups),
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
            UnknownFields(kubernetes, clock),
            shared.hand_made,
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
