"""Writes the templates of all installations: `python -m tests.template_checks.synthesis FOLDER`.

With `--nag` what cdk-nag finds is written besides.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from app import add_clusters
from tests.infra.conftest import ROOT

# The installations whose templates are checked: one cluster and a private one in each partition of AWS, and twenty in one.


CLUSTERS: Final = 20

REGIONS: Final[Mapping[str, tuple[str, str]]] = {
    "aws": ("us-east-1", "eu-west-1"),
    "aws-us-gov": ("us-gov-west-1", "us-gov-east-1"),
    "aws-cn": ("cn-north-1", "cn-northwest-1"),
}
"""Partition → two of its regions. Only the twenty are in both; they have the public one's resources under other names."""

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


NAGGED: Final = (("public", "aws"), ("private", "aws"))
"""All else has the same resources under other names."""

NAG_FOLDER: Final = "nag-"
REPORT: Final = "validation-report.json"


def main() -> int:
    """Write every installation into a folder of its own."""
    folder = Path(sys.argv[1])
    for partition in REGIONS:
        synthesize(folder, "public", partition)
    for partition in (*REGIONS, *FURTHER_REGIONS):
        synthesize(folder, "private", partition)
    synthesize(folder, "twenty", "aws")
    if "--nag" in sys.argv:
        for name, partition in NAGGED:
            _nag(folder / f"{NAG_FOLDER}{name}", context(name, partition))
    return 0


def synthesize(folder: Path, name: str, partition: str) -> None:
    """Write the templates of one installation into a folder of its own."""
    _app(folder / f"{name}-{partition}", context(name, partition)).synth()


def _nag(target: Path, context: dict[str, Any]) -> None:
    app = _app(target, context)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    try:
        app.synth()
    except RuntimeError as error:  # which it always is while there are findings: the report has them
        if "ValidationFailed" not in str(error):
            raise


def _app(target: Path, context: dict[str, Any]) -> cdk.App:
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(outdir=str(target), context={**flags, **context})
    add_clusters(app, account=None, region=None, is_packaged=False)
    return app


if __name__ == "__main__":
    sys.exit(main())
