"""Assembles what several controllers of one sandbox share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from adapters.composition.functions import Adapters

if TYPE_CHECKING:
    from adapters.observation.observer import Observer
    from lambdas.controllers.claim_deletion import ClaimDeletion
    from lambdas.controllers.hand_made_claims import HandMadeClaims
    from lambdas.controllers.launch_answers import FailedStarts
    from lambdas.controllers.launching import Launcher, LaunchRequests, ParallelLaunches
    from lambdas.controllers.node_claims import NodeClaimMirror
    from lambdas.controllers.node_lifecycle import ClaimWork
    from lambdas.controllers.sweeps.rebuilding import Rebuilding
    from lambdas.controllers.sweeps.sweep import ClaimTerminator


class SharedControllers:
    """Controllers that other controllers use. Each is created on first use, so a function loads only what it needs."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters

    @cached_property
    def observer(self) -> Observer:
        """Observer of the cluster."""
        from adapters.observation.observer import Observer

        adapters = self.adapters
        return Observer(adapters.kubernetes, adapters.catalogues, adapters.stores, adapters.settings, adapters.clock)

    @cached_property
    def claim_work(self) -> ClaimWork:
        """Advances a claim to its next step."""
        from lambdas.controllers.claim_launch import ClaimLaunch, InstanceNames
        from lambdas.controllers.node_lifecycle import ClaimWork
        from lambdas.controllers.node_registration import ClaimSteps

        adapters = self.adapters
        names = InstanceNames(adapters.cloud, adapters.stores.claims, adapters.clock)
        launch = ClaimLaunch(
            adapters.stores.claims, self.launcher, names, self.observer, adapters.queues, adapters.clock
        )
        claim_steps = ClaimSteps(
            adapters.kubernetes,
            adapters.stores,
            launch,
            self.failed_starts,
            self.claim_deletion,
            adapters.settings,
            adapters.queues,
            adapters.clock,
        )
        return ClaimWork(
            adapters.stores, claim_steps, names, adapters.queues, adapters.clock, binds=adapters.settings.bind_pods
        )

    @cached_property
    def claim_deletion(self) -> ClaimDeletion:
        """Stores that claims leave, and ends them."""
        from lambdas.controllers.claim_deletion import ClaimDeletion

        adapters, stores = self.adapters, self.adapters.stores
        return ClaimDeletion(adapters.cloud, stores.claims, stores.breakers, adapters.queues.wake_ups, adapters.clock)

    @cached_property
    def node_claims(self) -> NodeClaimMirror:
        """The mirror, for functions that change claims: it records each change, and writes NodeClaims at the end of a run."""
        from adapters.observation.cluster_reader import KarpenterPresence
        from lambdas.controllers.node_claims import NodeClaimMirror

        adapters, tasks = self.adapters, self.adapters.run_tasks.messages
        karpenter = KarpenterPresence(adapters.kubernetes, adapters.clock)
        is_on = adapters.settings.mirror_node_claims
        mirror = NodeClaimMirror(adapters.kubernetes, adapters.claims, karpenter, adapters.clock, tasks, is_on=is_on)
        adapters.claims.listen(mirror.note)
        return mirror

    @cached_property
    def hand_made(self) -> HandMadeClaims:
        """Stores the claims of NodeClaims that were made by hand."""
        from lambdas.controllers.hand_made_claims import HandMadeClaims

        adapters, stores, mirror = self.adapters, self.adapters.stores, self.node_claims
        parts = (
            adapters.kubernetes,
            stores.claims,
            self.observer,
            self.launcher,
            mirror,
            stores.brakes,
            adapters.clock,
        )
        return HandMadeClaims(*parts)

    @cached_property
    def terminator(self) -> ClaimTerminator:
        """Ends claims for sweeps."""
        from lambdas.controllers.sweeps.sweep import ClaimTerminator

        adapters, work = self.adapters, self.adapters.queues.work
        return ClaimTerminator(adapters.stores.claims, self.claim_deletion, adapters.brakes, work, adapters.clock)

    @cached_property
    def launch_requests(self) -> LaunchRequests:
        """Asks EC2 for nodes."""
        from lambdas.controllers.launching import LaunchRequests

        adapters, gates = self.adapters, self.adapters.settings.options().feature_gates
        return LaunchRequests(
            adapters.cloud,
            adapters.stores,
            cluster=adapters.settings.cluster_name,
            uses_reservations=gates.reserved_capacity,
        )

    @cached_property
    def failed_starts(self) -> FailedStarts:
        """Handles instances that did not start."""
        from lambdas.controllers.launch_answers import FailedStarts

        adapters = self.adapters
        return FailedStarts(adapters.cloud, adapters.stores, self.observer, adapters.clock)

    @cached_property
    def parallel_launches(self) -> ParallelLaunches:
        """Launches a plan's claims in parallel."""
        from lambdas.controllers.launching import ParallelLaunches

        adapters, at_most = self.adapters, self.adapters.settings.launches_per_run
        tasks = adapters.run_tasks.launches
        return ParallelLaunches(self.launch_requests, self.launcher, tasks, adapters.clock, at_most=at_most)

    @cached_property
    def launcher(self) -> Launcher:
        """Launches claims."""
        from lambdas.controllers.launching import Launcher

        adapters = self.adapters
        return Launcher(self.launch_requests, adapters.stores.claims, cluster=adapters.settings.cluster_name)

    @cached_property
    def rebuilding(self) -> Rebuilding:
        """Restores claims whose rows are lost."""
        from lambdas.controllers.sweeps.rebuilding import Rebuilding

        adapters, work = self.adapters, self.adapters.queues.work
        claims = adapters.stores.claims

        def is_withdrawn(name: str, uid: str) -> bool:
            return self.node_claims.is_withdrawn(name, uid)  # loaded only where an instance without a claim is found

        return Rebuilding(adapters.cloud, self.launcher, claims, is_withdrawn, self.observer, work, adapters.clock)
