"""Checks that the functions that launch may use the key with which the account encrypts volumes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding
from cli.doctor.key_policy import LaunchingRole, any_of, applies
from core.api.objects import mapping
from installation.stack_names import role_name

LAUNCHING: Final = ("execute", "provision", "reconcile")
"""Functions whose roles launch instances."""

OPERATIONS: Final = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
"""What EC2 does with the key of a volume in the name of the role that launches, by the guide of EBS encryption."""


def volume_key(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the key is usable, and its policy or grants admit the roles: they have no permission for any key of their own."""
    encrypted = mapping(account.ask("ec2", "GetEbsEncryptionByDefault")).get("EbsEncryptionByDefault")
    default = mapping(account.ask("ec2", "GetEbsDefaultKmsKeyId")).get("KmsKeyId", "") if encrypted else ""
    if not default or default.endswith("alias/aws/ebs"):
        return AccountFinding(name, OK, "volumes are encrypted with EBS' own key, or not")
    key = mapping(account.ask("kms", "DescribeKey", KeyId=default)).get("KeyMetadata", {})
    if key.get("KeyManager") == "AWS":
        return AccountFinding(name, OK, "volumes are encrypted with EBS' own key, or not")
    if key.get("KeyState") != "Enabled":
        return _unusable(name, account, default, str(key.get("KeyState", "not there")))
    arn = str(key["Arn"])
    policy = json.loads(
        mapping(account.ask("kms", "GetKeyPolicy", KeyId=arn, PolicyName="default")).get("Policy", "{}")
    )
    roles = _launching_roles(account)
    admitted = {role.arn: _may_use(policy, _grants(account, arn, role.arn), role) for role in roles}
    shut_out = [role for role, may in admitted.items() if may is False]
    if shut_out and any(_is_denied(policy, role) for role in roles):
        says = f"the policy of the key {arn} of volumes denies its use to {', '.join(shut_out)}: launches fail"
        return AccountFinding(name, PROBLEM, says, f"aws kms get-key-policy --region {account.region} --key-id {arn}")
    if shut_out:
        return _shut_out(name, account, arn, shut_out)
    unclear = [role for role, may in admitted.items() if may is None]
    if unclear:
        says = f"cannot tell whether the key {arn} of volumes admits {', '.join(unclear)}: it depends on conditions"
        return AccountFinding(name, UNKNOWN, says)
    return AccountFinding(name, OK, f"the key {arn} of volumes admits the functions' roles")


def _unusable(name: str, account: Account, key: str, state: str) -> AccountFinding:
    command = {"PendingDeletion": "cancel-key-deletion", "Disabled": "enable-key"}.get(state, "describe-key")
    says = f"volumes are encrypted with the key {key}, which is {state}: launches fail"
    return AccountFinding(name, PROBLEM, says, f"aws kms {command} --region {account.region} --key-id {key}")


def _shut_out(name: str, account: Account, key: str, roles: list[str]) -> AccountFinding:
    grant = f"aws kms create-grant --region {account.region} --key-id {key} --operations {' '.join(OPERATIONS)}"
    says = f"volumes are encrypted with the key {key}, which does not admit {', '.join(roles)}: launches fail"
    mends = " && ".join(f"{grant} --grantee-principal {role}" for role in roles)
    if not account.is_deployed():
        says = f"{says}; the roles exist only after the deployment, so create the grants then"
    return AccountFinding(name, PROBLEM, says, mends)


def _launching_roles(account: Account) -> list[LaunchingRole]:
    """Return the roles that launch."""
    arns = [account.role(role_name(account.stack, account.region, function)) for function in LAUNCHING]
    return [LaunchingRole(arn, arn.split(":")[4], account.region) for arn in arns]


def _may_use(policy: Mapping[str, Any], grants: Sequence[Mapping[str, Any]], role: LaunchingRole) -> bool | None:
    found = {_may(policy, grants, role, operation) for operation in OPERATIONS}
    return False if False in found else None if None in found else True


def _is_denied(policy: Mapping[str, Any], role: LaunchingRole) -> bool:
    return any(applies(policy, "Deny", role, f"kms:{operation}") for operation in OPERATIONS)


def _may(
    policy: Mapping[str, Any], grants: Sequence[Mapping[str, Any]], role: LaunchingRole, operation: str
) -> bool | None:
    """Return whether EC2 may do this for the role: policy or a grant allows it, and no statement of the policy denies it."""
    granted = (None if grant.get("Constraints") else True for grant in grants if operation in grant["Operations"])
    is_allowed = any_of([applies(policy, "Allow", role, f"kms:{operation}"), *granted])
    is_denied = applies(policy, "Deny", role, f"kms:{operation}")
    if is_denied or is_allowed is False:
        return False
    return None if is_denied is None else is_allowed


def _grants(account: Account, key: str, role: str) -> list[Mapping[str, Any]]:
    """Return the key's grants to a role; none before the deployment, as KMS accepts none to a role that does not exist."""
    if not account.is_deployed():
        return []
    tokens = ("Marker", "NextMarker")
    found = account.every("kms", "ListGrants", "Grants", tokens, KeyId=key, GranteePrincipal=role)
    return [grant for grant in found if grant.get("GranteePrincipal") == role]
