"""Trust policies: a service of AWS may assume a role only on behalf of this account (confused deputy)."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct


def for_this_account(scope: Construct, service: str) -> iam.ServicePrincipal:
    """Return the service principal, restricted to requests on behalf of the account of `scope`'s stack."""
    return iam.ServicePrincipal(
        service, conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}}
    )
