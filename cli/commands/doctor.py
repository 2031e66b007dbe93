"""`fleetwright doctor`: checks an account and a cluster, and prints the command that repairs each problem."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.arguments import add_output
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output

if TYPE_CHECKING:
    from cli.doctor.network import Account

_EPILOG = """examples:
  fleetwright doctor --cluster prod --region eu-west-1
  fleetwright doctor --cluster prod --profile production -o json
  fleetwright doctor --cluster prod --probe --record answers.json
  fleetwright doctor --probe --from answers.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("--cluster", metavar="NAME", help="the EKS cluster; needed without --from")
    parser.add_argument("--region", metavar="REGION", help="where it is (default: that of the credentials)")
    parser.add_argument("--profile", metavar="NAME", help="the profile of the AWS configuration")
    parser.add_argument(
        "--stack",
        metavar="NAME",
        help="name of the stack (default: the name that it is deployed under, fleetwright-CLUSTER)",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also prove what the code believes of AWS: more reads, and a launch as DryRun; nothing is created",
    )
    file = parser.add_mutually_exclusive_group()
    file.add_argument(
        "--record", type=Path, metavar="FILE", help="write AWS's answers, without account numbers, users and addresses"
    )
    file.add_argument(
        "--from",
        dest="recording",
        type=Path,
        metavar="FILE",
        help="check a recording, and ask neither AWS nor the cluster",
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every check and show its finding; negative if one found a problem."""
    from botocore.exceptions import BotoCoreError, ClientError

    from cli.answers.plan import API_VERSION
    from cli.doctor.network import PROBLEM

    try:
        account, now = _asked(arguments)
        checks = list(_checks(account, now, probes=arguments.probe))
    except (BotoCoreError, ClientError) as error:
        raise InputError(str(error), hint="valid credentials and a region are needed: --profile, --region") from error
    document = {"apiVersion": API_VERSION, "kind": "Diagnosis", "cluster": account.cluster, "checks": checks}
    if arguments.record:
        _record(account, arguments.record)
    output.show(document, arguments.output, diagnosis_table)
    return NEGATIVE if any(check["state"] == PROBLEM for check in checks) else DONE


def _asked(arguments: argparse.Namespace) -> tuple[Account, datetime]:
    """Return the account to ask, real or recorded, and the time of the checks."""
    import boto3

    from cli.doctor.network import Account
    from cli.doctor.recording import RecordedAccount, RecordingAccount, read_recording
    from installation.stack_names import stack_name

    if arguments.recording:
        recorded = RecordedAccount(read_recording(arguments.recording), arguments.stack or "")
        return recorded, recorded.recorded_at()
    if not arguments.cluster:
        raise InputError("--cluster is needed", hint="--cluster NAME, or --from FILE with a recording")
    session = boto3.Session(profile_name=arguments.profile, region_name=arguments.region)
    kind = RecordingAccount if arguments.record else Account
    return kind(session, arguments.cluster, arguments.stack or stack_name(arguments.cluster)), datetime.now(UTC)


def _checks(account: Account, now: datetime, *, probes: bool) -> Iterator[dict[str, Any]]:
    """Yield each finding as JSON has it; those of probes name their calls with permissions, and the facts that they prove."""
    from cli.doctor.cluster import diagnose
    from cli.doctor.probe import PROBES, probe

    for finding in diagnose(account, now):
        yield finding._asdict()
    for finding in probe(account, now) if probes else ():
        made = PROBES[finding.check]
        yield {**finding._asdict(), "calls": made.listed(), "facts": list(made.facts)}


def _record(account: Account, file: Path) -> None:
    from cli.doctor.recording import RecordingAccount, lines_of

    if isinstance(account, RecordingAccount):
        try:
            file.write_text("".join(lines_of(account.recording())), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", source=str(file)) from error


def diagnosis_table(document: dict[str, Any]) -> str:
    """Format the findings for people, and below them the repairs, and the calls of probes with their permissions."""
    checks = document["checks"]
    rows = output.table(("CHECK", "STATE", "WHAT"), [(c["check"], c["state"], c["says"]) for c in checks])
    mends = [f"{c['check']}:\n  {c['mends']}" for c in checks if c["state"] == "problem" and c["mends"]]
    made = [(c["check"], call["call"], call["permission"]) for c in checks for call in c.get("calls", ())]
    calls = [output.table(("PROBE", "CALL", "PERMISSION"), made).rstrip("\n")] if made else []
    return "\n\n".join([rows.rstrip("\n"), *mends, *calls]) + "\n"
