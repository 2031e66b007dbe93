"""Builds and writes Kubernetes events, which `kubectl describe` shows under an object. Nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Final

from adapters.observability import logger
from adapters.ports import Clock, ConflictError, DeniedError, JsonObject, Kubernetes, NotFoundError, PortError
from adapters.run_report import RunReport
from adapters.runtime import RunTasks
from core.approval.proposal import Proposal
from core.containment import SetAside
from core.ledger.entry import DecisionSummary, and_groups, command_words
from core.lifecycle.commands import replacement_names
from core.lifecycle.records import CommandRecord
from core.manifests.wire import resources
from core.model.snapshot import DaemonSet
from core.reasons.code import ClaimReason, DecisionKind
from core.reasons.nodes import NodeReason
from core.reasons.pods import PodReason
from core.reasons.runs import CommandReason, RunReason
from installation.metric_names import SET_ASIDE

# Recognizes errors of the API server that an admission webhook caused.


_WEBHOOK: Final = ' webhook "'
"""Text in every error message of the API server about an admission webhook."""


def is_of_webhook(error: PortError) -> bool:
    """Whether an admission webhook caused the error, so that it concerns one object, not the server.

    The API server passes on any status code and delay of a webhook.
    """
    return _WEBHOOK in error.detail


NODE_NAMESPACE: Final = "default"
"""The namespace of events about nodes."""

_LONGEST: Final = 1024
_LONGEST_NAME: Final = 253
"""Kubernetes' maximum length of an object's name."""

WRITE_WITHIN: Final = timedelta(seconds=5)
"""Time for a group of events: a hanging webhook may delay each by the timeout of a call."""

AT_A_TIME: Final = 25
"""The most events that one task writes in sequence."""


def about_node(name: str) -> JsonObject:
    """Return the reference of an event about a node; `kubectl describe` finds it by the name in the UID field."""
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}


def about_node_claim(name: str) -> JsonObject:
    """Return the reference of an event about a claim, even if the cluster has no NodeClaim of the name."""
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name}


def about_node_pool(manifest: JsonObject) -> JsonObject:
    """Return the reference of an event about a NodePool."""
    return _about("karpenter.sh/v1", "NodePool", manifest)


def about_node_overlay(manifest: JsonObject) -> JsonObject:
    """Return the reference of an event about a NodeOverlay."""
    return _about("karpenter.sh/v1alpha1", "NodeOverlay", manifest)


def about_node_class(manifest: JsonObject) -> JsonObject:
    """Return the reference of an event about an EC2NodeClass."""
    return _about("karpenter.k8s.aws/v1", "EC2NodeClass", manifest)


def _about(version: str, kind: str, manifest: JsonObject) -> JsonObject:
    metadata = manifest.get("metadata") or {}
    about = {"apiVersion": version, "kind": kind, "name": str(metadata.get("name", ""))}
    return {**about, "uid": metadata["uid"]} if metadata.get("uid") else about


def about_pod(namespace: str, name: str, uid: str = "") -> JsonObject:
    """Return the reference of an event about a pod."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace}
    return {**reference, "uid": uid} if uid else reference


def about_object(name: str) -> JsonObject:
    """Return the reference of an event about an object that is named like `Pod/shop/web-1` or `NodePool/default`."""
    kind, *place = name.split("/")
    resource = resources.BY_KIND.get(kind)
    about: JsonObject = {
        "apiVersion": resource.api_version if resource is not None else "v1",
        "kind": kind,
        "name": place[-1],
    }
    if kind == "Node":
        return about_node(place[-1])
    return {**about, "namespace": place[0]} if len(place) > 1 else about


