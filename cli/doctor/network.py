"""Checks the routes from the functions to the API server, and from nodes into the cluster."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from core.api.objects import mapping

JOINING: Final = ("EC2_LINUX", "EC2_WINDOWS")
"""Types of access entries with which instances join; `EC2` is that of EKS Auto Mode's own nodes."""

EVERYWHERE: Final = "0.0.0.0/0"
DEPLOYS: Final = "npx --yes aws-cdk@2.1148.1 deploy --all"


def endpoint(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the functions reach the API server."""
    access = account.described().get("resourcesVpcConfig", {})
    ranges = access.get("publicAccessCidrs") or [EVERYWHERE]
    if access.get("endpointPublicAccess", True) and EVERYWHERE in ranges:
        return AccountFinding(name, OK, "the API server can be reached")
    if access.get("endpointPublicAccess", True):
        says = f"the API server is open to {', '.join(ranges)} only"
    else:
        says = "the API server is private"
    if _are_in_a_vpc(account):
        return AccountFinding(name, OK, f"{says}; the functions that ask it are in a VPC")
    return AccountFinding(
        name, PROBLEM, f"{says}: functions outside of its VPC cannot reach it", f"{DEPLOYS} -c vpc='{_vpc_of(access)}'"
    )


def node_entries(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether an access entry lets nodes join."""
    account.described()
    entries = account.every(
        "eks", "ListAccessEntries", "accessEntries", ("nextToken", "nextToken"), clusterName=account.cluster
    )
    for arn in entries:
        found = mapping(account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn))
        if found.get("accessEntry", {}).get("type") in JOINING:
            return AccountFinding(name, OK, f"nodes of {arn} may join")
    return AccountFinding(
        name,
        PROBLEM,
        "no access entry of type EC2_LINUX: nodes cannot join, unless the ConfigMap aws-auth has their role",
        f"{DEPLOYS} -c nodeAccessEntries=true",
    )


def _are_in_a_vpc(account: Account) -> bool:
    if not account.is_deployed():
        return False
    return bool(mapping(account.provision().get("VpcConfig")).get("SubnetIds"))


def _vpc_of(access: dict[str, Any]) -> str:
    """Return the context key for the cluster's own VPC: its subnets work if they have a route out."""
    vpc = {
        "id": access.get("vpcId", "VPC"),
        "subnets": access.get("subnetIds") or ["SUBNET"],
        "clusterSecurityGroup": access.get("clusterSecurityGroupId", ""),
    }
    return json.dumps({key: value for key, value in vpc.items() if value})
