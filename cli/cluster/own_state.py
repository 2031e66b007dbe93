"""Reads the functions' view of a cluster without writing: their present observation, and what holds them back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.composition.cluster_api import kubernetes_of
from adapters.composition.command_line import ReadOnlyAdapters
from adapters.composition.functions import Adapters
from adapters.observation.observer import ClusterState, Observer
from adapters.observation.stores import current_target
from adapters.ports import Clock, Kubernetes, Listing, NotFoundError, PortError
from adapters.runtime import SystemClock
from adapters.store import SweepState
from cli.errors import InputError
from cli.manifests.inventory import Inventory
from core.api.objects import mapping
from core.approval.proposal import Proposal, ProposalVerdict
from core.approval.verification import without_proposed
from core.brakes import Action, BrakeKind, EngagedBrakes, Mode
from core.breakers import Breaker
from core.disruption.move_history import Rollout, rollouts
from core.disruption.shrink_limit import engaged as shrinking_pools
from core.errors import InvalidInputError
from core.manifests.wire.resources import Resource
from core.model.snapshot import Snapshot
from installation.settings import OFF
from installation.stack_names import stack_name

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

    from core.catalogue.build import StalePart
    from core.forecast import Forecast, GrowthHistory
    from installation.settings import Settings


# Bounds calls to AWS: a region that does not answer fails within a minute, not within the SDK's ten.


CONNECT_SECONDS: Final = 4
READ_SECONDS: Final = 12
ATTEMPTS: Final = 3


def bounded_calls(connections: int = 10) -> Config:
    """Return the configuration of a client; `connections`: the most open ones."""
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
    )


# Finds an installation by its cluster's name, and reads its deployed settings with the user's AWS permissions.


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
        configuration = session.client("lambda", config=bounded_calls()).get_function_configuration(
            FunctionName=function
        )
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"no installation for cluster {cluster}: {error}", hint=_HINT) from error
    return Installation(cluster=cluster, stack=name, settings=_settings(configuration, function), session=session)


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


# Reads and sets the kill switches of installations: SSM parameters, with the user's own AWS permissions.


PATH: Final = "/fleetwright/"
"""Prefix of each cluster's kill switch, `/fleetwright/CLUSTER/mode`."""

_ACCOUNT_PART: Final = 4
"""Position of the account in an ARN."""

_NAME: Final = re.compile(r"/fleetwright/(?P<cluster>[^/]+)/mode")


class SwitchSetting(msgspec.Struct, frozen=True):
    """The present setting of one cluster's kill switch. `account`: the number of its AWS account, empty if unknown."""

    cluster: str
    parameter: str
    value: str
    account: str = ""


class KillSwitches:
    """The kill switches of one account and region."""

    def __init__(self, session: boto3.Session) -> None:
        with _aws_errors_as_input_errors("ssm"):
            self._ssm: Any = session.client("ssm", config=bounded_calls())

    def all(self) -> list[SwitchSetting]:
        """Return every kill switch, by cluster. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:GetParametersByPath"):
            pages = self._ssm.get_paginator("get_parameters_by_path").paginate(Path=PATH, Recursive=True)
            parameters = [parameter for page in pages for parameter in page["Parameters"]]
        named = [(match, entry) for entry in parameters if (match := _NAME.fullmatch(entry["Name"])) is not None]
        switches = (
            SwitchSetting(match["cluster"], entry["Name"], entry["Value"].strip(), _account(entry))
            for match, entry in named
        )
        return sorted(switches, key=lambda switch: switch.cluster)

    def one(self, cluster: str, parameter: str) -> SwitchSetting:
        """Return one of them. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:GetParameter"):
            value = self._ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
        return SwitchSetting(cluster, parameter, value.strip())

    def turn(self, switch: SwitchSetting, mode: Mode) -> None:
        """Set one of them. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:PutParameter"):
            self._ssm.put_parameter(Name=switch.parameter, Value=str(mode), Overwrite=True)


def switch_of(installation: Installation) -> tuple[KillSwitches, SwitchSetting]:
    """Return the kill switch of an installation. Raises InputError."""
    parameter = installation.settings.kill_switch_parameter
    if not parameter:
        raise InputError(f"the functions of {installation.stack} have no kill switch", hint="deploy the stack again")
    switches = KillSwitches(installation.session)
    return switches, switches.one(installation.cluster, parameter)


def _account(entry: Mapping[str, Any]) -> str:
    """Return the account in the ARN of a parameter."""
    parts = str(entry.get("ARN", "")).split(":")
    return parts[_ACCOUNT_PART] if len(parts) > _ACCOUNT_PART else ""


class _aws_errors_as_input_errors:  # noqa: N801 - used as a statement
    """Translate errors of the SDK to input errors."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError | BotoCoreError):
            raise InputError(f"{self._call}: {error}", hint="--profile and --region say whose") from error


