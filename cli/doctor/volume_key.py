"""Checks that the functions that launch may use the key with which the account encrypts volumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from lambdas.stack_names import role_name

LAUNCHING: Final = ("execute", "provision", "reconcile")
"""Functions whose roles launch instances."""

OPERATIONS: Final = "CreateGrant Decrypt DescribeKey GenerateDataKeyWithoutPlaintext ReEncryptFrom ReEncryptTo"
"""What EC2 does with the key of a volume in the name of the role that launches."""

USES_A_KEY: Final = frozenset({"*", "kms:*", "kms:CreateGrant"})
"""Actions of a key policy of which a role needs one: EC2 makes a grant for each volume."""


def volume_key(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the key's policy, or a grant, admits the roles: they have no permission for any key of their own."""
    encrypted = (account.ask("ec2", "GetEbsEncryptionByDefault") or {}).get("EbsEncryptionByDefault")
    key = (account.ask("ec2", "GetEbsDefaultKmsKeyId") or {}).get("KmsKeyId", "") if encrypted else ""
    if not key or key.endswith("alias/aws/ebs"):
        return AccountFinding(name, OK, "volumes are encrypted with EBS' own key, or not")
    admitted = {*_of_policy(account, key), *_of_grants(account, key)}
    shut_out = [role for role in _roles(account) if not admitted & {role, "*"}]
    if not shut_out:
        return AccountFinding(name, OK, f"the key {key} of volumes admits the functions' roles")
    grant = f"aws kms create-grant --region {account.region} --key-id {key} --operations {OPERATIONS}"
    says = f"volumes are encrypted with the key {key}, which does not admit {', '.join(shut_out)}: launches fail"
    mends = " && ".join(f"{grant} --grantee-principal {role}" for role in shut_out)
    if not account.is_deployed():
        says = f"{says}; the roles exist only after the deployment, so create the grants then"
    return AccountFinding(name, PROBLEM, says, mends)


def _roles(account: Account) -> list[str]:
    caller = str((account.ask("sts", "GetCallerIdentity") or {})["Arn"])
    partition, number = caller.split(":")[1], caller.split(":")[4]
    names = [role_name(account.stack, account.region, function) for function in LAUNCHING]
    return [f"arn:{partition}:iam::{number}:role/{name}" for name in names]


def _of_policy(account: Account, key: str) -> Iterator[str]:
    found = account.ask("kms", "GetKeyPolicy", KeyId=key, PolicyName="default") or {}
    for statement in _listed(json.loads(found.get("Policy", "{}")).get("Statement")):
        if statement.get("Effect") == "Allow" and USES_A_KEY & set(_listed(statement.get("Action"))):
            principal = statement.get("Principal")
            yield from _listed(principal.get("AWS") if isinstance(principal, dict) else principal)


def _of_grants(account: Account, key: str) -> Iterator[str]:
    for grant in account.every("kms", "ListGrants", "Grants", ("Marker", "NextMarker"), KeyId=key):
        if "CreateGrant" in grant.get("Operations", ()):
            yield str(grant.get("GranteePrincipal", ""))


def _listed(value: Any) -> list[Any]:
    """Return what a policy may state alone or as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]
