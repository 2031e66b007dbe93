"""Collects the objects of the input by kind, each with its document."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cli.errors import InputError
from cli.manifests.checks import Excused, Missing, generated_name, refusals
from cli.manifests.refusals import MADE_PODS, POD
from cli.terminal.output import counted
from core import labels
from core.api.objects import identity_problems, mapping
from core.containment import SetAside, SetAsideError, internal_error
from core.errors import InvalidInputError
from core.manifests import workloads
from core.manifests.admission import SETTINGS, Admitted, PodAdmission, PodQuotas, admitted_pods, check_amounts
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.manifests.workloads import EXPANDED_MAX, Expansion, TooManyPodsError
from core.reasons.runs import RunReason

# One object of the input, with the place where it was written.


STANDARD_INPUT: Final = "-"
LISTS_DEEP_MAX: Final = 16
"""The most levels of nested Lists that are expanded."""


_NAMELESS: Final = "without a name"


class Document:
    """One object of the input.

    Attributes:
        source: The file it came from, `-` for standard input.
        index: The index of its document in that file, from 0.
        item: Its path in an expanded list, such as `items[3]`; empty otherwise.
        object: The object as written; timestamps are text.
    """

    __slots__ = ("index", "item", "object", "source")

    def __init__(self, source: str, index: int, object_: dict[str, Any], item: str = "") -> None:
        self.source = source
        self.index = index
        self.object = object_
        self.item = item

    @property
    def kind(self) -> str:
        """The kind; empty if the object has none."""
        kind = self.object.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """The name; empty if the object has none."""
        return self._of_metadata("name")

    @property
    def namespace(self) -> str:
        """The namespace, or `default` if the object names none; cluster-scoped objects get `default`, too."""
        return self._of_metadata("namespace") or "default"

    @property
    def subject(self) -> str:
        """How messages name the object: `Pod shop/cart-0`."""
        namespace, name = self._of_metadata("namespace"), self.name or _NAMELESS
        return f"{self.kind or 'object'} {f'{namespace}/{name}' if namespace else name}"

    def path_name(self, resource: Resource) -> str:
        """How the list of objects set aside names it: `shop/cart-0`."""
        name = self.name or _NAMELESS
        return f"{self.namespace}/{name}" if resource.namespaced else name

    def error(self, problem: str) -> InputError:
        """Return an error that names this document and, unless `problem` already does, this object."""
        named = problem if problem.startswith(self.subject) else f"{self.subject}: {problem}"
        hint = self.placeholder_in(self.object)
        if not hint:
            hint = f"`fleetwright validate -f {shlex.quote(self.source)}` lists every problem of every object"
        return InputError(named, source=self.source, index=self.index, place=self.item, hint=hint)

    def aside(self, resource: Resource, reason: RunReason, problem: str) -> SetAside:
        """Return this object as set aside; the message begins with its place in the input."""
        where = (self.source, f"document {self.index + 1}", self.item)
        name = f"{self.kind or resource.kind}/{self.path_name(resource)}"
        return SetAside(name, reason, ": ".join(part for part in (*where, problem) if part))

    def unreadable(self, resource: Resource, error: InvalidInputError) -> SetAside:
        """Return this object as set aside because a field cannot be read."""
        return self.aside(resource, RunReason.CANNOT_BE_READ, self.fault(resource, error))

    def fault(self, resource: Resource, error: InvalidInputError) -> str:
        """Return the field that cannot be read, and why; a placeholder in the object is the likely cause."""
        problem = self.placeholder_in(self.object) or error.problem
        return ": ".join(part for part in (field_in(self, resource, error.field), problem) if part)

    def placeholder_in(self, value: Any) -> str:
        """Return which placeholder a value of the object has, and what to do about it; empty if it has none."""
        from cli.manifests.foreign import rendering_hint, template_in  # only errors ask

        mark = template_in(value)
        return f"has the placeholder {mark}; {rendering_hint(self.source, mark)}" if mark else ""

    def _of_metadata(self, key: str) -> str:
        metadata = self.object.get("metadata")
        return str(metadata.get(key) or "") if isinstance(metadata, dict) else ""


_KARPENTER_GROUPS: Final = (labels.CORE_GROUP, labels.AWS_GROUP)
_KINDS: Final = sorted({*resources.BY_KIND, "NodePool", "EC2NodeClass"})
_ALIKE: Final = 0.85
"""At this similarity to one of our kinds, a kind counts as misspelt. ClusterRole, PodMonitor and NodeMetrics stay below it."""
_CURRENT: Final = {kind: resource.api_version for kind, resource in resources.BY_KIND.items()}


_NAMED_MAX: Final = 5
"""Most objects that a line about repeated ones names."""


class Creations(NamedTuple):
    """What the API server would make of the Pods and workloads of the input.

    Attributes:
        pods: Pods that no API server has stored yet, by key.
        expansions: What workloads without pods become.
    """

    pods: Mapping[str, Admitted] = MappingProxyType({})
    expansions: tuple[Expansion, ...] = ()

    def warnings(self) -> Iterator[str]:
        """Return a line for each workload and Pod that the API server would refuse, in whole or in part."""
        for key, admitted in sorted(self.pods.items()):
            if admitted.refusal is not None:
                yield f"Pod {key} would not be created: {admitted.refusal}"
        for expansion in self.expansions:
            if expansion.refused:
                yield f"{expansion.subject}: {refused_pods(expansion)}"


def refused_pods(expansion: Expansion) -> str:
    """Return how many pods of a workload would not be created, and why."""
    total = counted(expansion.refused + len(expansion.pods), "pod")
    return f"{expansion.refused} of {total} would not be created: {expansion.refusal}"


class Inventory:
    """The decoded input: `objects[resource][i]` comes from `documents[resource][i]`.

    Attributes:
        total: How many objects of all kinds were given.
        skipped: Kind that we do not read → how many of its objects were ignored.
        repeated: Objects that were given more than once; the last one counts.
        unnamed: Objects with `generateName` and no name, each under the name that stands for the one to be generated.
        creations: What the API server would make of Pods and workloads from files.
        set_aside: Objects that the API server refuses, or of which a field cannot be read. They are left out, or kept in the
            form that protects.
    """

    def __init__(self) -> None:
        self.objects: dict[Resource, list[Any]] = {}
        self.documents: dict[Resource, list[Document]] = {}
        self.total = 0
        self.skipped: dict[str, int] = {}
        self.repeated: list[str] = []
        self.unnamed: list[str] = []
        self.creations = Creations()
        self.set_aside: list[SetAside] = []

    def add(self, resource: Resource, obj: Any, document: Document) -> None:
        """Add one object."""
        self.objects.setdefault(resource, []).append(obj)
        self.documents.setdefault(resource, []).append(document)

    def without(self, left_out: Iterable[Document]) -> None:
        """Take out everything that comes from these documents."""
        gone = {id(document) for document in left_out}
        for resource, documents in self.documents.items() if gone else ():
            kept = [position for position, document in enumerate(documents) if id(document) not in gone]
            self.objects[resource] = [self.objects[resource][position] for position in kept]
            self.documents[resource] = [documents[position] for position in kept]

    def warnings(self) -> Iterator[str]:
        """Return warnings about input that did not fail."""
        if self.skipped:
            yield skipped_kinds(self.skipped)
        if self.repeated:
            subjects = [*dict.fromkeys(self.repeated)]
            shown, more = ", ".join(subjects[:_NAMED_MAX]), len(subjects) - _NAMED_MAX
            named = f"{shown} and {more} more objects are" if more > 0 else f"{shown} {'are' if subjects[1:] else 'is'}"
            yield f"{named} given more than once: the last one counts"
        if self.unnamed:
            amount = counted(len(self.unnamed), "object")
            yield f"{amount} with generateName, first {self.unnamed[0]}: kubectl create names them, kubectl apply refuses them"
        yield from self.creations.warnings()


def skipped_kinds(counts: Mapping[str, int]) -> str:
    """Return a line that counts the ignored objects by kind."""
    named = [f"{kind} {count}" for kind, count in sorted(counts.items())]
    return f"skipped {counted(sum(counts.values()), 'object')} of kinds that are not read here: {', '.join(named)}"


def _meant(kind: str) -> str:
    """Ask `did you mean` with the closest kind; empty if no kind is close."""
    near = difflib.get_close_matches(kind, _KINDS, cutoff=_ALIKE)
    return f" (did you mean {near[0]}?)" if near and near[0] != kind else ""


def take_inventory(documents: Iterable[Document], max_pods: int = EXPANDED_MAX) -> Inventory:
    """Decode the objects and expand the workloads to their pods, `max_pods` together at most.

    An object of which a field cannot be read is set aside.

    Raises:
        InputError: If it is not known what an object is, or the workloads have too many pods; it names file and document.
    """
    inventory = Inventory()
    input_documents = list(documents)
    for document in input_documents:
        if refused := refused_version_of(document):
            raise document.error(f"apiVersion: {refused}")
        for field, problem in identity_problems(document.object):
            raise document.error(f"{field}: {problem}")
    inventory.total = len(input_documents)
    input_documents = _in_present_form(input_documents, inventory)
    for (resource, _, _), document in _distinct(input_documents, inventory).items():
        obj, aside = _taken(document, resource)
        if aside is not None:
            inventory.set_aside.append(aside)
        if obj is not None:
            inventory.add(resource, obj, document)
    _expand(inventory, max_pods)
    return inventory


def _taken(document: Document, resource: Resource) -> tuple[Any | None, SetAside | None]:
    """Return a decoded object, or what stands for it and why it is set aside."""
    problem = ""
    try:
        obj = decoding.from_object(resource, document.object)
        if resource in SETTINGS:
            check_amounts(obj)
        problem = _refused(document, resource, obj)
        if not problem:
            return obj, None
        aside = document.aside(resource, RunReason.REFUSED_BY_API_SERVER, problem)
    except SetAsideError as error:
        aside = internal_error(f"{resource.kind}/{document.path_name(resource)}", error.__cause__ or error)
        problem = aside.message
    except InvalidInputError as error:
        problem, aside = document.fault(resource, error), document.unreadable(resource, error)
    rest = decoding.rest_of(resource, document.object)
    if rest is not None:
        rest.unreadable = problem
    return rest, aside


def is_missing(message: str) -> bool:
    """Whether a refusal is that a field is missing, which whoever applies the object may still add."""
    return isinstance(message, Missing)


def refusals_of(document: Document) -> Iterator[tuple[str, str]]:
    """Return the fields for which an API server would refuse an object, each with the reason."""
    identity = str(document.object.get("apiVersion")), document.kind
    if identity == ("v1", "Pod"):
        return refusals(document.object, POD)
    if _group(document) in _KARPENTER_GROUPS:
        return iter(())  # their schemas are read elsewhere
    from cli.manifests.cluster_refusals import CHECKS  # most objects of large inputs are Pods

    return refusals(document.object, CHECKS[identity]) if identity in CHECKS else iter(())


_MAKE_PODS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob")


def unmade_pods_of(document: Document) -> Iterator[tuple[str, str]]:
    """Return the fields of a workload that an API server takes although it refuses each of the pods, with the reason."""
    return refusals(document.object, MADE_PODS) if document.kind in _MAKE_PODS else iter(())


_WITH_PODS: Final = (resources.PODS, *workloads.EXPANDED)


def _refused(document: Document, resource: Resource, obj: Any) -> str:
    """Return why the API server would not store the object, or none of its pods; empty if it would.

    Raises:
        InvalidInputError: If its pods cannot be read either.
    """
    for field, problem in (*refusals_of(document), *unmade_pods_of(document)):
        if isinstance(problem, Excused):
            continue
        if resource in _WITH_PODS:
            workloads.expand({resource: [obj]}, most_per_workload=1)
        return f"{field}: {problem}"
    return ""


def refused_version_of(document: Document) -> str:
    """Return why a document's `apiVersion` is refused; empty if we read that version, or do not read that kind at all."""
    if document.object.get("apiVersion") == _CURRENT.get(document.kind):
        return ""
    from core.manifests.wire.versions import read_versions, refused_version  # nearly all objects are of current ones

    refused = refused_version(document.object)
    is_explained = "did you mean" in refused
    return (
        f"{refused}{_meant(document.kind)}"
        if refused and not is_explained and not read_versions(document.kind)
        else refused
    )


