"""The cluster, the table and EC2 for both directions of the transfer, and what prevents its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.brakes import FRESH_FOR
from adapters.composition.command_line import LONGEST_CALL, aws_calls
from adapters.composition.functions import Adapters
from adapters.observation.cluster_reader import KarpenterPresence
from adapters.observation.observer import ClusterState, Observer
from adapters.ports import AwsCalls, ConflictError, Instance, PortError
from adapters.runtime import SystemClock
from cli.errors import InputError
from cli.terminal import output
from cli.terminal.output import counted
from core import labels
from core.api.objects import JsonObject, mapping
from core.brakes import Mode
from core.launch.template import tag_list
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.snapshot import Node, Snapshot

if TYPE_CHECKING:
    from cli.cluster.own_state import Installation


SETTLED_AFTER: Final = FRESH_FOR + LONGEST_CALL
"""How long after `stop` no function acts any more: they reread the switch at this interval and finish calls in progress."""

TRIES: Final = 5
"""The most attempts to patch an object against concurrent writes: kubelets write to their Nodes every ten seconds."""


class TakeoverEnvironment:
    """An installation and its cluster, opened for reading and for acting.

    Args:
        adapters: The functions' adapters, with the user's own permissions.
        ec2, ssm: The services that are called beyond what functions call.
    """

    def __init__(self, adapters: Adapters, ec2: AwsCalls, ssm: AwsCalls) -> None:
        self.settings, self.clock, self.pause = adapters.settings, adapters.clock, adapters.pause
        self.cluster = adapters.settings.cluster_name
        self.kubernetes, self.cloud, self.stores = adapters.kubernetes, adapters.cloud, adapters.stores
        self._observer = Observer(adapters.kubernetes, adapters.catalogues, adapters.stores, self.settings, self.clock)
        self._karpenter = KarpenterPresence(adapters.kubernetes, adapters.clock)
        self._ec2, self._ssm = ec2, ssm

    def hindrances(self) -> list[str]:
        """Return what prevents the transfer now, each with advice. Raises PortError."""
        obstacles = []
        namespace = self._karpenter.namespace()
        if namespace:
            obstacles.append(
                f"Karpenter runs: its Lease in namespace {namespace} is held. Stop it with `kubectl -n {namespace} scale "
                "deployment karpenter --replicas=0`, and run this again a minute later"
            )
        switch = self._kill_switch()
        return [*obstacles, switch] if switch else obstacles

    def karpenter_runs(self) -> bool:
        """Whether Karpenter's Lease is held, read at most every 30 seconds. Raises PortError."""
        return self._karpenter.is_there()

    def mode(self) -> str:
        """Return the setting of the kill switch, empty without one. Raises PortError."""
        name = self.settings.kill_switch_parameter
        return str(self._ssm.call("GetParameter", Name=name)["Parameter"]["Value"]).strip().lower() if name else ""

    def turn(self, mode: str) -> None:
        """Set the kill switch, unless it is set so already: each write delays what waits for it. Raises PortError."""
        if self.mode() != mode:
            self._ssm.call("PutParameter", Name=self.settings.kill_switch_parameter, Value=mode, Overwrite=True)

    def observe(self) -> ClusterState:
        """Return nodes, NodePools and EC2NodeClasses, with the claims of the table. Raises PortError."""
        return self._observer.observe_without_pods()

    def market(self, view: ClusterState) -> Catalogue:
        """Return the catalogue for the view's classes. Raises PortError."""
        return self._observer.open_market.catalogue(view.node_classes.values(), self.clock.now())

    def node_claims(self) -> dict[str, JsonObject]:
        """Return every NodeClaim of the cluster by name. Raises PortError."""
        return {str(obj["metadata"]["name"]): obj for obj in self.kubernetes.list(resources.NODE_CLAIMS).items}

    def instances(self, ids: Iterable[str]) -> dict[str, Instance]:
        """Return the cluster's living instances by id, and those of these ids whatever their tags. Raises PortError."""
        by_id = {instance.instance_id: instance for instance in self.cloud.instances()}
        others = sorted(set(ids) - by_id.keys())
        if others:
            by_id |= {instance.instance_id: instance for instance in self.cloud.instances(others)}
        return {name: instance for name, instance in sorted(by_id.items()) if instance.is_alive}

    def tag(self, instance: Instance, wanted: Mapping[str, str]) -> None:
        """Add the tags that are missing or different. Raises PortError."""
        missing = {key: value for key, value in wanted.items() if instance.tags.get(key) != value}
        if missing:
            self._ec2.call("CreateTags", Resources=[instance.instance_id], Tags=tag_list(missing))

    def untag(self, instance: Instance, keys: Sequence[str]) -> None:
        """Remove those of the tags that exist. Raises PortError."""
        present = [{"Key": key} for key in sorted(keys) if key in instance.tags]
        if present:
            self._ec2.call("DeleteTags", Resources=[instance.instance_id], Tags=present)

    def patch(self, resource: Resource, name: str, patch_of: Callable[[Any], JsonObject]) -> None:
        """Patch the current version of an object; `patch_of(object)` returns the patch. Raises PortError."""
        for attempt in range(1, TRIES + 1):
            present = self.kubernetes.get(resource, name)
            body = patch_of(present)
            version = _version(present)
            metadata = {**body.get("metadata", {}), **({"resourceVersion": version} if version else {})}
            try:
                self.kubernetes.patch(resource, name, {**body, "metadata": metadata})
            except ConflictError:
                if attempt == TRIES:
                    raise
            else:
                return

    def _kill_switch(self) -> str:
        """Return why the functions may still act, empty if they are stopped."""
        name = self.settings.kill_switch_parameter
        if not name:
            return "the functions have no kill switch, so they cannot be kept from acting meanwhile: deploy the stack again"
        parameter = self._ssm.call("GetParameter", Name=name)["Parameter"]
        if parameter["Value"].strip().lower() != Mode.STOP:
            return f"the functions run: stop them with `fleetwright pause --cluster {self.cluster} --everything`"
        since = parameter.get("LastModifiedDate")
        wait = SETTLED_AFTER - (self.clock.now() - since) if since is not None else timedelta(0)
        if wait > timedelta(0):
            return (
                "the functions were stopped a moment ago and may still end what they have begun: run this again in "
                f"{int(wait.total_seconds()) + 1} seconds"
            )
        return ""


