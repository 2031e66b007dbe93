"""The role of each EC2NodeClass: one that the functions may not pass, or that has no access entry, has no nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import boto3
import pytest
from moto import mock_aws

from cli.doctor import cluster
from cli.doctor.cluster_api import CONFIG_MAPS, NotAllowedError
from cli.doctor.network import OK, PROBLEM, UNKNOWN, Account, AccountFinding
from cli.doctor.roles import NEEDED, LaunchingRole, applies, is_denied, node_roles, refused, statements
from core.manifests.wire.resources import EC2_NODE_CLASSES
from tests.builders import NOW, a_class_manifest
from tests.fakes.api_server import ApiServer
from tests.unit.cli.doctor.answering_account import AnsweringAccount
from tests.unit.cli.doctor.test_network import NAT, NEXT, TRANSIT, endpoint

KEYS: Final = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
ARN: Final = "arn:aws:iam::123456789012:role/"


class Launching(Account):
    """A deployed cluster, IAM's roles and instance profiles, and EKS's access entries."""

    def __init__(self, url: str, *, passed: tuple[str, ...] = ("Nodes",), mode: str = "API", acts: str = "act") -> None:
        super().__init__(boto3.Session(region_name="eu-west-1", **KEYS), "prod", "fleetwright-prod")
        self._url, self._passed, self._mode, self._acts = url, passed, mode, acts
        self.roles: dict[str, str] = {"Nodes": f"{ARN}Nodes"}
        self.entries: dict[str, str] = {f"{ARN}Nodes": "EC2_LINUX"}
        self.profiles: dict[str, list[str]] = {}
        self.granted: dict[str, Any] = {"Effect": "Allow", "Action": ["ec2:Describe*", "ecr:*"], "Resource": "*"}
        self.refused: set[str] = set()
        self.vpc: dict[str, Any] = {}
        self.routes: list[dict[str, Any]] = []
        self.endpoints: list[dict[str, Any]] = []

    def is_deployed(self) -> bool:
        return True

    def provision(self) -> dict[str, Any]:
        return {"VpcConfig": self.vpc}

    def settings(self) -> dict[str, str]:
        return {"MODE": self._acts}

    def resources(self) -> Iterator[Any]:
        return iter(())

    def described(self) -> dict[str, Any]:
        return {"endpoint": self._url, "accessConfig": {"authenticationMode": self._mode}}

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        if operation in self.refused:
            raise NotAllowedError(f"{service}:{operation}")
        match operation:
            case "GetRole":
                arn = self.roles.get(arguments["RoleName"])
                return {"Role": {"Arn": arn}} if arn else None
            case "GetInstanceProfile":
                names = self.profiles.get(arguments["InstanceProfileName"])
                return None if names is None else {"InstanceProfile": {"Roles": [{"RoleName": one} for one in names]}}
            case "DescribeAccessEntry":
                kind = self.entries.get(arguments["principalArn"])
                return {"accessEntry": {"type": kind}} if kind else None
            case "DescribeRouteTables":
                return {
                    "RouteTables": [{"RouteTableId": "rtb-1", "Associations": [{"Main": True}], "Routes": self.routes}]
                }
            case "DescribeVpcEndpoints":
                return {"VpcEndpoints": self.endpoints}
            case "ListRolePolicies":
                return {"PolicyNames": ["Own"]}
            case "GetRolePolicy" if arguments["RoleName"] in self.roles:
                return {"PolicyDocument": {"Statement": self.granted}}
            case "GetRolePolicy":
                resources = [f"{ARN}{name}" for name in self._passed]
                stated = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": resources}
                return {"PolicyDocument": {"Statement": stated}}
        assert operation == "ListAttachedRolePolicies"
        return {}


def a_class(server: ApiServer, name: str = "default", **spec: Any) -> None:
    manifest = a_class_manifest()
    manifest["metadata"]["name"] = name
    manifest["spec"] = {**manifest["spec"], "role": "Nodes", **spec}
    server.put(EC2_NODE_CLASSES.path(), {k: v for k, v in manifest.items() if v is not None})


def found(account: Account) -> AccountFinding:
    return cluster.finding_of("class-roles", account, NOW)


def test_a_role_that_the_account_lacks_is_named_with_its_classes(server: ApiServer, url: str) -> None:
    """It is a typing error, and no launch of the class succeeds."""
    a_class(server, "gpu", role="Nodse")
    a_class(server, "web", role="Nodse")
    told = found(Launching(url))
    says = "EC2NodeClasses gpu, web have the role Nodse, which the account does not have: launches fail"
    assert (told.state, told.says, told.mends) == (PROBLEM, says, "kubectl edit ec2nodeclasses gpu web")


def test_a_role_that_the_functions_may_not_pass_is_named_with_its_path(server: ApiServer, url: str) -> None:
    a_class(server, "gpu", role="GpuNodes")
    account = Launching(url)
    account.roles["GpuNodes"], account.entries[f"{ARN}ml/GpuNodes"] = f"{ARN}ml/GpuNodes", "EC2_LINUX"
    told = found(account)
    says = "EC2NodeClass gpu has the role GpuNodes, which the functions may not pass: launches fail"
    assert (told.state, told.says) == (PROBLEM, says)
    assert told.mends.endswith("deploy --all  # with ml/GpuNodes in nodeRoles")
    watching = Launching(url, passed=(), acts="shadow")
    a_class(server, "gpu")
    assert found(watching).state == OK, "shadow launches nothing"


@pytest.mark.parametrize(
    ("mode", "kind", "mapped", "state"),
    [
        ("API", None, f"- rolearn: {ARN}Nodes\n", PROBLEM),
        ("API", "STANDARD", "", PROBLEM),
        ("API", "EC2_WINDOWS", "", OK),
        ("API_AND_CONFIG_MAP", None, f"- rolearn: {ARN}Nodes\n  username: system:node\n", OK),
        ("API_AND_CONFIG_MAP", None, f"- rolearn: {ARN}NodesOfOthers\n", PROBLEM),
        ("API_AND_CONFIG_MAP", None, "", PROBLEM),
    ],
)
def test_nodes_join_by_an_access_entry_or_the_config_map(
    server: ApiServer, url: str, mode: str, kind: str | None, mapped: str, state: str
) -> None:
    """Nodes that cannot join are launched, and terminated after a quarter of an hour."""
    a_class(server)
    if mapped:
        data = {"metadata": {"name": "aws-auth", "namespace": "kube-system"}, "data": {"mapRoles": mapped}}
        server.put(CONFIG_MAPS.path(namespace="kube-system"), data)
    account = Launching(url, mode=mode)
    account.entries = {f"{ARN}Nodes": kind} if kind else {}
    told = found(account)
    assert told.state == state, told.says
    if state == PROBLEM:
        assert told.says.startswith("nodes with the role Nodes of EC2NodeClass default cannot join")
        assert told.mends.endswith(f"--cluster-name prod --principal-arn {ARN}Nodes --type EC2_LINUX")


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        ({"Effect": "Allow", "Action": "*"}, []),
        ({"Effect": "Allow", "NotAction": "iam:*"}, []),
        ({"Effect": "Allow", "Action": ["EC2:describeinstances", "ecr:*"]}, []),
        ({"Effect": "Allow", "NotAction": "ec2:*"}, ["AmazonEKSWorkerNodePolicy"]),
        ({"Effect": "Deny", "Action": "*"}, ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]),
        (
            {"Effect": "Allow", "Action": ["ec2:DescribeInstances", "ecr:GetAuthorizationToken"]},
            ["AmazonEC2ContainerRegistryPullOnly"],
        ),
    ],
)
def test_a_role_without_what_nodes_need_is_named_with_the_policy_of_aws(
    server: ApiServer, url: str, granted: dict[str, Any], missing: list[str]
) -> None:
    """Its nodes are launched, never become ready, and are terminated after a quarter of an hour, again and again."""
    a_class(server)
    account = Launching(url)
    account.granted = granted
    told = found(account)
    assert told.state == (PROBLEM if missing else OK), told.says
    attached = [command.rpartition("/")[2] for command in told.mends.split(" && ") if command]
    assert attached == missing
    assert all(
        part.startswith("aws iam attach-role-policy --role-name Nodes") for part in told.mends.split(" && ")[:1] if part
    )


def test_functions_that_cannot_reach_iam_create_no_profile(server: ApiServer, url: str) -> None:
    """Endpoints of the stack do not lead to IAM: a class with a role was never ready, and every check said ok."""
    a_class(server)
    account = Launching(url)
    account.vpc = {"SubnetIds": ["subnet-a"], "VpcId": "vpc-1"}
    told = found(account)
    assert (told.state, told.mends) == (PROBLEM, "kubectl edit ec2nodeclasses default")
    assert told.says.startswith(
        "the functions cannot reach IAM to create instance profiles for default: name an instancePr"
    )
    account.endpoints = [endpoint("iam", ServiceName="com.amazonaws.iam")]
    assert found(account).state == OK
    account.endpoints, account.routes = [], [NAT]
    assert found(account).state == OK
    account.routes = []
    a_class(server, role=None, instanceProfile="own")
    account.profiles["own"] = ["Nodes"]
    assert found(account).state == OK


@pytest.mark.parametrize("route", [NEXT, TRANSIT])
def test_functions_may_reach_iam_by_another_network(server: ApiServer, url: str, route: dict[str, Any]) -> None:
    """The page names that way, and the doctor called it a problem: a class with a role is ready there."""
    a_class(server)
    account = Launching(url)
    account.vpc, account.routes = {"SubnetIds": ["subnet-a"], "VpcId": "vpc-1"}, [route]
    told = found(account)
    assert (told.state, told.mends) == (UNKNOWN, "")
    assert told.says.startswith("cannot tell whether the functions reach IAM to create instance profiles for default")
    assert "InstanceProfileReady" in told.says
    account.granted = {}
    assert found(account).state == PROBLEM, "the role's policies are judged all the same"
    account.routes = [{**route, "State": "blackhole"}]
    assert "the functions cannot reach IAM" in found(account).says


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]}, OK),
        ({"amiFamily": "Custom", "amiSelectorTerms": [{"alias": "al2023@latest"}]}, OK),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, OK),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "web"}}]}, OK),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": "/own/image"}]}, OK),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": "/aws/service/eks/optimized-ami/x"}]}, PROBLEM),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, PROBLEM),
    ],
)
def test_images_of_your_own_may_need_less(server: ApiServer, url: str, spec: dict[str, Any], state: str) -> None:
    """An image that pulls from a private registry and names its node itself needs nothing of AWS."""
    a_class(server, **spec)
    account = Launching(url)
    account.granted = {"Effect": "Allow", "Action": ["ec2:DescribeInstances", "s3:*"]}
    told = found(account)
    assert told.state == state, told.says
    may_not = "may not ecr:BatchGetImage, ecr:GetAuthorizationToken, ecr:GetDownloadUrlForLayer"
    if state == OK:
        note = f"the role Nodes of EC2NodeClass default {may_not}, which images of your own may not need"
        assert told == ("class-roles", OK, f"the roles of all EC2NodeClasses are usable: Nodes; {note}", "")
    a_class(server, "web", amiFamily=None, amiSelectorTerms=[{"alias": "al2023@latest"}])
    told = found(account)
    assert told.state == PROBLEM
    whose = "EC2NodeClass web" if state == OK else "EC2NodeClasses default, web"
    assert told.says.startswith(
        f"the role Nodes of {whose} {may_not}: nodes of EKS' images do not become ready, unless"
    )


def test_a_deny_is_named_and_no_policy_is_attached_for_it(server: ApiServer, url: str) -> None:
    """A further Allow would change nothing."""
    a_class(server)
    account = Launching(url)
    account.granted = [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "ec2:Describe*", "Resource": "*"},
    ]
    told = found(account)
    assert told.state == PROBLEM
    assert told.says.startswith(
        "a policy of the role Nodes of EC2NodeClass default denies ec2:DescribeInstances: nodes"
    )
    simulates = f"aws iam simulate-principal-policy --policy-source-arn {ARN}Nodes"
    assert told.mends == f"{simulates} --action-names ec2:DescribeInstances"


@pytest.mark.parametrize(
    ("call", "service", "kept"),
    [
        ("ListRolePolicies", "iam", ["cannot join", "cannot reach IAM", "own, which does not exist"]),
        (
            "DescribeAccessEntry",
            "eks",
            ["may not ecr", "may not pass", "cannot reach IAM", "own, which does not exist"],
        ),
        ("DescribeRouteTables", "ec2", ["may not ecr", "may not pass", "cannot join", "own, which does not exist"]),
        ("GetInstanceProfile", "iam", ["may not ecr", "may not pass", "cannot join", "cannot reach IAM"]),
        ("GetRole", "iam", ["cannot reach IAM", "own, which does not exist"]),
    ],
)
def test_a_refused_call_hides_nothing_that_others_found(
    server: ApiServer, url: str, call: str, service: str, kept: list[str]
) -> None:
    """One permission that the reader lacked turned all problems into `unknown`."""
    a_class(server)
    a_class(server, "profiled", role=None, instanceProfile="own")
    account = Launching(url, passed=("Others",))
    account.vpc, account.entries = {"SubnetIds": ["subnet-a"], "VpcId": "vpc-1"}, {}
    account.granted, account.refused = {}, {call}
    told = found(account)
    assert told.state == PROBLEM
    assert [part for part in kept if part not in told.says] == [], told.says
    assert told.says.count(f"these credentials may not call {service}:{call}") == 1
    assert told.says.endswith(call), "what is unknown comes after the problems"


# The answer of a key's policy: yes, no, or open.


ROLE = "arn:aws:iam::123456789012:role/fleetwright-prod-eu-west-1-execute"
LAUNCHING = LaunchingRole(ROLE, "123456789012", "eu-west-1")
ACTION = "kms:CreateGrant"


def asked(effect: str = "Allow", **statement: Any) -> bool | None:
    given = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "kms:*", "Resource": "*", **statement}
    return applies({"Statement": given}, effect, LAUNCHING, ACTION)


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ({}, True),
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": ["arn:aws:iam::123456789012:root"]}}, False),
        ({"Principal": {"Service": "ec2.amazonaws.com"}}, False),
        ({"Action": ["kms:Decrypt", "KMS:create*"]}, True),
        ({"Action": "kms:Decrypt"}, False),
        ({"Action": None, "NotAction": "kms:Delete*"}, True),
        ({"Principal": None, "NotPrincipal": {"AWS": ROLE}}, False),
        ({"Principal": None, "NotPrincipal": {"AWS": "arn:aws:iam::123456789012:role/other"}}, True),
        ({"Effect": "Deny"}, False),
    ],
)
def test_principals_and_actions_are_compared_as_iam_does(statement: dict[str, Any], answer: bool) -> None:
    assert asked(**statement) is answer


@pytest.mark.parametrize("principal", ["123456789012", "arn:aws:iam::123456789012:root"])
def test_an_account_that_is_denied_denies_its_roles(principal: str) -> None:
    assert asked("Deny", Effect="Deny", Principal={"AWS": principal}) is True


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ({"Bool": {"kms:GrantIsForAWSResource": True}}, True),
        ({"Bool": {"kms:GrantIsForAWSResource": "false"}}, False),
        ({"StringEquals": {"kms:ViaService": ["s3.eu-west-1.amazonaws.com", "ec2.eu-west-1.amazonaws.com"]}}, True),
        ({"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}, False),
        ({"StringEquals": {"kms:CallerAccount": "123456789012", "aws:PrincipalOrgID": "o-1"}}, None),
        ({"StringEquals": {"kms:CallerAccount": "999999999999", "aws:PrincipalOrgID": "o-1"}}, False),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/fleetwright-*"}}, False),
        ({"ForAnyValue:StringEquals": {"kms:CallerAccount": "123456789012"}}, None),
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
    ],
)
def test_conditions_on_what_ec2_sends_are_judged_and_others_are_open(condition: Any, answer: bool | None) -> None:
    """A key with a condition used to count as one that admits everybody."""
    assert asked(Condition=condition) is answer
    assert asked("Deny", Effect="Deny", Condition=condition) is answer


def test_a_condition_on_the_service_is_open_in_china() -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "kms:*",
        "Condition": {"StringEquals": {"kms:ViaService": "ec2.cn-north-1.amazonaws.com"}},
    }
    assert applies({"Statement": [statement]}, "Allow", LAUNCHING._replace(region="cn-north-1"), ACTION) is None


def test_one_statement_that_applies_is_enough() -> None:
    closed = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "kms:Decrypt"}
    unclear = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "kms:*",
        "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}},
    }
    whole = {"Effect": "Allow", "Principal": {"AWS": [ROLE]}, "Action": ACTION}
    assert applies({"Statement": [closed, unclear]}, "Allow", LAUNCHING, ACTION) is None
    assert applies({"Statement": [closed, unclear, whole]}, "Allow", LAUNCHING, ACTION) is True
    assert applies({}, "Allow", LAUNCHING, ACTION) is False


# A role of nodes with a path has an ARN that its name alone does not tell.


TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


class Deployed(Account):
    """An account with a stack, and the mode of its functions."""

    mode = "act"

    def is_deployed(self) -> bool:
        return True

    def settings(self) -> dict[str, str]:
        return {"MODE": self.mode}


class Shadow(Deployed):
    """An account whose functions launch nothing."""

    mode = "shadow"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.Session(region_name="eu-west-1")


def roles_may_be_passed(session: boto3.Session, *passed: str) -> None:
    """The role of a function that may pass these roles of the account."""
    arns = [f"arn:aws:iam::123456789012:role/{name}" for name in passed]
    passes = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": arns[0] if len(arns) == 1 else arns}
    granted = [passes] if arns else []
    launches = {"Effect": "Allow", "Action": ["ec2:CreateFleet", "ec2:RunInstances"], "Resource": "*"}
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    policy = json.dumps({"Version": "2012-10-17", "Statement": [launches, *granted]})
    iam.put_role_policy(RoleName=role, PolicyName="DefaultPolicy", PolicyDocument=policy)


def node_roles_found(session: boto3.Session, *passed: str) -> AccountFinding:
    """The result where the functions may pass these roles."""
    roles_may_be_passed(session, *passed)
    return node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)


def a_role(session: boto3.Session, name: str, path: str = "/") -> None:
    session.client("iam").create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=TRUST)


def test_a_role_whose_path_was_left_out_is_named_with_it(session: boto3.Session) -> None:
    a_role(session, "Nodes", "/team/")
    told = node_roles_found(session, "Nodes")
    arn = "arn:aws:iam::123456789012:role/"
    assert told.state == PROBLEM
    assert told.says == f"the functions may pass {arn}Nodes, and the role is {arn}team/Nodes: launches fail"


def test_what_is_too_long_for_one_policy_is_in_another(session: boto3.Session) -> None:
    """The CDK moves statements of a long policy into managed ones, in a VPC those about roles of nodes."""
    a_role(session, "Nodes")
    roles_may_be_passed(session, "Nodes")
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    document = iam.get_role_policy(RoleName=role, PolicyName="DefaultPolicy")["PolicyDocument"]
    iam.delete_role_policy(RoleName=role, PolicyName="DefaultPolicy")
    overflow = iam.create_policy(PolicyName="Overflow", PolicyDocument=json.dumps(document))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=role, PolicyArn=overflow)
    told = node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)
    assert told.says == "the functions may pass Nodes"


def test_a_role_that_does_not_exist_is_named(session: boto3.Session) -> None:
    assert node_roles_found(session, "Nodes").says == "the account has no role Nodes: launches fail"


def test_functions_that_may_pass_no_role_launch_nothing(session: boto3.Session) -> None:
    """The policy was edited by hand, or the role deleted: every launch fails, so that this is a problem."""
    without = node_roles_found(session)
    role = "fleetwright-prod-eu-west-1-provision"
    assert (without.state, without.says) == (
        PROBLEM,
        f"the role {role} may pass no role of nodes, or does not exist: launches fail",
    )
    assert without.mends.endswith("# with the names of roles in nodeRoles")
    iam = session.client("iam")
    iam.delete_role_policy(RoleName=role, PolicyName="DefaultPolicy")
    iam.delete_role(RoleName=role)
    assert node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW) == without


def test_a_shadow_passes_no_role(session: boto3.Session) -> None:
    roles_may_be_passed(session)
    told = node_roles("node-roles", Shadow(session, "prod", "fleetwright-prod"), NOW)
    assert (told.state, told.says) == (OK, "the functions may pass none")


def test_a_policy_may_have_one_statement_without_a_list(session: boto3.Session) -> None:
    a_role(session, "Nodes")
    roles_may_be_passed(session, "Nodes")
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    document = iam.get_role_policy(RoleName=role, PolicyName="DefaultPolicy")["PolicyDocument"]
    alone = json.dumps({**document, "Statement": document["Statement"][1]})
    iam.put_role_policy(RoleName=role, PolicyName="DefaultPolicy", PolicyDocument=alone)
    told = node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)
    assert (told.state, told.says) == (OK, "the functions may pass Nodes")


# What the policies of a role allow, asked of IAM: its own, an attached one of the account, one of AWS.


ACTIONS = [action for need in NEEDED.values() for action in need.actions]


def missing(session: boto3.Session) -> list[str]:
    return refused(list(statements(Account(session, "prod", "fleetwright-prod"), "Nodes")), ACTIONS)


def test_policies_of_aws_have_what_nodes_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """That for nodes of Auto Mode is not enough."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        made = boto3.Session(region_name="eu-west-1")
        a_role(made, "Nodes")
        assert missing(made) == ACTIONS
        iam = made.client("iam")
        for policies in (["AmazonEKSWorkerNodeMinimalPolicy"], NEEDED):
            assert "ec2:DescribeInstances" in missing(made)
            for policy in policies:
                iam.attach_role_policy(RoleName="Nodes", PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        assert missing(made) == []


def test_a_policy_of_the_account_and_one_of_the_role_count(session: boto3.Session) -> None:
    iam = session.client("iam")
    a_role(session, "Nodes")
    documents = [
        json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": actions, "Resource": "*"}})
        for actions in (["ecr:*"], "ec2:Describe*")
    ]
    own = iam.create_policy(PolicyName="pulls", PolicyDocument=documents[0])["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="Nodes", PolicyArn=own)
    assert missing(session) == ["ec2:DescribeInstances"]
    iam.put_role_policy(RoleName="Nodes", PolicyName="Own", PolicyDocument=documents[1])
    assert missing(session) == []


PULLING = [action for action in ACTIONS if action.startswith("ecr:")]


@pytest.mark.parametrize(
    ("denies", "gone"),
    [
        ({"Action": "ecr:*", "Resource": "*"}, PULLING),
        ({"Action": ["ecr:BatchGetImage", "s3:*"], "Resource": ["*"]}, ["ecr:BatchGetImage"]),
        ({"NotAction": "ecr:*", "Resource": "*"}, ["ec2:DescribeInstances"]),
        ({"Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, []),
        ({"Action": "ecr:*", "Resource": "arn:aws:ecr:eu-west-1:123456789012:repository/secret"}, []),
        ({"Action": "ecr:*", "NotResource": "arn:aws:ecr:eu-west-1:123456789012:repository/own"}, []),
    ],
)
def test_what_is_denied_counts_beside_an_allow(denies: dict[str, Any], gone: list[str]) -> None:
    """A role with everything allowed and ECR denied was called usable; a Deny of some resources, or some requests, is none."""
    allows = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    assert refused([allows], ACTIONS) == []
    assert refused([allows, {"Effect": "Deny", **denies}], ACTIONS) == gone
    assert refused([{"Effect": "Deny", **denies}, allows], ACTIONS) == gone


def test_statements_of_own_and_attached_policies_are_read_page_by_page() -> None:
    """A policy that went meanwhile, and one without a default version, have none."""
    one, two, three = ({"Effect": "Allow", "Action": name} for name in "abc")
    account = AnsweringAccount(
        ListRolePolicies={"PolicyNames": ["Own", "Gone", "Empty"]},
        GetRolePolicy=[{"PolicyDocument": {"Statement": one}}, "NoSuchEntity", {"PolicyDocument": {"Statement": None}}],
        ListAttachedRolePolicies=[
            {"AttachedPolicies": [{"PolicyArn": "arn:p1"}], "Marker": "m"},
            {"AttachedPolicies": [{"PolicyArn": "arn:p2"}, {"PolicyArn": "arn:p3"}]},
        ],
        GetPolicy=[{"Policy": {"DefaultVersionId": "v2"}}, "NoSuchEntity", {"Policy": {"DefaultVersionId": "v1"}}],
        GetPolicyVersion=[{"PolicyVersion": {"Document": {"Statement": [two, three]}}}, "NoSuchEntity"],
    )
    assert list(statements(account, "Nodes")) == [one, two, three]
    assert account.asked == [
        ("ListRolePolicies", {"RoleName": "Nodes"}),
        *(("GetRolePolicy", {"RoleName": "Nodes", "PolicyName": name}) for name in ("Own", "Gone", "Empty")),
        ("ListAttachedRolePolicies", {"RoleName": "Nodes"}),
        ("GetPolicy", {"PolicyArn": "arn:p1"}),
        ("GetPolicyVersion", {"PolicyArn": "arn:p1", "VersionId": "v2"}),
        ("ListAttachedRolePolicies", {"RoleName": "Nodes", "Marker": "m"}),
        ("GetPolicy", {"PolicyArn": "arn:p2"}),
        ("GetPolicy", {"PolicyArn": "arn:p3"}),
        ("GetPolicyVersion", {"PolicyArn": "arn:p3", "VersionId": "v1"}),
    ]


@pytest.mark.parametrize(
    ("statement", "is_so"),
    [
        ({"Resource": "*"}, True),
        ({"Resource": ["arn:x", "*"]}, True),
        ({"Resource": "arn:aws:*"}, False),
        ({"Resource": None}, False),
        ({}, False),
        ({"Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, False),
        ({"Resource": "*", "Condition": {}}, True),
        ({"Resource": "*", "Effect": "Allow"}, False),
        ({"Resource": "*", "Action": "s3:*"}, False),
    ],
)
def test_a_denial_counts_only_if_it_always_applies(statement: dict[str, Any], is_so: bool) -> None:
    stated = [{"Effect": "Deny", "Action": "ec2:Describe*", **statement}]
    assert is_denied(stated, "ec2:DescribeInstances") == is_so
    allowed = {"Effect": "Allow", "Action": "*"}
    assert refused([allowed, *stated], ["ec2:DescribeInstances"]) == (["ec2:DescribeInstances"] if is_so else [])
