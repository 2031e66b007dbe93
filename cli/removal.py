"""Lists and removes what an installation created in the cluster and in the account."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from adapters.composition.command_line import aws_calls, owned_profiles
from adapters.composition.functions import Adapters
from adapters.observation.cluster_reader import KarpenterPresence
from adapters.ports import AwsCalls, ConflictError, DeniedError, NotFoundError, PortError, TransientError
from adapters.runtime import SystemClock
from cli.answers.plan import API_VERSION
from cli.errors import InputError
from cli.terminal import output
from cli.terminal.output import counted
from core import labels
from core.api.objects import JsonObject, sequence
from core.brakes import Action
from core.lifecycle.node_claim_objects import is_mirror
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

if TYPE_CHECKING:
    from cli.cluster.own_state import Installation


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
        obstacles = []
        namespace = self._karpenter.namespace()
        foreign_claims = sum(1 for obj in self._kubernetes.list(resources.NODE_CLAIMS).items if not is_mirror(obj))
        if namespace or foreign_claims:
            there = f"runs: its Lease is held in namespace {namespace}" if namespace else "has NodeClaims here"
            obstacles.append(
                f"Karpenter {there}, and with the NodePools its nodes would end. Let Karpenter end its own first, or make them "
                "ours with `fleetwright adopt`; to leave ours to it, use `fleetwright release` instead"
            )
        brake = self._brakes.engaged().stopping(Action.DELETED_POOL)
        if brake is not None:
            obstacles.append(f"{brake.message}: no node is drained; `fleetwright resume --cluster {self.cluster}`")
        return obstacles

    def observe(self) -> RemainingResources:
        """Return what remains now. Raises PortError."""
        claims = self._stores.claims.all()
        ours = {"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self.cluster]}
        templates = self._ec2.items("DescribeLaunchTemplates", "LaunchTemplates", Filters=[ours], MaxResults=200)
        names = (template["LaunchTemplateName"] for template in templates)
        instances = (alive for alive in self._cloud.instances() if alive.is_alive and labels.CLAIM in alive.tags)
        return RemainingResources(
            claims=claims,
            instances=tuple(sorted(alive.instance_id for alive in instances)),
            objects=tuple(self._objects()),
            templates=tuple(sorted(name for name in names if name.startswith(_TEMPLATE_PREFIX))),
            profiles=tuple(sorted(self._profiles.all(), key=lambda profile: profile["InstanceProfileName"])),
        )

    def delete_node_pools(self, remaining: RemainingResources) -> None:
        """Delete every NodePool: nothing is launched from then on, and the functions drain the nodes. Raises PortError."""
        self._delete(remaining, resources.NODE_POOLS)

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
        for resource in (resources.NODE_CLAIMS, resources.EC2_NODE_CLASSES):
            self._delete(remaining, resource)
        for resource, obj in remaining.objects:
            if resource is resources.NODES:
                self._free(resource, obj, frozenset({labels.TERMINATION_FINALIZER}))
        for name in remaining.templates:
            with suppress(NotFoundError):
                self._ec2.call("DeleteLaunchTemplate", LaunchTemplateName=name)
        for profile in remaining.profiles:
            with suppress(NotFoundError):
                self._profiles.delete(profile)

    def _objects(self) -> Iterator[tuple[Resource, JsonObject]]:
        for resource in (resources.NODE_POOLS, resources.EC2_NODE_CLASSES):
            yield from ((resource, obj) for obj in self._kubernetes.list(resource).items)
        yield from (
            (resources.NODE_CLAIMS, obj) for obj in self._kubernetes.list(resources.NODE_CLAIMS).items if is_mirror(obj)
        )
        for node in self._kubernetes.list(resources.NODES).items:
            if labels.TERMINATION_FINALIZER in node.metadata.finalizers:
                metadata = {"name": node.metadata.name, "finalizers": list(node.metadata.finalizers)}
                yield resources.NODES, {"metadata": metadata}

    def _delete(self, remaining: RemainingResources, resource: Resource) -> None:
        for kind, obj in remaining.objects:
            if kind is not resource:
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


# The answer of `drain`, as data and for people.


_COLUMNS: Final = {
    "STATE": "state",
    "SUBJECT": "subject",
    "NODE": "node",
    "INSTANCE": "instance",
    "NODEPOOL": "nodePool",
    "WHY": "message",
}


def drain_document(
    cluster: str, remaining: RemainingResources, hindrances: Sequence[str], *, is_acting: bool, has_begun: bool
) -> JsonObject:
    """Return everything that remains; the `state` of claims is running, draining or terminating."""
    claimed_instances = {record.instance_id for record in remaining.claims}
    others = [f"Instance/{name}" for name in remaining.instances if name not in claimed_instances]
    others += [f"{resource.kind}/{obj['metadata']['name']}" for resource, obj in remaining.objects]
    others += [f"LaunchTemplate/{name}" for name in remaining.templates]
    others += [f"InstanceProfile/{profile['InstanceProfileName']}" for profile in remaining.profiles]
    return {
        "apiVersion": API_VERSION,
        "kind": "Drain",
        "cluster": cluster,
        "acting": is_acting,
        "begun": has_begun,
        "hindrances": list(hindrances),
        "items": [_claim(record) for record in remaining.claims],
        "leftovers": others,
    }


def drain_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format what remains, what prevents its removal, and what to do next; objects of the listed nodes are not named again."""
    items = document["items"]
    columns = {
        heading: key
        for heading, key in _COLUMNS.items()
        if any(item[key] for item in items) and (shows_all or key != "instance")
    }
    rows = [tuple(item[key] for key in columns.values()) for item in items]
    parts = [output.table(tuple(columns), rows)]
    parts += ["\n".join(document["leftovers"]) if shows_all else output.wrapped(_others(document))]
    return "\n\n".join(part for part in (*parts, output.wrapped(_next(document))) if part)