def open_environment(installation: Installation) -> TakeoverEnvironment:
    """Open the environment of an installation; no call is made yet."""
    session = installation.session
    adapters = Adapters(installation.settings, session, SystemClock())
    return TakeoverEnvironment(adapters, aws_calls(session, "ec2"), aws_calls(session, "ssm"))


@contextmanager
def reporting_port_errors(cluster: str) -> Iterator[None]:
    """Turn errors of ports into errors of input. Raises InputError."""
    try:
        yield
    except PortError as error:
        hint = "--profile says whose permissions count; docs/how-to/migrate-from-karpenter.md lists them"
        raise InputError(f"cluster {cluster}: {error}", hint=hint) from error


def with_market(view: ClusterState, catalogue: Catalogue) -> Snapshot:
    """Return the view's snapshot with instance types, which the check of image drift needs."""
    return msgspec.structs.replace(view.snapshot, catalogue=catalogue)


def nodes_by_provider_id(nodes: Iterable[Node]) -> dict[str, tuple[Node, ...]]:
    """Return the nodes by provider id, for those that have one."""
    by_provider_id: dict[str, tuple[Node, ...]] = {}
    for node in nodes:
        if node.provider_id:
            by_provider_id[node.provider_id] = (*by_provider_id.get(node.provider_id, ()), node)
    return by_provider_id


def is_karpenters(tags: Mapping[str, str]) -> bool:
    """Whether tags or labels show that Karpenter created it, and not we."""
    return labels.NODEPOOL in tags and labels.CLAIM not in tags


def _version(present: Any) -> str:
    if isinstance(present, dict):
        return str(mapping(present.get("metadata")).get("resourceVersion") or "")
    return str(present.metadata.resource_version)


# The answers of `adopt` and `release` for people.


_COLUMNS: Final = {
    "STATE": "state",
    "SUBJECT": "subject",
    "NODE": "node",
    "INSTANCE": "instance",
    "TYPE": "instanceType",
    "NODEPOOL": "nodePool",
    "DRIFT": "drift",
}
_WIDE_ALONE: Final = ("INSTANCE", "TYPE")
"""Columns that make rows longer than a line, and that nobody needs to decide."""
_OURS: Final = "ours"


