"""Records the calls of each function between it and the world, and refuses what its role does not allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec
from botocore import xform_name
from botocore.exceptions import ClientError

from adapters.ports import DeniedError
from core.manifests.wire.resources import PODS, Resource
from tests.access.iam import Context, Policy, Request
from tests.access.requests import Authorizations

Verb = tuple[str, str, str]
"""API group, resource with subresource, verb: as in an RBAC rule."""

_VERBS: Final = ("list", "changes", "count", "get", "create", "patch", "delete", "bind", "evict")


class Access:
    """What one caller may do and did.

    Args:
        caller: Condition keys that say who calls.

    Attributes:
        used: AWS actions that were requested and allowed.
        requests: Those requests, by their description.
        granted: The same actions, each with the number of the policy statement that allowed it.
        verbs: The same for Kubernetes verbs.
        refused: A description of each refused call.
    """

    def __init__(
        self,
        policy: Policy,
        verbs: frozenset[Verb],
        authorizations: Authorizations,
        caller: Context = MappingProxyType({}),
    ) -> None:
        self._policy = policy
        self._caller = dict(caller)
        self._verbs = verbs
        self._authorizations = authorizations
        self.used: set[str] = set()
        self.requests: dict[str, Request] = {}
        self.granted: set[tuple[int, str]] = set()
        self.verbs: set[Verb] = set()
        self.refused: set[str] = set()

    def call(self, name: str, given: Mapping[str, Any], perform: Callable[[], Any]) -> Any:
        """Pass on an AWS call, or refuse it as AWS does."""
        for request in self._authorizations.of(name, given):
            self.ask(request, name)
        try:
            answer = perform()
        except ClientError as error:
            for request in self._authorizations.of_missing(name, given, error.response["Error"]["Code"]):
                self.ask(request, name)
            raise
        self._authorizations.learn(name, given, answer)
        return answer

    def ask(self, request: Request, name: str) -> None:
        """Record an authorization. Raises ClientError if the policy does not allow it."""
        request = msgspec.structs.replace(request, context={**request.context, **self._caller})
        if not self._policy.allows(request):
            self.refused.add(str(request))
            error = {"Code": "AccessDenied", "Message": f"not authorized to perform: {request}"}
            raise ClientError(
                {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 403}},  # type: ignore[typeddict-item]
                name.partition(":")[2],
            )
        self.used.add(request.action)
        self.requests[str(request)] = request
        statements = enumerate(self._policy.statements)
        self.granted |= {(number, request.action) for number, statement in statements if statement.matches(request)}

    def ask_kubernetes(self, verb: Verb) -> None:
        """Record a Kubernetes verb. Raises DeniedError if the ClusterRole does not allow it."""
        if verb not in self._verbs:
            self.refused.add(" ".join(verb))
            raise DeniedError(f"kube:{verb[2]} {verb[1]}", "403 Forbidden: not in the ClusterRole")
        self.verbs.add(verb)


class CheckedSession:
    """A boto3 session whose clients check permissions first."""

    def __init__(self, session: Any, access: Access) -> None:
        self._session = session
        self._access = access
        self.region_name = session.region_name

    def client(self, service: str, **arguments: Any) -> CheckedClient:
        return CheckedClient(self._session.client(service, **arguments), service, self._access)


class CheckedClient:
    """A client that checks the permission before each call and otherwise passes on to the real client."""

    def __init__(self, client: Any, service: str, access: Access) -> None:
        self._client = client
        self._service = service
        self._access = access
        names = client.meta.service_model.operation_names
        self._operations = {xform_name(name): name for name in names}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self._operations:
            return found
        return partial(self._call, f"{self._service}:{self._operations[name]}", found)

    def _call(self, name: str, method: Callable[..., Any], /, **given: Any) -> Any:
        return self._access.call(name, given, lambda: method(**given))


class CheckedKubernetes:
    """The cluster's API, which checks each call's verb, and eks:DescribeCluster, which connecting needs."""

    def __init__(self, api: Any, access: Access, cluster_arn: str) -> None:
        self._api = api
        self._access = access
        self._cluster_arn = cluster_arn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._api, name)
        return partial(self._call, name, found) if name in _VERBS else found

    def _call(self, name: str, method: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        try:
            self._access.ask(Request("eks:DescribeCluster", self._cluster_arn), "eks:DescribeCluster")
        except ClientError as error:
            raise DeniedError("eks:DescribeCluster", str(error)) from error
        self._access.ask_kubernetes(_verb(name, given, named))
        return method(*given, **named)


def _verb(name: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Verb:
    if name in ("evict", "bind"):
        return "", {"evict": "pods/eviction", "bind": "pods/binding"}[name], "create"
    resource: Resource = given[0] if given else named.get("resource", PODS)
    subresource = named.get("subresource", "")
    verb = {"count": "list", "changes": "watch"}.get(name, name)
    return resource.group, "/".join(filter(None, (resource.plural, subresource))), verb
