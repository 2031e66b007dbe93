"""Finds an installation by its cluster's name, and reads its deployed settings with the user's AWS permissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli.cluster.bounded_calls import bounded_calls
from cli.errors import InputError
from core.api.objects import mapping
from core.errors import InvalidInputError
from installation.stack_names import stack_name

if TYPE_CHECKING:
    import boto3

    from installation.settings import Settings

_FUNCTION: Final = "AWS::Lambda::Function"
_PROVISION: Final = "provisionFunction"
"""Prefix of the logical id of the function whose settings are read: all functions have the same."""

_HINT: Final = (
    "--profile, --region and --stack say with whose credentials, where and under which name to look; "
    "`fleetwright status --all` lists the clusters of an account and region"
)


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """An installation.

    Attributes:
        cluster: Name of the EKS cluster.
        stack: Name of the provisioner stack.
        settings: The settings of its functions.
        session: The AWS session for further calls.
    """

    cluster: str
    stack: str
    settings: Settings
    session: boto3.Session


def find_installation(cluster: str, *, region: str | None, profile: str | None, stack: str | None) -> Installation:
    """Return the installation for a cluster.

    Raises:
        InputError: If there is none, or it cannot be read with these credentials.
    """
    from botocore.exceptions import BotoCoreError

    try:
        session = _session(profile, region)
    except BotoCoreError as error:
        raise InputError(f"no installation for cluster {cluster}: {error}", hint=_HINT) from error
    return installation_in(session, cluster, stack)


def installation_in(session: boto3.Session, cluster: str, stack: str | None = None) -> Installation:
    """Return the installation for a cluster in the session's account and region.

    Raises:
        InputError: If there is none, or it cannot be read with these credentials.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    name = stack or stack_name(cluster)
    try:
        function = next(_functions(session.client("cloudformation", config=bounded_calls()), name), None)
        if function is None:
            raise InputError(f"the stack {name} has no function `provision`", hint="--stack names another stack")
        found = session.client("lambda", config=bounded_calls()).get_function_configuration(FunctionName=function)
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"no installation for cluster {cluster}: {error}", hint=_HINT) from error
    return Installation(cluster=cluster, stack=name, settings=_settings(found, function), session=session)


def new_session(profile: str | None, region: str | None) -> boto3.Session:
    """Return a session with the user's own credentials."""
    return _session(profile, region)


def _session(profile: str | None, region: str | None) -> boto3.Session:
    import boto3

    return boto3.Session(profile_name=profile, region_name=region)


def _functions(cloudformation: Any, stack: str) -> Iterator[str]:
    for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack):
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == _FUNCTION and resource["LogicalResourceId"].startswith(_PROVISION):
                yield resource["PhysicalResourceId"]


def _settings(configuration: dict[str, Any], function: str) -> Settings:
    from installation.settings import Settings

    variables = mapping(mapping(configuration.get("Environment")).get("Variables"))
    try:
        return Settings.from_environment(variables)
    except InvalidInputError as error:
        raise InputError(str(error), source=function, hint="it is of another release than this program") from error
