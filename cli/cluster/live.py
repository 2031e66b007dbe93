"""Reads the cluster of a kubeconfig, page by page, with the user's own permissions and only the list verb."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.errors import InputError
from cli.manifests.inventory import Document
from cli.terminal.style import progress_held
from core import labels
from core.api.objects import mapping, sequence
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

PAGE: Final = 500
PAGES_MAX: Final = 1000
"""The most pages of a kind: half a million objects, five times as many as the largest clusters have."""

ANSWER_SECONDS: Final = 60

_SAID_MAX: Final = 500
"""The most characters of a plugin's message that are shown: some print a whole traceback."""

_ALWAYS: Final = (
    resources.NODE_POOLS,
    resources.EC2_NODE_CLASSES,
    resources.NODE_CLAIMS,
    resources.NODE_OVERLAYS,
    resources.CALENDARS,
    resources.NODES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.NAMESPACES,
    resources.PRIORITY_CLASSES,
    resources.STORAGE_CLASSES,
    resources.PERSISTENT_VOLUMES,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.VOLUME_ATTACHMENTS,
    resources.POD_DISRUPTION_BUDGETS,
    resources.DAEMON_SETS,
    resources.SERVICES,
    resources.PROVISIONING_REQUESTS,
    resources.PODS,
)
"""Everything that a decision reads.

Nodes come before pods, so that pods which are bound in between count. Other workloads are left out: their existing pods are
listed, and pods that do not exist yet cannot be bound.
"""

_ABSENT: Final = 404
"""The kind is not installed, such as NodeOverlays without Karpenter's definition of them."""


def read_live(context: str | None) -> list[Document]:
    """Return every object that a decision reads.

    Raises:
        InputError: If the context does not exist, the cluster does not answer, or the user may not list a kind.
    """
    with _sign_in_failures() as failures:
        client = _client(context, failures)
        by_kind = {resource: [*_objects(client, resource, failures)] for resource in _ALWAYS}
        if by_kind[resources.PROVISIONING_REQUESTS]:
            by_kind[resources.POD_TEMPLATES] = [*_objects(client, resources.POD_TEMPLATES, failures)]
        for resource in _kinds_of_groups(by_kind[resources.PODS]):
            by_kind[resource] = [*_objects(client, resource, failures)]
        return [
            Document(f"cluster {context}" if context else "cluster", index, obj)
            for objects in by_kind.values()
            for index, obj in enumerate(objects)
        ]


def _kinds_of_groups(pods: list[dict[str, Any]]) -> tuple[Resource, ...]:
    """Return the kinds that say how these pods start together; none in most clusters."""
    named = [pod for pod in pods if _may_name_group(pod)]
    if not named:
        return ()
    from core.manifests.groups import needed_kinds
    from core.manifests.wire.decoding import readable_or_rest

    read = (readable_or_rest(resources.PODS, pod) for pod in named)
    return needed_kinds(pod for pod in read if pod is not None)


def _may_name_group(pod: dict[str, Any]) -> bool:
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    marks = {**mapping(metadata.get("labels")), **mapping(metadata.get("annotations"))}
    native = "schedulingGroup" in spec or "workloadRef" in spec
    return native or any(key in marks for key in (*labels.GROUP_LABELS, labels.VOLCANO_GROUP))


class _SignInFailures(logging.Handler):
    """What the package logs about the kubeconfig's `exec` plugin, unwritten.

    It only logs that the plugin failed, and asks with old credentials or none: that would be told as missing rights. It runs
    the plugin before the first request, and before each later one whose credentials expire soon.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self._messages.append(record.getMessage())

    def tell(self) -> None:
        """Raise InputError with the plugin's message if it has failed."""
        if not self._messages:
            return
        text = " ".join(self._messages[-1].split())
        if "NoneType" in text:  # the package reads the plugin's stderr also where that is the terminal
            text = "the `exec` plugin failed; what it said is above"
        hint = "does `kubectl get nodes` work? The kubeconfig's `exec` plugin signs in: does its program run?"
        raise InputError(f"no credentials: {text[:_SAID_MAX]}", source="kubeconfig", hint=hint)


