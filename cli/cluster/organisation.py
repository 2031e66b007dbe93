"""Finds every cluster with an installation over regions and accounts: by the path of their kill switches.

Regions are asked side by side and each call is bounded, so that one that does not answer delays no other. Clusters that cannot
be read are named in the answer; they do not hide the others.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from cli.cluster import own_state
from cli.cluster.own_state import Installation, KillSwitches, SwitchSetting, bounded_calls, installation_in
from cli.errors import InputError
from cli.terminal import output
from core.errors import InvalidInputError

if TYPE_CHECKING:
    import boto3


# The accounts and regions of an organisation: sessions with the user's own credentials, or under assumed roles.


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
            place_region = region or (session.region_name if session is not None else None) or ""
            yield SearchPlace(role=role, region=place_region, session=session, problem=problem)


def account_region(place: SearchPlace) -> AccountRegion:
    """Return the session of a place, under its role. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    if place.session is None:
        raise InputError(place.problem)
    try:
        site_session = _assumed(place.session, place.role) if place.role else place.session
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"sts:AssumeRole: {error}") from error
    return AccountRegion(role=place.role, region=str(site_session.region_name or ""), session=site_session)


def problem_of(error: Exception) -> str:
    """Return the error without its hint: the whole answer contains the hint once."""
    return str(error).partition("\nhint: ")[0]


def _own_session(profile: str | None, region: str | None) -> boto3.Session:
    """Return a session with the user's credentials, which are read now: later, several threads would."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = own_state.new_session(profile, region)
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


_HINT: Final = "--region, --profile and --role say where to look, and with whose permissions"

REGIONS_AT_ONCE: Final = 16
"""Most regions and accounts that are asked side by side."""

T = TypeVar("T")


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
        return {
            "cluster": self.name,
            "region": self.site.region,
            "account": self.switch.account or None,
            "role": self.site.role or None,
        }

    def installation(self) -> Installation:
        """Return its installation. Raises InputError."""
        return installation_in(self.site.session, self.name)


class UnreadableCluster(msgspec.Struct, frozen=True, kw_only=True):
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
    """All clusters that were found, by region, role and name, and what could not be read on the way.

    A cluster that several roles of its account found is in it once for each of them.
    """

    clusters: tuple[FoundCluster, ...]
    unreadable: tuple[UnreadableCluster, ...]

    def ask(
        self, question: Callable[[FoundCluster], T], verb: str = "read"
    ) -> tuple[list[tuple[FoundCluster, T]], tuple[UnreadableCluster, ...]]:
        """Call `question` for each cluster, under the next role of its account if it fails under one.

        Clusters for which it fails under every role are added to the unreadable ones, for each role.

        Args:
            question: Called in several threads at once, but not for two clusters of one session.
            verb: What `question` does to a cluster, for the error.

        Raises:
            InputError: If no cluster answers.
        """
        clusters = _under_each_role(self.clusters)
        answers = dict[int, tuple[FoundCluster, T]]()
        refused = [list[UnreadableCluster]() for _ in clusters]
        for turn in range(max(map(len, clusters), default=0)):
            unanswered = [
                number
                for number, cluster_sites in enumerate(clusters)
                if number not in answers and turn < len(cluster_sites)
            ]
            asked_sites = [clusters[number][turn] for number in unanswered]
            for number, site, answer in zip(unanswered, asked_sites, _answers(asked_sites, question), strict=True):
                if isinstance(answer, UnreadableCluster):
                    refused[number].append(answer)
                else:
                    answers[number] = site, answer
        failed = [
            *self.unreadable,
            *(site for number, cluster_sites in enumerate(refused) if number not in answers for site in cluster_sites),
        ]
        if not answers:
            raise InputError(
                f"no cluster could be {verb}:\n{unreadable_text([number.document() for number in failed], verb)}"
            )
        return [answers[number] for number in sorted(answers)], tuple(failed)


def find_organisation(arguments: argparse.Namespace) -> Organisation:
    """Return every cluster that the arguments select.

    Raises:
        InputError: If they select none.
    """
    refuse_stack(arguments)
    with ThreadPoolExecutor(REGIONS_AT_ONCE) as pool:
        sites = list(pool.map(_found_in, list(places(arguments))))
    unreadable = [site for site in sites if isinstance(site, UnreadableCluster)]
    clusters = [
        site for site_clusters in sites if not isinstance(site_clusters, UnreadableCluster) for site in site_clusters
    ]
    if not clusters and unreadable:
        text = "; ".join(" ".join(unreadable_text([site.document()]).split()) for site in unreadable)
        raise InputError(f"no cluster could be found: {text}", hint=_HINT)
    if not clusters:
        problem = "there is no cluster with an installation (no parameter /fleetwright/CLUSTER/mode)"
        raise InputError(problem, hint=_HINT)
    return Organisation(tuple(clusters), tuple(unreadable))


def refuse_stack(arguments: argparse.Namespace) -> None:
    """Stop if `--stack` is given: it names the stack of one cluster. Raises InputError."""
    if getattr(arguments, "stack", None):
        raise InputError("--stack is for --cluster: with --all each stack has its default name")


def distinct_names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the clusters' names, with region and account where others in the answer have the same name."""
    places = {(entry["cluster"], entry.get("region"), entry.get("account") or entry.get("role")) for entry in entries}
    in_all = Counter(cluster for cluster, _, _ in places)
    in_region = Counter((cluster, region) for cluster, region, _ in places)
    names = []
    for entry in entries:
        cluster, region, owner = entry["cluster"], entry.get("region"), entry.get("account") or entry.get("role")
        parts = [region] if in_all[cluster] > 1 else []
        parts += [owner] if in_region[cluster, region] > 1 else []
        names.append(" ".join([cluster, *filter(None, parts)]))
    return names