def field_in(document: Document, resource: Resource, field: str) -> str:
    """Return the path in the document of a field of a derived object: a workload's pods come from its template."""
    return f"spec.template.{field}" if resource == resources.PODS and field and document.kind != "Pod" else field


def _distinct(documents: Iterable[Document], inventory: Inventory) -> dict[tuple[Resource, str, str], Document]:
    distinct: dict[tuple[Resource, str, str], Document] = {}
    for written in documents:
        resource = kind_read(written)
        if resource is None:
            inventory.skipped[written.kind] = inventory.skipped.get(written.kind, 0) + 1
            continue
        document = written if written.name else under_made_up_name(written, len(inventory.unnamed) + 1)
        if not document.name:
            missing = InvalidInputError("is missing", field="metadata.name")
            inventory.set_aside.append(document.unreadable(resource, missing))
            continue
        if document is not written:
            inventory.unnamed.append(document.subject)
        key = (resource, document.namespace if resource.namespaced else "", document.name)
        if key in distinct:
            inventory.repeated.append(document.subject)
            del distinct[key]
        distinct[key] = document
    return distinct


def under_made_up_name(document: Document, number: int = 1) -> Document:
    """Return an object that has `generateName` and no name with a name made of it; any other object as it is.

    Args:
        document: The object.
        number: What makes its name another than those of objects with the same `generateName`.
    """
    metadata = mapping(document.object.get("metadata"))
    prefix = metadata.get("generateName")
    if document.name or not isinstance(prefix, str) or not prefix:
        return document
    return _replaced(document, {**document.object, "metadata": {**metadata, "name": generated_name(prefix, number)}})


