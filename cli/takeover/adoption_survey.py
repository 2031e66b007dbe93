"""Surveys what Karpenter created in a cluster: what can be adopted, and what prevents the rest."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.observation.instance_description import machine_of
from adapters.ports import Instance, JsonObject
from cli.takeover.environment import TakeoverEnvironment, is_karpenters, nodes_by_provider_id, with_market
from core import labels
from core.api import status
from core.api.objects import mapping, sequence
from core.api.translation import node_claim as translated
from core.disruption.conditions.drift import DriftCheck
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord
from core.lifecycle.takeover.adopted_claim import adopted, adopted_plan
from core.lifecycle.takeover.adoption import AdoptionState, LaunchedClaim, Objection, Owners, adoption_state
from core.lifecycle.view import node_claim
from core.model.catalogue import Catalogue
from core.model.node import Node
from core.model.node_pool import NodeClass, NodePool
from core.reasons.takeover import AdoptionReason


class AdoptionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One NodeClaim, Node or instance of Karpenter's, and the state of its adoption.

    Attributes:
        subject: Kind and name, as `NodeClaim/default-x7k2p`.
        record: Our present or future claim; None if adoption is refused.
        drift: Why its node counts as drifted after adoption, empty if it does not.
    """

    subject: str
    state: AdoptionState
    objection: Objection | None = None
    node_claim: str = ""
    node: str = ""
    node_pool: str = ""
    instance: Instance | None = None
    record: ClaimRecord | None = None
    drift: str = ""


class AdoptionSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that Karpenter created in a cluster, and the EC2NodeClasses with its finalizer."""

    candidates: tuple[AdoptionCandidate, ...]
    classes: tuple[str, ...]


def adoption_survey(environment: TakeoverEnvironment) -> AdoptionSurvey:
    """Read everything of Karpenter's. Raises PortError."""
    view, objects = environment.observe(), environment.node_claims()
    ids = {_instance_id(obj) for obj in objects.values()} - {""}
    instances = environment.instances(ids)
    observed = _Observation(environment, view, objects, instances)
    candidates = (*observed.node_claims(), *observed.without_node_claim())
    return AdoptionSurvey(candidates=candidates, classes=_kept_classes(view, objects, candidates))


