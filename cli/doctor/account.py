"""An AWS account for the checks: calls may be refused, and objects may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cli.doctor.errors import NoClusterError, NotAllowedError, NotAnsweredError
from core.api.objects import mapping

if TYPE_CHECKING:
    import boto3

    from cli.doctor.cluster_api import ClusterApi

PAGES_MAX: Final = 10
"""The most pages of a list, a hundred entries each: more than a stack may have resources."""

NOT_YET: Final = frozenset({"", "REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS"})
"""Statuses of a stack that has no functions yet; the first is that of none."""

NEVER_CREATED: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"})
"""Statuses of a stack that cannot be updated: its creation or its removal failed."""


INVALID_CREDENTIALS: Final = (
    "AuthFailure",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)
"""Beginnings of the error codes after which no other call would be answered either."""


class Account:
    """One region of an account, and the cluster in it.

    Attributes:
        session: Whose credentials are used.
        cluster: Name of the EKS cluster.
        region: Where it is.
        stack: Name of the stack that serves it; `infra.config` defines it.
    """

    def __init__(self, session: boto3.Session, cluster: str, stack: str) -> None:
        self.session = session
        self.cluster = cluster
        self.region = str(session.region_name)
        self.stack = stack

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the answer to a call; None if the named object does not exist.

        Raises:
            NotAllowedError: If the credentials lack the permission.
            NotAnsweredError: If the call fails otherwise.
            ClientError: If the credentials are not valid.
        """
        from botocore import xform_name
        from botocore.exceptions import ClientError

        client = self.session.client(service)
        try:
            answer: dict[str, Any] = getattr(client, xform_name(operation))(**arguments)
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
            if code.startswith(("AccessDenied", "UnauthorizedOperation")):
                raise NotAllowedError(f"{service}:{operation}") from error
            if code.startswith(("ResourceNotFound", "NotFound", "NoSuch", "ValidationError", "404")):
                return None
            if code.startswith(INVALID_CREDENTIALS):
                raise
            raise NotAnsweredError(
                f"{service}:{operation}: {error.response['Error'].get('Message') or code}"
            ) from error
        return answer

    def every(
        self, service: str, operation: str, entries: str, token: tuple[str, str], **arguments: Any
    ) -> Iterator[Any]:
        """Yield the entries of all pages; `token` is what a request calls the place of the next page, and what an answer does.

        Raises:
            NotAllowedError: If the credentials lack the permission.
        """
        asked, answered = token
        for _ in range(PAGES_MAX):
            page = mapping(self.ask(service, operation, **arguments))
            yield from page.get(entries, ())
            if not page.get(answered):
                return
            arguments[asked] = page[answered]

    def stack_status(self) -> str:
        """CloudFormation's status of the stack; empty if there is none."""
        found = mapping(self.ask("cloudformation", "DescribeStacks", StackName=self.stack))
        return next((str(stack["StackStatus"]) for stack in found.get("Stacks", ())), "")

    def is_deployed(self) -> bool:
        """Whether the stack's functions are there: its creation has ended, and did not fail."""
        return self.stack_status() not in NOT_YET | NEVER_CREATED

    def resources(self) -> Iterator[Any]:
        """Yield the summary of each resource of the stack."""
        tokens = ("NextToken", "NextToken")
        return self.every(
            "cloudformation", "ListStackResources", "StackResourceSummaries", tokens, StackName=self.stack
        )

    def subscribes(self) -> bool:
        """Whether the deployed stack is to read the audit log; False where `auditLogGroup` is empty."""
        return any(resource["ResourceType"] == "AWS::Logs::SubscriptionFilter" for resource in self.resources())

    def provision(self) -> dict[str, Any]:
        """Configuration of the deployed function `provision`; empty if there is none."""
        for resource in self.resources():
            is_function = resource["ResourceType"] == "AWS::Lambda::Function"
            if is_function and str(resource["LogicalResourceId"]).startswith("provision"):
                name = resource["PhysicalResourceId"]
                return mapping(self.ask("lambda", "GetFunctionConfiguration", FunctionName=name))
        return {}

    def role(self, name: str) -> str:
        """Return the ARN of a role of the account."""
        caller = str(mapping(self.ask("sts", "GetCallerIdentity"))["Arn"])
        partition, number = caller.split(":")[1], caller.split(":")[4]
        return f"arn:{partition}:iam::{number}:role/{name}"

    def settings(self) -> dict[str, str]:
        """Environment variables of the deployed functions: all have the same; empty if there are none."""
        variables: dict[str, str] = mapping(mapping(self.provision().get("Environment")).get("Variables"))
        return variables

    @cached_property
    def api(self) -> ClusterApi:
        """The cluster's API server."""
        from cli.doctor.cluster_api import ClusterApi

        return ClusterApi(self.session, self.cluster, self.described)

    def described(self) -> dict[str, Any]:
        """Return EKS's description of the cluster.

        Raises:
            NoClusterError: If there is none of the name.
            NotAllowedError: If the credentials lack the permission.
        """
        found = self.ask("eks", "DescribeCluster", name=self.cluster)
        if found is None:
            raise NoClusterError
        return dict(found["cluster"])
