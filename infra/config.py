"""Settings of one EKS cluster, from `cdk.json` or `-c`; `infra.context` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from infra.vpc import VpcConfig, names, parsed
from installation import stack_names
from installation.network_services import ANNOUNCING, DISTRIBUTING
from installation.settings import APPROVE, OFF, SHADOW

CANARY_MINUTES_MAX: Final = 120
"""A deployment waits this long; an alarm that a new version causes goes off within twenty minutes."""

PAUSING_ALARMS_MAX: Final = 100
"""CloudWatch describes so many named alarms in one answer."""

RETENTION_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""Retentions that CloudWatch Logs accepts."""


def _flag(written: object) -> object:
    """`-c` gives text; anything but these two words is rejected, so that `flase` does not mean true."""
    return {"true": True, "false": False}.get(written, written) if isinstance(written, str) else written


def _retention(written: object) -> object:
    days = _number(written)
    if days not in RETENTION_DAYS:
        raise ValueError("not a retention of CloudWatch Logs")
    return days


def _number(written: object) -> object:
    """`true` is no number, although Python counts it as one."""
    number = int(written) if isinstance(written, str) and written.isdigit() else written
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError("not a whole number")  # noqa: TRY004 - pydantic turns only this into a message
    return number


def _roles(written: object) -> object:
    """IAM shows paths with a slash at the beginning; ARNs have one between `role` and the path."""
    listed = names(written)
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return list(dict.fromkeys(name.removeprefix("/") for name in listed))
    return listed


Flag = Annotated[bool, BeforeValidator(_flag), Field(strict=True)]
Names = Annotated[tuple[str, ...], BeforeValidator(names)]
RoleName = Annotated[str, Field(pattern=r"^([a-zA-Z0-9_+=,.@-]+/)*[a-zA-Z0-9_+=,.@-]{1,64}$", max_length=574)]


