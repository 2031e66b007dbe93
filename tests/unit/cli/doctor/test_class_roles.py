"""The role of each EC2NodeClass: one that the functions may not pass, or that has no access entry, has no nodes."""

from __future__ import annotations

from typing import Any, Final

import boto3
import pytest

from cli.doctor import checks
from cli.doctor.account import Account
from cli.doctor.cluster_api import CONFIG_MAPS
from cli.doctor.errors import NotAllowedError
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding
from core.manifests.wire.api_resources import EC2_NODE_CLASSES
from tests.builders import NOW, a_class_manifest
from tests.fakes.api_server import ApiServer
from tests.unit.cli.doctor.test_way_out import NAT, NEXT, TRANSIT, endpoint

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
    return checks.finding_of("class-roles", account, NOW)


def test_a_role_that_nodes_can_have_is_right(server: ApiServer, url: str) -> None:
    assert found(Launching(url)).says == "there is no EC2NodeClass yet"
    a_class(server)
    a_class(server, "other")
    assert found(Launching(url)) == ("class-roles", OK, "the roles of all EC2NodeClasses are usable: Nodes", "")


def test_a_role_that_the_account_lacks_is_named_with_its_classes(server: ApiServer, url: str) -> None:
    """It is a typing error, and no launch of the class succeeds."""
    a_class(server, "gpu", role="Nodse")
    a_class(server, "web", role="Nodse")
    told = found(Launching(url))
    says = "EC2NodeClasses gpu, web have the role Nodse, which the account does not have: launches fail"
    assert (told.state, told.says, told.mends) == (PROBLEM, says, "kubectl edit ec2nodeclasses gpu web")


def test_a_role_that_a_class_names_with_its_path_is_found(server: ApiServer, url: str) -> None:
    """IAM was asked for `team/Nodes`, so the doctor said that the role does not exist; nodes were launched with it."""
    a_class(server, role="team/Nodes")
    a_class(server, "other")
    account = Launching(url, passed=("team/Nodes",))
    account.roles["Nodes"], account.entries = f"{ARN}team/Nodes", {f"{ARN}team/Nodes": "EC2_LINUX"}
    assert found(account) == ("class-roles", OK, "the roles of all EC2NodeClasses are usable: Nodes", "")


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


def test_the_role_of_an_instance_profile_counts(server: ApiServer, url: str) -> None:
    a_class(server, role=None, instanceProfile="own")
    account = Launching(url)
    told = found(account)
    says = "EC2NodeClass default has the instance profile own, which does not exist or has no role"
    assert (told.state, told.says) == (PROBLEM, says)
    account.profiles["own"] = ["Others"]
    account.roles["Others"], account.entries[f"{ARN}Others"] = f"{ARN}Others", "EC2_LINUX"
    assert "has the role Others, which the functions may not pass" in found(account).says
    account.profiles["own"] = ["Nodes"]
    assert found(account).state == OK


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
