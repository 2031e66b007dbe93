"""What differs from one installation to the next; read once in `app.py`, passed down from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_FEATURE_GATES = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One EKS cluster to look after.

    Attributes:
        cluster_name, region, account: The cluster; without an account the templates stay environment-agnostic.
        node_role: Name of the IAM role that nodes run under; the functions may pass this role and no other.
        audit_log_group: Where EKS writes the control plane's logs; empty: no subscription, the schedules do all the waking.
        log_retention_days: How long the functions' own logs are kept.
        scheduler_config: The scheduler's default topology spread constraints, as JSON; empty: none.
        alarm_topic_arn: The SNS topic that alarms are sent to; empty: one of the stack's own.
        alarm_email: An address that is subscribed to the topic; empty: none.
        pausing_alarms: CloudWatch alarms that pause voluntary disruption while one is in ALARM.
        follow_zonal_shift: Whether zonal shifts of the cluster pause voluntary disruption; off where the region has no ARC.
        nominate_pods: Whether the functions may say in pods' status which node they expect; else the ClusterRole's rule for
            `pods/status` is not needed.
        surge_restarts: Whether the functions may restart Deployments whose pods opted in (`fleetwright.dev/surge`); then the
            ClusterRole is printed with `--surge`.
        table_name: A table that was restored from a copy, to be used in place of the state stack's own; empty: its own.
    """

    cluster_name: str
    region: str
    account: str | None = None
    node_role: str
    audit_log_group: str
    log_retention_days: int = 30
    feature_gates: str = DEFAULT_FEATURE_GATES
    scheduler_config: str = ""
    nominate_pods: bool = True
    surge_restarts: bool = False
    table_name: str = ""
    alarm_topic_arn: str = ""
    alarm_email: str = ""
    pausing_alarms: tuple[str, ...] = ()
    follow_zonal_shift: bool = True

    @classmethod
    def from_context(
        cls, context: Callable[[str], str | None], *, account: str | None, region: str | None
    ) -> ClusterConfig:
        """Read `cdk.json`'s context (or `-c key=value`), with defaults that synthesize anywhere."""
        cluster = context("cluster") or "fleetwright"
        return cls(
            cluster_name=cluster,
            region=context("region") or region or "us-east-1",
            account=account,
            node_role=context("nodeRole") or "FleetwrightNodeRole",
            audit_log_group=(f"/aws/eks/{cluster}/cluster" if (given := context("auditLogGroup")) is None else given),
            feature_gates=context("featureGates") or DEFAULT_FEATURE_GATES,
            scheduler_config=_as_json(context("schedulerConfig")),
            nominate_pods=_as_json(context("nominatePods")) != "false",
            surge_restarts=_as_json(context("surgeRestarts")) == "true",
            table_name=context("tableName") or "",
            alarm_topic_arn=context("alarmTopicArn") or "",
            alarm_email=context("alarmEmail") or "",
            pausing_alarms=_as_names(context("pausingAlarms")),
            follow_zonal_shift=_as_json(context("followZonalShift")) != "false",
        )


def _as_names(given: object) -> tuple[str, ...]:
    """In `cdk.json` a list, after `-c` a text with commas."""
    names = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else []
    return tuple(name.strip() for name in map(str, names) if name.strip())


def _as_json(given: object) -> str:
    """In `cdk.json` it may stand as an object, after `-c` only as text."""
    if given is None:
        return ""
    return given if isinstance(given, str) else json.dumps(given)
