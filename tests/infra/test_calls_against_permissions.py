"""Compares the calls of each function with the permissions of its role and ClusterRole.

No call is refused, and no permission is unused without a reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import boto3
import msgspec
import pytest

from adapters.composition.cluster_api import kubernetes_of
from core.manifests.wire import resources
from infra.constructs.grants.instances import LAUNCH_ACTIONS
from installation.cluster_roles import RULES_OF, group_of, verbs
from installation.wiring import BY_NAME
from simulator.run import run
from tests.access import page, world
from tests.access.iam import Policy, Request, UnknownPolicyError, read_statement
from tests.access.playing import held_to
from tests.access.playing import played as play_worlds
from tests.access.reasons import BY_LAMBDA, SELDOM, SELDOM_DONE, SELDOM_LISTED
from tests.access.recording import Access
from tests.access.service_reference import problems_of_request, problems_of_statement
from tests.access.template import ACCOUNT, Deployment
from tests.builders import NOW
from tests.fakes.world import FakeClock
from tests.infra.conftest import synthesize


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Templates with every optional brake on, so that every permission is in them."""
    return Deployment(synthesize(tmp_path_factory.mktemp("cdk"), page.CONTEXT))


@pytest.fixture(scope="module")
def played(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Access]:
    """The calls of each function in two worlds, checked against its permissions."""
    return play_worlds(deployment, tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_nothing_is_refused(played: dict[str, Access], function: str) -> None:
    """If this failed, AWS would refuse this call of the function, though it works where permissions are not checked."""
    assert played[function].refused == set()


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_every_permission_is_used_or_has_a_reason(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """If this failed, a stolen role could do what its function never does."""
    reasons, used = SELDOM.get(function, {}), played[function].used
    assert deployment.policy(function).actions() - used - reasons.keys() - BY_LAMBDA.keys() == set()


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_each_used_permission_is_missed_once_it_is_dropped(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """If this failed, the check would pass a role that has lost the permission, or a wider statement would grant it, too."""
    policy, access = deployment.policy(function), played[function]
    assert access.granted
    dropped = {found: policy.without(*found) for found in access.granted}
    assert {f for f, left in dropped.items() if all(map(left.allows, access.requests.values()))} == set()


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_every_statement_is_about_what_aws_knows(deployment: Deployment, function: str) -> None:
    """An action, a resource or a condition key that AWS does not have makes a permission that never holds.

    `REFERENCE_LACKS` are those that the reference does not list, and that AWS's own documents allow.
    """
    statements = deployment.policy(function).statements
    problems = {problem for statement in statements for problem in problems_of_statement(statement)}
    assert sorted(problem for problem in problems if not problem.startswith(REFERENCE_LACKS)) == []


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_requests_carry_what_aws_puts_into_them(played: dict[str, Access], function: str) -> None:
    """A policy is tested by requests. One with a key that AWS does not set would pass a policy that AWS never lets hold."""
    problems = {problem for request in played[function].requests.values() for problem in problems_of_request(request)}
    assert sorted(problem for problem in problems if not problem.startswith(REFERENCE_LACKS)) == []


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_each_condition_keeps_out_what_does_not_meet_it(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """The other side of each statement: the same request with another value of the key, or without it, is refused."""
    policy, access = deployment.policy(function), played[function]
    conditioned = [
        (request, key)
        for request in access.requests.values()
        for statement in policy.statements
        if statement.matches(request)
        for condition, keys in statement.conditions.items()
        if not condition.startswith("ForAllValues")
        for key in keys
    ]
    passed = [
        f"{request} without {key}"
        for request, key in conditioned
        for other in (without(request, key), without(request, key, "of-somebody-else"))
        if policy.allows(other) and not _is_any(policy, key)
    ]
    assert sorted(set(passed)) == []


def without(request: Request, key: str, value: str = "") -> Request:
    """The request without a condition key, or with another value of it."""
    context = {name: values for name, values in request.context.items() if name.lower() != key.lower()}
    return msgspec.structs.replace(request, context=context | ({key: (value,)} if value else {}))


def _is_any(policy: Policy, key: str) -> bool:
    """Whether a condition asks only that the key is there, with any value."""
    asked = [
        values
        for one in policy.statements
        for keys in one.conditions.values()
        for name, values in keys.items()
        if name == key
    ]
    return all(values == ("*",) for values in asked)


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_policies_keep_out_the_resources_of_others(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """The same request in another account is refused, unless the action is allowed on anything."""
    policy, access = deployment.policy(function), played[function]
    elsewhere = [
        msgspec.structs.replace(request, resource=request.resource.replace(ACCOUNT, "999999999999"))
        for request in access.requests.values()
        if ACCOUNT in request.resource and not _is_on_anything(policy, request)
    ]
    assert sorted(str(request) for request in elsewhere if policy.allows(request)) == []


def _is_on_anything(policy: Policy, request: Request) -> bool:
    found = [one for one in policy.statements if one.matches(request)]
    return any(resource == "*" or f":{ACCOUNT}:" not in resource for one in found for resource in one.resources)


def test_policies_are_shorter_than_iam_takes(deployment: Deployment) -> None:
    """IAM counts all inline policies of a role, without white space."""
    for function in sorted(BY_NAME):
        written = [
            {"Action": one.actions, "Resource": one.resources, "Condition": one.conditions}
            for one in deployment.policy(function).statements
        ]
        assert len(msgspec.json.encode(written)) < POLICY_CHARACTERS_MAX


POLICY_CHARACTERS_MAX: Final = 10_240
"""IAM's quota (docs/engineering/aws-facts.md#role-policies)."""

REFERENCE_LACKS: Final = (
    "arc-zonal-shift:GetManagedResource has no resource such as arn:aws:eks:",
    "ec2:RunInstances has no resource such as arn:aws:ec2:us-east-1:123456789012:spot-instances-request/",
    f"none of {', '.join(LAUNCH_ACTIONS)} has a resource such as arn:aws:ec2:us-east-1:*:spot-instances-request/",
)
"""For zonal shifts, the reference lists load balancers alone, and ARC's guide has EKS clusters, too. Karpenter's policy allows
RunInstances on spot requests, which the reference does not list for it."""


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ({"Action": "ec2:TerminateInstance", "Resource": "*"}, "is no action"),
        (
            {"Action": "ec2:TerminateInstances", "Resource": "arn:aws:ec2:us-east-1:1:volume/*"},
            "has no resource such as",
        ),
        (
            {
                "Action": "ec2:TerminateInstances",
                "Resource": "arn:aws:ec2:us-east-1:1:instance/*",
                "Condition": {"StringEquals": {"aws:RequestTag/a": "b"}},
            },
            "is not conditioned on aws:RequestTag/a",
        ),
    ],
)
def test_what_aws_does_not_know_is_noticed(statement: dict[str, Any], says: str) -> None:
    (problem,) = problems_of_statement(read_statement({"Effect": "Allow", **statement}))
    assert says in problem


def test_a_key_that_aws_does_not_set_is_noticed() -> None:
    """Requests to terminate have the tags of the instance, and no tags of their own."""
    instance = "arn:aws:ec2:us-east-1:123456789012:instance/i-1"
    good = Request("ec2:TerminateInstances", instance, {"aws:ResourceTag/a": ("b",), "aws:RequestedRegion": ("x",)})
    assert problems_of_request(good) == []
    assert problems_of_request(msgspec.structs.replace(good, context={"aws:RequestTag/a": ("b",)})) != []
    assert problems_of_request(Request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:1:volume/v")) != []


@pytest.mark.parametrize("function", sorted(RULES_OF))
def test_every_verb_is_used_or_has_a_reason(played: dict[str, Access], function: str) -> None:
    """If this failed, a stolen role could do in the cluster what its function never does."""
    idle = verbs(RULES_OF[function]) - played[function].verbs
    listed = {found for found in idle if found[2] == "list" and found[1] in SELDOM_LISTED}
    assert {(function, *found) for found in idle - listed} - SELDOM_DONE.keys() == set()


def test_the_page_of_permissions_is_up_to_date(deployment: Deployment, played: dict[str, Access]) -> None:
    """Otherwise, a security review would read outdated permissions; `make docs` writes the page again."""
    assert page.PAGE.read_text(encoding="utf-8") == page.text(deployment, played), "run `make docs`"


def test_only_functions_that_ask_the_cluster_are_let_in(deployment: Deployment) -> None:
    groups = {name: deployment.groups(name) for name in BY_NAME}
    assert groups == {name: ((group_of(name),) if name in RULES_OF else ()) for name in BY_NAME}


def test_connecting_to_the_cluster_costs_one_look_at_it() -> None:
    """The simulated cluster needs no such call, so `CheckedKubernetes` checks this permission at each call."""
    asked: list[str] = []

    class Session(boto3.Session):
        def client(self, service: str, **_: Any) -> Any:
            asked.append(service)
            raise LookupError(service)

    session = Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
    with pytest.raises(LookupError):
        kubernetes_of(session, "fleetwright", FakeClock(NOW)).list(resources.NODES)
    assert asked == ["eks"]


@pytest.mark.parametrize(("paths", "is_allowed"), [((), False), (("/images/*",), True)])
def test_image_parameters_of_users_are_readable_where_they_are_named(
    tmp_path: Path, paths: tuple[str, ...], *, is_allowed: bool
) -> None:
    """If this failed, a class with `ssmParameter`, which Karpenter has too, would never be ready on AWS."""
    deployment = Deployment(synthesize(tmp_path, {"imageParameters": list(paths)}))
    own = Request("ssm:GetParameters", "arn:aws:ssm:us-east-1:123456789012:parameter/images/al2023")
    other = Request("ssm:GetParameters", "arn:aws:ssm:us-east-1:123456789012:parameter/passwords/db")
    for function in ("provision", "execute", "reconcile"):
        policy = deployment.policy(function)
        assert (policy.allows(own), policy.allows(other)) == (is_allowed, False)


TERMINATE: Final = {
    "Effect": "Allow",
    "Action": "ec2:TerminateInstances",
    "Resource": "arn:aws:ec2:us-east-1:*:instance/*",
    "Condition": {
        "StringEquals": {"aws:ResourceTag/eks:eks-cluster-name": "prod"},
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    },
}


@pytest.mark.parametrize(
    ("tags", "allowed"),
    [
        ({"eks:eks-cluster-name": "prod", "karpenter.sh/nodepool": "a"}, True),
        ({"eks:eks-cluster-name": "prod"}, False),
        ({"eks:eks-cluster-name": "test", "karpenter.sh/nodepool": "a"}, False),
        ({}, False),
    ],
)
def test_the_evaluator_asks_every_condition(tags: dict[str, str], allowed: bool) -> None:
    context = {f"aws:ResourceTag/{key}": (value,) for key, value in tags.items()}
    request = Request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:1:instance/i-1", context)
    assert Policy([read_statement(TERMINATE)]).allows(request) == allowed


def test_the_evaluator_lets_a_deny_win() -> None:
    deny = read_statement({"Effect": "Deny", "Action": "s3:*", "Resource": "*"})
    allow = read_statement({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"})
    assert Policy([allow]).allows(Request("s3:GetObject", "arn:aws:s3:::b/k"))
    assert not Policy([allow, deny]).allows(Request("s3:GetObject", "arn:aws:s3:::b/k"))


@pytest.mark.parametrize(
    "strange", [{"NotAction": "s3:*"}, {"Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}]
)
def test_the_evaluator_knows_what_it_does_not_know(strange: dict[str, Any]) -> None:
    with pytest.raises(UnknownPolicyError):
        read_statement({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", **strange})


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_the_evaluator_understands_every_policy(deployment: Deployment, function: str) -> None:
    assert deployment.policy(function).statements


def test_a_missing_permission_is_noticed(deployment: Deployment, tmp_path: Path) -> None:
    """If this failed, the tests above would pass whatever a role lacked."""
    with held_to(deployment, {name: frozenset() for name in RULES_OF}) as accesses:
        run(world.market(tmp_path))
    assert accesses["provision"].refused