def adoption_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the nodes that can be adopted, those that cannot and why, and the next steps."""
    paragraphs = [_reasons(document, shows_all=shows_all), _next_of_adoption(document)]
    parts = [_rows(document, shows_all=shows_all), *(output.wrapped(part) for part in paragraphs)]
    return "\n\n".join(part for part in parts if part)


def release_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the nodes that can be released, those that cannot and why, and the next steps."""
    paragraphs = [_reasons(document, shows_all=shows_all), _next_of_release(document)]
    parts = [_rows(document, shows_all=shows_all), *(output.wrapped(part) for part in paragraphs)]
    return "\n\n".join(part for part in parts if part)


all_of_adoption = partial(adoption_table, shows_all=True)
all_of_release = partial(release_table, shows_all=True)


def subject_names(document: JsonObject) -> str:
    """Return the objects as kubectl names them."""
    return "\n".join(item["subject"].lower() for item in document["items"])


def _rows(document: JsonObject, *, shows_all: bool) -> str:
    items = [item for item in document["items"] if shows_all or item["state"] != _OURS]
    items = [*items, *document.get("nodeClasses", ())]
    columns = {
        heading: key
        for heading, key in _COLUMNS.items()
        if (shows_all or heading not in _WIDE_ALONE) and any(item.get(key) for item in items)
    }
    rows = [tuple(item.get(key, "") for key in columns.values()) for item in items]
    return output.table(tuple(columns), rows) if rows else ""


def _reasons(document: JsonObject, *, shows_all: bool) -> str:
    """Return the reasons, each once with the objects that it is about: the first of them, or all."""
    subjects: dict[str, list[str]] = {}
    for item in (*document["items"], *document.get("nodeClasses", ())):
        if item.get("message"):
            reason = f"{item['reason']}: " if item.get("reason") else ""
            subjects.setdefault(f"{reason}{item['message']}", []).append(item["subject"])
    named = ", ".join if shows_all else output.several
    return "\n".join(f"{named(subject)}: {reason}" for reason, subject in subjects.items())


def _summary(document: JsonObject) -> str:
    counts = Counter(item["state"] for item in document["items"])
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))


def _hindrances(document: JsonObject) -> list[str]:
    return [f"Not now: {text}." for text in document["hindrances"]]


def _run(document: JsonObject) -> str:
    return "Then run" if document["hindrances"] else "Run"


def _next_of_adoption(document: JsonObject) -> str:
    cluster, states = document["cluster"], Counter(item["state"] for item in document["items"])
    lines = [_summary(document) or "No node of Karpenter's was found."]
    if states[_OURS] and states[_OURS] == states.total():
        lines.append("There is nothing left to adopt.")
    drifted = sum(1 for item in document["items"] if item["drift"])
    if drifted:
        lines.append(
            f"{counted(drifted, 'node')} of them count as drifted for us: their NodePools' budgets say when they are replaced."
        )
    lines += _hindrances(document)
    waiting = states["adoptable"] + states["begun"]
    if not document["acting"] and waiting:
        lines.append(
            f"{_run(document)} `fleetwright adopt --cluster {cluster} --yes` to adopt {counted(waiting, 'node')}."
        )
    elif waiting and document["hindrances"]:
        lines.append("Nothing was changed.")
    elif waiting or states["failed"]:
        lines.append("The rest is unchanged: run the command again.")
    elif document["acting"]:
        lines.append(f"`fleetwright resume --cluster {cluster}` lets the functions manage them.")
    return "\n".join(lines)


def _next_of_release(document: JsonObject) -> str:
    cluster, states = document["cluster"], Counter(item["state"] for item in document["items"])
    lines = [_summary(document) or "No node is Fleetwright's: there is nothing to release."]
    if document["commands"]:
        lines.append(f"{counted(document['commands'], 'command')} of disruption under way: dropped with the release.")
    lines += _hindrances(document)
    unreleased = sum(states.values()) - states["released"]
    if not document["acting"] and states["releasable"]:
        nodes = counted(states["releasable"], "node")
        lines.append(
            f"{_run(document)} `fleetwright release --cluster {cluster} --yes` to release {nodes} to Karpenter."
        )
    elif document["acting"] and unreleased:
        lines.append("Do not start Karpenter yet: it terminates instances with its tags that have no NodeClaim.")
    elif document["acting"]:
        lines.append("Now start Karpenter, and remove the stacks once its NodeClaims are Ready.")
    return "\n".join(lines)
