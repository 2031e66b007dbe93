"""Reads and sets the kill switches of installations: SSM parameters, with the user's own AWS permissions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli.cluster.bounded_calls import bounded_calls
from cli.cluster.installation import Installation
from cli.errors import InputError
from core.brakes.kill_switch import Mode

if TYPE_CHECKING:
    import boto3

PATH: Final = "/fleetwright/"
"""Prefix of each cluster's kill switch, `/fleetwright/CLUSTER/mode`."""

_ACCOUNT_PART: Final = 4
"""Position of the account in an ARN."""

_NAME: Final = re.compile(r"/fleetwright/(?P<cluster>[^/]+)/mode")


class SwitchSetting(msgspec.Struct, frozen=True):
    """The present setting of one cluster's kill switch. `account`: the number of its AWS account, empty if unknown."""

    cluster: str
    parameter: str
    value: str
    account: str = ""


class KillSwitches:
    """The kill switches of one account and region."""

    def __init__(self, session: boto3.Session) -> None:
        with _aws_errors_as_input_errors("ssm"):
            self._ssm: Any = session.client("ssm", config=bounded_calls())

    def all(self) -> list[SwitchSetting]:
        """Return every kill switch, by cluster. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:GetParametersByPath"):
            pages = self._ssm.get_paginator("get_parameters_by_path").paginate(Path=PATH, Recursive=True)
            found = [parameter for page in pages for parameter in page["Parameters"]]
        named = [(match, entry) for entry in found if (match := _NAME.fullmatch(entry["Name"])) is not None]
        switches = (
            SwitchSetting(match["cluster"], entry["Name"], entry["Value"].strip(), _account(entry))
            for match, entry in named
        )
        return sorted(switches, key=lambda switch: switch.cluster)

    def one(self, cluster: str, parameter: str) -> SwitchSetting:
        """Return one of them. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:GetParameter"):
            value = self._ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
        return SwitchSetting(cluster, parameter, value.strip())

    def turn(self, switch: SwitchSetting, mode: Mode) -> None:
        """Set one of them. Raises InputError."""
        with _aws_errors_as_input_errors("ssm:PutParameter"):
            self._ssm.put_parameter(Name=switch.parameter, Value=str(mode), Overwrite=True)


def switch_of(installation: Installation) -> tuple[KillSwitches, SwitchSetting]:
    """Return the kill switch of an installation. Raises InputError."""
    parameter = installation.settings.kill_switch_parameter
    if not parameter:
        raise InputError(f"the functions of {installation.stack} have no kill switch", hint="deploy the stack again")
    switches = KillSwitches(installation.session)
    return switches, switches.one(installation.cluster, parameter)


def _account(entry: Mapping[str, Any]) -> str:
    """Return the account in the ARN of a parameter."""
    parts = str(entry.get("ARN", "")).split(":")
    return parts[_ACCOUNT_PART] if len(parts) > _ACCOUNT_PART else ""


class _aws_errors_as_input_errors:  # noqa: N801 - used as a statement
    """Translate errors of the SDK to input errors."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError | BotoCoreError):
            raise InputError(f"{self._call}: {error}", hint="--profile and --region say whose") from error