class ObjectWarnings:
    """Writes warnings about objects that are left out, or used with a reservation; the same at most once an hour."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._written: set[str] = set()

    def set_aside(self, objects: Iterable[SetAside], report: RunReport) -> None:
        """Report objects that are set aside: count, decisions and events."""
        distinct = sorted(set(objects))
        for aside in distinct:
            report.count(SET_ASIDE)
            report.decide(DecisionKind.SKIP, aside.object, RunReason.INTERNAL_ERROR, aside.message)
        self._write([(aside.object, aside.reason, aside.message) for aside in distinct])

    def oversized_daemons(self, daemons: Iterable[DaemonSet]) -> None:
        """Warn about DaemonSets whose pod is too large for every node: no room is kept for them."""
        message = (
            "its pod is too large for every node and every instance type that may run it, so no room is kept for it"
        )
        names = [f"DaemonSet/{daemon.namespace}/{daemon.name}" for daemon in daemons]
        self._write([(name, PodReason.NO_OFFERING_FITS, message) for name in names])

    def doubted_nodes(self, doubts: Iterable[tuple[str, str]]) -> None:
        """Warn on Nodes whose report is not believed: (name, why)."""
        self._write([(f"Node/{name}", RunReason.READ_WITH_RESERVATION, message) for name, message in doubts])

    def settling(self, changes: Iterable[tuple[str, int, str]]) -> None:
        """Warn on objects that change again and again: (name, how often within the hour, message); once for each number."""
        reason, now = NodeReason.ROLLOUT_SETTLING, self._clock.now()
        self._write_events(
            warning(about_object(name), reason, message, now, identity=f"{reason}/{times}")
            for name, times, message in changes
        )

    def _write(self, warnings: Sequence[tuple[str, str, str]]) -> None:
        now = self._clock.now()
        self._write_events(
            warning(about_object(name), reason, message, now, identity=f"{reason}/{message}")
            for name, reason, message in warnings
        )

    def _write_events(self, events: Iterable[JsonObject]) -> None:
        fresh = [event for event in events if event["metadata"]["name"] not in self._written][:WARNINGS_AT_ONCE]
        written = write(self._kubernetes, in_time(fresh, self._clock))
        if len(self._written) > WARNINGS_REMEMBERED:
            self._written.clear()
        self._written.update(event["metadata"]["name"] for event in fresh[:written])


WARNINGS_AT_ONCE: Final = 10
"""The most warnings of one run; the others follow in later runs."""

WARNINGS_REMEMBERED: Final = 10_000


def warning(about: JsonObject, reason: str, message: str, now: datetime, *, identity: str) -> JsonObject:
    """Return the event's body.

    Events with the same `identity` within an hour share a name: the API server refuses the second.
    """
    return _event("Warning", about, reason, message, now, identity)


def normal(about: JsonObject, reason: str, message: str, now: datetime, *, identity: str) -> JsonObject:
    """Return the body of an event of type Normal; otherwise like `warning`."""
    return _event("Normal", about, reason, message, now, identity)


def _event(kind: str, about: JsonObject, reason: str, message: str, now: datetime, identity: str) -> JsonObject:
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = blake2b(f"{about['name']}/{identity}/{moment[:13]}".encode(), digest_size=5).hexdigest()
    stem = str(about["name"])[: _LONGEST_NAME - len(digest) - 1].rstrip(".-")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{stem}.{digest}", "namespace": about.get("namespace", NODE_NAMESPACE)},
        "involvedObject": about,
        "reason": reason,
        "message": message[:_LONGEST],
        "type": kind,
        "source": {"component": "fleetwright"},
        "reportingComponent": "fleetwright",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def write(kubernetes: Kubernetes, events: Iterable[JsonObject]) -> int:
    """Write the events up to the first call that the server fails; return how many are done.

    An event that is refused, or that a webhook fails, is skipped and not retried: a namespace that is being deleted accepts no
    events.
    """
    count = 0
    for event in events:
        try:
            kubernetes.create(resources.EVENTS, event, event["metadata"]["namespace"])
        except (ConflictError, NotFoundError):
            logger.debug("event exists already, or its namespace is gone", extra={"event": event["metadata"]["name"]})
        except DeniedError:
            logger.exception("event was refused", extra={"event": event["metadata"]["name"]})
        except PortError as error:
            logger.exception("event could not be written", extra={"event": event["metadata"]["name"]})
            if not is_of_webhook(error):
                return count
        count += 1
    return count


def in_time(events: Iterable[JsonObject], clock: Clock) -> Iterator[JsonObject]:
    """Yield the events as long as `WRITE_WITHIN` has not passed since the first."""
    until = clock.now() + WRITE_WITHIN
    return takewhile(lambda _: clock.now() < until, events)


def write_together(kubernetes: Kubernetes, events: Sequence[JsonObject], run_tasks: RunTasks) -> None:
    """Write many in parallel within `WRITE_WITHIN`; failures are logged."""
    parts = [events[start : start + AT_A_TIME] for start in range(0, len(events), AT_A_TIME)]
    if parts:
        run_tasks([partial(_write_part, kubernetes, part) for part in parts], WRITE_WITHIN)


def _write_part(kubernetes: Kubernetes, events: Sequence[JsonObject]) -> None:
    write(kubernetes, events)


# Writes Kubernetes events about decisions on pods, nodes and claims: the sentence of `fleetwright log`, with its id.
#
# There is one event for each object and decision: its name is derived from the decision's id, so the API server rejects
# duplicates of a repeated step.


EVENTS_AT_MOST: Final = 200
"""The most events of one decision: they are for people, and each takes a call. The ledger has the complete decision."""


class DecisionEvents:
    """Writes the events of decisions. An event that cannot be written is logged: nothing depends on it."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def launches(self, decision: str, summary: DecisionSummary) -> None:
        """Write events on the launched claims, on the pods that they are for, and on pods that have room elsewhere.

        Args:
            decision: Its id, empty where no ledger is kept.
            summary: The ledger's summary of the decision.
        """
        pods = {pod: part.id for part in summary.parts for pod in part.pods} | dict(summary.bindings)
        self._write(
            [
                *(
                    self._event(about_node_claim(part.id), ClaimReason.LAUNCHED, summary.what, decision)
                    for part in summary.parts
                ),
                *(
                    self._event(_pod(pod), summary.reason, f"{summary.what}; this pod is expected on {place}", decision)
                    for pod, place in pods.items()
                ),
            ]
        )

    def command(self, record: CommandRecord) -> None:
        """Write events on the nodes that go, on their claims, and on the pods that move."""
        command, words = record.command, command_words(record.command)
        sentence = and_groups(words, command.groups)
        named = zip(command.replacements, replacement_names(record), strict=True)
        launched = {planned.name: name for planned, name in named}

        def events() -> Iterator[JsonObject]:
            for node in command.nodes:
                yield self._event(about_node(node), command.reason, sentence, record.decision)
            for claim in command.claims:
                yield self._event(about_node_claim(claim), command.reason, sentence, record.decision)
            for move in command.moves:
                expected = f"{words}; this pod is expected on {launched.get(move.to, move.to)}"
                message = and_groups(expected, command.groups)
                yield self._event(_pod(move.pod), command.reason, message, record.decision)

        self._write(list(islice(events(), EVENTS_AT_MOST)))

    def proposed(self, proposal: Proposal) -> None:
        """Write events on the nodes and claims of a command that waits for approval."""
        command = proposal.command
        words = f"{command_words(command)}: `fleetwright approve {proposal.id}`; {proposal.why}"
        message = and_groups(words, command.groups)
        about = [*map(about_node, command.nodes), *map(about_node_claim, command.claims)]
        self._write([self._event(node, CommandReason.AWAITS_APPROVAL, message, proposal.decision) for node in about])

    def _event(self, about: JsonObject, reason: str, message: str, decision: str) -> JsonObject:
        text = with_decision_id(message, decision)
        return normal(about, reason, text, self._clock.now(), identity=f"{about['kind']}/{reason}/{decision or text}")

    def _write(self, events: list[JsonObject]) -> None:
        write_together(self._kubernetes, events[:EVENTS_AT_MOST], self._run_tasks)


def with_decision_id(message: str, decision: str) -> str:
    """Return the sentence with the id by which `fleetwright explain --decision` finds the decision."""
    return f"{message} (decision {decision})" if decision else message


def _pod(key: str) -> JsonObject:
    namespace, _, name = key.partition("/")
    return about_pod(namespace, name)
