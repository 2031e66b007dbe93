"""Commands of AWS's command line on pages, as calls of botocore: what a reader types must be something that AWS knows."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final, NamedTuple

from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.session import Session, get_session

WRITTEN: Final = re.compile(r"(?:`|^[ ]*|\$ |&& )aws ([a-z][^`\n]*)", re.MULTILINE)
ENDS: Final = re.compile(r" && | \| | > | {2,}#|`|$")

OTHER_NAMES: Final = {"deploy": "codedeploy"}
"""Service of the command line → botocore's name, where they differ."""

OF_THE_COMMAND_LINE: Final = {("s3", "cp"), ("s3", "rb"), ("logs", "tail"), ("cloudformation", "deploy")}
"""Commands that are no operation of a service."""

GLOBAL: Final = {"output", "profile", "query", "region"}


class AwsCall(NamedTuple):
    """A command as a call. `arguments` has texts and booleans; other values are left as they are written."""

    service: str
    operation: str
    arguments: dict[str, Any]


def aws_commands(text: str) -> list[str]:
    """Each command of a page, without `aws`, and without what follows it."""
    return [ENDS.split(found)[0].strip().rstrip(",;)") for found in WRITTEN.findall(text)]


def aws_call(command: str, session: Session | None = None) -> AwsCall:
    """Return the call that a command makes.

    Raises:
        ValueError: If the service, the operation or an option is not known.
    """
    service, operation, *options = shlex.split(command)
    if (service, operation) in OF_THE_COMMAND_LINE:
        return AwsCall(service, operation, {})
    name = OTHER_NAMES.get(service, service)
    try:
        client = (session or get_session()).create_client(
            name, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
        )
    except UnknownServiceError as error:
        raise ValueError(f"{command}: {error}") from error
    if operation == "wait":
        waiter = options.pop(0)
        if waiter.replace("-", "_") not in client.waiter_names:
            raise ValueError(f"{command}: nothing waits for {waiter}")
        return AwsCall(name, waiter, {})
    members = {xform_name(one, "-"): one for one in client.meta.service_model.operation_names}
    if operation not in members:
        raise ValueError(f"{command}: {name} has no operation {operation}")
    shape = client.meta.service_model.operation_model(members[operation]).input_shape
    known = {xform_name(one, "-"): (one, kind.type_name) for one, kind in (shape.members if shape else {}).items()}
    return AwsCall(name, members[operation], _arguments(command, options, known))


def _arguments(command: str, options: list[str], known: dict[str, tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left = list(options)
    while left:
        option = left.pop(0).removeprefix("--")
        values = []
        while left and not left[0].startswith("--"):
            values.append(left.pop(0))
        if option in GLOBAL:
            continue
        member, kind = known.get(option) or known.get(option.removeprefix("no-")) or ("", "")
        if not member:
            raise ValueError(f"{command}: there is no option --{option}")
        found[member] = not option.startswith("no-") if kind == "boolean" else " ".join(values)
    return found
