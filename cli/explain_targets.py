"""Finds the target of `fleetwright explain`: a pod, a node or its claim, a workload, a NodePool, or a reason code."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

import msgspec

from cli.errors import InputError
from cli.manifests.inventory import Creations, refused_pods
from cli.terminal import output
from core.explain import (
    Explanation,
    explain_group,
    explain_node_now,
    explain_pod,
    explain_pods,
    explain_pool,
    explain_request,
)
from core.gangs import Gang, gangs_of
from core.manifests.workloads import Expansion
from core.model.pod import GroupSource, Pod
from core.model.snapshot import ProvisioningRequest, Snapshot
from core.model.values.quotas import names_node
from core.reasons.code import PAGE, ReasonCode
from core.reasons.nodes import NodeReason
from core.reasons.pods import PodReason

_NOTHING_CREATED: Final = Creations()
_POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
_TEMPLATE_HASH: Final = "pod-template-hash"
_SHORT_KINDS: Final = {"deploy": "Deployment", "sts": "StatefulSet", "ds": "DaemonSet", "rs": "ReplicaSet", "po": "Pod"}
_REQUEST_KINDS: Final = ("provisioningrequest", "provisioningrequests", "provreq")
_GROUP_KINDS: Final = (
    *("group", "groups", "podgroup", "podgroups", "jobset", "jobsets", "leaderworkerset", "lws"),
    *_REQUEST_KINDS,
)
_SOURCES_OF: Final[dict[str, tuple[GroupSource, ...]]] = {
    **dict.fromkeys(("podgroup", "podgroups"), (GroupSource.POD_GROUP, GroupSource.VOLCANO, GroupSource.COSCHEDULING)),
    **dict.fromkeys(("jobset", "jobsets"), (GroupSource.JOB_SET,)),
    **dict.fromkeys(("leaderworkerset", "lws"), (GroupSource.LEADER_WORKER_SET,)),
    **dict.fromkeys(_REQUEST_KINDS, (GroupSource.PROVISIONING_REQUEST,)),
}
"""Kind as typed → where its groups are written; any other kind names all groups."""

_CODES: Final[tuple[type[ReasonCode], ...]] = (PodReason, NodeReason)


class NamedTarget:
    """A name as typed, and the input to search.

    Args:
        snapshot: The input of the decision.
        text: The name as typed.
        namespace: The namespace that was given with it.
        creations: What the API server would make of the Pods and workloads of the input.
    """

    def __init__(
        self, snapshot: Snapshot, text: str, namespace: str | None, creations: Creations = _NOTHING_CREATED
    ) -> None:
        self._snapshot = snapshot
        self._creations = creations
        self._text = text
        self._namespace = namespace

    def explained(self, out_of_time: Callable[[], float] | None) -> Explanation:
        """Return the explanation of the first kind of object that has the name.

        Raises:
            InputError: If no object has the name, or several pods have.
        """
        snapshot = self._snapshot
        node = self._node()
        if node:
            return explain_node_now(snapshot, node, out_of_time)
        if self._text.partition("/")[0].lower() in _GROUP_KINDS and (gang := self._group()) is not None:
            return explain_group(snapshot, gang, out_of_time)
        if (request := self._request()) is not None:
            return explain_request(snapshot, request)
        named = [pod for pod in snapshot.pods if pod.key == self._text or self._is(pod, pod.name, "Pod")]
        if len(named) > 1:
            names = output.several(sorted(pod.key for pod in named))
            raise InputError(f"{self._text!r} names several pods, give one with its namespace: {names}")
        if named:
            return self._with_admission(explain_pod(snapshot, named[0], out_of_time), named[0])
        workload, pods = self._workload()
        if workload:
            return self._with_admission(explain_pods(snapshot, workload, pods, out_of_time), pods[0])
        if missing := self._not_created():
            return missing
        gang = self._group()
        if gang is not None:
            return explain_group(snapshot, gang, out_of_time)
        pool = next((pool for pool in snapshot.node_pools if self._names(pool.name, "NodePool")), None)
        if pool is not None:
            return explain_pool(snapshot, pool, out_of_time)
        if host := self._host():
            return explain_node_now(snapshot, host, out_of_time)
        raise InputError(
            f"there is no pod, node, workload, group or NodePool {self._text!r} in the input", hint=self._near()
        )

    def _with_admission(self, explanation: Explanation, pod: Pod) -> Explanation:
        """Return the explanation with a line for each thing that the API server does when it creates the pods."""
        lines = admission_lines(self._creations, pod, self._snapshot)
        return msgspec.structs.replace(explanation, details=(*explanation.details, *lines))

    def _not_created(self) -> Explanation | None:
        """Return why a pod or workload of the input does not come into being, None if none of that name is refused."""
        for key, admitted in sorted(self._creations.pods.items()):
            namespace, _, name = key.partition("/")
            if admitted.refusal is not None and self._means(namespace, name, "Pod"):
                return Explanation(subject=f"pod {key}", outcome=f"would not be created: {admitted.refusal}")
        for expansion in self._creations.expansions:
            metadata = expansion.workload.metadata
            if not self._means(metadata.namespace or "default", metadata.name, expansion.resource.kind):
                continue
            if expansion.idle is not None:
                return Explanation(subject=expansion.subject, outcome=f"makes no pods: {expansion.idle}")
            if expansion.refused:
                return Explanation(subject=expansion.subject, outcome=f"has no pods: {refused_pods(expansion)}")
        return None

    def _means(self, namespace: str, name: str, kind: str) -> bool:
        if self._text == f"{namespace}/{name}":
            return True
        return self._namespace in (None, namespace) and self._names(name, kind)

    def _node(self) -> str:
        """Return the node's name, also for its claim's name; the claim's own name if it has no node."""
        if any(self._names(node.name, "Node") for node in self._snapshot.nodes):
            return self._text.rpartition("/")[2]
        claims = (claim for claim in self._snapshot.node_claims if self._names(claim.name, "NodeClaim"))
        return next((claim.node_name or claim.name for claim in claims), "")

    def _host(self) -> str:
        """Return the full name of the node whose name without its domain is this text."""
        kind, _, name = self._text.rpartition("/")
        hosts = (node.name for node in self._snapshot.nodes if names_node(name, node.name))
        return next(hosts, "") if self._is_kind(kind, "Node") else ""

    def _workload(self) -> tuple[str, list[Pod]]:
        """Return the workload of that name as `Deployment shop/web`, with its pods; the first by name of several."""
        by_workload: dict[str, list[Pod]] = {}
        for pod in self._snapshot.pods:
            for kind, name in _workloads_of(pod):
                if self._is(pod, name, kind):
                    by_workload.setdefault(f"{kind} {pod.namespace}/{name}", []).append(pod)
        if len({subject.partition(" ")[2] for subject in by_workload}) > 1:
            named = output.several(sorted(by_workload))
            raise InputError(f"{self._text!r} names several workloads, give one with its namespace: {named}")
        first = min(by_workload, default="")
        return first, by_workload.get(first, [])

    def _request(self) -> ProvisioningRequest | None:
        """Return the ProvisioningRequest that a text with its kind names; the first of several namespaces."""
        kind, _, name = self._text.partition("/")
        if kind.lower() not in _REQUEST_KINDS:
            return None
        named = (
            request
            for request in self._snapshot.provisioning_requests
            if name in (request.name, f"{request.namespace}/{request.name}")
            and self._namespace in (None, request.namespace)
        )
        return next(named, None)

    def _group(self) -> Gang | None:
        """Return the group of that name: `group/NAME`, or the kind of object in which it is written; the first of several."""
        kind, _, rest = self._text.rpartition("/")
        sources = _SOURCES_OF.get(self._text.partition("/")[0].lower(), tuple(GroupSource))
        for gang in self._gangs:
            if gang.source not in sources:
                continue
            namespace, _, name = gang.name.partition("/")
            if self._text == gang.name or self._text.partition("/")[2] == gang.name:
                return gang
            # A Workload's groups have a slash in their names.
            if self._namespace in (None, namespace) and (
                self._text.partition("/")[2] == name or (rest == name and kind in ("", namespace))
            ):
                return gang
        return None

    @cached_property
    def _gangs(self) -> tuple[Gang, ...]:
        return gangs_of(self._snapshot)

    def _is(self, pod: Pod, name: str, kind: str) -> bool:
        """Whether the text is this name in the pod's namespace: NAME, NAMESPACE/NAME or KIND/NAME."""
        return self._means(pod.namespace, name, kind)

    def _names(self, name: str, kind: str) -> bool:
        prefix, _, rest = self._text.rpartition("/")
        return rest == name and self._is_kind(prefix, kind)

    @staticmethod
    def _is_kind(prefix: str, kind: str) -> bool:
        """Whether the prefix of a name is empty, or is this kind, abbreviated or in the plural."""
        named = _SHORT_KINDS.get(prefix.lower(), prefix)
        return named.lower().removesuffix("s") in ("", kind.lower())

    def _near(self) -> str:
        """Return names in the input with a similar spelling."""
        snapshot = self._snapshot
        named = {pod.key for pod in snapshot.pods} | {node.name for node in snapshot.nodes}
        named |= {pod.name for pod in snapshot.pods} | {claim.name for claim in snapshot.node_claims}
        named |= {pool.name for pool in snapshot.node_pools}
        named |= {name for pod in snapshot.pods for _, name in _workloads_of(pod)}
        if self._text.partition("/")[0].lower() in _GROUP_KINDS:
            named = {gang.name for gang in self._gangs}
            if groups := sorted(name for name in named if self._text.rpartition("/")[2] in name.partition("/")[2]):
                return f"groups in the input: {output.several([f'group/{name}' for name in groups])}"
        if self._text.partition("/")[0].lower() in ("nodepool", "nodepools") and snapshot.node_pools:
            return f"NodePools in the input: {output.several(sorted(pool.name for pool in snapshot.node_pools))}"
        alike = difflib.get_close_matches(self._text, sorted(named), n=3)
        return f"near it there is {', '.join(alike)}" if alike else "the pods of a workload are named <workload>-<n>"


