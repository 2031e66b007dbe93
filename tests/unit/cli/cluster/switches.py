"""An account whose kill switches are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError


class Parameters:
    """A session, and its client of SSM: parameter → value; those in `denied` cannot be read or written.

    Those in `unread` can be written, but not read one by one.
    """

    region_name = "us-east-1"

    def __init__(
        self, values: dict[str, str], denied: tuple[str, ...] = (), *, unread: tuple[str, ...] = (), account: str = ""
    ) -> None:
        self.values = values
        self.denied = denied
        self.unread = unread
        self.account = account
        self.written: list[str] = []

    def get_credentials(self) -> None:
        return None

    def client(self, service: str, config: Any) -> Parameters:
        assert service == "ssm"
        assert config.connect_timeout < 10
        return self

    def get_paginator(self, name: str) -> Parameters:
        assert name == "get_parameters_by_path"
        return self

    def paginate(self, *, Path: str, Recursive: bool) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        assert Recursive
        for name, value in self.values.items():
            if name.startswith(Path):
                arn = {"ARN": f"arn:aws:ssm:{self.region_name}:{self.account}:parameter{name}"} if self.account else {}
                yield {"Parameters": [{"Name": name, "Value": value, **arn}]}

    def get_parameter(self, *, Name: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        self._refuse(Name, "GetParameter", also=self.unread)
        return {"Parameter": {"Value": self.values[Name]}}

    def put_parameter(self, *, Name: str, Value: str, Overwrite: bool) -> None:  # noqa: N803 - as boto3 has it
        assert Overwrite
        self._refuse(Name, "PutParameter")
        self.values[Name] = Value
        self.written.append(Name)

    def _refuse(self, name: str, call: str, also: tuple[str, ...] = ()) -> None:
        if name in self.denied + also:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call)


def switch(cluster: str) -> str:
    """The parameter of a cluster."""
    return f"/fleetwright/{cluster}/mode"
