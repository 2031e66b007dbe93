"""What `doctor` finds in roles and policies: those of the functions, of nodes and of people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from cli.doctor.cluster_api import CONFIG_MAPS, NotAllowedError, NotAnsweredError, unanswered
from cli.doctor.network import DEPLOYS, JOINING, OK, PROBLEM, UNKNOWN, Account, AccountFinding, FindingPart, way_to_iam
from core.ami_families.registry import CUSTOM, family_of
from core.api.objects import mapping, sequence
from core.catalogue.node_class import without_path
from core.manifests.wire.resources import EC2_NODE_CLASSES
from installation.cluster_roles import RULES_OF, SHADOW_RULES_OF, group_of
from installation.settings import SHADOW

# Checks that EKS knows the functions' roles: each has an access entry with its own group.


def access_entries(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the roles of the deployed functions that ask the API server are in their groups.

    The deployment creates the entries, and does not notice that one was changed or deleted afterwards.
    """
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment creates the functions' entries")
    functions = SHADOW_RULES_OF if is_shadow(account) else RULES_OF
    problems, mends = [], []
    for function in functions:
        arn, group = account.role(account.role_name(function)), group_of(function)
        entry = account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn)
        groups = sequence(mapping(mapping(entry).get("accessEntry")).get("kubernetesGroups"))
        if group not in groups:
            verb = "update" if entry else "create"
            problems.append(f"the entry of {arn} lacks the group {group}" if entry else f"{arn} has no entry")
            names = f"--cluster-name {account.cluster} --principal-arn {arn}"
            wanted_groups = " ".join((*groups, group))  # an update replaces the list
            mends.append(
                f"aws eks {verb}-access-entry --region {account.region} {names} --kubernetes-groups {wanted_groups}"
            )
    if problems:
        return AccountFinding(name, PROBLEM, f"{'; '.join(problems)}: its calls are refused", " && ".join(mends))
    return AccountFinding(name, OK, "each function that asks the API server is in its group")


def is_shadow(account: Account) -> bool:
    """Whether the deployed functions only decide and record."""
    return account.settings().get("MODE") == SHADOW


# What the policy of a KMS key says about EC2's requests for a role that launches: yes, no, or `None` for what it leaves open.
#
# A condition whose key is not among `_KNOWN`, or whose operator is not among these below, may hold or not.


Statement = Mapping[str, Any]

_EQUALS: Final = ("Bool", "StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike")
_DIFFERS: Final = ("StringNotEquals", "StringNotEqualsIgnoreCase", "StringNotLike", "ArnNotEquals", "ArnNotLike")


class LaunchingRole(NamedTuple):
    """A role for which EC2 asks the key.

    Attributes:
        account: Number of its account.
        region: Where EC2 launches.
    """

    arn: str
    account: str
    region: str


def applies(policy: Mapping[str, Any], effect: str, role: LaunchingRole, action: str) -> bool | None:
    """Return whether a statement with this effect, `Allow` or `Deny`, applies to an action of EC2 for the role."""
    return any_of(
        _holds(statement, role)
        for statement in _listed(policy.get("Statement"))
        if statement.get("Effect") == effect and _allows_role(statement, role, action)
    )


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Return True if one answer is True, else None if one is open, else False."""
    distinct = set(answers)
    return True if True in distinct else None if None in distinct else False


def _listed(value: Any) -> list[Any]:
    """Return what a policy may state alone or as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _allows_role(statement: Statement, role: LaunchingRole, action: str) -> bool:
    if "NotAction" in statement:
        is_action = not matches(statement["NotAction"], action)
    else:
        is_action = matches(statement.get("Action"), action)
    if "NotPrincipal" in statement:
        return is_action and role.arn not in _principals(statement["NotPrincipal"])
    named = {role.arn, "*"}
    if statement.get("Effect") == "Deny":
        named |= {role.account, f"arn:{role.arn.split(':')[1]}:iam::{role.account}:root"}
    return is_action and bool(named & set(_principals(statement.get("Principal"))))


