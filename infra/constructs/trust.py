"""Who may take a role: a service of AWS, and only when it works for this account (the confused deputy)."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct


def for_this_account(scope: Construct, service: str) -> iam.ServicePrincipal:
    """The service, where the request that it carries out comes from the account of `scope`'s stack."""
    return iam.ServicePrincipal(
        service, conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}}
    )
