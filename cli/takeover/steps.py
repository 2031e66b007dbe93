"""Carries out a transfer node by node, and reports the result of each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from adapters.observation.cluster_reader import machine_of
from adapters.observation.observer import ClusterState
from adapters.ports import ConflictError, DeniedError, Instance, NotFoundError, PortError
from cli import arguments as shared
from cli.answers.plan import API_VERSION
from cli.arguments import add_installation
from cli.errors import DONE, NEGATIVE
from cli.takeover.environment import (
    TakeoverEnvironment,
    is_karpenters,
    nodes_by_provider_id,
    reporting_port_errors,
    with_market,
)
from cli.terminal import output
from cli.terminal.style import write_stderr
from core import labels
from core.api import status
from core.api.objects import JsonObject, mapping, sequence
from core.api.translation import node_claim as translated
from core.disruption.drift import DriftCheck
from core.errors import InvalidInputError, invariant
from core.lifecycle import takeover
from core.lifecycle.claims import node_claim
from core.lifecycle.records import ClaimRecord
from core.lifecycle.takeover import (
    AdoptionState,
    LaunchedClaim,
    Objection,
    OwnedClaim,
    Owners,
    ReleaseObjection,
    adopted,
    adopted_plan,
    adoption_state,
    karpenters_object,
    karpenters_status,
    objection,
)
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass, NodePool
from core.model.snapshot import Node
from core.model.values.taints import Taint
from core.reasons.code import AdoptionReason, ReleaseReason

# Surveys what Karpenter created in a cluster: what can be adopted, and what prevents the rest.


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
            node_classes={
                node_class.name: _class_as_written(node_class, view) for node_class in view.snapshot.node_classes
            },
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
            launched = LaunchedClaim(
                node_claim=claim,
                finalizers=tuple(sequence(obj["metadata"].get("finalizers"))),
                nodes=self._nodes.get(claim.provider_id, ()),
                tags=instance.tags if instance is not None else None,
                launched_at=instance.launched_at if instance is not None else None,
            )
            yield self._judged(launched, instance)

    def without_node_claim(self) -> Iterator[AdoptionCandidate]:
        """Yield Karpenter's instances and Nodes that no NodeClaim names."""
        claimed_ids = {_instance_id(obj) for obj in self._objects.values()}
        claimed_ids |= {record.instance_id for record in self._view.claims.values()}
        for name, instance in self._instances.items():
            if name not in claimed_ids and is_karpenters(instance.tags):
                yield self._lost_instance(instance)
        for node in self._view.snapshot.nodes:
            instance_id = node.provider_id.rpartition("/")[2]
            is_known = instance_id in claimed_ids or instance_id in self._instances or labels.CLAIM in node.annotations
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

    def _judged(self, launched: LaunchedClaim, instance: Instance | None) -> AdoptionCandidate:
        claim = launched.node_claim
        state, objection = adoption_state(launched, self._owners, self._now)
        record = self._view.claims.get(claim.name)
        if state is AdoptionState.ADOPTABLE and instance is not None:
            record = self._record(launched, instance)
        return AdoptionCandidate(
            subject=f"NodeClaim/{claim.name}",
            state=state,
            objection=objection,
            node_claim=claim.name,
            node=launched.node.name if launched.node is not None else claim.node_name,
            node_pool=claim.node_pool,
            instance=instance,
            record=record if objection is None else None,
            drift=self._drifted(record) if state is AdoptionState.ADOPTABLE and record is not None else "",
        )

    def _record(self, launched: LaunchedClaim, instance: Instance) -> ClaimRecord:
        claim = launched.node_claim
        assert claim.node_class is not None  # noqa: S101 - an adoptable NodeClaim names its class
        pool, node_class = self._owners.pools[claim.node_pool], self._owners.node_classes[claim.node_class.name]
        plan = adopted_plan(claim, pool, node_class)
        machine = machine_of(instance, plan, self._catalogue)
        return adopted(claim, plan, machine, launched.node, self._now)

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


def _class_as_written(node_class: NodeClass, view: ClusterState) -> NodeClass:
    return msgspec.structs.replace(
        node_class, own_annotations=status.annotations_of(view.node_classes[node_class.name])
    )


def _kept_classes(
    view: ClusterState, objects: dict[str, JsonObject], candidates: tuple[AdoptionCandidate, ...]
) -> tuple[str, ...]:
    """Return the classes with Karpenter's finalizer that no refused NodeClaim uses."""
    refused = {candidate.node_claim for candidate in candidates if candidate.state is AdoptionState.REFUSED}
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