def _answer(cluster: FoundCluster, question: Callable[[FoundCluster], T]) -> T | UnreadableCluster:
    try:
        return question(cluster)
    except (InputError, InvalidInputError) as error:
        problem = problem_of(error)
    except Exception as error:  # noqa: BLE001 - a bug that one cluster shows must not hide the others
        problem = f"internal error: {type(error).__name__}: {error}"
    return UnreadableCluster(cluster=cluster.name, region=cluster.site.region, role=cluster.site.role, problem=problem)


def _answers(clusters: Sequence[FoundCluster], question: Callable[[FoundCluster], T]) -> list[T | UnreadableCluster]:
    """Return the answer of each; those of one session are asked one after another."""
    by_session = defaultdict[int, list[int]](list)
    for position, cluster in enumerate(clusters):
        by_session[id(cluster.site)].append(position)
    with ThreadPoolExecutor(REGIONS_AT_ONCE) as pool:
        done = pool.map(
            lambda positions: [(position, _answer(clusters[position], question)) for position in positions],
            by_session.values(),
        )
        answers = dict(position for positions in done for position in positions)
    return [answers[position] for position in range(len(clusters))]


def _under_each_role(clusters: Iterable[FoundCluster]) -> list[list[FoundCluster]]:
    """Return each cluster under every role that found it: two roles may belong to one account."""
    by_site = dict[tuple[str, ...], list[FoundCluster]]()
    for cluster in clusters:
        whose = cluster.switch.account or f"of {cluster.site.role}"
        by_site.setdefault((whose, cluster.site.region, cluster.name), []).append(cluster)
    return list(by_site.values())


def unreadable_text(unreadable: Sequence[Mapping[str, str | None]], verb: str = "read") -> str:
    """Return what could not be read, for people; empty if everything was."""
    lines = [
        f"{' '.join(filter(None, (entry['cluster'], entry['region'], entry['role']))) or 'the account'} cannot be {verb}: "
        f"{entry['problem']}"
        for entry in unreadable
    ]
    return output.wrapped("\n".join(lines))


def _found_in(place: SearchPlace) -> list[FoundCluster] | UnreadableCluster:
    """Return the clusters of one account and region."""
    region = place.region
    try:
        site = account_region(place)
        region = site.region
        switches = KillSwitches(site.session)
        return [FoundCluster(site=site, switch=switch, switches=switches) for switch in switches.all()]
    except InputError as error:
        return UnreadableCluster(cluster="", region=region, role=place.role, problem=problem_of(error))