def _principals(principal: Any) -> list[str]:
    """Return the named principals.

    An account that is allowed lets the policies of its roles decide, and ours name no key; one that is denied denies its roles.
    """
    return _listed(principal.get("AWS") if isinstance(principal, Mapping) else principal)


def matches(patterns: Any, text: str) -> bool:
    """Whether a pattern of IAM matches: `*` is any text, `?` any character."""
    expressions = (re.escape(str(pattern)).replace(r"\*", ".*").replace(r"\?", ".") for pattern in _listed(patterns))
    return any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in expressions)


def _holds(statement: Statement, role: LaunchingRole) -> bool | None:
    """Whether all conditions of the statement hold."""
    verdicts = [
        _condition_holds(operator.removesuffix("IfExists"), str(key), values, role)
        for operator, keys in mapping(statement.get("Condition")).items()
        for key, values in keys.items()
    ]
    return False if False in verdicts else None if None in verdicts else True


def _condition_holds(operator: str, key: str, values: Any, role: LaunchingRole) -> bool | None:
    value_of = _KNOWN.get(key.lower())
    value = value_of(role) if value_of else ""
    if not value or operator not in (*_EQUALS, *_DIFFERS):
        return None
    return matches(values, value) == (operator in _EQUALS)


def _via_service(role: LaunchingRole) -> str:
    """Return the service in whose name the key is used; its suffix in China is not documented."""
    return "" if role.region.startswith("cn-") else f"ec2.{role.region}.amazonaws.com"


_KNOWN: Final[Mapping[str, Callable[[LaunchingRole], str]]] = {
    "aws:principalaccount": lambda role: role.account,
    "aws:principalarn": lambda role: role.arn,
    "aws:securetransport": lambda _: "true",
    "kms:calleraccount": lambda role: role.account,
    "kms:grantisforawsresource": lambda _: "true",
    "kms:viaservice": _via_service,
}
"""Key of a condition in small letters → its value in EC2's request."""


