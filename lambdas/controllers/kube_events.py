"""Builds and writes Kubernetes events, which `kubectl describe` shows under an object. Nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from itertools import takewhile
from typing import Final

from adapters.ports import Clock, ConflictError, DeniedError, JsonObject, Kubernetes, NotFoundError, PortError
from adapters.runtime.observability import logger
from adapters.runtime.parallel_tasks import RunTasks
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.webhook_errors import is_of_webhook

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
            kubernetes.create(kinds.EVENTS, event, event["metadata"]["namespace"])
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
