"""Compares the calls of each function with the permissions of its role and ClusterRole.

No call is refused, and no permission is unused without a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import boto3
import msgspec
import pytest

from adapters.aws.dynamodb.commands import DynamoProposals
from adapters.aws.dynamodb.table import DynamoTable
from adapters.composition.cluster_api import kubernetes_of
from adapters.ports import DeniedError
from core.approval.proposal import ProposalVerdict
from core.manifests.wire import resources
from infra.constructs.grants.instances import LAUNCH_ACTIONS
from installation.cluster_roles import RULES_OF, SHADOW_RULES_OF, group_of, manifests, verbs
from installation.wiring import ALL_BY_NAME, SHADOW_FUNCTIONS
from simulator.world import run
from tests.access import page, world
from tests.access.iam import Policy, Request, Statement, UnknownPolicyError, matches, read_statement
from tests.access.reasons import BY_LAMBDA, SELDOM, SELDOM_DONE, SELDOM_LISTED
from tests.access.recording import Access, CheckedSession
from tests.access.requests import Authorizations
from tests.access.service_reference import (
    named_actions,
    neighbours,
    problems_of_request,
    problems_of_statement,
    reference,
)
from tests.access.template import ACCOUNT, KINDS, Deployment, actions_of, count_statements
from tests.access.world import held_to, seldom_asked
from tests.access.world import played as play_worlds
from tests.builders import NOW
from tests.fakes.account import FakeAccount
from tests.fakes.world import FakeClock
from tests.infra.conftest import synthesize
from tests.infra.test_private_network import VPC
from tests.simulation.karpenter import Karpenter, beside_karpenter
from tests.simulation.operated import operated
from tests.simulation.test_takeover import Site
from tests.unit.approval.test_proposal import PROPOSAL


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Templates with every optional brake on, so that every permission is in them."""
    return Deployment(synthesize(tmp_path_factory.mktemp("cdk"), page.CONTEXT))


@pytest.fixture(scope="module")
def played(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Access]:
    """The calls of each function in two worlds, checked against its permissions."""
    return play_worlds(deployment, tmp_path_factory.mktemp("worlds"))


@pytest.mark.ci
@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_nothing_is_refused(played: dict[str, Access], function: str) -> None:
    """If this failed, AWS would refuse this call of the function, though it works where permissions are not checked."""
    assert played[function].refused == set()