# Reads the commands that wait for approval, and stores a person's verdict, with the user's own AWS permissions.


TRIES: Final = 3
"""The most attempts to write a verdict against concurrent changes by the functions."""

_ID_SHOWN_MIN: Final = 4

_PROPOSAL_HINT: Final = (
    "--profile and --region say whose permissions count, and where; docs/how-to/approve.md lists the permissions, "
    "and docs/how-to/deploy.md says how a lost table is restored"
)


class OpenProposals:
    """The proposals of one installation.

    Raises:
        InputError: From every method, if the table cannot be read or written.
    """

    def __init__(self, installation: Installation) -> None:
        self._cluster = installation.cluster
        if installation.settings.approval_rule() is None:
            hint = "set `mode: approve` in the context of the deployment"
            raise InputError(f"the functions of {installation.stack} wait for no approval", hint=hint)
        self._store = Adapters(installation.settings, installation.session, SystemClock()).proposals

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal of the last days, the oldest first."""
        try:
            proposals = self._store.all()
        except PortError as error:
            raise InputError(
                f"the proposals of {self._cluster} cannot be read: {error}", hint=_PROPOSAL_HINT
            ) from error
        return tuple(sorted(proposals, key=lambda proposal: (proposal.proposed_at, proposal.id)))

    def one(self, wanted: str) -> Proposal:
        """Return the proposal with that id, or the only one whose id begins with it."""
        if len(wanted) < _ID_SHOWN_MIN:
            hint = f"give {_ID_SHOWN_MIN} characters of its id"
            raise InputError(f"{wanted!r} is too short to name a proposal", hint=hint)
        proposals = self.all()
        alike = [proposal for proposal in proposals if proposal.id == wanted] or [
            proposal for proposal in proposals if proposal.id.startswith(wanted)
        ]
        if len(alike) != 1:
            problem = f"{len(alike)} proposals begin with {wanted!r}" if alike else f"there is no proposal {wanted!r}"
            raise InputError(problem, hint=f"`fleetwright approve --list --cluster {self._cluster}` lists them")
        return alike[0]

    def answer(self, wanted: str, verdict: ProposalVerdict) -> Proposal:
        """Store a verdict on a proposal; return the proposal unchanged if it no longer waits or already has the verdict.

        A rejection is final: the person who rejected relies on the answer, and a second one may not have seen it.
        """
        proposal = self.one(wanted)
        is_repeated = proposal.is_approved and verdict.is_approved
        if not is_open(proposal, verdict.at) or proposal.is_rejected or is_repeated:
            return proposal
        try:
            self._store.answer(proposal, verdict)
        except PortError as error:
            raise InputError(f"the verdict cannot be stored: {error}", hint=_PROPOSAL_HINT) from error
        return self.one(proposal.id)  # the functions may have begun meanwhile: what they read first counts


def is_open(proposal: Proposal, now: datetime) -> bool:
    """Whether a person may still approve or reject it."""
    return proposal.end is None and now < proposal.expires_at


def open_proposals(proposals: Sequence[Proposal], now: datetime) -> tuple[Proposal, ...]:
    """Return the proposals that wait now."""
    return tuple(proposal for proposal in proposals if is_open(proposal, now))


def caller(session: Any) -> str:
    """Return the unique id of the user's AWS identity (`aws:userid`); the call needs no permission. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        user_id: str = session.client("sts").get_caller_identity()["UserId"]
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"sts:GetCallerIdentity: {error}", hint="--profile says whose credentials are used") from error
    return user_id


_STATE_HINT: Final = (
    "--profile and --region say whose permissions count, and where; docs/how-to/see-a-cluster.md lists what is read, "
    "and docs/how-to/deploy.md says how a lost table is restored"
)