def admission_lines(creations: Creations, pod: Pod, snapshot: Snapshot) -> tuple[str, ...]:
    """Return what the API server does to a pod of the input when it creates it, and what is not looked at here."""
    created = creations.pods.get(pod.key)
    expansion = next(
        (expansion_of_pod for expansion_of_pod in creations.expansions if _owns(expansion_of_pod, pod)), None
    )
    if created is None and expansion is None:
        return ()
    notes = created.notes if created is not None else expansion.notes if expansion is not None else ()
    lines = [str(note) for note in notes]
    if expansion is not None and expansion.autoscaler:
        lines.append(f"autoscaler {expansion.autoscaler} keeps {len(expansion.pods) + expansion.refused} replicas")
    if expansion is not None and expansion.refused:
        lines.append(refused_pods(expansion))
    level = next((n.labels.get(_POD_SECURITY, "") for n in snapshot.namespaces if n.name == pod.namespace), "")
    if level:
        lines.append(f"Pod Security level {level} of namespace {pod.namespace} is not checked here")
    return tuple(lines)


def _owns(expansion: Expansion, pod: Pod) -> bool:
    metadata = expansion.workload.metadata
    owner = (expansion.resource.kind, metadata.name)
    return pod.namespace == (metadata.namespace or "default") and owner in [(o.kind, o.name) for o in pod.owners]


def explain_code(text: str) -> Explanation | None:
    """Return the meaning and advice of a reason code of pods or nodes; None for the name of an object.

    Raises:
        InputError: If the text has capitals, which names have not, and is neither a code nor a kind with a name.
    """
    for codes in _CODES:
        for code in codes:
            if code.value == text:
                lines = (code.advice, f"more: {PAGE}#{code.value.lower()}")
                return Explanation(
                    subject=f"code {code.value}", outcome=f"means: {code.meaning}", details=tuple(filter(None, lines))
                )
    if "/" not in text and text != text.lower():
        all_codes = sorted({code.value for codes in _CODES for code in codes})
        near = difflib.get_close_matches(text, all_codes, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{PAGE} has every code"
        raise InputError(f"there is no reason code {text!r} of pods or nodes, and no object has capitals", hint=hint)
    return None


def _workloads_of(pod: Pod) -> Iterator[tuple[str, str]]:
    """Return kind and name of a pod's workloads: its controller, and the Deployment of a ReplicaSet."""
    for owner in pod.owners:
        yield owner.kind, owner.name
        template = pod.labels.get(_TEMPLATE_HASH)
        if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
            yield "Deployment", owner.name.removesuffix(f"-{template}")