def kind_read(document: Document) -> Resource | None:
    """Return the document's kind if we read it."""
    return resources.resource_read(_group(document), document.kind)


def _in_present_form(documents: list[Document], inventory: Inventory) -> list[Document]:
    """Convert older versions of Karpenter's objects. All are converted together, because some depend on others."""
    ours = [document for document in documents if _group(document) in _KARPENTER_GROUPS]
    if all(str(document.object["apiVersion"]).endswith("/v1") for document in ours):
        return documents
    from core.api import all_as_v1, as_v1

    convertible = []
    for document in ours:
        try:
            as_v1(document.object)
        except InvalidInputError as error:
            inventory.set_aside.append(document.unreadable(kind_read(document) or resources.NODE_POOLS, error))
        else:
            convertible.append(document)
    origins = {_present_name(document.object): document for document in reversed(convertible)}
    by_name = {decoding.name_of(document.object): document for document in reversed(convertible)}
    converted = []
    for obj in all_as_v1(document.object for document in convertible):
        name = decoding.name_of(obj)  # a class that a Provisioner has inside is called as its Provisioner
        converted.append(_replaced(origins.get(_present_name(obj)) or by_name.get(name, convertible[0]), obj))
    return [document for document in documents if _group(document) not in _KARPENTER_GROUPS] + converted


