"""Reads each function's settings, policy and Kubernetes groups from the synthesized templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from installation.settings import Settings
from installation.wiring import BY_NAME
from tests.access.iam import Policy, read_statement

# The policies of a synthesized template: CDK writes what does not fit into a role's inline policy into a managed one.


KINDS: Final = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")


def policies_of(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Logical id → properties of each policy."""
    return {i: r["Properties"] for i, r in template["Resources"].items() if r["Type"] in KINDS}


def statements_of(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The statements of all policies."""
    return [found for policy in policies_of(template).values() for found in policy["PolicyDocument"]["Statement"]]


def actions_of(statement: Mapping[str, Any]) -> list[str]:
    """The actions of a statement, one or several."""
    listed = statement["Action"]
    return [listed] if isinstance(listed, str) else list(listed)


ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
_ARNS: Final[Mapping[str, str]] = {
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{{}}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:{{}}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{{}}",
}
_PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
}


class Deployment:
    """Both stacks of a cluster, with every reference between resources replaced by a name."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        self._resources: dict[str, Mapping[str, Any]] = {}
        self._exports: dict[str, Any] = {}
        for template in templates.values():
            self._resources |= template["Resources"]
            for output in template.get("Outputs", {}).values():
                if "Export" in output:
                    self._exports[output["Export"]["Name"]] = output["Value"]

    def settings(self, function: str) -> Settings:
        """Return the settings in the function's environment."""
        return Settings.from_environment(self.environment(function))

    def environment(self, function: str) -> dict[str, str]:
        """Return the function's environment variables."""
        variables: dict[str, str] = self._value(self._lambda(function)["Environment"]["Variables"])
        return variables

    def policy(self, function: str) -> Policy:
        """Return everything that the function's role may do."""
        role = self._role(function)
        statements = [
            read_statement(self._value(statement))
            for kind in KINDS
            for resource in self._of(kind).values()
            if {"Ref": role} in resource["Properties"]["Roles"]
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]
        ]
        return Policy(statements)

    def groups(self, function: str) -> tuple[str, ...]:
        """Return the Kubernetes groups of the function's access entry, none if it has no entry."""
        arn = {"Fn::GetAtt": [self._role(function), "Arn"]}
        for entry in self._of("AWS::EKS::AccessEntry").values():
            if entry["Properties"]["PrincipalArn"] == arn:
                return tuple(entry["Properties"]["KubernetesGroups"])
        return ()

    def _role(self, function: str) -> str:
        role: str = self._lambda(function)["Role"]["Fn::GetAtt"][0]
        return role

    def _lambda(self, function: str) -> Mapping[str, Any]:
        handler = BY_NAME[function].handler
        (found,) = (
            resource["Properties"]
            for resource in self._of("AWS::Lambda::Function").values()
            if resource["Properties"]["Handler"] == handler
        )
        properties: Mapping[str, Any] = found
        return properties

    def _of(self, kind: str) -> dict[str, Mapping[str, Any]]:
        return {name: found for name, found in self._resources.items() if found["Type"] == kind}

    def _value(self, written: Any) -> Any:
        if isinstance(written, list):
            return [self._value(item) for item in written]
        if not isinstance(written, dict):
            return written
        match written:
            case {"Ref": str(name), **nothing} if not nothing:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), "Arn"]}:
                return _ARNS[self._resources[name]["Type"]].format(name)
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(self._value(part) for part in parts)
            case {"Fn::ImportValue": str(name)}:
                return self._value(self._exports[name])
        return {key: self._value(value) for key, value in written.items()}

    def _reference(self, name: str) -> str:
        if name in _PSEUDO:
            return _PSEUDO[name]
        found = self._resources[name]
        match found["Type"]:
            case "AWS::SQS::Queue":
                return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"
            case "AWS::SNS::Topic":
                return _ARNS["AWS::SNS::Topic"].format(name)
            case "AWS::SSM::Parameter":
                parameter: str = self._value(found["Properties"]["Name"])
                return parameter
            case _:
                return name