# Creates our claims from Karpenter's NodeClaims, one by one; the next run completes an interrupted adoption.


class Adopter:
    """Surveys and adopts."""

    def __init__(self, environment: TakeoverEnvironment) -> None:
        self._environment = environment

    def survey(self) -> AdoptionSurvey:
        """Read everything of Karpenter's. Raises PortError."""
        return adoption_survey(self._environment)

    def adopt(self, candidate: AdoptionCandidate) -> None:
        """Adopt one candidate: first store the row, which holds its share of the limits, then write the marks on all objects.

        Raises:
            PortError: If a part failed; the next run continues from there.
        """
        record, instance, environment = candidate.record, candidate.instance, self._environment
        invariant(record is not None and instance is not None, f"{candidate.subject} is not to be adopted")
        assert record is not None  # noqa: S101 - tells the type checker what the line above ensures
        assert instance is not None  # noqa: S101
        if candidate.state is AdoptionState.ADOPTABLE:
            record = self._stored(record)
        environment.tag(instance, takeover.our_tags(record, environment.cluster))
        if record.node_name:  # an unregistered node gets all marks at registration
            environment.patch(
                resources.NODES, record.node_name, lambda node: {"metadata": _node_metadata(record, node)}
            )
        environment.patch(
            resources.NODE_CLAIMS,
            record.name,
            lambda obj: {"metadata": takeover.node_claim_made_ours(record, obj)},
        )

    def free_class(self, name: str) -> None:
        """Remove Karpenter's finalizer from an EC2NodeClass, which only Karpenter would. Raises PortError."""

        def freed(obj: JsonObject) -> JsonObject:
            return {"metadata": takeover.class_made_ours(list(sequence(obj["metadata"].get("finalizers"))))}

        self._environment.patch(resources.EC2_NODE_CLASSES, name, freed)

    def finish(self) -> None:
        """Record a change, so that no function uses an older observation. Raises PortError."""
        self._environment.stores.changes.record(self._environment.clock.now())

    def _stored(self, record: ClaimRecord) -> ClaimRecord:
        claims = self._environment.stores.claims
        stored = claims.restore(record) or claims.get(record.name)
        if stored is None or stored.instance_id != record.instance_id:
            raise ConflictError(
                "dynamodb:TransactWriteItems", f"claim {record.name} was stored by another run; run again"
            )
        return stored


def _node_metadata(record: ClaimRecord, node: Any) -> JsonObject:
    owners = [msgspec.to_builtins(owner) for owner in node.metadata.owner_references]
    return takeover.node_made_ours(record, node.metadata.finalizers, owners)


# The arguments of `adopt` and `release`, and their execution up to the printed answer.


ADOPT: Final = "adopt"
RELEASE: Final = "release"


