"""Uses the EKS audit log as a hint: events that may mean work become one wake-up.

It is best effort; the schedules do not depend on it.
"""

from __future__ import annotations

import base64
import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from adapters.messages import deleted_node_claim, made_node_claim, wake_up
from adapters.observability import logger
from adapters.ports import Clock, FunctionQueues
from adapters.run_report import RunReport
from adapters.store import PodEnds
from core.errors import InvalidInputError
from core.lifecycle.records import ANY_NODE
from core.model.values.requirements import DOMAIN_LENGTH_MAX, SUBDOMAIN
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import SET_ASIDE
from lambdas.controllers.run_requests import SpacedRequests

# Reads fields of audit events without assuming that they have the API server's form.


def has_happened(entry: dict[str, Any]) -> bool:
    """Whether the request was permitted and is complete."""
    code = object_of(entry.get("responseStatus")).get("code", 200)
    is_complete = entry.get("stage", "ResponseComplete") == "ResponseComplete"
    return is_complete and isinstance(code, int) and 200 <= code < 300


def moment_of(text: Any) -> datetime | None:
    """Return the time in a field, in UTC; None if the field has none, or one without a zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


_NAME: Final = re.compile(SUBDOMAIN)


def name_of(value: Any) -> str:
    """Return the name of an object in a field; empty if it can be none: it becomes part of a message or of a row's key."""
    is_short = isinstance(value, str) and len(value) <= DOMAIN_LENGTH_MAX
    return value if is_short and _NAME.fullmatch(value) else ""


