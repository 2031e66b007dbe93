"""`fleetwright doctor`: checks an account and a cluster, and prints the command that repairs each problem."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from cli.arguments import add_output
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output

_EPILOG = """examples:
  fleetwright doctor --cluster prod --region eu-west-1
  fleetwright doctor --cluster prod --profile production -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("--cluster", required=True, metavar="NAME", help="the EKS cluster")
    parser.add_argument("--region", metavar="REGION", help="where it is (default: that of the credentials)")
    parser.add_argument("--profile", metavar="NAME", help="the profile of the AWS configuration")
    parser.add_argument(
        "--stack",
        metavar="NAME",
        help="name of the stack (default: the name that it is deployed under, fleetwright-CLUSTER)",
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every check and show its finding; negative if one found a problem."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    from cli.answers.plan import API_VERSION
    from cli.doctor.cluster import diagnose
    from cli.doctor.network import PROBLEM, Account
    from installation.stack_names import stack_name

    try:
        session = boto3.Session(profile_name=arguments.profile, region_name=arguments.region)
        account = Account(session, arguments.cluster, arguments.stack or stack_name(arguments.cluster))
        findings = list(diagnose(account, datetime.now(UTC)))
    except (BotoCoreError, ClientError) as error:
        raise InputError(str(error), hint="valid credentials and a region are needed: --profile, --region") from error
    checks = [finding._asdict() for finding in findings]
    document = {"apiVersion": API_VERSION, "kind": "Diagnosis", "cluster": arguments.cluster, "checks": checks}
    output.show(document, arguments.output, diagnosis_table)
    return NEGATIVE if any(finding.state == PROBLEM for finding in findings) else DONE


def diagnosis_table(document: dict[str, Any]) -> str:
    """Format the findings for people, and below them the repairs."""
    checks = document["checks"]
    rows = output.table(("CHECK", "STATE", "WHAT"), [(c["check"], c["state"], c["says"]) for c in checks])
    mends = [f"{c['check']}:\n  {c['mends']}" for c in checks if c["state"] == "problem" and c["mends"]]
    return "\n\n".join([rows.rstrip("\n"), *mends]) + "\n"