# The statements of a role's policies, its own and attached ones, and what they lack for nodes.


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
        inline_policy = mapping(account.ask("iam", "GetRolePolicy", RoleName=role, PolicyName=name))
        yield from _each(inline_policy.get("PolicyDocument"))
    for policy in account.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", tokens, RoleName=role):
        arn = policy["PolicyArn"]
        version = mapping(mapping(account.ask("iam", "GetPolicy", PolicyArn=arn)).get("Policy")).get("DefaultVersionId")
        policy_version = account.ask("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version) if version else None
        yield from _each(mapping(mapping(policy_version).get("PolicyVersion")).get("Document"))


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


# Checks that the roles of nodes which the functions may pass to instances exist, under the ARN that their policy names.


PASSES: Final = "iam:PassRole"
LAUNCHES: Final = "provision"
"""A function whose role may pass roles of nodes. Each function that launches may pass the same."""


def node_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether IAM knows each role of the context's `nodeRoles` under its name and path."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet")
    passed = passed_roles(account)
    if not passed and not is_shadow(account):
        role = account.role_name(LAUNCHES)
        says = f"the role {role} may pass no role of nodes, or does not exist: launches fail"
        return AccountFinding(name, PROBLEM, says, f"{DEPLOYS}  # with the names of roles in nodeRoles")
    problems = [problem for arn in passed for problem in _problem(account, arn)]
    if problems:
        mends = f"{DEPLOYS}  # with the names of roles, and their paths, in nodeRoles"
        return AccountFinding(name, PROBLEM, f"{'; '.join(problems)}: launches fail", mends)
    return AccountFinding(
        name, OK, f"the functions may pass {', '.join(arn.partition('role/')[2] for arn in passed) or 'none'}"
    )


def passed_roles(account: Account) -> list[str]:
    """Return the ARNs of roles that the functions may pass to instances, sorted."""
    role = account.role_name(LAUNCHES)
    return sorted({arn for statement in statements(account, role) for arn in _passed(statement)})


def _problem(account: Account, arn: str) -> Iterator[str]:
    role_name = without_path(arn)
    role_arn = mapping(mapping(account.ask("iam", "GetRole", RoleName=role_name)).get("Role")).get("Arn")
    if role_arn is None:
        yield f"the account has no role {role_name}"
    elif role_arn != arn:
        yield f"the functions may pass {arn}, and the role is {role_arn}"


def _passed(statement: dict[str, Any]) -> list[str]:
    actions, resources = (_as_texts(statement.get(key)) for key in ("Action", "Resource"))
    return resources if statement.get("Effect") == "Allow" and PASSES in actions else []


def _as_texts(written: object) -> list[str]:
    return (
        [written] if isinstance(written, str) else [str(text) for text in written] if isinstance(written, list) else []
    )


ONLY_ENTRIES: Final = "API"
"""The authentication mode in which the ConfigMap aws-auth does not count."""

PUBLISHED: Final = "/aws/service/"
"""Beginning of the SSM parameters with which AWS publishes images."""

WORST: Final = (PROBLEM, UNKNOWN, OK)
"""States of parts; the first one decides."""


class _Users(NamedTuple):
    """Names of the EC2NodeClasses with a role: all, and those with images of EKS; others' images may need less."""

    every: list[str]
    of_eks: list[str]


def class_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the nodes of each EC2NodeClass can be launched with its role, and join."""
    classes = account.api.list(EC2_NODE_CLASSES)
    if not classes:
        return AccountFinding(name, OK, "there is no EC2NodeClass yet")
    roles: dict[str, _Users] = {}
    answers = [answer for manifest in classes for answer in _answered(_assign(account, manifest, roles))]
    answers += _answered(_unmade_profiles(account, classes))
    for role, users in sorted(roles.items()):
        answers += _answered(_of_role(account, role, users))
    return _together(name, answers, f"the roles of all EC2NodeClasses are usable: {', '.join(sorted(roles))}")


def _together(name: str, parts: list[FindingPart], usable: str) -> AccountFinding:
    """Return the finding of all parts, the worst ones first; it begins with `usable` where all are notes."""
    state = next((worst for worst in WORST if any(part.state == worst for part in parts)), OK)
    shown_parts = (
        [FindingPart(OK, usable), *parts] if state == OK else sorted(parts, key=lambda part: WORST.index(part.state))
    )
    mends = list(dict.fromkeys(part.mends for part in shown_parts if part.mends))
    mends.sort(key=lambda command: command.startswith(DEPLOYS))  # its comment would end what follows
    return AccountFinding(name, state, "; ".join(dict.fromkeys(part.says for part in shown_parts)), " && ".join(mends))


def _answered(parts: Iterator[FindingPart]) -> Iterator[FindingPart]:
    """Yield what is found until a call has no answer, and then that: what others found stays."""
    try:
        yield from parts
    except (NotAllowedError, NotAnsweredError) as error:
        yield FindingPart(UNKNOWN, unanswered(error))


def _assign(account: Account, manifest: dict[str, Any], roles: dict[str, _Users]) -> Iterator[FindingPart]:
    """Add a class to the users of its role; yield the problem of one without a role."""
    class_name, spec = str(manifest["metadata"]["name"]), mapping(manifest.get("spec"))
    role, profile = without_path(str(spec.get("role") or "")), str(spec.get("instanceProfile") or "")
    if profile and not role:
        role = _role_of(account, profile)
    if role:
        users = roles.setdefault(role, _Users([], []))
        users.every.append(class_name)
        if _has_images_of_eks(spec):
            users.of_eks.append(class_name)
    elif profile:
        says = f"EC2NodeClass {class_name} has the instance profile {profile}, which does not exist or has no role"
        yield FindingPart(PROBLEM, says, f"aws iam get-instance-profile --instance-profile-name {profile}")


def _has_images_of_eks(spec: Mapping[str, Any]) -> bool:
    """Whether the class selects images by an alias or a parameter of AWS, and lets the family write their user data."""
    terms = sequence(spec.get("amiSelectorTerms"))
    alias = next((str(term["alias"]) for term in terms if term.get("alias")), "")
    published = any(str(term.get("ssmParameter") or "").startswith(PUBLISHED) for term in terms)
    return family_of(str(spec.get("amiFamily") or ""), alias) is not CUSTOM and bool(alias or published)


def _unmade_profiles(account: Account, classes: list[dict[str, Any]]) -> Iterator[FindingPart]:
    """Yield the classes whose instance profile the functions cannot create, because no call of theirs gets to IAM."""
    named = sorted(
        str(node_class["metadata"]["name"]) for node_class in classes if mapping(node_class.get("spec")).get("role")
    )
    if not named or not account.is_deployed() or is_shadow(account):
        return
    way = way_to_iam(account)
    creates = f"to create instance profiles for {', '.join(named)}"
    if way.answer is None:
        behind = f"it depends on the networks behind {', '.join(way.elsewhere)}"
        shows = "the condition InstanceProfileReady of these EC2NodeClasses shows it"
        yield FindingPart(UNKNOWN, f"cannot tell whether the functions reach IAM {creates}: {behind}; {shows}")
    elif not way.answer:
        says = f"the functions cannot reach IAM {creates}: name an instanceProfile in place of the role"
        yield FindingPart(PROBLEM, says, f"kubectl edit ec2nodeclasses {' '.join(named)}")


def _role_of(account: Account, profile: str) -> str:
    """Return the name of an instance profile's role, empty if there is none."""
    profile_answer = mapping(account.ask("iam", "GetInstanceProfile", InstanceProfileName=profile))
    roles = sequence(mapping(profile_answer.get("InstanceProfile")).get("Roles"))
    return str(roles[0]["RoleName"]) if roles else ""


def _of_role(account: Account, role: str, users: _Users) -> Iterator[FindingPart]:
    whose, has = _named(users.every), "has" if len(users.every) == 1 else "have"
    described = mapping(account.ask("iam", "GetRole", RoleName=role)).get("Role")
    if described is None:
        says = f"{whose} {has} the role {role}, which the account does not have: launches fail"
        yield FindingPart(PROBLEM, says, f"kubectl edit ec2nodeclasses {' '.join(users.every)}")
        return
    arn = str(described["Arn"])
    yield from _answered(_passing(account, arn, f"{whose} {has} the role {role}"))
    yield from _answered(_joining(account, arn, f"nodes with the role {role} of {whose}"))
    yield from _answered(lacking(account, arn, _named(users.of_eks or users.every), is_of_eks=bool(users.of_eks)))


def _named(classes: list[str]) -> str:
    return f"{'EC2NodeClass' if len(classes) == 1 else 'EC2NodeClasses'} {', '.join(classes)}"


def _passing(account: Account, arn: str, says: str) -> Iterator[FindingPart]:
    if account.is_deployed() and not is_shadow(account) and arn not in passed_roles(account):
        mends = f"{DEPLOYS}  # with {arn.partition(':role/')[2]} in nodeRoles"
        yield FindingPart(PROBLEM, f"{says}, which the functions may not pass: launches fail", mends)


def _joining(account: Account, arn: str, nodes: str) -> Iterator[FindingPart]:
    if not _may_join(account, arn):
        names = f"--cluster-name {account.cluster} --principal-arn {arn} --type EC2_LINUX"
        mends = f"aws eks create-access-entry --region {account.region} {names}"
        yield FindingPart(PROBLEM, f"{nodes} cannot join: it has no access entry of type EC2_LINUX", mends)


def _may_join(account: Account, arn: str) -> bool:
    entry = account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn)
    if mapping(mapping(entry).get("accessEntry")).get("type") in JOINING:
        return True
    mode = mapping(account.described().get("accessConfig")).get("authenticationMode", "CONFIG_MAP")
    return mode != ONLY_ENTRIES and _is_mapped(mapping(account.api.find(CONFIG_MAPS, "aws-auth", "kube-system")), arn)


def _is_mapped(config_map: Mapping[str, Any], arn: str) -> bool:
    """Whether the ConfigMap aws-auth has the role, which it names without its path."""
    mapped = str(mapping(config_map.get("data")).get("mapRoles") or "")
    return re.search(rf":role/{re.escape(without_path(arn))}(?![\w+=,.@/-])", mapped) is not None
