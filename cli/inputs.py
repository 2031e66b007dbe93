"""Builds the snapshot that a decision reads from the arguments."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from cli.arguments import REGION_DEFAULT, fetch_hint, options_of, refuse_empty, sizing_settings
from cli.cache import KeptReaders, user_store
from cli.errors import InputError
from cli.manifests import KUBECTL
from cli.manifests.inventory import (
    Creations,
    Document,
    Inventory,
    kind_read,
    leave_out,
    named_region,
    take_inventory,
    unlisted_region,
)
from cli.manifests.reading import read, together
from cli.terminal.style import write_stderr
from core import labels
from core.api.objects import JsonObject, is_ours, name_of
from core.catalogue import document
from core.catalogue.node_class import has_address_reading
from core.catalogue.reservations import with_reservations
from core.containment import SetAside
from core.errors import InvalidInputError
from core.interpreter import TrackedObjects, collector_paused
from core.manifests.assemble import assemble
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.manifests.workloads import EXPANDED_MAX
from core.model.catalogue import Catalogue
from core.model.pod import EBS_DRIVER, StorageClass
from core.model.snapshot import Options, Snapshot
from core.pods import OF_PODS_ALONE, unread_values
from core.reasons.pods import PodReason

if TYPE_CHECKING:
    from cli.cluster.own_state import Installation, OwnState


# Warns about kinds that a command needs and the input lacks.


OF_NODES: Final = ("consolidate", "savings")
"""Commands that decide about the nodes of a cluster."""

_FOLLOWS: Final[Mapping[Resource, str]] = {
    resources.NODE_POOLS: "NodePools (nothing can be launched)",
    resources.NODE_CLAIMS: "NodeClaims (no node counts as ours)",
    resources.DAEMON_SETS: "DaemonSets (new nodes are planned without room for them)",
    resources.PODS: "Pods (every node looks empty)",
    resources.POD_DISRUPTION_BUDGETS: "PodDisruptionBudgets (evictions look unlimited)",
}
_NEEDED: Final[Mapping[str, tuple[Resource, ...]]] = {
    "plan": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.DAEMON_SETS, resources.PODS),
    "explain": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.DAEMON_SETS),
    **dict.fromkeys(OF_NODES, tuple(_FOLLOWS)),
    "status": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.PODS),
}
"""Command → the kinds that it needs from a cluster, besides nodes."""


def missing(command: str, present: Mapping[Resource, Collection[Any]], *, ours_by_annotation: bool) -> str:
    """Return a warning about kinds that a cluster's input lacks, empty if it lacks none or is not from a cluster.

    Args:
        command: The command.
        present: The objects of the input by kind.
        ours_by_annotation: Whether a node names its claim itself, so that NodeClaims are not needed.
    """
    if not present.get(resources.NODES):
        return f"the input has no Nodes, so none can go; complete: {KUBECTL}" if command in OF_NODES else ""
    lacking = [kind for kind in _NEEDED.get(command, ()) if not present.get(kind)]
    if ours_by_annotation and resources.NODE_CLAIMS in lacking:
        lacking.remove(resources.NODE_CLAIMS)
    if not lacking:
        return ""
    return f"the input has Nodes but no {', '.join(_FOLLOWS[kind] for kind in lacking)}; complete: {KUBECTL}"


_Read = TypeVar("_Read")
_ON_FIRST_POD = "WaitForFirstConsumer"
"""When a volume is made: for the first pod that uses it, in the zone of its node."""


class DecisionInputs(msgspec.Struct, frozen=True):
    """The inputs of a decision.

    Attributes:
        decode_seconds: Duration of the reading.
        prices: The source of prices, with region and date, which are empty if the catalogue does not state them.
        own: The functions' view, under `--cluster`.
        creations: What the API server would make of Pods and workloads from files.
        set_aside: Objects that are left out because reading them raised.
        warnings: Fields of Karpenter's objects that this version does not know, and drops.
        left_out: What is wrong with documents of folders that cannot be read.
    """

    snapshot: Snapshot
    decode_seconds: float
    prices: JsonObject
    own: OwnState | None = None
    creations: Creations = Creations()
    set_aside: tuple[SetAside, ...] = ()
    warnings: tuple[JsonObject, ...] = ()
    left_out: tuple[InputError, ...] = ()


def read_inputs(
    arguments: argparse.Namespace, documents: Sequence[Document] | None = None, *, is_partial: bool = False
) -> DecisionInputs:
    """Read the manifests (or use `documents`) and the catalogue; warnings go to standard error.

    Under `--cluster` the result is the functions' present observation, with their settings, claims and prices.

    With `is_partial`, documents of folders that cannot be read are left out, and told.

    Raises:
        InputError: If any other input cannot be parsed; nothing is used then.
    """
    started = time.perf_counter()
    if documents is None and getattr(arguments, "cluster", None):
        if getattr(arguments, "price_terms", None):
            raise InputError("the functions' own terms count with --cluster; leave it out", source="--price-terms")
        return _observe_own(arguments, started)
    left_out: list[InputError] | None = [] if is_partial else None
    with collector_paused():
        input_documents = _given(arguments, left_out) if documents is None else documents
        max_pods = getattr(arguments, "max_pods", EXPANDED_MAX)
        inventory = take_inventory(input_documents, max_pods)
        if left_out and not inventory.total:
            raise together(left_out)
        refuse_empty(arguments, inventory.total)
        region = region_of(arguments, input_documents)
        snapshot, set_aside = _assembled(inventory, arguments, region)
        _check_buffers(snapshot, max_pods)
    TrackedObjects.freeze()  # everything lives as long as the command, so the collector need not visit it
    for error in left_out or ():
        warn(f"left out: {'; '.join(error.lines)}")
    if not (arguments.catalog or arguments.region) and (unlisted := unlisted_region(input_documents)):
        warn(f"no prices of {unlisted} are built in, and those of {region} are used: {fetch_hint(unlisted)}")
    _warn_of_inventory(inventory, snapshot, getattr(arguments, "command", ""))
    dropped = _printed(*_without_effect(input_documents, snapshot))
    return DecisionInputs(
        snapshot,
        time.perf_counter() - started,
        _prices_of(arguments, region),
        creations=inventory.creations,
        set_aside=set_aside,
        warnings=(*(_left_out(error) for error in left_out or ()), *dropped),
        left_out=tuple(left_out or ()),
    )


def _warn_of_inventory(inventory: Inventory, snapshot: Snapshot, command: str) -> None:
    for warning in inventory.warnings():
        warn(warning)
    ours_by_annotation = any(labels.CLAIM in node.annotations for node in snapshot.nodes)
    if lacking := missing(command, inventory.objects, ours_by_annotation=ours_by_annotation):
        warn(lacking)
    if resources.CAPACITY_BUFFERS in inventory.objects and not snapshot.options.feature_gates.capacity_buffer:
        warn("CapacityBuffers count only with FEATURE_GATES=CapacityBuffer=true in the environment")


def _printed(*warnings: JsonObject) -> tuple[JsonObject, ...]:
    for warning in warnings:
        warn(warning["message"])
    return warnings


def _left_out(error: InputError) -> JsonObject:
    return {"object": f"File/{error.source}", "reason": "Unreadable", "field": "", "message": "; ".join(error.lines)}


def _without_effect(documents: Sequence[Document], snapshot: Snapshot) -> tuple[JsonObject, ...]:
    return (*_dropped_fields(documents), *_idle_annotations(documents), *_unread_values(snapshot))


def _dropped_fields(documents: Sequence[Document]) -> tuple[JsonObject, ...]:
    """Return a warning for each field of Karpenter's objects that this version does not know.

    The fields are stored by the objects' content: the models that know them take longer to load than a small plan.
    """
    ours = [document for document in documents if is_ours(document.object)]
    if not ours:
        return ()
    store = user_store()
    key = store.key("unknown fields", [document.object for document in ours])
    stored = store.get(key)
    if stored is None:
        from core.api.translation import unknown_fields

        stored = msgspec.json.encode([unknown_fields(document.object) for document in ours])
        store.put(key, stored)
    return tuple(
        {
            "object": f"{document.kind}/{name_of(document.object)}",
            "reason": "UnknownField",
            "field": field,
            "message": f"{document.kind} {name_of(document.object)}: {field}: there is no such field; it is dropped",
        }
        for document, fields in zip(ours, msgspec.json.decode(stored), strict=True)
        for field in fields
    )


def _idle_annotations(documents: Sequence[Document]) -> tuple[JsonObject, ...]:
    """Return a warning for each annotation of pods that stands on a workload: its pods are planned for without it.

    A Deployment gives its annotations to its ReplicaSets, so objects that another one owns are passed over.
    """
    noted = [document for document in documents if document.kind != "Pod" and _notes_pods(document.object)]
    if not noted:
        return ()
    from cli.validation.examine import idle_annotations  # most input has none

    return tuple(
        {
            "object": f"{document.kind}/{name_of(document.object)}",
            "reason": finding.code,
            "field": finding.field,
            "message": f"{document.kind} {name_of(document.object)}: {finding.field}: {finding.message}",
        }
        for document in noted
        for finding in idle_annotations(document)
    )


def _notes_pods(obj: JsonObject) -> bool:
    metadata = obj.get("metadata")
    notes = metadata.get("annotations") if isinstance(metadata, dict) and not metadata.get("ownerReferences") else None
    return isinstance(notes, dict) and any(key in notes for key in OF_PODS_ALONE)


def _unread_values(snapshot: Snapshot) -> tuple[JsonObject, ...]:
    """Return a warning for each value of an annotation of pods that cannot be read: the first pod that has it is named."""
    first: dict[tuple[str, str, str], JsonObject] = {}
    for pod in snapshot.pods:
        for key, problem in unread_values(pod.annotations) if pod.annotations else ():
            message = f"Pod {pod.key}: metadata.annotations[{key}]: {problem}"
            warning = {"object": f"Pod/{pod.name}", "reason": "InvalidValue", "field": key, "message": message}
            first.setdefault((pod.namespace, key, pod.annotations[key]), warning)
    return tuple(first.values())


def _observe_own(arguments: argparse.Namespace, started: float) -> DecisionInputs:
    from cli.cluster.own_state import find_installation

    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    return observe_installation(installation, arguments, started)


def observe_installation(installation: Installation, arguments: argparse.Namespace, started: float) -> DecisionInputs:
    """Return the functions' present observation. Raises InputError."""
    from cli.cluster.own_state import read_own_state

    is_given = bool(arguments.files or arguments.context)
    own_state_view = read_own_state(installation, _inventory(arguments) if is_given else None, arguments.now)
    whose = f"{installation.cluster}: " if getattr(arguments, "all", False) else ""
    for problem in own_state_view.view.problems:
        warn(f"{whose}{problem}")
    deployed, requested = installation.settings.options(), options_of(arguments)
    options = msgspec.structs.replace(
        deployed,
        improve_iterations=requested.improve_iterations,
        karpenter_moves_only=requested.karpenter_moves_only,
        ignore_budgets=requested.ignore_budgets,
        moves=requested.moves,
        move_price=requested.move_price,
        part_nodes=requested.part_nodes or deployed.part_nodes,
        seed=requested.seed,
    )
    snapshot = msgspec.structs.replace(own_state_view.snapshot, options=options)
    for part in own_state_view.stale_market:
        warn(f"{whose}{part.explanation}: see the alarm `denied`, cause `staleMarket`")
    read_at = own_state_view.prices_read_at
    prices = {
        "source": f"the functions of {installation.stack}",
        "region": str(installation.session.region_name),
        "date": f"{read_at:%Y-%m-%d}" if read_at is not None else "",
    }
    set_aside = tuple(problem.set_aside for problem in own_state_view.view.problems if problem.set_aside is not None)
    return DecisionInputs(snapshot, time.perf_counter() - started, prices, own_state_view, set_aside=set_aside)


