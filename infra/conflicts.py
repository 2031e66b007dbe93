"""Finds values of the context that are allowed each by itself and not together: within one cluster, or between two."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from pydantic.alias_generators import to_camel

from infra.config import ClusterConfig
from installation.settings import APPROVE

ENVIRONMENT_MAX: Final = 4096
"""Bytes that Lambda accepts for all environment variables of a function together, measured as one JSON object."""

_WITHOUT_SNAP_START: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
"""Beginnings of regions in which Lambda has no SnapStart, as cfn-lint's rule E2530 has them."""

_FILLED_IN: Final = 1700
"""Bytes of the variables that the stack fills in, without the names in them: keys, ARNs, queue URLs, generated suffixes."""

_CLUSTER_NAMES, _STACK_NAMES = 4, 8
"""How often those variables contain the cluster's name and the stack's."""

_MACHINE_ARN: Final = 100
"""Bytes of the variable with the state machine's ARN, without the stack's name in it."""

_TOPIC: Final = re.compile(r"arn:aws[a-z0-9-]*:sns:(?P<region>[a-z0-9-]+):\d{12}:[a-zA-Z0-9_-]{1,256}(\.fifo)?")

_TOPICS: Final = ("approval_topic_arn", "command_topic_arn")
"""Settings whose topics the functions publish to."""

_BOUNDS: Final = ("approve_above_dollars", "approve_above_nodes", "approve_namespaces")

Owned = Callable[[ClusterConfig], Iterable[Hashable]]
"""Returns what a cluster has to itself within its account and region."""

_OWNED: Final[tuple[tuple[Owned, str], ...]] = (
    (lambda c: [c.stack_name.lower()], "the name of another in other case, which IAM ignores in names of roles"),
    (lambda c: [c.table_name] if c.table_name else [], "the tableName of another"),
    (lambda c: [c.log_group_of_audit_log] if c.log_group_of_audit_log else [], "the auditLogGroup of another"),
    (
        lambda c: [(c.vpc.id, service) for service in c.endpoints] if c.vpc else [],
        "the vpc.endpoints of another: a VPC takes one of each, so leave them out in all entries but one",
    ),
)
"""What a cluster has to itself, and the end of the message if two have it."""


def conflicts_within(config: ClusterConfig) -> list[str]:
    """Return a line for each conflict among the values of one cluster."""
    topics = {"alarmTopicArn": config.alarm_topic_arn}
    topics |= {to_camel(field): str(config.settings.get(field, "")) for field in _TOPICS}
    problems = [_problem_of_topic(key, arn, config.region) for key, arn in topics.items() if arn]
    problems += [
        _problem_of_email(config),
        _problem_of_bounds(config),
        _problem_of_silence(config),
        _problem_of_parts(config),
        _problem_of_size(config),
    ]
    if config.snap_start and config.region.startswith(_WITHOUT_SNAP_START):
        problems.append(f"snapStart = true is not allowed: Lambda has no SnapStart in {config.region}; expected false")
    return [problem for problem in problems if problem]


def conflicts_between(configs: Iterable[ClusterConfig]) -> list[str]:
    """Return a line for each thing that two clusters may not share, and that their entries give to both."""
    distinct: dict[tuple[str | None, str, str], ClusterConfig] = {}
    twice: list[ClusterConfig] = []
    for config in configs:
        identity = (config.account, config.region, config.cluster)
        if distinct.setdefault(identity, config) is not config:
            twice.append(config)
    problems = [f"clusters: {config.cluster} in {config.region} is listed twice" for config in twice]
    for owned, says in _OWNED:
        problems += _shared(distinct.values(), owned, says)
    return problems + _vpcs_in_two_regions(distinct.values())


def _shared(configs: Iterable[ClusterConfig], owned: Owned, says: str) -> list[str]:
    """Return a line for each cluster that owns what an earlier one of its account and region owns."""
    seen: set[Hashable] = set()
    problems = []
    for config in configs:
        owned_keys = {(config.account, config.region, owned_name) for owned_name in owned(config)}
        if owned_keys & seen:
            problems.append(f"clusters: {config.cluster} in {config.region} has {says}")
        seen |= owned_keys
    return problems


def _vpcs_in_two_regions(configs: Iterable[ClusterConfig]) -> list[str]:
    home: dict[str, str] = {}
    problems = []
    for config in configs:
        if config.vpc and home.setdefault(config.vpc.id, config.region) != config.region:
            other = home[config.vpc.id]
            problems.append(f"clusters: {config.cluster} in {config.region} has vpc.id = {config.vpc.id} of {other}")
    return problems


def _problem_of_topic(key: str, arn: str, region: str) -> str:
    """Return why nothing can be sent to the topic: it is none, or CloudWatch and the functions are in another region."""
    topic = _TOPIC.fullmatch(arn)
    if topic is None:
        return f"{key} = {json.dumps(arn)} is not allowed: expected the ARN of an SNS topic"
    if topic["region"] != region:
        return f"{key} = {json.dumps(arn)} is not allowed: expected a topic in {region}, the cluster's region"
    return ""


def _problem_of_email(config: ClusterConfig) -> str:
    if config.alarm_email and config.alarm_topic_arn.endswith(".fifo"):
        return f"alarmEmail = {json.dumps(config.alarm_email)} is not allowed: a FIFO topic sends no email"
    return ""


def _problem_of_bounds(config: ClusterConfig) -> str:
    """Return which bounds of approval have no effect: people who set them believe that commands wait."""
    mode = str(config.settings.get("mode") or "act")
    bounds = [to_camel(field) for field in _BOUNDS if config.settings.get(field)]
    if mode != "act" or not bounds:
        return ""
    return (
        f"{' and '.join(bounds)} without mode: no command waits for approval; set mode to {APPROVE}, or leave them out"
    )


def _problem_of_silence(config: ClusterConfig) -> str:
    """Return why nothing will be announced: an installation that only observes carries out no command."""
    if not (config.is_shadow and config.settings.get("command_topic_arn")):
        return ""
    return "commandTopicArn with mode shadow: no command is carried out; leave it out"


def _problem_of_parts(config: ClusterConfig) -> str:
    """Return why nothing will be decided about in parts by functions of their own."""
    if not config.is_distributed:
        return ""
    if config.is_shadow:
        return "distributeFrom with mode shadow: its functions decide alone; leave it out"
    return "" if config.settings.get("part_nodes") else "distributeFrom without partNodes: set the size of a part, too"


def _problem_of_size(config: ClusterConfig) -> str:
    """Return why the functions cannot get their settings; the message names the longest."""
    values = {field: str(value) for field, value in config.settings.items() if value}
    environment = values | {"pausing_alarms": "\n".join(config.pausing_alarms)}
    names = _CLUSTER_NAMES * len(config.cluster) + _STACK_NAMES * len(config.stack_name)
    names += (_MACHINE_ARN + len(config.stack_name)) if config.is_distributed else 0
    size = len(json.dumps(environment, separators=(",", ":"))) + _FILLED_IN + names
    if size <= ENVIRONMENT_MAX:
        return ""
    longest = max(sorted(environment), key=lambda field: len(environment[field]))
    return (
        f"the settings of {config.cluster} take about {size} bytes as environment variables, and Lambda accepts "
        f"{ENVIRONMENT_MAX}: shorten {to_camel(longest)}, the longest with {len(environment[longest])}"
    )
