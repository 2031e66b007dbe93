"""The API server for the checks: reads single objects with the AWS credentials of the account, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from adapters.composition.cluster_api import transport_to
from adapters.ports import PortError, Session
from adapters.runtime import SystemClock
from core.api.objects import mapping, sequence
from core.manifests.wire.resources import Resource

# Why a check has no answer.


class NotAllowedError(Exception):
    """The credentials do not permit a call; the message names the action."""


class NotAnsweredError(Exception):
    """A call failed for a reason of its own, such as a throttled or suspended service; the message names it."""


class NoClusterError(Exception):
    """No EKS cluster has the name, so checks about it are impossible."""


def unanswered(error: NotAllowedError | NotAnsweredError) -> str:
    """Return what a finding says of a call without an answer."""
    return f"these credentials may not call {error}" if isinstance(error, NotAllowedError) else str(error)


DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404


class ClusterApi:
    """An API server. It is connected at the first question.

    Args:
        described: Returns EKS's description of the cluster.
    """

    def __init__(self, session: Session, cluster: str, described: Callable[[], dict[str, Any]]) -> None:
        self._described = described
        self._transport = transport_to(session, cluster, self._address, SystemClock())
        self._unreachable = ""

    def version(self) -> str:
        """Return the version that the server names."""
        return str(mapping(self._read("kube:get /version", "/version")).get("gitVersion", "of an unknown version"))

    def find(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object; None if it does not exist."""
        return self._read(f"kube:get {resource.plural}", resource.path(name, namespace))

    def list(self, resource: Resource) -> list[dict[str, Any]]:
        """Return all objects of a kind; none if its definition is not installed."""
        listing = mapping(self._read(f"kube:list {resource.plural}", resource.path()))
        return sequence(listing.get("items"))

    def _read(self, call: str, path: str) -> dict[str, Any] | None:
        """Return the answer. A server that has not answered once is not asked again: each check would wait for it.

        Raises:
            NoClusterError: If there is no cluster.
            NotAllowedError: If the credentials may not read it.
            NotAnsweredError: If the server does not answer, or does not know the credentials.
        """
        if self._unreachable:
            raise NotAnsweredError(self._unreachable)
        try:
            answer = self._transport.send(call, "GET", path)
        except PortError as error:
            self._unreachable = f"the API server does not answer from here: {error.detail}"
            raise NotAnsweredError(self._unreachable) from error
        if answer.status == _NOT_FOUND:
            return None
        if answer.status == _FORBIDDEN:
            raise NotAllowedError(call)
        if answer.status == _UNAUTHORIZED:
            raise NotAnsweredError("no access entry of the cluster is for these credentials: use those of kubectl")
        if answer.status >= 300:
            raise NotAnsweredError(str(answer.error(call)))
        try:
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise NotAnsweredError(f"{call}: the answer is not that of an API server") from error

    def _address(self) -> tuple[str, str]:
        """Return the server's URL and its certificate authority."""
        described = self._described()
        if not described.get("endpoint"):
            raise NotAnsweredError("the cluster has no endpoint yet")
        return described["endpoint"], mapping(described.get("certificateAuthority")).get("data") or ""
