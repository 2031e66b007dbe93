"""An account whose kill switches are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError


class Parameters:
    """A session, and its client of SSM: parameter → value; those in `denied` cannot be read or written."""

    region_name = "us-east-1"

    def __init__(self, values: dict[str, str], denied: tuple[str, ...] = ()) -> None:
        self.values = values
        self.denied = denied
        self.written: list[str] = []

    def client(self, service: str) -> Parameters:
        assert service == "ssm"
        return self

    def get_paginator(self, name: str) -> Parameters:
        assert name == "get_parameters_by_path"
        return self

    def paginate(self, *, Path: str, Recursive: bool) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        assert Recursive
        for name, value in self.values.items():
            if name.startswith(Path):
                yield {"Parameters": [{"Name": name, "Value": value}]}

    def get_parameter(self, *, Name: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        self._refuse(Name, "GetParameter")
        return {"Parameter": {"Value": self.values[Name]}}

    def put_parameter(self, *, Name: str, Value: str, Overwrite: bool) -> None:  # noqa: N803 - as boto3 has it
        assert Overwrite
        self._refuse(Name, "PutParameter")
        self.values[Name] = Value
        self.written.append(Name)

    def _refuse(self, name: str, call: str) -> None:
        if name in self.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call)


def switch(cluster: str) -> str:
    """The parameter of a cluster."""
    return f"/fleetwright/{cluster}/mode"
