"""Creates Karpenter's NodeClaims from our claims, one by one; the next run completes an interrupted release."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import ConflictError, Instance, JsonObject, NotFoundError
from cli.takeover.environment import TakeoverEnvironment, nodes_by_provider_id, with_market
from core import labels
from core.api.objects import mapping
from core.disruption.conditions.drift import DriftCheck
from core.errors import invariant
from core.lifecycle.records import ClaimRecord
from core.lifecycle.takeover import ownership
from core.lifecycle.takeover.release import (
    OwnedClaim,
    ReleaseObjection,
    karpenters_object,
    karpenters_status,
    objection,
)
from core.manifests.wire import api_resources as kinds
from core.model.node import Node
from core.model.values.taints import Taint
from core.reasons.takeover import ReleaseReason


class Releasable(msgspec.Struct, frozen=True, kw_only=True):
    """One of our claims, or an instance that should have one.

    Attributes:
        subject: Kind and name, as `NodeClaim/default-x7k2p`.
        objection: Why it cannot be released, None if it can.
        drift: Why its node counts as drifted before and after release, empty if it does not.
    """

    subject: str
    objection: ReleaseObjection | None = None
    owned: OwnedClaim | None = None
    instance: Instance | None = None
    drift: str = ""


class ReleaseSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of ours in a cluster, and how many running disruption commands are dropped."""

    claims: tuple[Releasable, ...]
    commands: int


class Releaser:
    """Surveys and releases."""

    def __init__(self, environment: TakeoverEnvironment) -> None:
        self._environment = environment

    def survey(self) -> ReleaseSurvey:
        """Read everything of ours. Raises PortError."""
        environment = self._environment
        view = environment.observe()
        instances = environment.instances(
            record.instance_id for record in view.claims.values() if record.machine is not None
        )
        claims = (*self._of_table(view, instances), *_unclaimed(view, instances))
        return ReleaseSurvey(claims=claims, commands=len(view.commands))

    def begin(self) -> None:
        """Drop running commands, and prepare the hashes of NodePools and EC2NodeClasses for Karpenter. Raises PortError.

        At its start, Karpenter rewrites the hashes of objects whose version of the hash is not its own. Until then, all nodes
        would count as drifted by hashes of different versions; without a version, Karpenter compares nothing.
        """
        environment = self._environment
        for command in environment.stores.commands.all():
            environment.stores.commands.remove(command)
        versions = (
            (kinds.NODE_POOLS, labels.NODEPOOL_HASH_VERSION),
            (kinds.EC2_NODE_CLASSES, labels.NODECLASS_HASH_VERSION),
        )
        for resource, key in versions:
            for obj in environment.kubernetes.list(resource).items:
                metadata = obj["metadata"]
                if key in mapping(metadata.get("annotations")):
                    environment.kubernetes.patch(resource, metadata["name"], {"metadata": {"annotations": {key: None}}})

    def release(self, found: Releasable) -> None:
        """Release one claim: its NodeClaim first, without which Karpenter terminates the instance, and its row last.

        Raises:
            PortError: If a part failed; the next run continues from there.
        """
        environment, owned = self._environment, found.owned
        invariant(owned is not None, f"{found.subject} is not to be released")
        assert owned is not None  # noqa: S101 - tells the type checker what the line above ensures
        record = owned.record
        if record.machine is None:
            self._give_up(record)
            return
        uid = self._write_node_claim(owned, found.drift)
        if owned.node is not None:
            environment.patch(kinds.NODES, owned.node.name, lambda node: _node_patch(node, (record.name, uid)))
        if found.instance is not None:
            environment.tag(found.instance, ownership.karpenters_tags(record, environment.cluster))
            environment.untag(found.instance, ownership.OURS_ALONE)
        environment.stores.claims.forget(record)

    def _write_node_claim(self, owned: OwnedClaim, drift: str) -> str:
        """Write the NodeClaim from which Karpenter continues; return its UID."""
        environment, record = self._environment, owned.record
        if owned.node_claim is None:
            with suppress(ConflictError):
                environment.kubernetes.create(kinds.NODE_CLAIMS, karpenters_object(record))
        status = karpenters_status(record, drift)
        environment.kubernetes.patch(kinds.NODE_CLAIMS, record.name, {"status": status}, subresource="status")
        pool = (record.plan.node_pool, owned.pool_uid)
        environment.patch(
            kinds.NODE_CLAIMS,
            record.name,
            lambda obj: {"metadata": ownership.node_claim_made_karpenters(record, obj, pool)},
        )
        return str(environment.kubernetes.get(kinds.NODE_CLAIMS, record.name)["metadata"]["uid"])

    def _give_up(self, record: ClaimRecord) -> None:
        """Delete a claim that was never launched: its NodeClaim would be an order to Karpenter."""
        environment = self._environment
        with suppress(NotFoundError):
            environment.kubernetes.patch(kinds.NODE_CLAIMS, record.name, {"metadata": {"finalizers": None}})
            environment.kubernetes.delete(kinds.NODE_CLAIMS, record.name)
        environment.stores.claims.forget(record)

    def _of_table(self, view: ClusterState, instances: dict[str, Instance]) -> list[Releasable]:
        if not view.claims:
            return []
        environment = self._environment
        objects, nodes_of = environment.node_claims(), nodes_by_provider_id(view.snapshot.nodes)
        pools = {pool.name: pool for pool in view.snapshot.node_pools}
        claims = {claim.name: claim for claim in view.snapshot.node_claims}
        drift = DriftCheck(with_market(view, environment.market(view)))
        found = []
        for name, record in view.claims.items():
            tagged = sorted(
                instance.instance_id
                for instance in instances.values()
                if instance.tags.get(labels.CLAIM) == name or instance.instance_id == record.instance_id
            )
            pool, claim = pools.get(record.plan.node_pool), claims.get(name)
            owned = OwnedClaim(
                record=record,
                node_claim=objects.get(name),
                node=_node_of(record, nodes_of),
                tagged=tuple(tagged),
                pool_uid=pool.uid if pool is not None and pool.deleted_at is None else "",
            )
            found.append(
                Releasable(
                    subject=f"NodeClaim/{name}",
                    objection=objection(owned),
                    owned=owned,
                    instance=instances.get(record.instance_id),
                    drift=drift.reason(claim, pool) if claim is not None and pool is not None else "",
                )
            )
        return found


