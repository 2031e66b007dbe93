"""The policies of a synthesized template: CDK writes what does not fit into a role's inline policy into a managed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
