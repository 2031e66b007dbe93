"""The key with which an account encrypts volumes: launches fail where the functions' roles may not use it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.doctor import checks
from cli.doctor.finding import OK, PROBLEM, UNKNOWN
from cli.doctor.volume_key import OPERATIONS
from tests.builders import NOW
from tests.unit.cli.doctor.answering_account import ROLE, AnsweringAccount

KEY = "arn:aws:kms:eu-west-1:123456789012:key/k"
ROLES = [f"{ROLE}{name}" for name in ("execute", "provision", "reconcile")]
BY_EBS = (OK, "volumes are encrypted with EBS' own key, or not", "")
ADMITS = (OK, f"the key {KEY} of volumes admits the functions' roles", "")


def found(account: AnsweringAccount) -> tuple[str, str, str]:
    told = checks.finding_of("volume-key", account, NOW)
    return told.state, told.says, told.mends


def account(
    *statements: dict[str, Any], state: str = "Enabled", default: str = "alias/volumes", **more: Any
) -> AnsweringAccount:
    policy = json.dumps({"Statement": [{"Effect": "Allow", "Resource": "*", **one} for one in statements]})
    answers = {
        "GetEbsEncryptionByDefault": {"EbsEncryptionByDefault": True},
        "GetEbsDefaultKmsKeyId": {"KmsKeyId": default},
        "DescribeKey": {"KeyMetadata": {"Arn": KEY, "KeyManager": "CUSTOMER", "KeyState": state}},
        "GetKeyPolicy": {"Policy": policy},
    }
    return AnsweringAccount(**{**answers, **more})


def to(*roles: str, operations: tuple[str, ...] = OPERATIONS, **more: Any) -> dict[str, Any]:
    return {"Principal": {"AWS": list(roles)}, "Action": [f"kms:{one}" for one in operations], **more}


def test_ebs_own_key_admits_everybody() -> None:
    assert found(AnsweringAccount()) == BY_EBS
    assert found(account(GetEbsEncryptionByDefault={"EbsEncryptionByDefault": False})) == BY_EBS
    assert found(account(default="arn:aws:kms:eu-west-1:1:alias/aws/ebs")) == BY_EBS
    assert found(account(default="")) == BY_EBS
    assert found(account(DescribeKey={"KeyMetadata": {"KeyManager": "AWS", "KeyState": "Disabled"}})) == BY_EBS


@pytest.mark.parametrize(
    ("answer", "state", "command"),
    [
        ({"KeyMetadata": {"KeyState": "Disabled"}}, "Disabled", "enable-key"),
        ({"KeyMetadata": {"KeyState": "PendingDeletion"}}, "PendingDeletion", "cancel-key-deletion"),
        ({"KeyMetadata": {"KeyState": "PendingImport"}}, "PendingImport", "describe-key"),
        ("NotFoundException", "not there", "describe-key"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_with_the_command_for_its_state(
    answer: Any, state: str, command: str
) -> None:
    assert found(account(DescribeKey=answer)) == (
        PROBLEM,
        f"volumes are encrypted with the key alias/volumes, which is {state}: launches fail",
        f"aws kms {command} --region eu-west-1 --key-id alias/volumes",
    )


def test_the_policy_is_that_of_the_key_behind_the_alias() -> None:
    asked = account(to(*ROLES))
    assert found(asked) == ADMITS
    assert ("DescribeKey", {"KeyId": "alias/volumes"}) in asked.asked
    assert ("GetKeyPolicy", {"KeyId": KEY, "PolicyName": "default"}) in asked.asked


def grants_to(*roles: str) -> str:
    grant = f"aws kms create-grant --region eu-west-1 --key-id {KEY} --operations {' '.join(OPERATIONS)} --grantee-principal "
    return " && ".join(f"{grant}{role}" for role in roles)


SHUT_OUT = (
    PROBLEM,
    f"volumes are encrypted with the key {KEY}, which does not admit {ROLES[0]}: launches fail",
    grants_to(ROLES[0]),
)


@pytest.mark.parametrize("missing", OPERATIONS)
def test_each_operation_of_ec2_is_needed(missing: str) -> None:
    fewer = tuple(one for one in OPERATIONS if one != missing)
    assert found(account(to(*ROLES[1:]), to(ROLES[0], operations=fewer), status="UPDATE_COMPLETE")) == SHUT_OUT


def test_before_the_deployment_no_grant_can_be_created() -> None:
    without = account()
    assert found(without) == (
        PROBLEM,
        (
            f"volumes are encrypted with the key {KEY}, which does not admit {', '.join(ROLES)}: launches fail; "
            "the roles exist only after the deployment, so create the grants then"
        ),
        grants_to(*ROLES),
    )
    assert not [call for call, _ in without.asked if call == "ListGrants"]


@pytest.mark.parametrize(
    ("grant", "finding"),
    [
        ({}, ADMITS),
        ({"Operations": [*OPERATIONS, "Encrypt"]}, ADMITS),
        ({"Operations": OPERATIONS[1:]}, None),
        ({"GranteePrincipal": "arn:aws:iam::123456789012:role/other"}, None),
        (
            {"Constraints": {"EncryptionContextSubset": {"a": "b"}}},
            (
                UNKNOWN,
                f"cannot tell whether the key {KEY} of volumes admits {ROLES[0]}: it depends on conditions",
                "",
            ),
        ),
    ],
)
def test_a_grant_admits_a_role_without_the_policy(grant: dict[str, Any], finding: tuple[str, str, str] | None) -> None:
    given = {"GranteePrincipal": ROLES[0], "Operations": list(OPERATIONS), **grant}
    granted = account(to(*ROLES[1:]), status="UPDATE_COMPLETE", ListGrants={"Grants": [given]})
    assert found(granted) == (SHUT_OUT if finding is None else finding)
    assert ("ListGrants", {"KeyId": KEY, "GranteePrincipal": ROLES[0]}) in granted.asked


def test_what_a_policy_denies_is_not_granted() -> None:
    denied = account(to(*ROLES), to(ROLES[2], operations=("Decrypt",), Effect="Deny"), status="UPDATE_COMPLETE")
    assert found(denied) == (
        PROBLEM,
        f"the policy of the key {KEY} of volumes denies its use to {ROLES[2]}: launches fail",
        f"aws kms get-key-policy --region eu-west-1 --key-id {KEY}",
    )


def test_conditions_that_cannot_be_judged_leave_it_open() -> None:
    condition = {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}
    says = f"cannot tell whether the key {KEY} of volumes admits {', '.join(ROLES)}: it depends on conditions"
    assert found(account(to(*ROLES, Condition=condition))) == (UNKNOWN, says, "")
    denied = to(*ROLES, operations=("Decrypt",), Effect="Deny", Condition=condition)
    assert found(account(to(*ROLES), denied)) == (UNKNOWN, says, "")
