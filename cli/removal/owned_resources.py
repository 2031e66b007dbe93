"""Lists and removes what an installation created in the cluster and in the account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from adapters.composition.adapters import Adapters
from adapters.composition.cli_adapters import aws_calls, owned_profiles
from adapters.observation.karpenter_presence import KarpenterPresence
from adapters.ports import AwsCalls, ConflictError, JsonObject, NotFoundError
from adapters.runtime.clock import SystemClock
from core import labels
from core.api.objects import sequence
from core.brakes.brake import Action
from core.lifecycle.mirror.node_claim_object import is_mirror
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource

if TYPE_CHECKING:
    from cli.cluster.installation import Installation

_TEMPLATE_PREFIX: Final = "fleetwright/"
_KARPENTERS: Final = frozenset({labels.KARPENTER_FINALIZER, "karpenter.k8s.aws/termination"})
"""Finalizers that only Karpenter removes: without Karpenter, an object with one of them would remain forever."""


class RemainingResources(msgspec.Struct, frozen=True):
    """The remaining resources of an installation.

    Attributes:
        claims: The claims, by name.
        instances: Running instances with our tag, by id.
        objects: NodePools, EC2NodeClasses, mirrored NodeClaims and Nodes with our finalizer: (kind, name), in order.
        templates: Names of launch templates.
        profiles: Instance profiles as IAM describes them, by name.
    """

    claims: tuple[ClaimRecord, ...]
    instances: tuple[str, ...]
    objects: tuple[tuple[Resource, JsonObject], ...]
    templates: tuple[str, ...]
    profiles: tuple[JsonObject, ...]

    @property
    def runs(self) -> bool:
        """Whether any of our nodes may still have pods."""
        return bool(self.claims or self.instances)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing remains."""
        return not (self.runs or self.objects or self.templates or self.profiles)