def object_of(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one: a malformed entry must not lose the others of its delivery."""
    return value if isinstance(value, dict) else {}


# Records ends of pods on nodes from the audit log: consolidateAfter counts from the last one
# (docs/engineering/handbook/runs.md).
#
# A pass compares the pods of a node with those of the previous pass, and mostly misses pods that arrive and leave in between,
# such as those of a CronJob that takes forty seconds.


KUBELET: Final = "system:node:"
"""Prefix of a kubelet's user name; its node's name follows."""

FINISHED: Final = ("Succeeded", "Failed")

GRAIN: Final = timedelta(seconds=2)
"""Times are rounded up to multiples of it.

A node on which many pods end takes one write per grain, and is consolidated up to a grain later. With a grain of ten seconds, a
`consolidateAfter` of ten seconds would last twice as long.
"""

NODES_PER_DELIVERY: Final = 200
"""The most writes of one delivery. If more nodes are concerned, all nodes of the cluster count as concerned."""

SEEN_WITHIN: Final = timedelta(minutes=15)
"""A pass has seen every pod that lived longer, and will notice its end: passes are at most twelve minutes apart."""

REMEMBERED_MAX: Final = 10_000
"""The most nodes whose last write a sandbox caches."""


class PodEnd(msgspec.Struct, frozen=True):
    """A pod that ended on a node."""

    node: str
    at: datetime


class PodEndWriter:
    """Stores the last end on each node, at most once per grain."""

    def __init__(self, store: PodEnds) -> None:
        self._store = store
        self._written: dict[str, datetime] = {}

    def write(self, ends: Iterable[PodEnd], now: datetime) -> int:
        """Write new ends; return for how many nodes. An end in the future counts as one of now. Raises PortError."""
        latest: dict[str, datetime] = {}
        for end in ends:
            at = rounded_up(min(end.at, now))
            if at > max(latest.get(end.node, _LONG_AGO), self._written.get(end.node, _LONG_AGO)):
                latest[end.node] = at
        if len(latest) > NODES_PER_DELIVERY:
            latest = {ANY_NODE: max(latest.values())}
        if not latest:
            return 0
        self._store.record(latest, now)
        if len(self._written) > REMEMBERED_MAX:
            self._written.clear()
        self._written |= latest
        return len(latest)


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def rounded_up(at: datetime) -> datetime:
    """Return the time rounded up to the next multiple of the grain."""
    seconds = math.ceil(at.timestamp() / GRAIN.total_seconds()) * GRAIN.total_seconds()
    return datetime.fromtimestamp(seconds, UTC)


def pod_end(entry: dict[str, Any], at: datetime | None) -> PodEnd | None:
    """Return the end of a pod that an audit event reports; None if it reports none, names no node, or need not be recorded.

    A kubelet reports an end in two ways: its status patch has the final phase, and it deletes an evicted pod once its
    containers have stopped. For a pod that others delete by force, the response has the pod with its node.
    """
    target = object_of(entry.get("objectRef"))
    if at is None or target.get("resource") != "pods" or not has_happened(entry):
        return None
    user = object_of(entry.get("user")).get("username")
    named_node = user.removeprefix(KUBELET) if isinstance(user, str) and user.startswith(KUBELET) else ""
    answer, part, verb = object_of(entry.get("responseObject")), target.get("subresource") or "", entry.get("verb")
    if verb == "delete" and not part:
        node = named_node or object_of(answer.get("spec")).get("nodeName")
    elif part == "status" and object_of(object_of(entry.get("requestObject")).get("status")).get("phase") in FINISHED:
        node = named_node
    else:
        return None
    name = name_of(node)
    return None if not name or _is_daemon(answer) or _was_seen(answer, at) else PodEnd(name, at)


def _is_daemon(pod: dict[str, Any]) -> bool:
    owners = object_of(pod.get("metadata")).get("ownerReferences")
    return isinstance(owners, list) and any(object_of(owner).get("kind") == "DaemonSet" for owner in owners)


def _was_seen(pod: dict[str, Any], at: datetime) -> bool:
    """Whether the pod lived so long that a pass saw it."""
    created_at = moment_of(object_of(pod.get("metadata")).get("creationTimestamp"))
    return created_at is not None and at - created_at > SEEN_WITHIN


UNSCHEDULABLE: Final = "PodUnschedulable"
POD_DELETED: Final = "PodDeleted"
NODE_POOL_CHANGED: Final = "NodePoolChanged"
ROOM_REQUESTED: Final = "RoomRequested"

NODES_MAY_GO: Final = frozenset((POD_DELETED, NODE_POOL_CHANGED))
"""Changes that may make nodes disruptable: `disrupt` runs soon."""

OUR_GROUPS: Final = "fleetwright:"
"""Prefix of the Kubernetes groups of our functions (`installation.cluster_roles`)."""

_CHANGES: Final = ("create", "update", "patch", "delete")


class _Found(msgspec.Struct):
    """The relevant content of one delivery.

    Attributes:
        reasons: How many events gave each reason to wake `provision`.
        deleted: NodeClaims that users deleted, in order of the events.
        made: NodeClaims that users created, likewise.
        ends: Ends of pods on nodes.
        latest: When the API server received the last event that gave a reason.
    """

    reasons: dict[str, int] = msgspec.field(default_factory=dict)
    deleted: dict[str, None] = msgspec.field(default_factory=dict)
    made: dict[str, None] = msgspec.field(default_factory=dict)
    ends: list[PodEnd] = msgspec.field(default_factory=list)
    latest: datetime | None = None


class AuditLog:
    """Controller of `watch_audit_log`."""

    def __init__(self, queues: FunctionQueues, pod_ends: PodEnds, clock: Clock) -> None:
        self._wake_ups, self._work = queues.wake_ups, queues.work
        self._runs = SpacedRequests(queues.run_requests, clock)
        self._pod_ends = PodEndWriter(pod_ends)
        self._clock = clock

    def run(self, event: Any, report: RunReport) -> None:
        """Read one delivery of CloudWatch Logs and wake `provision` once if any event in it requires that.

        The ends of pods on nodes are stored.

        Raises:
            InvalidInputError: If the delivery is not a CloudWatch Logs payload.
            PortError: If the table or the queue does not answer; Lambda then delivers the events again.
        """
        findings = _found_in(event, report)
        for reason, number in sorted(findings.reasons.items()):
            report.count(f"audit{reason}", number)
        if findings.latest is not None:
            report.count("auditLagSeconds", max(0, int((self._clock.now() - findings.latest).total_seconds())))
        if findings.deleted:
            self._work.send(deleted_node_claim(name, self._clock.now()) for name in findings.deleted)
            report.count("deletedNodeClaims", len(findings.deleted))
        if findings.made:
            self._work.send(made_node_claim(name, self._clock.now()) for name in findings.made)
            report.count("madeNodeClaims", len(findings.made))
        if findings.reasons:
            self._wake_ups.send([wake_up(",".join(sorted(findings.reasons)))])
            report.count("wakeUps")
        report.count("podEnds", self._pod_ends.write(findings.ends, self._clock.now()))
        if (findings.ends or NODES_MAY_GO & findings.reasons.keys()) and self._runs.ask(
            "audit log"
        ):  # once the ends are written
            report.count("requestedRuns")


def _found_in(event: Any, report: RunReport) -> _Found:
    findings = _Found()
    for line in read_delivery(event):
        try:
            entry = _entry(line)
            if entry is not None:
                report.count("auditEvents")
                _note(entry, findings)
        except Exception as error:  # noqa: BLE001 - whatever one line causes costs only that line
            logger.exception("audit log line set aside")
            report.count(SET_ASIDE)
            report.decide(DecisionKind.SKIP, "audit log line", RunReason.INTERNAL_ERROR, type(error).__name__)
    return findings


def _note(entry: dict[str, Any], findings: _Found) -> None:
    name = deleted_node_claim_of(entry)
    if name:
        findings.deleted[name] = None
    name = made_node_claim_of(entry)
    if name:
        findings.made[name] = None
    end = pod_end(entry, _received(entry))
    if end is not None:
        findings.ends.append(end)
    reason = reason_to_wake(entry)
    if reason:
        findings.reasons[reason] = findings.reasons.get(reason, 0) + 1
        findings.latest = max(filter(None, (findings.latest, _received(entry))), default=None)


def _entry(line: Any) -> dict[str, Any] | None:
    """Return the audit event of a line, None if it is no JSON object."""
    try:
        entry = msgspec.json.decode(line.get("message", ""))
    except msgspec.MsgspecError:
        return None
    return entry if isinstance(entry, dict) else None


def read_delivery(event: Any) -> Iterator[Any]:
    """Return the lines of one delivery, none for control messages.

    Raises:
        InvalidInputError: If the delivery is not a CloudWatch Logs payload.
    """
    try:
        payload = msgspec.json.decode(gzip.decompress(base64.b64decode(event["awslogs"]["data"])))
        kind, lines = payload["messageType"], iter(payload.get("logEvents") or ())
    except (KeyError, TypeError, AttributeError, OSError, EOFError, ValueError, zlib.error, RecursionError) as e:
        raise InvalidInputError(f"is not a CloudWatch Logs delivery: {e}", subject="audit log") from e
    if kind == "DATA_MESSAGE":
        yield from lines


def reason_to_wake(entry: dict[str, Any]) -> str:
    """Return why an audit event may mean work for `provision`, empty if it does not."""
    target = object_of(entry.get("objectRef"))
    verb, resource, part = entry.get("verb"), target.get("resource"), target.get("subresource", "")
    if not has_happened(entry):
        return ""
    if resource == "nodepools":
        return NODE_POOL_CHANGED if verb in _CHANGES and not part else ""
    if resource == "provisioningrequests":
        return ROOM_REQUESTED if verb in ("create", "delete") and not part else ""
    if resource != "pods":
        return ""
    if verb == "delete" and not part:
        return POD_DELETED
    if _nominates(entry.get("requestObject")):
        return ""
    bodies = [entry.get(name) for name in ("requestObject", "responseObject")]
    if part == "status" and any(_is_unschedulable(body) for body in bodies if isinstance(body, dict)):
        return UNSCHEDULABLE
    return ""


def deleted_node_claim_of(entry: dict[str, Any]) -> str:
    """Return the NodeClaim that a user deletes, empty if none; a deletion of several names none."""
    return _node_claim_of(entry, "delete")


def made_node_claim_of(entry: dict[str, Any]) -> str:
    """Return the NodeClaim that a user creates; empty if none, or if only the response has its name."""
    return _node_claim_of(entry, "create")


def _node_claim_of(entry: dict[str, Any], verb: str) -> str:
    target, user = object_of(entry.get("objectRef")), object_of(entry.get("user"))
    if (target.get("resource"), entry.get("verb"), target.get("subresource", "")) != ("nodeclaims", verb, ""):
        return ""
    groups = user.get("groups")
    is_ours = isinstance(groups, list) and any(str(group).startswith(OUR_GROUPS) for group in groups)
    named = target.get("name") or object_of(object_of(entry.get("responseObject")).get("metadata")).get("name")
    return name_of(named) if has_happened(entry) and not is_ours else ""


def _nominates(request: Any) -> bool:
    """Whether the request only nominated a node for the pod, as we do, which means no work."""
    status = request.get("status") if isinstance(request, dict) else None
    return isinstance(status, dict) and set(status) == {"nominatedNodeName"} and bool(status["nominatedNodeName"])


def _is_unschedulable(body: dict[str, Any]) -> bool:
    """Whether kube-scheduler says that no node takes the pod; of a group in a cluster without nodes it says SchedulerError."""
    return any(
        condition.get("reason") == "Unschedulable"
        or (condition.get("reason") == "SchedulerError" and "PodGroupPostFilter" in str(condition.get("message")))
        for condition in _conditions(body)
    )


def _conditions(body: dict[str, Any]) -> Iterable[dict[str, Any]]:
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return (
        [condition for condition in conditions if isinstance(condition, dict)] if isinstance(conditions, list) else []
    )


def _received(entry: dict[str, Any]) -> datetime | None:
    return moment_of(entry.get("requestReceivedTimestamp"))