def _inventory(arguments: argparse.Namespace) -> Inventory:
    return take_inventory(_given(arguments), getattr(arguments, "max_pods", EXPANDED_MAX))


def _check_buffers(snapshot: Snapshot, max_pods: int) -> None:
    total = sum(buffer.pods for buffer in snapshot.buffers)
    if total > max_pods:
        problem = f"the CapacityBuffers have {total} pods together, which is more than {max_pods}"
        raise InputError(problem, hint="--max-pods N raises the bound")


def _given(arguments: argparse.Namespace, left_out: list[InputError] | None = None) -> Sequence[Document]:
    """Return the objects of the files, or without files those of the kubeconfig's cluster."""
    if arguments.files:
        helm, kustomize = getattr(arguments, "helm", False), getattr(arguments, "kustomize", False)
        return read(arguments.files, helm=helm, kustomize=kustomize, left_out=left_out)
    from cli.cluster.live import read_live

    return read_live(arguments.context)


def warn(text: str) -> None:
    """Print one warning line."""
    write_stderr(f"warning: {text}")


def warn_of(set_aside: Iterable[SetAside]) -> None:
    """Print a warning for each object that is set aside, for commands whose answer does not name them."""
    for aside in set_aside:
        warn(f"set aside {aside.object} [{aside.reason}]: {aside.message}")