class OwnedResources:
    """Lists and removes what an installation created.

    Args:
        adapters: The functions' adapters, with the user's own permissions.
        ec2, iam: The services that are called beyond what functions call.
    """

    def __init__(self, adapters: Adapters, ec2: AwsCalls, iam: AwsCalls) -> None:
        self.clock, self.pause = adapters.clock, adapters.pause
        self.cluster = adapters.settings.cluster_name
        self._kubernetes, self._stores, self._cloud = adapters.kubernetes, adapters.stores, adapters.cloud
        self._brakes = adapters.brakes
        self._karpenter = KarpenterPresence(adapters.kubernetes, adapters.clock)
        self._ec2 = ec2
        self._profiles = owned_profiles(iam, cluster=self.cluster, region=adapters.region)

    def hindrances(self) -> list[str]:
        """Return what prevents the removal now, each with advice. Raises PortError."""
        found = []
        namespace = self._karpenter.namespace()
        theirs = sum(1 for obj in self._kubernetes.list(kinds.NODE_CLAIMS).items if not is_mirror(obj))
        if namespace or theirs:
            there = f"runs: its Lease is held in namespace {namespace}" if namespace else "has NodeClaims here"
            found.append(
                f"Karpenter {there}, and with the NodePools its nodes would end. Let Karpenter end its own first, or make them "
                "ours with `fleetwright adopt`; to leave ours to it, use `fleetwright release` instead"
            )
        brake = self._brakes.engaged().stopping(Action.DELETED_POOL)
        if brake is not None:
            found.append(f"{brake.message}: no node is drained; `fleetwright resume --cluster {self.cluster}`")
        return found

    def observe(self) -> RemainingResources:
        """Return what remains now. Raises PortError."""
        claims = self._stores.claims.all()
        ours = {"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self.cluster]}
        templates = self._ec2.items("DescribeLaunchTemplates", "LaunchTemplates", Filters=[ours], MaxResults=200)
        names = (template["LaunchTemplateName"] for template in templates)
        instances = (found for found in self._cloud.instances() if found.is_alive and labels.CLAIM in found.tags)
        return RemainingResources(
            claims=claims,
            instances=tuple(sorted(found.instance_id for found in instances)),
            objects=tuple(self._objects()),
            templates=tuple(sorted(name for name in names if name.startswith(_TEMPLATE_PREFIX))),
            profiles=tuple(sorted(self._profiles.all(), key=lambda profile: profile["InstanceProfileName"])),
        )

    def delete_node_pools(self, remaining: RemainingResources) -> None:
        """Delete every NodePool: nothing is launched from then on, and the functions drain the nodes. Raises PortError."""
        self._delete(remaining, kinds.NODE_POOLS)

    def bound_drains(self, remaining: RemainingResources, grace: timedelta) -> None:
        """Limit every drain to `grace` from its beginning: remaining pods are then deleted. Raises PortError."""
        for record in remaining.claims:
            deletion = record.deletion
            if deletion is None or deletion.terminated_at is not None:
                continue
            deadline = deletion.asked_at + grace
            if deletion.deadline is None or deadline < deletion.deadline:
                bounded = msgspec.structs.replace(deletion, deadline=deadline, is_final=True)
                with suppress(ConflictError):  # a function has just written it: the next round tries again
                    self._stores.claims.change(record, msgspec.structs.replace(record, deletion=bounded))

    def clean(self, remaining: RemainingResources) -> None:
        """Remove what no node needs any more; classes first, since `reconcile` creates a profile for each existing one.

        Raises:
            PortError: If a part failed; the next round continues from there.
        """
        for resource in (kinds.NODE_CLAIMS, kinds.EC2_NODE_CLASSES):
            self._delete(remaining, resource)
        for resource, obj in remaining.objects:
            if resource is kinds.NODES:
                self._free(resource, obj, frozenset({labels.TERMINATION_FINALIZER}))
        for name in remaining.templates:
            with suppress(NotFoundError):
                self._ec2.call("DeleteLaunchTemplate", LaunchTemplateName=name)
        for profile in remaining.profiles:
            with suppress(NotFoundError):
                self._profiles.delete(profile)

    def _objects(self) -> Iterator[tuple[Resource, JsonObject]]:
        for resource in (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES):
            yield from ((resource, obj) for obj in self._kubernetes.list(resource).items)
        yield from (
            (kinds.NODE_CLAIMS, obj) for obj in self._kubernetes.list(kinds.NODE_CLAIMS).items if is_mirror(obj)
        )
        for node in self._kubernetes.list(kinds.NODES).items:
            if labels.TERMINATION_FINALIZER in node.metadata.finalizers:
                metadata = {"name": node.metadata.name, "finalizers": list(node.metadata.finalizers)}
                yield kinds.NODES, {"metadata": metadata}

    def _delete(self, remaining: RemainingResources, resource: Resource) -> None:
        for found, obj in remaining.objects:
            if found is not resource:
                continue
            metadata = obj["metadata"]
            with suppress(NotFoundError):
                if not metadata.get("deletionTimestamp"):
                    self._kubernetes.delete(resource, metadata["name"], uid=str(metadata.get("uid") or ""))
                self._free(resource, obj, _KARPENTERS | {labels.TERMINATION_FINALIZER})

    def _free(self, resource: Resource, obj: JsonObject, finalizers: frozenset[str]) -> None:
        """Remove these finalizers; others stay and keep the object."""
        present = list(sequence(obj["metadata"].get("finalizers")))
        others = [name for name in present if name not in finalizers]
        if others != present:
            with suppress(NotFoundError):
                self._kubernetes.patch(resource, obj["metadata"]["name"], {"metadata": {"finalizers": others or None}})


def open_owned_resources(installation: Installation) -> OwnedResources:
    """Open the resources of an installation; no call is made yet."""
    session = installation.session
    adapters = Adapters(installation.settings, session, SystemClock())
    return OwnedResources(adapters, aws_calls(session, "ec2"), aws_calls(session, "iam"))
