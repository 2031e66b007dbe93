"""The installations whose templates are checked: one cluster, a private one, twenty; in each partition of AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CLUSTERS: Final = 20

REGIONS: Final[Mapping[str, tuple[str, str]]] = {
    "aws": ("us-east-1", "eu-west-1"),
    "aws-us-gov": ("us-gov-west-1", "us-gov-east-1"),
    "aws-cn": ("cn-north-1", "cn-northwest-1"),
}
"""Partition → two of its regions; everything but the twenty is in the first."""

FURTHER_REGIONS: Final[Mapping[str, tuple[str, str]]] = {
    "aws-eusc": ("eusc-de-east-1",) * 2,
    "aws-iso": ("us-iso-east-1", "us-iso-west-1"),
    "aws-iso-b": ("us-isob-east-1", "us-isob-west-1"),
    "aws-iso-e": ("eu-isoe-west-1",) * 2,
    "aws-iso-f": ("us-isof-south-1", "us-isof-east-1"),
}
"""The sovereign and isolated partitions, in which only the private installation is checked: it has every option."""

ACCOUNTS: Final = ("111111111111", "222222222222")

VPC: Final = {
    "id": "vpc-0a1b2c3d",
    "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
    "clusterSecurityGroup": "sg-0a1b2c3d",
    "endpoints": ["all"],
    "routeTables": ["rtb-0a1b2c3d"],
}

NAMES: Final = ("public", "private", "twenty")


def context(name: str, partition: str) -> dict[str, Any]:
    """The context of an installation. The private one has every option on."""
    regions = {**REGIONS, **FURTHER_REGIONS}[partition]
    if name == "twenty":
        entries = [
            {"cluster": f"cluster-{n:02}", "account": ACCOUNTS[n % 2], "region": regions[n // 2 % 2]}
            for n in range(CLUSTERS)
        ]
        return {"clusters": entries, "nodeRoles": ["Nodes", "GpuNodes"]}
    public = {"region": regions[0], "account": ACCOUNTS[0]}
    if name == "public":
        return public
    options = {"pausingAlarms": "checkout-errors", "nodeAccessEntries": True, "alarmEmail": "on-call@example.com"}
    return {**public, "vpc": VPC, **options, "snapStart": partition == "aws"}