class _Observation:
    """One observation of the cluster, by which all candidates are classified."""

    def __init__(
        self,
        environment: TakeoverEnvironment,
        view: ClusterState,
        objects: dict[str, JsonObject],
        instances: dict[str, Instance],
    ) -> None:
        self._view, self._objects, self._instances = view, objects, instances
        self._now = environment.clock.now()
        self._nodes = nodes_by_provider_id(view.snapshot.nodes)
        self._owners = Owners(
            cluster=environment.cluster,
            pools={pool.name: _pool_as_written(pool, view) for pool in view.snapshot.node_pools},
            node_classes={found.name: _class_as_written(found, view) for found in view.snapshot.node_classes},
            records=view.claims,
        )
        self._catalogue = environment.market(view) if objects else Catalogue()
        self._drift = DriftCheck(with_market(view, self._catalogue))

    def node_claims(self) -> Iterator[AdoptionCandidate]:
        """Yield every NodeClaim by name, including ours."""
        for name, obj in sorted(self._objects.items()):
            try:
                claim = translated(obj)
            except InvalidInputError as error:
                objection = Objection(AdoptionReason.UNREADABLE, str(error))
                yield AdoptionCandidate(
                    subject=f"NodeClaim/{name}", state=AdoptionState.REFUSED, objection=objection, node_claim=name
                )
                continue
            instance = self._instances.get(_instance_id(obj))
            found = LaunchedClaim(
                node_claim=claim,
                finalizers=tuple(sequence(obj["metadata"].get("finalizers"))),
                nodes=self._nodes.get(claim.provider_id, ()),
                tags=instance.tags if instance is not None else None,
                launched_at=instance.launched_at if instance is not None else None,
            )
            yield self._judged(found, instance)

    def without_node_claim(self) -> Iterator[AdoptionCandidate]:
        """Yield Karpenter's instances and Nodes that no NodeClaim names."""
        known = {_instance_id(obj) for obj in self._objects.values()}
        known |= {record.instance_id for record in self._view.claims.values()}
        for name, instance in self._instances.items():
            if name not in known and is_karpenters(instance.tags):
                yield self._lost_instance(instance)
        for node in self._view.snapshot.nodes:
            own = node.provider_id.rpartition("/")[2]
            is_known = own in known or own in self._instances or labels.CLAIM in node.annotations
            if not is_known and is_karpenters(node.labels):
                yield _lost_node(node)

    def _lost_instance(self, instance: Instance) -> AdoptionCandidate:
        name = instance.instance_id
        return AdoptionCandidate(
            subject=f"Instance/{name}",
            state=AdoptionState.REFUSED,
            objection=Objection(AdoptionReason.NO_NODE_CLAIM, f"no NodeClaim names instance {name}"),
            node=next((node.name for node in self._nodes.get(instance.provider_id, ())), ""),
            node_pool=instance.tags[labels.NODEPOOL],
            instance=instance,
        )

    def _judged(self, found: LaunchedClaim, instance: Instance | None) -> AdoptionCandidate:
        claim = found.node_claim
        state, objection = adoption_state(found, self._owners, self._now)
        record = self._view.claims.get(claim.name)
        if state is AdoptionState.ADOPTABLE and instance is not None:
            record = self._record(found, instance)
        return AdoptionCandidate(
            subject=f"NodeClaim/{claim.name}",
            state=state,
            objection=objection,
            node_claim=claim.name,
            node=found.node.name if found.node is not None else claim.node_name,
            node_pool=claim.node_pool,
            instance=instance,
            record=record if objection is None else None,
            drift=self._drifted(record) if state is AdoptionState.ADOPTABLE and record is not None else "",
        )

    def _record(self, found: LaunchedClaim, instance: Instance) -> ClaimRecord:
        claim = found.node_claim
        assert claim.node_class is not None  # noqa: S101 - an adoptable NodeClaim names its class
        pool, node_class = self._owners.pools[claim.node_pool], self._owners.node_classes[claim.node_class.name]
        plan = adopted_plan(claim, pool, node_class)
        machine = machine_of(instance, plan, self._catalogue)
        return adopted(claim, plan, machine, found.node, self._now)

    def _drifted(self, record: ClaimRecord) -> str:
        pools = {pool.name: pool for pool in self._view.snapshot.node_pools}
        return self._drift.reason(node_claim(record, None, self._now), pools[record.plan.node_pool])


def _lost_node(node: Node) -> AdoptionCandidate:
    return AdoptionCandidate(
        subject=f"Node/{node.name}",
        state=AdoptionState.REFUSED,
        objection=Objection(AdoptionReason.NO_NODE_CLAIM, f"no NodeClaim names Node {node.name}"),
        node=node.name,
        node_pool=node.labels[labels.NODEPOOL],
    )


def _pool_as_written(pool: NodePool, view: ClusterState) -> NodePool:
    """Return the NodePool with the hash annotations that Karpenter wrote, which snapshots replace by ours."""
    return msgspec.structs.replace(pool, own_annotations=status.annotations_of(view.node_pools[pool.name]))


def _class_as_written(found: NodeClass, view: ClusterState) -> NodeClass:
    return msgspec.structs.replace(found, own_annotations=status.annotations_of(view.node_classes[found.name]))


def _kept_classes(
    view: ClusterState, objects: dict[str, JsonObject], candidates: tuple[AdoptionCandidate, ...]
) -> tuple[str, ...]:
    """Return the classes with Karpenter's finalizer that no refused NodeClaim uses."""
    refused = {found.node_claim for found in candidates if found.state is AdoptionState.REFUSED}
    used = {_class_name(objects[name]) for name in refused if name in objects}
    return tuple(
        name
        for name, manifest in sorted(view.node_classes.items())
        if labels.KARPENTER_CLASS_FINALIZER in sequence(manifest["metadata"].get("finalizers"))
        and not manifest["metadata"].get("deletionTimestamp")
        and name not in used
    )


def _class_name(obj: JsonObject) -> str:
    return str(mapping(mapping(obj.get("spec")).get("nodeClassRef")).get("name") or "")


def _instance_id(obj: JsonObject) -> str:
    return str(mapping(obj.get("status")).get("providerID") or "").rpartition("/")[2]