@contextmanager
def _sign_in_failures() -> Iterator[_SignInFailures]:
    failures, root = _SignInFailures(), logging.getLogger()
    root.addHandler(failures)
    try:
        yield failures
    finally:
        root.removeHandler(failures)


@contextmanager
def _plugin_may_ask() -> Iterator[None]:
    """Let an `exec` plugin ask on the terminal, also where standard output is a file.

    The package gives a plugin the terminal only where standard output is one, and keeps its questions unseen otherwise. A
    plugin whose input is no terminal is not asked to: it would take the next line of a script for its answer.
    """
    is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    with progress_held(), redirect_stdout(sys.stderr) if is_terminal else nullcontext():
        yield


def _missing_kubeconfigs() -> str:
    """Return the kubeconfigs that the client looks for if none of them is there, else nothing."""
    from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

    paths = [path for path in KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep) if path]
    return "" if any(Path(path).expanduser().exists() for path in paths) else " or ".join(paths)


def _client(context: str | None, failures: _SignInFailures) -> Any:
    """Return a client with the user's credentials."""
    from kubernetes import config

    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings are about attempts that it repeats
    try:
        with _plugin_may_ask():
            client = config.new_client_from_config(context=context)  # type: ignore[no-untyped-call]  # the package has no types
    except (config.ConfigException, OSError, TypeError) as error:
        hint = "give manifests with -f, or name a context of the kubeconfig with --context"
        missing = _missing_kubeconfigs()
        why = f"there is no file {missing}" if missing else str(error)
        raise InputError(f"no cluster to read: {why}", source="kubeconfig", hint=hint) from error
    failures.tell()
    keys = client.configuration.api_key.values()
    if keys and not any(key.removeprefix("Bearer").strip() for key in keys):
        hint = "does `kubectl get nodes` work? Sign in again"
        raise InputError("no credentials: its token is empty", source="kubeconfig", hint=hint)
    return client


def _objects(client: Any, resource: Resource, failures: _SignInFailures) -> Iterator[dict[str, Any]]:
    token = ""
    for _ in range(PAGES_MAX):
        page = _page(client, resource, token, failures)
        for item in sequence(page.get("items")):
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}
        token = mapping(page.get("metadata")).get("continue") or ""
        if not token:
            return
    raise InputError(f"more than {PAGES_MAX * PAGE} {resource.plural}", source="cluster")


def _page(client: Any, resource: Resource, token: str, failures: _SignInFailures) -> dict[str, Any]:
    """Return one page; an empty one if the kind is not installed."""
    from urllib3.exceptions import HTTPError

    query = [("limit", str(PAGE)), *([("continue", token)] if token else [])]
    accept = {"Accept": "application/json"}
    with _plugin_may_ask():
        request = client.param_serialize(
            "GET", resource.path(), query_params=query, header_params=accept, auth_settings=["BearerToken"]
        )
    failures.tell()
    try:
        answer = client.call_api(*request, _request_timeout=ANSWER_SECONDS)
        body = answer.read()
    except (HTTPError, OSError) as error:
        reason = getattr(error, "reason", None) or error  # without the attempts around it
        raise InputError(f"the API server does not answer: {reason}", source="cluster") from error
    if answer.status == _ABSENT:
        return {}
    if answer.status != 200:
        raise InputError(_problem(resource, answer.status, body), source="cluster")
    page: dict[str, Any] = msgspec.json.decode(body)
    return page


def _problem(resource: Resource, status: int, body: bytes) -> str:
    try:
        message = msgspec.json.decode(body).get("message", "")
    except (msgspec.DecodeError, AttributeError):
        message = ""
    what = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return f"{what} cannot be listed (HTTP {status}): {message or 'no reason given'}"
