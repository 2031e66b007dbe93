"""The accounts and regions of an organisation: sessions with the user's own credentials, or under assumed roles."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from cli.cluster import installation
from cli.cluster.bounded_calls import bounded_calls
from cli.errors import InputError

if TYPE_CHECKING:
    import boto3

_SESSION_NAME: Final = "fleetwright"
"""The session name of assumed roles in CloudTrail."""

_MAKING: Final = Lock()
"""Serializes the creation of clients: several roles share a session."""


class AccountRegion(msgspec.Struct, frozen=True, kw_only=True):
    """One account and region. `role`: the ARN that was assumed, empty for the user's own credentials."""

    role: str
    region: str
    session: boto3.Session


class SearchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A role and region to search, with a session of the user's own credentials; `problem`: why there is none."""

    role: str
    region: str
    session: boto3.Session | None = None
    problem: str = ""


def places(arguments: argparse.Namespace) -> Iterator[SearchPlace]:
    """Yield every role and region once.

    Sessions are made one after another, since profiles may ask for a one-time code.
    """
    regions = [region.strip() for region in (arguments.region or "").split(",") if region.strip()]
    for region in dict.fromkeys(regions) or [None]:
        session, problem = None, ""
        try:
            session = _own_session(arguments.profile, region)
        except InputError as error:
            problem = problem_of(error)
        for role in dict.fromkeys(arguments.role) or [""]:
            found = region or (session.region_name if session is not None else None) or ""
            yield SearchPlace(role=role, region=found, session=session, problem=problem)


def account_region(place: SearchPlace) -> AccountRegion:
    """Return the session of a place, under its role. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    if place.session is None:
        raise InputError(place.problem)
    try:
        own = _assumed(place.session, place.role) if place.role else place.session
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"sts:AssumeRole: {error}") from error
    return AccountRegion(role=place.role, region=str(own.region_name or ""), session=own)


def problem_of(error: Exception) -> str:
    """Return the error without its hint: the whole answer contains the hint once."""
    return str(error).partition("\nhint: ")[0]


def _own_session(profile: str | None, region: str | None) -> boto3.Session:
    """Return a session with the user's credentials, which are read now: later, several threads would."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = installation.new_session(profile, region)
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        raise InputError(str(error)) from error
    return session


def _assumed(session: boto3.Session, role: str) -> boto3.Session:
    import boto3

    with _MAKING:
        sts = session.client("sts", config=bounded_calls())
    answer = sts.assume_role(RoleArn=role, RoleSessionName=_SESSION_NAME)
    credentials = answer["Credentials"]
    return boto3.Session(
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        region_name=session.region_name,
    )
