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

        given = self.adapters
        return Observer(given.kubernetes, given.catalogues, given.stores, given.settings, given.clock)

    @cached_property
    def claim_work(self) -> ClaimWork:
        """Advances a claim to its next step."""
        from lambdas.controllers.claim_launch import ClaimLaunch, InstanceNames
        from lambdas.controllers.node_lifecycle import ClaimWork
        from lambdas.controllers.node_registration import ClaimSteps

        given = self.adapters
        names = InstanceNames(given.cloud, given.stores.claims, given.clock)
        launch = ClaimLaunch(given.stores.claims, self.launcher, names, self.observer, given.queues, given.clock)
        claim_steps = ClaimSteps(
            given.kubernetes,
            given.stores,
            launch,
            self.failed_starts,
            self.claim_deletion,
            given.settings,
            given.queues,
            given.clock,
        )
        return ClaimWork(given.stores, claim_steps, names, given.queues, given.clock, binds=given.settings.bind_pods)

    @cached_property
    def claim_deletion(self) -> ClaimDeletion:
        """Stores that claims leave, and ends them."""
        from lambdas.controllers.claim_deletion import ClaimDeletion

        given, stores = self.adapters, self.adapters.stores
        return ClaimDeletion(given.cloud, stores.claims, stores.breakers, given.queues.wake_ups, given.clock)

    @cached_property
    def node_claims(self) -> NodeClaimMirror:
        """The mirror, for functions that change claims: it records each change, and writes NodeClaims at the end of a run."""
        from adapters.observation.cluster_reader import KarpenterPresence
        from lambdas.controllers.node_claims import NodeClaimMirror

        given, tasks = self.adapters, self.adapters.run_tasks.messages
        karpenter = KarpenterPresence(given.kubernetes, given.clock)
        is_on = given.settings.mirror_node_claims
        mirror = NodeClaimMirror(given.kubernetes, given.claims, karpenter, given.clock, tasks, is_on=is_on)
        given.claims.listen(mirror.note)
        return mirror

    @cached_property
    def hand_made(self) -> HandMadeClaims:
        """Stores the claims of NodeClaims that were made by hand."""
        from lambdas.controllers.hand_made_claims import HandMadeClaims

        given, stores, mirror = self.adapters, self.adapters.stores, self.node_claims
        parts = (given.kubernetes, stores.claims, self.observer, self.launcher, mirror, stores.brakes, given.clock)
        return HandMadeClaims(*parts)

    @cached_property
    def terminator(self) -> ClaimTerminator:
        """Ends claims for sweeps."""
        from lambdas.controllers.sweeps.sweep import ClaimTerminator

        given, work = self.adapters, self.adapters.queues.work
        return ClaimTerminator(given.stores.claims, self.claim_deletion, given.brakes, work, given.clock)

    @cached_property
    def launch_requests(self) -> LaunchRequests:
        """Asks EC2 for nodes."""
        from lambdas.controllers.launching import LaunchRequests

        given, gates = self.adapters, self.adapters.settings.options().feature_gates
        return LaunchRequests(
            given.cloud,
            given.stores,
            cluster=given.settings.cluster_name,
            uses_reservations=gates.reserved_capacity,
        )

    @cached_property
    def failed_starts(self) -> FailedStarts:
        """Handles instances that did not start."""
        from lambdas.controllers.launch_answers import FailedStarts

        given = self.adapters
        return FailedStarts(given.cloud, given.stores, self.observer, given.clock)

    @cached_property
    def parallel_launches(self) -> ParallelLaunches:
        """Launches a plan's claims in parallel."""
        from lambdas.controllers.launching import ParallelLaunches

        given, at_most = self.adapters, self.adapters.settings.launches_per_run
        tasks = given.run_tasks.launches
        return ParallelLaunches(self.launch_requests, self.launcher, tasks, given.clock, at_most=at_most)

    @cached_property
    def launcher(self) -> Launcher:
        """Launches claims."""
        from lambdas.controllers.launching import Launcher

        given = self.adapters
        return Launcher(self.launch_requests, given.stores.claims, cluster=given.settings.cluster_name)

    @cached_property
    def rebuilding(self) -> Rebuilding:
        """Restores claims whose rows are lost."""
        from lambdas.controllers.sweeps.rebuilding import Rebuilding

        given, work = self.adapters, self.adapters.queues.work
        claims = given.stores.claims

        def is_withdrawn(name: str, uid: str) -> bool:
            return self.node_claims.is_withdrawn(name, uid)  # loaded only where an instance without a claim is found

        return Rebuilding(given.cloud, self.launcher, claims, is_withdrawn, self.observer, work, given.clock)