all_that_remains = partial(drain_table, shows_all=True)


def _others(document: JsonObject) -> str:
    listed = {item["subject"] for item in document["items"]}
    listed |= {f"Node/{item['node']}" for item in document["items"]}
    by_kind: dict[str, list[str]] = {}
    for subject in document["leftovers"]:
        kind, _, name = subject.partition("/")
        if subject not in listed:
            by_kind.setdefault(kind, []).append(name)
    return "\n".join(f"{kind}: {output.several(names)}" for kind, names in by_kind.items())


def remaining_names(document: JsonObject) -> str:
    """Return everything that remains, as kubectl names it."""
    return "\n".join([item["subject"].lower() for item in document["items"]] + document["leftovers"])


def _claim(record: ClaimRecord) -> JsonObject:
    deletion = record.deletion
    state = "running" if deletion is None else "draining" if deletion.terminated_at is None else "terminating"
    return {
        "subject": f"NodeClaim/{record.name}",
        "state": state,
        "node": record.node_name,
        "instance": record.instance_id,
        "nodePool": record.plan.node_pool,
        "message": deletion.message if deletion is not None else "",
    }


def _next(document: JsonObject) -> str:
    cluster, claims, others = document["cluster"], document["items"], document["leftovers"]
    lines = [f"Not now: {text}." for text in document["hindrances"]]
    if not claims and not others:
        lines.append(f"Nothing is left. Now `npx --no-install cdk destroy fleetwright-{cluster}`.")
    elif document["acting"] and not document["hindrances"]:
        lines.append("Time is up. The rest continues by itself; run the command again to watch it and to clean up.")
    elif document["acting"] and not document["begun"]:
        lines.append("Nothing was changed.")
    elif document["acting"]:
        lines.append("What is done stays done: run the command again to go on.")
    else:
        lines.append(
            f"`fleetwright drain --cluster {cluster} --all --yes` ends {counted(len(claims), 'node')}, all NodePools and "
            "EC2NodeClasses and what was made for them. Keep the manifests; pods find no new nodes afterwards."
        )
    return "\n".join(lines)


# Drains every node of an installation and removes its objects, in rounds, until nothing remains or time is up.


ROUND: Final = timedelta(seconds=15)
"""Time between two rounds: each lists claims, instances and objects; a node takes minutes to drain."""

FAILURES_MAX: Final = 5
"""The most rounds in a row that may fail for a transient reason."""


def drain_all(
    resources: OwnedResources, *, is_acting: bool, grace: timedelta | None, timeout: timedelta
) -> tuple[JsonObject, bool]:
    """Return what remains or would be removed, and whether that is nothing.

    Args:
        resources: The resources to remove.
        is_acting: Whether to remove them; otherwise nothing is changed.
        grace: How long a drain may take before its pods are deleted; None for the NodePools' own limits.
        timeout: How long to wait for the end. A later run continues from there.

    Raises:
        InputError: If something cannot be read or must not be removed.
    """
    cluster, clock = resources.cluster, resources.clock
    until, failures, has_begun = clock.now() + timeout, 0, False
    try:
        hindrances, remaining = resources.hindrances(), resources.observe()
        while is_acting and not hindrances and not remaining.is_nothing:
            has_begun = True
            try:
                _step(resources, remaining, grace)
                hindrances, remaining = resources.hindrances(), resources.observe()
                failures = 0
            except TransientError:
                failures += 1
                if failures > FAILURES_MAX:
                    raise
            if remaining.is_nothing or hindrances or clock.now() + ROUND > until:
                break
            _report(remaining)
            resources.pause(ROUND)
    except DeniedError as error:
        hint = "--profile says whose permissions count; docs/how-to/remove.md lists them. What is done stays done"
        raise InputError(f"cluster {cluster}: {error}", hint=hint) from error
    except PortError as error:
        raise InputError(f"cluster {cluster}: {error}", hint="run this again: it continues from here") from error
    document = drain_document(cluster, remaining, hindrances, is_acting=is_acting, has_begun=has_begun)
    return document, remaining.is_nothing


def _step(resources: OwnedResources, remaining: RemainingResources, grace: timedelta | None) -> None:
    """Take all possible steps now. NodePools are deleted first: without them nothing is launched for evicted pods."""
    resources.delete_node_pools(remaining)
    if grace is not None:
        resources.bound_drains(remaining, grace)
    if not remaining.runs:
        resources.clean(remaining)


def _report(remaining: RemainingResources) -> None:
    leaving = sum(record.deletion is not None for record in remaining.claims)
    claims, instances = counted(len(remaining.claims), "claim"), counted(len(remaining.instances), "instance")
    print(f"{claims} left, {leaving} of them draining; {instances}", file=sys.stderr)