def _present_name(obj: dict[str, Any]) -> tuple[str, str]:
    """Return the kind that an object becomes, and its name."""
    kind = str(obj.get("kind"))
    return resources.OLDER_KINDS[kind].kind if kind in resources.OLDER_KINDS else kind, decoding.name_of(obj)


def _replaced(document: Document, obj: dict[str, Any]) -> Document:
    return Document(document.source, document.index, obj, document.item)


def _group(document: Document) -> str:
    return str(document.object.get("apiVersion")).rpartition("/")[0]


def _add_made_of_groups(inventory: Inventory) -> None:
    """Add the Jobs and StatefulSets that the controllers of JobSets and LeaderWorkerSets would create."""
    if not (inventory.objects.get(resources.JOB_SETS) or inventory.objects.get(resources.LEADER_WORKER_SETS)):
        return
    from core.manifests import groups

    pods = inventory.objects.get(resources.PODS, ())
    for resource, made, kind in (
        (resources.JOB_SETS, groups.made_of_job_set, resources.JOBS),
        (resources.LEADER_WORKER_SETS, groups.made_of_leader_worker_set, resources.STATEFUL_SETS),
    ):
        present = {(obj.metadata.namespace, obj.metadata.name) for obj in inventory.objects.get(kind, ())}
        for position, owner in enumerate(inventory.objects.get(resource, ())):
            for workload in made(owner, pods):
                if (workload.metadata.namespace, workload.metadata.name) not in present:
                    inventory.add(kind, workload, inventory.documents[resource][position])