def read_catalogue(path: str) -> Catalogue:
    """Return the catalogue in a file.

    Raises:
        InputError: If it cannot be read or understood.
    """
    return _from_file(path, document.decode)


def _from_file(path: str, reads: Callable[[bytes], _Read]) -> _Read:
    try:
        return reads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=path) from error
    except InvalidInputError as error:
        raise InputError(str(error), source=path) from error


def with_price_terms(snapshot: Snapshot, path: str | None, node_classes: Sequence[JsonObject]) -> Snapshot:
    """Return the snapshot with the prices and commitments of a file of price terms; unchanged without a file.

    Raises:
        InputError: If the file cannot be read or understood.
    """
    if path is None:
        return snapshot
    from core.price_terms import TermPrices, read_terms

    terms = _from_file(path, read_terms)
    for commitment in terms.commitments:
        if commitment.ends_at is not None and commitment.ends_at <= snapshot.now:
            warn(
                f"{path}: commitment {commitment.name} ended at {commitment.ends_at:%Y-%m-%dT%H:%M:%S%z}, so it covers nothing"
            )
    return msgspec.structs.replace(
        snapshot,
        catalogue=TermPrices(terms).of(snapshot.catalogue, node_classes),
        options=msgspec.structs.replace(
            snapshot.options, commitments=terms.commitments, dedicated_ppm=terms.dedicated_ppm
        ),
    )


