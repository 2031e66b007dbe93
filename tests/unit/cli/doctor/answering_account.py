"""An account whose answers a test writes down: operation → answer, or the error of the service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from cli.doctor.network import Account

DEPLOYS = "npx --no-install cdk deploy --all"
"""What deploys, with the version of the tool that the release is built with."""

ROLE = "arn:aws:iam::123456789012:role/fleetwright-prod-eu-west-1-"


class AnsweringAccount(Account):
    """An account in eu-west-1. `asked` lists the calls with their arguments; an operation without an answer finds nothing.

    An answer may be a dictionary, a code of an error, or a list of both, one for each call in turn.
    """

    def __init__(self, *, cluster: dict[str, Any] | None = None, status: str = "", **answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers
        answers.setdefault("GetCallerIdentity", {"Arn": "arn:aws:sts::123456789012:assumed-role/a/b"})
        if cluster is not None:
            answers["DescribeCluster"] = {"cluster": cluster}
        if status:
            answers["DescribeStacks"] = {"Stacks": [{"StackStatus": status}]}
        super().__init__(
            SimpleNamespace(client=self._client, region_name="eu-west-1"),  # type: ignore[arg-type]
            "prod",
            "fleetwright-prod",
        )

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        self.asked.append((operation, arguments))
        return super().ask(service, operation, **arguments)

    def _client(self, _service: str, **_more: str) -> Any:
        return _Client(self._answers)


class _Client:
    def __init__(self, answers: dict[str, Any]) -> None:
        self._given = answers

    def __getattr__(self, method: str) -> Any:
        def call(**_arguments: Any) -> dict[str, Any]:
            named = {xform_name(operation): answer for operation, answer in self._given.items()}
            answer = named.get(method, "ResourceNotFoundException")
            if isinstance(answer, list):
                answer = answer.pop(0)
            if isinstance(answer, str):
                code, _, message = answer.partition(": ")
                raise ClientError({"Error": {"Code": code, "Message": message}}, method)
            found: dict[str, Any] = answer
            return found

        return call