def _expand(inventory: Inventory, max_pods: int) -> None:
    _add_made_of_groups(inventory)
    admission, quotas = PodAdmission(inventory.objects), PodQuotas(inventory.objects)
    pods = _admit_pods(inventory, admission, quotas)
    faults: workloads.Faults = []
    try:
        expansions = workloads.expand(inventory.objects, admission, quotas, most=max_pods, faults=faults)
    except TooManyPodsError as error:
        raise InputError(str(error), hint="--max-pods N raises the bound") from error
    origin = {
        id(workload): inventory.documents[resource][position]
        for resource in workloads.EXPANDED
        for position, workload in enumerate(inventory.objects.get(resource, ()))
    }
    inventory.creations = Creations(pods, expansions)
    for expansion in expansions:
        document = origin[id(expansion.workload)]
        for pod in expansion.pods:
            inventory.add(resources.PODS, pod, document)
        for claim in expansion.claims:
            inventory.add(resources.PERSISTENT_VOLUME_CLAIMS, claim, document)
    leave_out(inventory, [(origin[id(workload)], resource, error) for resource, workload, error in faults])


def leave_out(inventory: Inventory, faults: Iterable[tuple[Document, Resource, Exception]]) -> None:
    """Set documents aside whose workloads, or what these become, cannot be read.

    Args:
        inventory: The inventory, which changes.
        faults: Documents, each with the kind of the object at fault and what it raised.
    """
    gone: dict[int, Document] = {}
    for document, resource, error in faults:
        if id(document) in gone:
            continue
        gone[id(document)] = document
        if isinstance(error, InvalidInputError):
            aside = document.unreadable(resource, error)
        else:
            aside = internal_error(f"{document.kind}/{document.path_name(resource)}", error)
        inventory.set_aside.append(aside)
    if not gone:
        return
    inventory.without(gone.values())
    present = {id(workload) for resource in workloads.EXPANDED for workload in inventory.objects.get(resource, ())}
    made = inventory.creations
    kept = tuple(expansion for expansion in made.expansions if id(expansion.workload) in present)
    inventory.creations = Creations(made.pods, kept)


def _admit_pods(inventory: Inventory, admission: PodAdmission, quotas: PodQuotas) -> dict[str, Admitted]:
    """Replace Pods from manifests by those that the API server would store; leave out those that it refuses.

    Returns:
        What admission did, by key of the pod.
    """
    admitted_by_name: dict[str, Admitted] = {}
    refused: set[int] = set()
    for pod, admitted in admitted_pods(inventory.objects, admission, quotas):
        admitted_by_name[f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"] = admitted
        pod.spec = admitted.spec
        if admitted.refusal is not None:
            refused.add(id(pod))
    if refused:
        pods_and_documents = zip(inventory.objects[resources.PODS], inventory.documents[resources.PODS], strict=True)
        kept = [(pod, document) for pod, document in pods_and_documents if id(pod) not in refused]
        inventory.objects[resources.PODS] = [pod for pod, _ in kept]
        inventory.documents[resources.PODS] = [document for _, document in kept]
    return admitted_by_name


# Finds the region that manifests name, whose built-in instance types and prices are used.


ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)[a-z]")


def named_region(documents: Iterable[Document]) -> str | None:
    """Return the only region with built-in prices that Nodes and NodePools name; None if they name none or several."""
    listed, _ = _regions_of(documents)
    return listed[0] if len(listed) == 1 else None


def unlisted_region(documents: Iterable[Document]) -> str:
    """Return a region without built-in prices that Nodes and NodePools name; empty if they name none, or another, too."""
    listed, unlisted = _regions_of(documents)
    return unlisted[0] if unlisted and not listed else ""


def _regions_of(documents: Iterable[Document]) -> tuple[list[str], list[str]]:
    named = {region for document in documents for region in _named_in(document)}
    if not named:
        return [], []
    from simulator.market.embedded import regions

    priced = named & set(regions())
    return sorted(priced), sorted(named - priced)


def _named_in(document: Document) -> Iterator[str]:
    """Return the regions of one object, which may be malformed: `validate` calls this for all objects."""
    if document.kind == "Node":
        yield from _regions(labels.REGION, [_at(document.object, "metadata", "labels", labels.REGION)])
    elif document.kind == "NodePool":
        requirements = _at(document.object, "spec", "template", "spec", "requirements")
        for requirement in requirements if isinstance(requirements, list) else ():
            values = _at(requirement, "values")
            if _at(requirement, "operator") == "In" and isinstance(values, list):
                yield from _regions(_at(requirement, "key"), values)


def _regions(key: Any, values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if key == labels.REGION and isinstance(value, str):
            yield value
        elif key == labels.ZONE and (zone := ZONE.fullmatch(str(value))):
            yield zone[1]


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