def _assembled(
    inventory: Inventory, arguments: argparse.Namespace, region: str
) -> tuple[Snapshot, tuple[SetAside, ...]]:
    classes = inventory.objects.get(resources.EC2_NODE_CLASSES, [])
    catalogue, now = builtin_or_given(arguments, region, classes), arguments.now or datetime.now(UTC)
    snapshot, set_aside = _without_unreadable(inventory, catalogue, options_of(arguments), now)
    invalid = {node_class.name for node_class in snapshot.node_classes if node_class.problem}
    classes = [manifest for manifest in classes if name_of(manifest) not in invalid]
    snapshot = _without_refused_classes(_with_absent_storage(snapshot) if arguments.files else snapshot, classes)
    in_reservations = Counter(node.labels.get(labels.RESERVATION_ID, "") for node in snapshot.nodes)
    snapshot = with_price_terms(snapshot, getattr(arguments, "price_terms", None), classes)
    catalogue = with_reservations(snapshot.catalogue, classes, in_reservations, snapshot.now)
    quotas = _from_file(arguments.catalog, document.vcpu_quotas) if arguments.catalog else {}
    snapshot = msgspec.structs.replace(snapshot, catalogue=catalogue, vcpu_quotas=quotas)
    if not any(map(has_address_reading, classes)):
        return snapshot, set_aside
    from core.lifecycle.claims import addresses_left  # most clusters have plenty

    addresses = addresses_left(classes, (), snapshot.now)
    return msgspec.structs.replace(snapshot, subnet_addresses=addresses), set_aside


def _without_unreadable(
    inventory: Inventory, catalogue: Catalogue, options: Options, now: datetime
) -> tuple[Snapshot, tuple[SetAside, ...]]:
    """Return the snapshot, and the objects that are set aside for it.

    If pods of a workload cannot be read, the workload is left out, and the others are translated once more.
    """
    readers = KeptReaders(user_store(), inventory.objects)
    snapshot, problems = assemble(inventory.objects, now=now, catalogue=catalogue, options=options, readers=readers)
    faults = [
        (inventory.documents[problem.resource][problem.position], problem)
        for problem in problems
        if not problem.is_warning
    ]
    of_workloads = [
        (origin, problem.resource, InvalidInputError(problem.problem, field=problem.field))
        for origin, problem in faults
        if kind_read(origin) != problem.resource
    ]
    if of_workloads:
        leave_out(inventory, of_workloads)
        return _without_unreadable(inventory, catalogue, options, now)
    readers.keep()
    named = {aside.object for aside in inventory.set_aside}
    set_aside = [*inventory.set_aside, *(p.set_aside for p in problems if p.set_aside is not None)]
    for problem in problems:
        if problem.is_warning:
            warn(str(problem))
    for origin, problem in faults:
        aside = origin.unreadable(problem.resource, InvalidInputError(problem.problem, field=problem.field))
        set_aside += [] if aside.object in named else [aside]  # a pod that waits says what it lacks once more
    return _with_set_aside_pods(snapshot, set_aside), tuple(set_aside)


def _with_set_aside_pods(snapshot: Snapshot, set_aside: Sequence[SetAside]) -> Snapshot:
    """Return the snapshot in which the pods that are set aside say so, where they would say that they are invalid."""
    keys = {aside.pod for aside in set_aside if aside.pod}
    if not keys:
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, problem_reason=PodReason.SET_ASIDE))
        if pod.key in keys and pod.unreadable
        else pod
        for pod in snapshot.pods
    )
    return msgspec.structs.replace(snapshot, pods=pods)


