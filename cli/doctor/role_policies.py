"""The statements of a role's policies, its own and attached ones, and what they lack for nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, FindingPart
from cli.doctor.key_policy import Statement, matches
from core.api.objects import mapping, sequence
from core.catalogue.node_class import without_path


class Need(NamedTuple):
    """Actions that nodes need, and what follows without them."""

    actions: tuple[str, ...]
    follows: str


_NOT_READY: Final = "nodes of EKS' images do not become ready"

NEEDED: Final = {
    "AmazonEKSWorkerNodePolicy": Need(("ec2:DescribeInstances",), _NOT_READY),
    "AmazonEC2ContainerRegistryPullOnly": Need(
        ("ecr:BatchGetImage", "ecr:GetAuthorizationToken", "ecr:GetDownloadUrlForLayer"),
        f"{_NOT_READY}, unless kube-proxy and the CNI plugin come from another registry",
    ),
}
"""Policy of AWS → what EKS' images need of it: the first to find their node's name, the other to pull kube-proxy and the CNI
plugin. The plugin's own permissions are left out, since its service account may have them."""


def statements(account: Account, role: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of all policies of a role. Raises NotAllowedError, NotAnsweredError."""
    tokens = ("Marker", "Marker")
    for name in account.every("iam", "ListRolePolicies", "PolicyNames", tokens, RoleName=role):
        found = mapping(account.ask("iam", "GetRolePolicy", RoleName=role, PolicyName=name))
        yield from _each(found.get("PolicyDocument"))
    for policy in account.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", tokens, RoleName=role):
        arn = policy["PolicyArn"]
        version = mapping(mapping(account.ask("iam", "GetPolicy", PolicyArn=arn)).get("Policy")).get("DefaultVersionId")
        said = account.ask("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version) if version else None
        yield from _each(mapping(mapping(said).get("PolicyVersion")).get("Document"))


def lacking(account: Account, arn: str, whose: str, *, is_of_eks: bool) -> Iterator[FindingPart]:
    """Yield what the policies of a role lack, each with the policy of AWS that has it, or deny.

    Args:
        account: The account.
        arn: The role.
        whose: The EC2NodeClasses with the role.
        is_of_eks: Whether their nodes run images of EKS. Others may need less, and get a note.

    Raises:
        NotAllowedError: If the credentials lack a permission.
        NotAnsweredError: If a call fails otherwise.
    """
    role = without_path(arn)
    stated = list(statements(account, role))
    for policy, need in NEEDED.items():
        missing = refused(stated, need.actions)
        if not is_of_eks:
            if missing:
                says = f"the role {role} of {whose} may not {', '.join(missing)}, which images of your own may not need"
                yield FindingPart(OK, says)
            continue
        if denied := [action for action in missing if is_denied(stated, action)]:
            says = f"a policy of the role {role} of {whose} denies {', '.join(denied)}: {need.follows}"
            names = f"--policy-source-arn {arn} --action-names {' '.join(denied)}"
            yield FindingPart(PROBLEM, says, f"aws iam simulate-principal-policy {names}")
        if absent := [action for action in missing if action not in denied]:
            says = f"the role {role} of {whose} may not {', '.join(absent)}: {need.follows}"
            of_aws = f"arn:{arn.split(':')[1]}:iam::aws:policy/{policy}"
            yield FindingPart(PROBLEM, says, f"aws iam attach-role-policy --role-name {role} --policy-arn {of_aws}")


def refused(stated: Sequence[Statement], actions: Iterable[str]) -> list[str]:
    """Return the actions that no statement allows, or that one denies.

    Conditions and resources of an Allow count as fulfilled. Permissions boundaries and the organization's policies do not.
    """
    return [action for action in actions if is_denied(stated, action) or not _is_allowed(stated, action)]


def is_denied(stated: Iterable[Statement], action: str) -> bool:
    """Whether a statement denies the action for every resource, without a condition, which may not hold."""
    return any(
        statement.get("Effect") == "Deny" and _is_about(statement, action) and _always_applies(statement)
        for statement in stated
    )


def _is_allowed(stated: Iterable[Statement], action: str) -> bool:
    return any(statement.get("Effect") == "Allow" and _is_about(statement, action) for statement in stated)


def _always_applies(statement: Statement) -> bool:
    resources = statement.get("Resource")
    return not statement.get("Condition") and "*" in (
        [resources] if isinstance(resources, str) else sequence(resources)
    )


def _is_about(statement: Statement, action: str) -> bool:
    if "NotAction" in statement:
        return not matches(statement["NotAction"], action)
    return matches(statement.get("Action"), action)


def _each(document: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the statements of a policy; IAM allows a single one without a list."""
    stated = mapping(document).get("Statement")
    return [stated] if isinstance(stated, dict) else sequence(stated)