def _unclaimed(view: ClusterState, instances: dict[str, Instance]) -> list[Releasable]:
    """Return instances with our tag but without a claim: Karpenter would terminate them, as they have no NodeClaim."""
    named = {record.instance_id for record in view.claims.values()}
    awaited = {name for name, record in view.claims.items() if record.machine is None}
    return [
        Releasable(
            subject=f"Instance/{name}",
            objection=ReleaseObjection(
                ReleaseReason.NOT_IN_TABLE, f"claim {instance.tags[labels.CLAIM]} is not in the table"
            ),
            instance=instance,
        )
        for name, instance in instances.items()
        if labels.CLAIM in instance.tags and name not in named and instance.tags[labels.CLAIM] not in awaited
    ]


def _node_of(record: ClaimRecord, nodes_of: dict[str, tuple[Node, ...]]) -> Node | None:
    same = nodes_of.get(record.provider_id, ())
    return same[0] if len(same) == 1 else None


def _node_patch(written: Any, node_claim: tuple[str, str]) -> JsonObject:
    """Return the patch that transfers a Node to Karpenter and removes our taints."""
    metadata = written.metadata
    owners = [msgspec.to_builtins(owner) for owner in metadata.owner_references]
    patch: JsonObject = {
        "metadata": ownership.node_made_karpenters(metadata.finalizers, owners, metadata.labels, node_claim)
    }
    taints = tuple(Taint(taint.key, taint.effect, taint.value) for taint in written.spec.taints)
    kept = ownership.taints_that_stay(taints)
    if kept != taints:
        patch["spec"] = {"taints": [taint.written() for taint in kept]}
    return patch