def configure_handover(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of the command with this name."""
    parser.epilog = "examples:\n" + "".join(
        f"  fleetwright {name} --cluster prod{more}\n" for more in ("", " -o json", " --yes")
    )
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--yes", action="store_true", help="carry it out; without it nothing is changed")
    shared.add_output(parser)


def hand_over(arguments: argparse.Namespace, name: str) -> int:
    """Show the transfer, or carry it out; negative if something prevents it or remains."""
    from cli.cluster.own_state import find_installation
    from cli.takeover.environment import (
        adoption_table,
        all_of_adoption,
        all_of_release,
        open_environment,
        release_table,
        subject_names,
    )

    directions = {
        ADOPT: (adoption, adoption_table, all_of_adoption),
        RELEASE: (release, release_table, all_of_release),
    }
    direction, table, whole_table = directions[name]
    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    document, is_complete = direction(open_environment(installation), is_acting=arguments.yes)
    output.show(document, arguments.output, table, whole_table, subject_names)
    return DONE if is_complete else NEGATIVE


# Creates Karpenter's NodeClaims from our claims, one by one; the next run completes an interrupted release.


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
            (resources.NODE_POOLS, labels.NODEPOOL_HASH_VERSION),
            (resources.EC2_NODE_CLASSES, labels.NODECLASS_HASH_VERSION),
        )
        for resource, key in versions:
            for obj in environment.kubernetes.list(resource).items:
                metadata = obj["metadata"]
                if key in mapping(metadata.get("annotations")):
                    environment.kubernetes.patch(resource, metadata["name"], {"metadata": {"annotations": {key: None}}})

    def release(self, releasable: Releasable) -> None:
        """Release one claim: its NodeClaim first, without which Karpenter terminates the instance, and its row last.

        Raises:
            PortError: If a part failed; the next run continues from there.
        """
        environment, owned = self._environment, releasable.owned
        invariant(owned is not None, f"{releasable.subject} is not to be released")
        assert owned is not None  # noqa: S101 - tells the type checker what the line above ensures
        record = owned.record
        if record.machine is None:
            self._give_up(record)
            return
        uid = self._write_node_claim(owned, releasable.drift)
        if owned.node is not None:
            environment.patch(resources.NODES, owned.node.name, lambda node: _node_patch(node, (record.name, uid)))
        if releasable.instance is not None:
            environment.tag(releasable.instance, takeover.karpenters_tags(record, environment.cluster))
            environment.untag(releasable.instance, takeover.OURS_ALONE)
        environment.stores.claims.forget(record)

    def _write_node_claim(self, owned: OwnedClaim, drift: str) -> str:
        """Write the NodeClaim from which Karpenter continues; return its UID."""
        environment, record = self._environment, owned.record
        if owned.node_claim is None:
            with suppress(ConflictError):
                environment.kubernetes.create(resources.NODE_CLAIMS, karpenters_object(record))
        status = karpenters_status(record, drift)
        environment.kubernetes.patch(resources.NODE_CLAIMS, record.name, {"status": status}, subresource="status")
        pool = (record.plan.node_pool, owned.pool_uid)
        environment.patch(
            resources.NODE_CLAIMS,
            record.name,
            lambda obj: {"metadata": takeover.node_claim_made_karpenters(record, obj, pool)},
        )
        return str(environment.kubernetes.get(resources.NODE_CLAIMS, record.name)["metadata"]["uid"])

    def _give_up(self, record: ClaimRecord) -> None:
        """Delete a claim that was never launched: its NodeClaim would be an order to Karpenter."""
        environment = self._environment
        with suppress(NotFoundError):
            environment.kubernetes.patch(resources.NODE_CLAIMS, record.name, {"metadata": {"finalizers": None}})
            environment.kubernetes.delete(resources.NODE_CLAIMS, record.name)
        environment.stores.claims.forget(record)

    def _of_table(self, view: ClusterState, instances: dict[str, Instance]) -> list[Releasable]:
        if not view.claims:
            return []
        environment = self._environment
        objects, nodes_of = environment.node_claims(), nodes_by_provider_id(view.snapshot.nodes)
        pools = {pool.name: pool for pool in view.snapshot.node_pools}
        claims = {claim.name: claim for claim in view.snapshot.node_claims}
        drift = DriftCheck(with_market(view, environment.market(view)))
        obstacles = []
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
            obstacles.append(
                Releasable(
                    subject=f"NodeClaim/{name}",
                    objection=objection(owned),
                    owned=owned,
                    instance=instances.get(record.instance_id),
                    drift=drift.reason(claim, pool) if claim is not None and pool is not None else "",
                )
            )
        return obstacles


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
        "metadata": takeover.node_made_karpenters(metadata.finalizers, owners, metadata.labels, node_claim)
    }
    taints = tuple(Taint(taint.key, taint.effect, taint.value) for taint in written.spec.taints)
    kept = takeover.taints_that_stay(taints)
    if kept != taints:
        patch["spec"] = {"taints": [taint.written() for taint in kept]}
    return patch


# The answers of `adopt` and `release` as data.


KEPT: Final = "kept"
RELEASABLE: Final = "releasable"


def adoption_document(
    cluster: str, survey: AdoptionSurvey, hindrances: Sequence[str], *, is_acting: bool
) -> JsonObject:
    """Return everything of Karpenter's; `state` is refused, adoptable, begun or ours, later adopted or failed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Adoption",
        "cluster": cluster,
        "acting": is_acting,
        "hindrances": list(hindrances),
        "items": [_candidate(candidate) for candidate in survey.candidates],
        "nodeClasses": [{"subject": f"EC2NodeClass/{name}", "state": "adoptable"} for name in survey.classes],
    }


