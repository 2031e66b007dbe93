"""Finds every cluster with an installation over regions and accounts: by the path of their kill switches, under assumed roles.

Clusters that cannot be read are named in the answer; they do not hide the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from cli.cluster import installation
from cli.cluster.installation import Installation, installation_in
from cli.cluster.kill_switch import KillSwitches, SwitchSetting
from cli.errors import InputError
from cli.terminal import output
from core.errors import InvalidInputError

if TYPE_CHECKING:
    import boto3

_HINT: Final = "--region, --profile and --role say where to look, and with whose permissions"

_SESSION_NAME: Final = "fleetwright"
"""The session name of assumed roles in CloudTrail."""

T = TypeVar("T")


class AccountRegion(msgspec.Struct, frozen=True, kw_only=True):
    """One account and region. `role`: the ARN that was assumed, empty for the user's own credentials."""

    role: str
    region: str
    session: boto3.Session


class FoundCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster with an installation, found by its kill switch."""

    site: AccountRegion
    switch: SwitchSetting
    switches: KillSwitches

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.switch.cluster

    def where(self) -> dict[str, str | None]:
        """Return the fields by which answers name it."""
        return {"cluster": self.name, "region": self.site.region, "role": self.site.role or None}

    def installation(self) -> Installation:
        """Return its installation. Raises InputError."""
        return installation_in(self.site.session, self.name)


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that could not be read, or a whole account and region if `cluster` is empty."""

    cluster: str
    region: str
    role: str
    problem: str

    def document(self) -> dict[str, str | None]:
        """Return it as data."""
        return {
            "cluster": self.cluster or None,
            "region": self.region or None,
            "role": self.role or None,
            "problem": self.problem,
        }


class Organisation(msgspec.Struct, frozen=True):
    """All clusters that were found, by region, role and name, and what could not be read on the way."""

    clusters: tuple[FoundCluster, ...]
    unreadable: tuple[Unreadable, ...]

    def ask(self, question: Callable[[FoundCluster], T]) -> tuple[list[tuple[FoundCluster, T]], tuple[Unreadable, ...]]:
        """Call `question` for each cluster; failing clusters are added to the unreadable ones.

        Raises:
            InputError: If no cluster answers.
        """
        answers, failed = list[tuple[FoundCluster, T]](), list(self.unreadable)
        for found in self.clusters:
            try:
                answers.append((found, question(found)))
            except (InputError, InvalidInputError) as error:
                site, problem = found.site, _problem(error)
                failed.append(Unreadable(cluster=found.name, region=site.region, role=site.role, problem=problem))
        if not answers:
            raise InputError(f"no cluster could be read:\n{unreadable_text([one.document() for one in failed])}")
        return answers, tuple(failed)


def find_organisation(arguments: argparse.Namespace) -> Organisation:
    """Return every cluster that the arguments select.

    Raises:
        InputError: If they select none.
    """
    clusters, unreadable = list[FoundCluster](), list[Unreadable]()
    for site in _sites(arguments):
        if isinstance(site, Unreadable):
            unreadable.append(site)
            continue
        try:
            switches = KillSwitches(site.session)
            clusters += [FoundCluster(site=site, switch=switch, switches=switches) for switch in switches.all()]
        except InputError as error:
            unreadable.append(Unreadable(cluster="", region=site.region, role=site.role, problem=_problem(error)))
    if not clusters and unreadable:
        text = unreadable_text([found.document() for found in unreadable])
        raise InputError(f"no cluster could be found:\n{text}", hint=_HINT)
    if not clusters:
        problem = "there is no cluster with an installation (no parameter /fleetwright/CLUSTER/mode)"
        raise InputError(problem, hint=_HINT)
    return Organisation(tuple(clusters), tuple(unreadable))


def _problem(error: Exception) -> str:
    """Return the error without its hint: the whole answer contains the hint once."""
    return str(error).partition("\nhint: ")[0]


def unreadable_text(found: Sequence[Mapping[str, str | None]]) -> str:
    """Return what could not be read, for people; empty if everything was."""
    lines = [
        f"{' '.join(filter(None, (one['cluster'], one['region'], one['role']))) or 'the account'} cannot be read: "
        f"{one['problem']}"
        for one in found
    ]
    return output.wrapped("\n".join(lines)) if lines else ""


def _sites(arguments: argparse.Namespace) -> Iterator[AccountRegion | Unreadable]:
    regions = [region.strip() for region in (arguments.region or "").split(",") if region.strip()]
    for role in arguments.role or [""]:
        for region in regions or [None]:
            try:
                yield _site(arguments.profile, role, region)
            except InputError as error:
                yield Unreadable(cluster="", region=region or "", role=role, problem=_problem(error))


def _site(profile: str | None, role: str, region: str | None) -> AccountRegion:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = installation.new_session(profile, region)
        if role:
            session = _assumed(session, role)
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"sts:AssumeRole: {error}" if role else str(error)) from error
    return AccountRegion(role=role, region=str(session.region_name or ""), session=session)


def _assumed(session: boto3.Session, role: str) -> boto3.Session:
    import boto3

    answer = session.client("sts").assume_role(RoleArn=role, RoleSessionName=_SESSION_NAME)
    credentials = answer["Credentials"]
    return boto3.Session(
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        region_name=session.region_name,
    )