class ClusterConfig(BaseModel):
    """One EKS cluster. Keys of the context are the fields in camel case.

    Attributes:
        cluster: Its name, as EKS allows it.
        region, account: Where the cluster is; without an account, the templates are environment-agnostic.
        node_roles: Names of the IAM roles of nodes, behind their paths; the functions may pass only these.
        image_parameters: Paths of the SSM parameters that EC2NodeClasses may take image ids from (`ssmParameter`), besides
            AWS's own. A path that ends with an asterisk matches every path that begins with the part before it.
        node_access_entries: Whether the stack creates access entries of type EC2_LINUX, with which nodes of those roles join.
            Off if the entries exist already, as beside Karpenter.
        vpc: The network of the functions that call the API server, if that is private; None: they run outside of any VPC.
        audit_log_group: Log group of the control plane; None: EKS's default; empty: no subscription, only the schedules wake
            functions.
        log_retention_days: How long the functions' own logs are kept.
        alarm_topic_arn: The SNS topic that alarms are sent to; empty: the stack creates one.
        alarm_email: An address to subscribe to the topic; empty: none.
        pausing_alarms: CloudWatch alarms that pause voluntary disruption while one is in ALARM.
        follow_zonal_shift: Whether zonal shifts of the cluster pause voluntary disruption; off where the region has no ARC.
        canary_minutes: How long the new version of a function shares the work with the old one before it takes all work; 0: no
            sharing.
        snap_start: Whether Lambda starts each published version from a snapshot of its loaded modules, which AWS bills for as
            long as the version exists.
        table_name: A table restored from a copy, used instead of the state stack's table; empty: the state stack's.
        share_capacity: Whether the clusters of the account and region share what they learn about EC2's capacity and prices.
        settings: Settings of the functions, by the names of `installation.settings.Settings`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=False)

    cluster: Annotated[
        str,
        Field(
            pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$",
            description="the name of an EKS cluster: at most 100 letters, digits, - and _",
        ),
    ] = "fleetwright"
    region: Annotated[str, Field(pattern=r"^[a-z]{2,}(-[a-z]+)+-\d$", description="a region such as us-east-1")]
    account: Annotated[str | None, Field(pattern=r"^\d{12}$", description="twelve digits, as text")] = None
    node_roles: Annotated[
        tuple[RoleName, ...],
        BeforeValidator(_roles),
        Field(min_length=1, description="names of IAM roles, with their path (team/Nodes) if they have one; not ARNs"),
    ] = ("FleetwrightNodeRole",)
    image_parameters: Annotated[
        tuple[Annotated[str, Field(pattern=r"^/[a-zA-Z0-9_.\-/]{1,1000}\*?$")], ...],
        BeforeValidator(names),
        Field(description="paths of SSM parameters such as /images/*"),
    ] = ()
    node_access_entries: Annotated[Flag, Field(description="true or false")] = False
    vpc: Annotated[VpcConfig | None, BeforeValidator(parsed), Field(description="an object with id and subnets")] = None
    audit_log_group: Annotated[
        str | None, Field(pattern=r"^[a-zA-Z0-9_./#-]{0,512}$", description="the name of a log group")
    ] = None
    log_retention_days: Annotated[
        int,
        BeforeValidator(_retention),
        Field(description=f"one of {', '.join(map(str, RETENTION_DAYS))}"),
    ] = 30
    alarm_topic_arn: Annotated[
        str,
        Field(description="the ARN of an SNS topic"),
    ] = ""
    alarm_email: Annotated[str, Field(pattern=r"^([^@\s]+@[^@\s]+)?$", description="an email address")] = ""
    pausing_alarms: Annotated[
        Names,
        Field(
            max_length=PAUSING_ALARMS_MAX,
            description=f"names of alarms, {PAUSING_ALARMS_MAX} at most, as a list or with commas",
        ),
    ] = ()
    follow_zonal_shift: Annotated[Flag, Field(description="true or false")] = True
    canary_minutes: Annotated[
        int,
        BeforeValidator(_number),
        Field(ge=0, le=CANARY_MINUTES_MAX, description=f"a whole number of minutes, at most {CANARY_MINUTES_MAX}"),
    ] = 20
    snap_start: Annotated[Flag, Field(description="true or false")] = False
    table_name: Annotated[
        str, Field(pattern=r"^([a-zA-Z0-9_.-]{3,255})?$", description="the name of a DynamoDB table")
    ] = ""
    share_capacity: Annotated[Flag, Field(description="true or false")] = True
    settings: Annotated[Mapping[str, Any], Field(exclude=True)] = {}

    @property
    def stack_name(self) -> str:
        """Name of the provisioner stack."""
        return stack_names.stack_name(self.cluster)

    def role_name(self, function: str) -> str:
        """Return the name of a function's role."""
        return stack_names.role_name(self.stack_name, self.region, function)

    @property
    def state_stack_name(self) -> str:
        """Name of the state stack."""
        return stack_names.state_stack_name(self.stack_name)

    @property
    def is_shadow(self) -> bool:
        """Whether decisions are only recorded, and no role permits more."""
        return bool(self.settings.get("mode") == SHADOW)

    @property
    def asks_for_approval(self) -> bool:
        """Whether commands wait for approval, and are announced on a topic."""
        return bool(self.settings.get("mode") == APPROVE)

    @property
    def forecasts(self) -> bool:
        """Whether `disrupt` learns recurring ramps from the ledger."""
        return bool(self.settings.get("forecast", OFF) != OFF)

    @property
    def announces(self) -> bool:
        """Whether commands are announced on a topic."""
        return self.asks_for_approval or bool(self.settings.get("command_topic_arn"))

    @property
    def is_distributed(self) -> bool:
        """Whether functions of their own decide about the parts of a large cluster."""
        return bool(self.settings.get("distribute_from"))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Services for which the stack creates endpoints in the VPC."""
        called = {ANNOUNCING: self.announces, DISTRIBUTING: self.is_distributed}
        return self.vpc.services(name for name, is_called in called.items() if is_called) if self.vpc else ()

    @property
    def log_group_of_audit_log(self) -> str:
        """Log group of the audit log; empty: none."""
        return f"/aws/eks/{self.cluster}/cluster" if self.audit_log_group is None else self.audit_log_group