class OwnState(msgspec.Struct, frozen=True, kw_only=True):
    """The functions' view at one moment.

    Attributes:
        view: The functions' observation.
        snapshot: Their input for decisions: the observation with the effects of brakes, rollouts and proposals, and the target
            that they follow.
        brakes: The engaged brakes; one that these credentials cannot read is included as unreadable.
        breakers: The state of each NodePool's breaker.
        sweeps: The states of `reconcile`'s sweeps, by name.
        prices_read_at: When prices were last read; None before the first time.
        proposals: Commands that wait for approval; None if the installation needs no approvals.
        stale_market: Parts of the market that were last read long ago.
        forecast: The ramps that the functions know; None without a forecast.
        growth: The growth of NodePools that they have read; None without a forecast.
    """

    view: ClusterState
    snapshot: Snapshot
    brakes: EngagedBrakes
    breakers: tuple[Breaker, ...]
    sweeps: Mapping[str, SweepState]
    prices_read_at: datetime | None
    proposals: tuple[Proposal, ...] | None = None
    stale_market: tuple[StalePart, ...] = ()
    forecast: Forecast | None = None
    growth: GrowthHistory | None = None


def read_own_state(installation: Installation, inventory: Inventory | None, now: datetime | None = None) -> OwnState:
    """Read the table, the market and the cluster.

    Args:
        installation: The installation to read.
        inventory: The cluster's objects, if already read; None to read them from EKS with the session's permissions.
        now: The moment of the observation; None: the present.

    Raises:
        InputError: If any of it cannot be read; there is no partial result.
    """
    settings, clock = installation.settings, SystemClock() if now is None else _Stopped(now)
    reader = ReadOnlyAdapters(settings, installation.session, clock)
    kubernetes: Any = _kubernetes(installation, clock) if inventory is None else GivenObjects(inventory.objects)
    catalogues, stores = reader.catalogues, reader.stores
    try:
        view = Observer(kubernetes, catalogues, stores, settings, clock).observe()
        stored_rollouts = stores.moves.read(view.snapshot.now).rollouts
        facts, brakes = catalogues.facts(), stores.brakes.engaged()
        proposals = _waiting(reader, view.snapshot.now)
        observed = without_proposed(_held_back(view.snapshot, brakes, stored_rollouts), proposals or ())
        target = current_target(reader.targets, observed, brakes)
        return OwnState(
            view=view,
            snapshot=msgspec.structs.replace(observed, stored_target=target),
            brakes=EngagedBrakes((*brakes.brakes, *shrinking_pools(observed))),
            breakers=stores.breakers.breakers(),
            sweeps=reader.sweep_log.read(),
            prices_read_at=facts.prices_read_at if facts is not None else None,
            proposals=proposals,
            stale_market=facts.stale_parts(view.snapshot.now) if facts is not None else (),
            forecast=stores.forecasts.forecast() if settings.forecast != OFF else None,
            growth=stores.forecasts.history() if settings.forecast != OFF else None,
        )
    except PortError as error:
        raise InputError(f"cluster {installation.cluster} cannot be read: {error}", hint=_STATE_HINT) from error


def _waiting(reader: Adapters, now: datetime) -> tuple[Proposal, ...] | None:
    if reader.settings.approval_rule() is None:
        return None
    return open_proposals(reader.proposals.all(), now)


def _kubernetes(installation: Installation, clock: Clock) -> Kubernetes:
    return kubernetes_of(installation.session, installation.cluster, clock)


def _held_back(snapshot: Snapshot, brakes: EngagedBrakes, stored_rollouts: Mapping[str, Rollout]) -> Snapshot:
    """Return the snapshot with the effects of brakes and rollouts, as `disrupt` applies them before it decides."""
    gates = {pool: seen.gate for pool, seen in rollouts(snapshot, stored_rollouts).items() if seen.gate is not None}
    others = brakes.without(BrakeKind.OBSERVED)
    stopping = {pool.name: others.stopping(Action.DISRUPT, pool.name) for pool in snapshot.node_pools}
    paused = {pool: brake.message for pool, brake in stopping.items() if brake is not None}
    return msgspec.structs.replace(snapshot, rollouts=gates, paused_pools=paused)


class _Stopped:
    """A clock that always shows the same moment (`adapters.ports.Clock`)."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def worked(self) -> timedelta:
        return timedelta(0)


class GivenObjects:
    """Serves objects that were already read to the observer (the part of `adapters.ports.Kubernetes` that it uses)."""

    def __init__(self, objects: Mapping[Resource, Iterable[Any]]) -> None:
        self._objects = objects

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Return every object of the kind; an observation lists no others."""
        if fields or labels:
            raise NotFoundError(f"list {resource.plural}", "objects that were read before cannot be selected")
        return Listing(tuple(self._objects.get(resource, ())))