@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_every_permission_is_used_or_has_a_reason(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """If this failed, a stolen role could do what its function never does."""
    reasons, used = SELDOM.get(function, {}), played[function].used
    assert deployment.policy(function).actions() - used - reasons.keys() - BY_LAMBDA.keys() == set()


@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_each_used_permission_is_missed_once_it_is_dropped(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """If this failed, the check would pass a role that has lost the permission, or a wider statement would grant it, too."""
    policy, access = deployment.policy(function), played[function]
    assert access.granted
    dropped = {found: policy.without(*found) for found in access.granted}
    assert {f for f, left in dropped.items() if all(map(left.allows, access.requests.values()))} == set()


@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_every_statement_is_about_what_aws_knows(deployment: Deployment, function: str) -> None:
    """An action, a resource or a condition key that AWS does not have makes a permission that never holds.

    `REFERENCE_LACKS` are those that the reference does not list, and that AWS's own documents allow.
    """
    statements = deployment.policy(function).statements
    problems = {problem for statement in statements for problem in problems_of_statement(statement)}
    assert sorted(problem for problem in problems if not problem.startswith(REFERENCE_LACKS)) == []


@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_requests_carry_what_aws_puts_into_them(played: dict[str, Access], function: str) -> None:
    """A policy is tested by requests. One with a key that AWS does not set would pass a policy that AWS never lets hold."""
    problems = {problem for request in played[function].requests.values() for problem in problems_of_request(request)}
    assert sorted(problem for problem in problems if not problem.startswith(REFERENCE_LACKS)) == []


# Every statement of every policy, from both sides: what it is for is allowed, and whatever lies beside that is refused.


WIDE: Final = {
    **page.CONTEXT,
    "vpc": VPC,
    "imageParameters": ["/images/*"],
    "nodeAccessEntries": True,
    "followZonalShift": "true",
}
"""Every option that adds a statement."""

Asked = Mapping[str, Sequence[Request]]
"""Role → what is asked for with it; empty: what services of AWS ask for as themselves."""


@pytest.fixture(scope="module")
def wide_templates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    return synthesize(tmp_path_factory.mktemp("wide"), WIDE)


@pytest.fixture(scope="module")
def wide(wide_templates: Mapping[str, Mapping[str, Any]]) -> Deployment:
    return Deployment(wide_templates)


@pytest.fixture(scope="module")
def asked(wide: Deployment, played: dict[str, Access]) -> Asked:
    """By services of AWS as the templates wire them, and by the functions in the worlds.

    A function may make a call that only another one makes in the worlds: most of their code is shared.
    """
    asked = wide.asked_by_services()
    recorded = [request for access in played.values() for request in access.requests.values()]
    for function in ALL_BY_NAME:
        asked[wide.role(function)] += [*recorded, *seldom_asked(wide)]
    return asked


def statements_of(deployment: Deployment) -> Iterator[tuple[str, Policy, Statement, bool]]:
    """Name, whole policy and statement, and whether it is a role's, of every statement of the templates."""
    for is_role, policies in ((True, deployment.identities()), (False, deployment.resource_policies())):
        for name, policy in policies.items():
            yield from ((name, policy, statement, is_role) for statement in policy.statements)


def test_no_statement_is_left_out(wide: Deployment, wide_templates: Mapping[str, Mapping[str, Any]]) -> None:
    """A policy in a form that is not read here would be tested from no side. Permissions to invoke have no statements."""
    written = sum(map(count_statements, wide_templates.values()))
    invocations = sum(
        resource["Type"] == "AWS::Lambda::Permission"
        for template in wide_templates.values()
        for resource in template["Resources"].values()
    )
    assert len(list(statements_of(wide))) == written + invocations > 150


def test_every_statement_allows_what_it_is_for(wide: Deployment, asked: Asked) -> None:
    """Each of its actions and of its resources is asked for. A new statement without a call fails here."""
    idle = []
    for name, policy, statement, is_role in statements_of(wide):
        if not statement.allows:
            continue
        allowed = [request for request in asked[name if is_role else ""] if statement.matches(request)]
        assert all(policy.allows(request) for request in allowed)
        actions = set(statement.actions) - {request.action for request in allowed}
        resources = [
            resource for resource in statement.resources if not any(matches(r.resource, resource) for r in allowed)
        ]
        idle += [f"{name}: nobody asks for {unused}" for unused in (*sorted(actions), *resources)]
    assert idle == []


def test_services_of_aws_may_do_what_the_templates_wire(wide: Deployment, asked: Asked) -> None:
    """A rule without the permission to invoke its function, or to write into its queue, is a trigger that never comes."""
    identities, policies = wide.identities(), list(wide.resource_policies().values())
    for role, requests in wide.asked_by_services().items():
        granting = [identities[role]] if role else policies
        refused = [str(request) for request in requests if not any(policy.allows(request) for policy in granting)]
        assert refused == [], role
    assert {request.action for request in asked[""]} >= {"sts:AssumeRole", "lambda:InvokeFunction", "sqs:SendMessage"}


@pytest.mark.ci
def test_every_statement_refuses_what_lies_beside(wide: Deployment, asked: Asked) -> None:
    """Another action, region, account, name, path or principal, another value of each condition key, or none."""
    passed = []
    for name, policy, statement, is_role in statements_of(wide):
        if statement.allows:
            beside = list(beside_it(statement, policy, asked[name if is_role else ""]))
            assert beside, f"{name}: nothing lies beside {statement}"
            passed += [f"{name}: {request}" for request in beside if policy.allows(request) and not is_lambdas(request)]
    assert passed == []


def is_lambdas(request: Request) -> bool:
    """Whether Lambda may make it in any region with a role of a function in a VPC, as AWS's own policy has it."""
    return (request.action, request.resource) == ("ec2:DescribeSubnets", "*")


def beside_it(statement: Statement, policy: Policy, requests: Iterable[Request]) -> Iterator[Request]:
    """The neighbours of the requests that it allows, but for actions that the same policy grants on purpose."""
    granted = {action.lower() for granting in policy.statements for action in granting.actions}
    for request in {str(request): request for request in requests if statement.matches(request)}.values():
        for other in neighbours(request, statement):
            if other.action == request.action or other.action.lower() not in granted:
                yield other


@pytest.mark.parametrize(
    "widened",
    [
        lambda statement: msgspec.structs.replace(statement, conditions={}),
        lambda statement: msgspec.structs.replace(statement, resources=("*",)),
        lambda statement: msgspec.structs.replace(statement, actions=(f"{statement.actions[0].partition(':')[0]}:*",)),
        lambda statement: msgspec.structs.replace(statement, principals=("*",) if statement.principals else ()),
    ],
    ids=["conditions", "resources", "actions", "principals"],
)
def test_a_wider_statement_is_noticed(
    wide: Deployment, asked: Asked, widened: Callable[[Statement], Statement]
) -> None:
    """If this failed, the test above would pass whatever a statement grants."""
    unnoticed = []
    for name, policy, statement, is_role in statements_of(wide):
        other = widened(statement)
        # The trust of a role is about that role, whatever its resource.
        if other == statement or not statement.allows or "sts:AssumeRole" in statement.actions:
            continue
        changed = Policy([other if kept is statement else kept for kept in policy.statements])
        beside = list(beside_it(statement, policy, asked[name if is_role else ""]))
        if other.actions != statement.actions and {request.action for request in beside} <= {*statement.actions}:
            continue  # AWS can do nothing else to its resources
        if not any(map(changed.allows, beside)):
            unnoticed.append(f"{name}: {statement}")
    assert unnoticed == []


def test_every_denial_denies_what_meets_it_and_nothing_else(wide: Deployment, asked: Asked) -> None:
    """Calls without TLS, and calls of our own code to network interfaces, which Lambda alone may manage."""
    everything = [request for requests in asked.values() for request in requests]
    denials = [statement for _, _, statement, _ in statements_of(wide) if not statement.allows]
    assert len(denials) > 7
    for statement in denials:
        ((operator, keys),) = statement.conditions.items()
        ((key, _),) = keys.items()
        value = {"Bool": "false", "Null": "arn:aws:lambda:us-east-1:123456789012:function:ours"}[operator]
        unconditional = msgspec.structs.replace(statement, conditions={})
        concerned = [request for request in everything if unconditional.matches(request)]
        assert concerned, statement
        assert not any(map(statement.matches, concerned))
        assert all(statement.matches(with_key(request, key, value)) for request in concerned)


def with_key(request: Request, key: str, value: str) -> Request:
    """The request with this value of a condition key."""
    return msgspec.structs.replace(request, context={**request.context, key: (value,)})


def test_policies_are_shorter_than_iam_takes(deployment: Deployment) -> None:
    """IAM counts all inline policies of a role, without white space."""
    for function in sorted(ALL_BY_NAME):
        written = [
            {"Action": one.actions, "Resource": one.resources, "Condition": one.conditions}
            for one in deployment.policy(function).statements
        ]
        assert len(msgspec.json.encode(written)) < POLICY_CHARACTERS_MAX


# The policies that pages give to people.


HOW_TO: Final = page.ROOT / "docs" / "how-to"


def test_a_person_who_approves_answers_as_themselves_alone() -> None:
    """The page's policy: reading proposals and every verdict, and writing one's own."""
    account, cluster = FakeAccount(), "prod"
    text = (HOW_TO / "approve.md").read_text(encoding="utf-8")
    arn = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{account.table}"
    written = re.findall(r'\{"Effect".*?\}\}\}', text.replace("TABLE_ARN", arn), re.DOTALL)
    policy = Policy([read_statement(json.loads(one)) for one in written])
    assert len(policy.statements) == 2

    def proposals_as(access: Access) -> DynamoProposals:
        session: Any = CheckedSession(account.account.session, access)
        return DynamoProposals(DynamoTable(session.client("dynamodb"), account.table), cluster)

    def person(name: str) -> Access:
        return Access(policy, frozenset(), Authorizations("Nodes"), {"aws:userid": (name,)})

    table = DynamoTable(account.client("dynamodb"), account.table)
    proposal = DynamoProposals(table, cluster).add(PROPOSAL)
    ada = person("AIDAADA")
    yes = ProposalVerdict(is_approved=True, by="AIDAADA", at=NOW)
    proposals_as(ada).answer(proposal, yes)
    assert proposals_as(ada).verdict_on(proposal) == yes
    assert [one.id for one in proposals_as(ada).all()] == [proposal.id]
    assert ada.refused == set()
    for refused in (
        lambda: proposals_as(person("AIDABOB")).answer(proposal, yes),
        lambda: proposals_as(person("AIDABOB")).change(proposal, proposal),
        lambda: proposals_as(person("AIDABOB")).add(msgspec.structs.replace(PROPOSAL, id="another")),
    ):
        with pytest.raises(DeniedError):
            refused()
    for statement in policy.statements:
        beside = list(beside_it(statement, policy, ada.requests.values()))
        assert beside
        assert [str(request) for request in beside if policy.allows(request)] == []


@pytest.mark.parametrize(("name", "writes"), [("deploy.md", set()), ("proving-run.md", {"ec2:RunInstances"})])
def test_a_policy_for_the_doctor_reads_alone(name: str, writes: set[str]) -> None:
    """Its actions have no conditions and no resources. RunInstances is asked with DryRun, for which AWS has no key."""
    (written,) = re.findall(r"```json\n(\{\"Version\".*?)```", (HOW_TO / name).read_text(encoding="utf-8"), re.DOTALL)
    (statement,) = (read_statement(one) for one in json.loads(written)["Statement"])
    assert problems_of_statement(statement) == []
    levels = {action: reference()[action].level for action in statement.actions}
    assert {action for action, level in levels.items() if level not in ("List", "Read")} == writes


def test_pages_name_actions_that_aws_has() -> None:
    """A permission with a misspelt name is one that nobody can grant. What else looks like an action is a condition key."""
    unknown = {name for name in named_actions() if name not in reference()}
    assert unknown <= NO_ACTIONS


NO_ACTIONS: Final = {
    *(f"aws:{key}" for key in ("RequestTag", "RequestedRegion", "ResourceTag", "SecureTransport", "TagKeys")),
    *("aws:SourceAccount", "aws:SourceArn", "dynamodb:LeadingKeys", "ec2:CreateAction", "iam:PassedToService"),
    *("lambda:SourceFunctionArn", "sts:RoleSessionName", "fleetwright:FUNCTION", "service:Operation"),
    *("sqs:SendMessageBatch", "stepfunctions:DescribeExecution"),
}
"""Condition keys, placeholders, and calls whose permissions have another name."""


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
    groups = {name: deployment.groups(name) for name in ALL_BY_NAME}
    assert groups == {name: ((group_of(name),) if name in RULES_OF else ()) for name in ALL_BY_NAME}


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


@pytest.mark.parametrize("function", sorted(ALL_BY_NAME))
def test_the_evaluator_understands_every_policy(deployment: Deployment, function: str) -> None:
    assert deployment.policy(function).statements


def test_a_missing_permission_is_noticed(deployment: Deployment, tmp_path: Path) -> None:
    """If this failed, the tests above would pass whatever a role lacked."""
    with held_to(deployment, {name: frozenset() for name in RULES_OF}) as accesses:
        run(world.market(tmp_path))
    assert accesses["provision"].refused


# What the functions may do in the cluster.


def test_each_binding_gives_a_role_to_one_functions_group() -> None:
    found = manifests()
    for function, role, binding in zip(RULES_OF, found[::2], found[1::2], strict=True):
        assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"fleetwright-{function}"
        assert [subject["name"] for subject in binding["subjects"]] == [group_of(function)]


def test_only_execute_evicts_pods_and_deletes_nodes() -> None:
    """A NodeClaim mirrors a claim: deleting one with our own permission ends no node."""
    for role in manifests()[::2]:
        ends = {verb for rule in role["rules"] for verb in rule["verbs"] if "pods/eviction" in rule["resources"]}
        ends |= {"delete" for r in role["rules"] if "delete" in r["verbs"] and r["resources"] != ["nodeclaims"]}
        assert bool(ends) == (role["metadata"]["name"] == "fleetwright-execute")


def test_no_rule_reaches_secrets_or_everything() -> None:
    rules = [rule for role in manifests()[::2] for rule in role["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])
        assert not {"secrets", "configmaps"} & set(rule["resources"])


def test_deployments_are_patched_only_where_single_replicas_may_surge() -> None:
    """Patching a Deployment can run any image as its pods: only surges may grant it."""

    def patches(*, surge: bool) -> bool:
        rules = [rule for found in manifests(surge=surge) for rule in found.get("rules", ())]
        return any("deployments" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)

    assert patches(surge=True)
    assert not patches(surge=False)


def test_disrupt_writes_events_only_where_commands_wait_for_approval() -> None:
    """Everywhere else it changes nothing in the cluster."""

    def verbs_of_disrupt(*, approval: bool) -> set[str]:
        (role,) = (
            found
            for found in manifests(approval=approval)
            if found["kind"] == "ClusterRole" and found["metadata"]["name"] == "fleetwright-disrupt"
        )
        return {verb for rule in role["rules"] for verb in rule["verbs"]}

    assert verbs_of_disrupt(approval=False) == {"list", "watch"}
    assert verbs_of_disrupt(approval=True) == {"list", "watch", "create"}


# With `mode: shadow` nothing can be done: every permission of the stack and of the ClusterRoles is looked through.


READS: Final = ("Describe", "Get", "List")
OWN: Final = {
    "s3:PutObject": "the ledger and the catalogue, in our own bucket",
    "logs:CreateLogStream": "our own log group",
    "logs:PutLogEvents": "our own log group",
    "sqs:SendMessage": "our own queues",
    "sqs:ReceiveMessage": "our own queues",
    "sqs:ChangeMessageVisibility": "our own queues",
    "sqs:DeleteMessage": "our own queues",
    "lambda:InvokeFunction": "our own functions, at deployment",
    "codedeploy:PutLifecycleEventHookExecutionStatus": "an update of our own functions",
}
"""Everything beyond reading, and what it changes."""

MANAGED: Final = ("AWSCodeDeployRoleForLambdaLimited",)
"""AWS's own policy: CodeDeploy moves the functions' alias to a new version."""

LOOKING: Final = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    return synthesize(tmp_path_factory.mktemp("cdk"), {"mode": "shadow", "followZonalShift": "true"})


def statements(templates: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every statement that allows an identity anything, inline or not; none may come from elsewhere."""
    for template in templates.values():
        for resource in template["Resources"].values():
            if not resource["Type"].startswith("AWS::IAM::"):
                continue
            properties = resource["Properties"]
            assert resource["Type"] in ("AWS::IAM::Role", *KINDS)
            for arn in properties.get("ManagedPolicyArns", ()):
                assert any(f"policy/service-role/{name}'" in str(arn) for name in MANAGED)
            documents = [
                properties.get("PolicyDocument"),
                *(p["PolicyDocument"] for p in properties.get("Policies", ())),
            ]
            for document in documents:
                yield from (
                    found for found in (document or {"Statement": ()})["Statement"] if found["Effect"] == "Allow"
                )


def actions(statement: Mapping[str, Any]) -> list[str]:
    assert "NotAction" not in statement
    return actions_of(statement)


def test_no_role_may_change_anything_but_our_own_records(templates: Mapping[str, Mapping[str, Any]]) -> None:
    """If this failed, shadow mode would be a promise, and no proof."""
    found = list(statements(templates))
    given = {action for statement in found for action in actions(statement)}
    changing = {action for action in given if not action.partition(":")[2].startswith(READS)}
    assert changing == OWN.keys()
    assert not any(action.startswith("dynamodb:") or "*" in action for action in given)
    for statement in found:
        if OWN.keys() & set(actions(statement)):
            resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            assert all(isinstance(one, dict) for one in resources), "a name of this stack's, no pattern"


def test_no_verb_changes_an_object_of_kubernetes() -> None:
    rules = [rule for manifest in manifests(shadow=True) for rule in manifest.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} <= LOOKING
    assert rules
    assert not any("*" in (*rule["resources"], *rule["verbs"], *rule["apiGroups"]) for rule in rules)
    assert {m["metadata"]["name"] for m in manifests(shadow=True)} <= {m["metadata"]["name"] for m in manifests()}
    assert manifests(shadow=True, surge=True, approval=True, steering=True) == manifests(shadow=True)


def test_only_what_looks_on_is_deployed(templates: Mapping[str, Mapping[str, Any]]) -> None:
    deployed = {
        resource["Properties"]["Handler"]
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    ours = {handler for handler in deployed if handler.startswith("lambdas.")}
    assert ours == {spec.handler for spec in SHADOW_FUNCTIONS}
    assert SHADOW_RULES_OF.keys() == RULES_OF.keys() & {spec.name for spec in SHADOW_FUNCTIONS}


def test_these_permissions_are_enough_and_used(
    templates: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, the functions would stop on AWS at the call that is refused."""
    sites = operated(monkeypatch, Site, lambda site: site.karpenter.start())
    allowed = {name: verbs(rules) for name, rules in SHADOW_RULES_OF.items()}
    names = [spec.name for spec in SHADOW_FUNCTIONS]
    with held_to(Deployment(templates), allowed, names) as accesses:
        run(beside_karpenter(tmp_path), ledger=tmp_path / "ledger")
    assert isinstance(sites[0].karpenter, Karpenter)
    assert {name: access.refused for name, access in accesses.items()} == {name: set() for name in names}
    assert accesses["disrupt"].verbs >= {("karpenter.sh", "nodeclaims", "list")}
    assert {"s3:PutObject"} <= accesses["disrupt"].used & accesses["provision"].used
