"""Implements `adapters.ports.CloudProvider` over EC2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adapters.aws.coalesced_calls import CoalescedCalls
from adapters.aws.ec2.fleet import FleetLauncher, not_rendered
from adapters.aws.ec2.instances import Instances
from adapters.aws.ec2.launch_templates import LaunchTemplates
from adapters.aws.ec2.launch_turns import UNPACED, LaunchTurns
from adapters.aws.ec2.launch_validator import LaunchValidator, TypesFor, unread
from adapters.aws.ec2.status_checks import InstanceStatuses
from adapters.aws.eks import EksCluster
from adapters.aws.node_class.ami import Images
from adapters.aws.node_class.capacity_reservations import CapacityReservations
from adapters.aws.node_class.instance_profile import InstanceProfiles
from adapters.aws.node_class.network import NetworkSelection
from adapters.aws.node_class.node_class_status import NodeClassResolver
from adapters.aws.node_class.owned_profiles import OwnedProfiles
from adapters.aws.node_class.placement_groups import PlacementGroups
from adapters.aws.node_class.unused_profiles import UnusedProfiles
from adapters.aws.service import AwsService
from adapters.ports import Clock, Impairment, Instance, JsonObject, Launched
from core.api.status import is_stale
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.user_data_size import may_exceed, user_data_problem
from core.model.launch_order import LaunchOrder
from core.model.node_pool import NodePool
from core.model.values.instance_end import InstanceEnd


class AwsServices(msgspec.Struct, frozen=True):
    """Clients of the services that launching needs, all of one region."""

    ec2: AwsService
    ssm: AwsService
    iam: AwsService
    eks: AwsService
    region: str


class Ec2Cloud:
    """Launches, describes and terminates one cluster's instances, and resolves its EC2NodeClasses."""

    def __init__(
        self,
        services: AwsServices,
        *,
        cluster: str,
        clock: Clock,
        uses_reservations: bool = True,
        turns: LaunchTurns = UNPACED,
        types_for: TypesFor = unread,
    ) -> None:
        """`types_for` returns the types as sized for a class."""
        self._clock = clock
        self._cluster = EksCluster(services.eks, cluster, clock)
        self._statuses = InstanceStatuses(services.ec2)
        self._instances = Instances(services.ec2, cluster=cluster)
        self._described = CoalescedCalls(self._instances.some)
        self._terminated = CoalescedCalls(self._instances.terminate)
        self._templates = LaunchTemplates(services.ec2, cluster=cluster)
        self._launcher = FleetLauncher(services.ec2, self._templates, self._instances, clock, turns)
        validator = LaunchValidator(
            services.ec2, self._templates, clock, types_for, uses_reservations=uses_reservations
        )
        profiles = InstanceProfiles(services.iam, cluster=cluster, region=services.region, clock=clock)
        owned = OwnedProfiles(services.iam, cluster=cluster, region=services.region)
        self._unused_profiles = UnusedProfiles(services.ec2, profiles, owned, clock)
        self._resolver = NodeClassResolver(
            self._cluster,
            NetworkSelection(services.ec2),
            Images(services.ec2, services.ssm),
            profiles,
            PlacementGroups(services.ec2),
            CapacityReservations(services.ec2, self._instances.in_reservations) if uses_reservations else None,
            validator.validate,
            clock,
        )

    def launch(self, order: LaunchOrder) -> Launched:
        """Launch the ordered instances, or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError, ConflictError.
        """
        return self._launcher.launch(order, self._resolved(order), self._cluster.describe().cluster)

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        """Return all instances of this cluster that are not terminated, by id; with `ids` only those of them."""
        if not ids:
            return self._instances.all()
        return tuple(found for found in self._described(ids) if found.instance_id in ids)

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why an instance ended, None where EC2 does not know it any more. Raises ConflictError where it runs."""
        return self._instances.end_of(instance_id)

    def impaired(self) -> tuple[Impairment, ...]:
        """Return the instances of the region that fail a status check now, whoever owns them; by id."""
        return self._statuses.impaired()

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances; no error for those already gone."""
        self._terminated(instance_ids)

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance. Raises NotFoundError."""
        self._instances.tag(instance_id, tags)

    def resolve(self, node_class: JsonObject, node_pools: Sequence[NodePool] = ()) -> JsonObject:
        """Return the status that the EC2NodeClass resolves to: subnets, securityGroups, amis, instanceProfile, conditions.

        The result also has EC2's answer about launches from it as `launchValidation`. `node_pools` are those of the class.
        """
        return self._resolver.resolve(node_class, node_pools)

    def user_data_problem(self, node_class: JsonObject, node_pool: NodePool) -> str:
        """Return why EC2 would not accept the user data of the NodePool's nodes, empty if it would. Raises PortError."""
        try:
            read = read_node_class(node_class)
            if not may_exceed(read, node_pool):
                return ""
            return user_data_problem(read, self._cluster.describe().cluster, node_pool)
        except InvalidInputError:
            return ""  # the condition of the class reports it, or the launch does

    def prune_templates(self) -> int:
        """Delete old launch templates and return how many: an account may have 5,000."""
        return self._templates.prune(self._clock.now())

    def prune_profiles(self, node_classes: Sequence[JsonObject]) -> int:
        """Delete instance profiles that no instance and none of these classes, which are all, needs; return how many."""
        return self._unused_profiles.prune(node_classes)

    def _resolved(self, order: LaunchOrder) -> EC2NodeClass:
        """Return the class with a status, resolved here if none was written yet for its current spec."""
        manifest = order.node_class
        try:
            node_class = read_node_class(manifest)
            status = node_class.status
            if status.subnets and status.amis and status.security_groups and not is_stale(manifest):
                return node_class
            return read_node_class({**manifest, "status": self._resolver.resolve(manifest, is_validated=False)})
        except InvalidInputError as error:
            raise not_rendered(order, error) from error