def _with_absent_storage(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a StorageClass for each that volumes name and files lack: an add-on installs them.

    Files with StorageClasses, and Nodes or pods that an API server has stored, are a copy of a cluster: there, a class that is
    missing does not exist.
    """
    if snapshot.storage_classes and (snapshot.nodes or any(pod.uid for pod in snapshot.pods)):
        return snapshot
    uses = (use.storage_class for pod in snapshot.pods for use in pod.spec.volumes if use.ephemeral)
    unbound = (claim.storage_class for claim in snapshot.volume_claims if not claim.volume_name)
    present = {storage_class.name for storage_class in snapshot.storage_classes}
    default = {None} if any(storage_class.is_default for storage_class in snapshot.storage_classes) else set()
    names = {*uses, *unbound} - {"", *present, *default}
    if not names:
        return snapshot
    named = sorted(name for name in names if name)
    what = [f"StorageClass {name}" for name in named] + ["the default StorageClass"] * (None in names)
    warn(f"not in the input: {', '.join(what)}; its volumes are planned as EBS volumes of the pod's zone")
    absent = [StorageClass(name=name, provisioner=EBS_DRIVER, binding_mode=_ON_FIRST_POD) for name in named]
    if None in names:
        absent.append(StorageClass(name="default", provisioner=EBS_DRIVER, binding_mode=_ON_FIRST_POD, is_default=True))
    return msgspec.structs.replace(snapshot, storage_classes=(*snapshot.storage_classes, *absent))


def _without_refused_classes(snapshot: Snapshot, manifests: Sequence[JsonObject]) -> Snapshot:
    """Return the snapshot in which EC2NodeClasses that no launch would succeed from have that as their problem."""
    suspects = [manifest for manifest in manifests if _may_be_refused(manifest.get("spec", {}))]
    if not suspects:
        return snapshot
    from core.catalogue.node_class import read_node_class  # most classes leave these fields out
    from core.launch.validation import first_certain, launch_problems

    refused: dict[str, str] = {}
    for manifest in suspects:
        problem = first_certain(launch_problems(read_node_class(manifest)))
        if problem is not None:
            refused[name_of(manifest)] = f"{problem.field}: {problem.problem}"
    for name, why in sorted(refused.items()):
        warn(f"EC2NodeClass {name}: {why}: nothing can be launched from it")
    return msgspec.structs.replace(
        snapshot,
        node_classes=tuple(
            msgspec.structs.replace(node_class, problem=node_class.problem or refused[node_class.name])
            if node_class.name in refused
            else node_class
            for node_class in snapshot.node_classes
        ),
    )


def _may_be_refused(spec: JsonObject) -> bool:
    """Whether the spec of an EC2NodeClass has a field for which launches may be refused."""
    named = (spec.get("role"), spec.get("instanceProfile"))
    written = ("userData", "kubelet", "blockDeviceMappings", "tags")
    return any(spec.get(field) for field in written) or any(str(name).startswith("arn:") for name in named)


def region_of(arguments: argparse.Namespace, documents: Sequence[Document]) -> str:
    """Return the region of the built-in market to use without `--catalog`."""
    return arguments.region or named_region(documents) or REGION_DEFAULT


def _prices_of(arguments: argparse.Namespace, region: str) -> JsonObject:
    """Return the source of the catalogue's prices."""
    if arguments.catalog:
        origin = document.origin(Path(arguments.catalog).read_bytes())
        return {"source": Path(arguments.catalog).name, "region": origin.region, "date": origin.date}
    from simulator.market.embedded import priced_on, source_of

    return {"source": source_of(region), "region": region, "date": priced_on(region)}


def builtin_or_given(arguments: argparse.Namespace, region: str, node_classes: Sequence[JsonObject]) -> Catalogue:
    """Return the catalogue of `--catalog`, or else the region's built-in one.

    Raises:
        InputError: If it cannot be read, or nothing is built in for the region.
    """
    if arguments.catalog:
        return read_catalogue(arguments.catalog)
    from cli.cache import builtin_catalogue

    try:
        return builtin_catalogue(user_store(), region, node_classes, sizing_settings(os.environ))
    except InvalidInputError as error:
        from difflib import get_close_matches

        from simulator.market.embedded import regions

        numbered = [r for r in regions() if r[-2:] == region[-2:]]  # AWS opens ap-southeast-6 beside -5
        near = get_close_matches(region, numbered, n=1, cutoff=0.85)
        hint = f"did you mean {near[0]}? Otherwise {fetch_hint(region)}" if near else fetch_hint(region)
        raise InputError(error.problem, source="--region", hint=hint) from error