def release_document(cluster: str, survey: ReleaseSurvey, hindrances: Sequence[str], *, is_acting: bool) -> JsonObject:
    """Return everything of ours; `state` is kept or releasable, later released or failed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Release",
        "cluster": cluster,
        "acting": is_acting,
        "hindrances": list(hindrances),
        "commands": survey.commands,
        "items": [_releasable(claim) for claim in survey.claims],
    }


def _candidate(candidate: AdoptionCandidate) -> JsonObject:
    instance = candidate.instance
    return {
        "subject": candidate.subject,
        "state": str(candidate.state),
        "nodeClaim": candidate.node_claim,
        "node": candidate.node,
        "instance": instance.instance_id if instance is not None else "",
        "instanceType": instance.instance_type if instance is not None else "",
        "nodePool": candidate.node_pool,
        "reason": str(candidate.objection.reason) if candidate.objection is not None else "",
        "message": f"{candidate.objection.message}. {candidate.objection.reason.advice}"
        if candidate.objection is not None
        else "",
        "drift": candidate.drift,
    }


def _releasable(releasable: Releasable) -> JsonObject:
    record, instance = releasable.owned.record if releasable.owned is not None else None, releasable.instance
    node = releasable.owned.node if releasable.owned is not None else None
    return {
        "subject": releasable.subject,
        "state": RELEASABLE if releasable.objection is None else KEPT,
        "nodeClaim": record.name if record is not None else "",
        "node": node.name if node is not None else "",
        "instance": instance.instance_id if instance is not None else "",
        "instanceType": instance.instance_type if instance is not None else "",
        "nodePool": record.plan.node_pool if record is not None else "",
        "reason": str(releasable.objection.reason) if releasable.objection is not None else "",
        "message": f"{releasable.objection.message}. {releasable.objection.reason.advice}"
        if releasable.objection is not None
        else "",
        "drift": releasable.drift,
    }


FAILED: Final = "failed"
T = TypeVar("T")


def in_turn(
    environment: TakeoverEnvironment, due: Iterable[tuple[JsonObject, T]], act: Callable[[T], Any], done: str
) -> bool:
    """Act on each subject, and write its new state into its part of the answer; return whether all went well.

    It stops early if Karpenter is running again or a permission is missing: the next subject would fail too.
    """
    is_well = True
    for part, subject in due:
        try:
            if environment.karpenter_runs():
                part |= {"state": FAILED, "message": "Karpenter was started meanwhile: stop it, and run this again"}
                return False
            act(subject)
        except DeniedError as error:
            part |= {
                "state": FAILED,
                "message": f"{error}; the rest is left as it is: run this again with that permission",
            }
            return False
        except PortError as error:
            part |= {"state": FAILED, "message": f"{error}; run this again: it continues from here"}
            is_well = False
        else:
            part["state"] = done
            write_stderr(f"{part['subject']} {done}")
    return is_well


# Both directions of the transfer, from the survey to the answer.


_DUE = (AdoptionState.ADOPTABLE, AdoptionState.BEGUN)


def adoption(environment: TakeoverEnvironment, *, is_acting: bool) -> tuple[JsonObject, bool]:
    """Return what is adoptable or was adopted, and whether nothing prevents it or remains.

    Raises:
        InputError: If the cluster, the table or EC2 cannot be read.
    """
    adopter = Adopter(environment)
    with reporting_port_errors(environment.cluster):
        hindrances = environment.hindrances()
        survey = adopter.survey()
    document = adoption_document(environment.cluster, survey, hindrances, is_acting=is_acting)
    items = list(zip(document["items"], survey.candidates, strict=True))
    is_complete = not hindrances and all(
        candidate.state is not AdoptionState.REFUSED for candidate in survey.candidates
    )
    if not is_acting or hindrances:
        return document, is_complete
    due = [(part, candidate) for part, candidate in items if candidate.state in _DUE]
    classes = list(zip(document["nodeClasses"], survey.classes, strict=True))
    is_done = in_turn(environment, due, adopter.adopt, "adopted")
    is_done = is_done and in_turn(environment, classes, adopter.free_class, "adopted")
    is_finished = _tried(document, adopter.finish)
    return document, is_complete and is_done and is_finished


def release(environment: TakeoverEnvironment, *, is_acting: bool) -> tuple[JsonObject, bool]:
    """Return what is releasable or was released, and whether nothing prevents it or remains.

    Raises:
        InputError: If the cluster, the table or EC2 cannot be read.
    """
    releaser = Releaser(environment)
    with reporting_port_errors(environment.cluster):
        hindrances = environment.hindrances()
        survey = releaser.survey()
    document = release_document(environment.cluster, survey, hindrances, is_acting=is_acting)
    is_complete = not hindrances and all(claim.objection is None for claim in survey.claims)
    if not is_acting or hindrances:
        return document, is_complete
    if not _tried(document, releaser.begin):
        return document, False
    due = [pair for pair in zip(document["items"], survey.claims, strict=True) if pair[0]["state"] == RELEASABLE]
    return document, in_turn(environment, due, releaser.release, "released") and is_complete


def _tried(document: JsonObject, act: Callable[[], None]) -> bool:
    """Take a common step; return whether it succeeded. If not, the answer says what to do."""
    try:
        act()
    except PortError as error:
        document["hindrances"].append(f"{error}; run this again: it continues from here")
        return False
    return True
