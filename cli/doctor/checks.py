"""The checks, in the order in which a deployment would meet the problems. Each finding has a repair command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from cli.doctor import network, stack
from cli.doctor.access_entries import access_entries
from cli.doctor.account import Account
from cli.doctor.class_roles import class_roles
from cli.doctor.cluster_roles import cluster_roles
from cli.doctor.definitions import api_server, definitions
from cli.doctor.errors import NoClusterError, NotAllowedError, NotAnsweredError, unanswered
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding
from cli.doctor.node_roles import node_roles
from cli.doctor.volume_key import volume_key
from cli.doctor.way_out import way_out
from core.api.objects import mapping, sequence

RESERVED: Final = 19
"""Concurrent executions that the functions of a cluster reserve."""

UNRESERVED_MIN: Final = 100
"""Unreserved concurrency that Lambda requires to remain in the account."""

SUBSCRIPTIONS_MAX: Final = 2
"""The most subscription filters of a log group."""

MARKET_AGE_MAX: Final = timedelta(hours=2)
"""The maximum age of the market: prices are read every hour."""


def diagnose(account: Account, now: datetime) -> Iterator[AccountFinding]:
    """Run every check, in order."""
    for name in CHECKS:
        yield finding_of(name, account, now)


def finding_of(name: str, account: Account, now: datetime) -> AccountFinding:
    """Run one check. Its result is `unknown` if no call answers it: not permitted, no cluster, or the service fails."""
    try:
        return CHECKS[name](name, account, now)
    except NoClusterError:
        return AccountFinding(name, UNKNOWN, "there is no cluster to ask")
    except (NotAllowedError, NotAnsweredError) as error:
        return AccountFinding(name, UNKNOWN, unanswered(error))


def _cluster(name: str, account: Account, _: datetime) -> AccountFinding:
    try:
        found = account.described()
    except NoClusterError:
        says = f"there is no EKS cluster {account.cluster} in {account.region}"
        return AccountFinding(name, PROBLEM, says, f"aws eks list-clusters --region {account.region}")
    status = found.get("status", "ACTIVE")
    if status not in ("ACTIVE", "UPDATING"):
        waits = f"aws eks wait cluster-active --region {account.region} --name {account.cluster}"
        return AccountFinding(name, PROBLEM, f"the cluster is {status}", waits)
    mode = mapping(found.get("accessConfig")).get("authenticationMode", "CONFIG_MAP")
    if "API" not in mode:
        on = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        mends = f"aws eks update-cluster-config --region {account.region} --name {account.cluster} {on}"
        return AccountFinding(name, PROBLEM, f"access entries are off (authentication mode {mode})", mends)
    return AccountFinding(name, OK, f"Kubernetes {found.get('version')}, access entries are on")


def _audit_log(name: str, account: Account, _: datetime) -> AccountFinding:
    if account.is_deployed() and not account.subscribes():
        return AccountFinding(
            name, OK, 'not used: it is deployed with auditLogGroup "", so only the schedules wake functions'
        )
    logging = sequence(mapping(account.described().get("logging")).get("clusterLogging"))
    kinds = {kind for setup in logging if setup.get("enabled") for kind in setup.get("types", ())}
    logging_on = '{"clusterLogging":[{"types":["audit"],"enabled":true}]}'
    on = f"aws eks update-cluster-config --region {account.region} --name {account.cluster} --logging '{logging_on}'"
    if "audit" not in kinds:
        return AccountFinding(name, PROBLEM, 'the audit log is off: turn it on, or deploy with -c auditLogGroup=""', on)
    group = f"/aws/eks/{account.cluster}/cluster"
    groups = mapping(account.ask("logs", "DescribeLogGroups", logGroupNamePrefix=group))
    if all(found["logGroupName"] != group for found in groups.get("logGroups", ())):
        wait = f"aws logs describe-log-groups --region {account.region} --log-group-name-prefix {group}"
        return AccountFinding(
            name, PROBLEM, f"the log group {group} is not there yet: EKS makes it with its first line", wait
        )
    return AccountFinding(name, OK, f"EKS writes it to {group}")


def _subscription(name: str, account: Account, _: datetime) -> AccountFinding:
    group = f"/aws/eks/{account.cluster}/cluster"
    found = mapping(account.ask("logs", "DescribeSubscriptionFilters", logGroupName=group))
    taken = [filter_["filterName"] for filter_ in found.get("subscriptionFilters", ())]
    if len(taken) >= SUBSCRIPTIONS_MAX and not any(
        filter_.startswith(f"{account.stack}-watchauditlog") for filter_ in taken
    ):
        filter_ = f"--log-group-name {group} --filter-name '{taken[-1]}'"
        mends = f"aws logs delete-subscription-filter --region {account.region} {filter_}"
        return AccountFinding(name, PROBLEM, f"both subscriptions of {group} are taken: {', '.join(taken)}", mends)
    return AccountFinding(name, OK, f"{len(taken)} of {SUBSCRIPTIONS_MAX} are taken")


def _concurrency(name: str, account: Account, _: datetime) -> AccountFinding:
    limits = mapping(account.ask("lambda", "GetAccountSettings")).get("AccountLimit", {})
    free = int(limits.get("UnreservedConcurrentExecutions", 0))
    limit = int(limits.get("ConcurrentExecutions", free))
    wanted = UNRESERVED_MIN + (0 if account.is_deployed() else RESERVED)
    if free < wanted:
        quota = f"--region {account.region} --service-code lambda --quota-code L-B99A9384"
        desired = max(1000, limit + wanted - free)
        mends = f"aws service-quotas request-service-quota-increase {quota} --desired-value {desired}"
        return AccountFinding(name, PROBLEM, f"{free} concurrent executions are unreserved, {wanted} are needed", mends)
    return AccountFinding(name, OK, f"{free} concurrent executions are unreserved")


def _spot_role(name: str, account: Account, _: datetime) -> AccountFinding:
    if account.ask("iam", "GetRole", RoleName="AWSServiceRoleForEC2Spot") is None:
        mends = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
        return AccountFinding(
            name, PROBLEM, "the account has no service-linked role for spot: spot launches fail", mends
        )
    return AccountFinding(name, OK, "the service-linked role is there")


def _market(name: str, account: Account, now: datetime) -> AccountFinding:
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment reads prices")
    settings = account.settings()
    bucket = settings.get("SHARED_BUCKET_NAME") or settings.get("BUCKET_NAME")
    found = account.ask("s3", "ListObjectsV2", Bucket=bucket, Prefix="catalogue/") if bucket else None
    read = [entry["LastModified"] for entry in mapping(found).get("Contents", ())]
    query = "Functions[?contains(FunctionName,'refreshcatalogue')].LoggingConfig.LogGroup"
    region = f"--region {account.region}"
    mends = f'aws logs tail {region} --since 1h $(aws lambda list-functions {region} --query "{query}" --output text)'
    if not read or now - max(read) > MARKET_AGE_MAX:
        says = "prices were never read" if not read else f"prices were last read at {max(read):%Y-%m-%d %H:%M} UTC"
        return AccountFinding(name, PROBLEM, f"{says}: nothing new is known of the market", mends)
    return AccountFinding(name, OK, f"prices were read at {max(read):%Y-%m-%d %H:%M} UTC")


CHECKS: Final[dict[str, Callable[[str, Account, datetime], AccountFinding]]] = {
    "cluster": _cluster,
    "endpoint": network.endpoint,
    "way-out": way_out,
    "api-server": api_server,
    "definitions": definitions,
    "cluster-roles": cluster_roles,
    "access-entries": access_entries,
    "node-roles": node_roles,
    "node-entries": network.node_entries,
    "class-roles": class_roles,
    "audit-log": _audit_log,
    "subscription": _subscription,
    "concurrency": _concurrency,
    "spot-role": _spot_role,
    "volume-key": volume_key,
    "stack": stack.finished,
    "market": _market,
}
"""Name → check."""
