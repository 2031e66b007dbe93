"""What each check says of an account, and the command that mends it, word by word: people paste it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from cli.doctor import cluster
from cli.doctor.cluster import OPERATIONS
from cli.doctor.network import OK, PROBLEM, UNKNOWN
from tests.builders import NOW
from tests.unit.cli.doctor.answering_account import DEPLOYS, ROLE, AnsweringAccount

GROUP = "/aws/eks/prod/cluster"
AUDIT = {"logging": {"clusterLogging": [{"types": ["api", "audit"], "enabled": True}]}}
FILTER = {"ResourceType": "AWS::Logs::SubscriptionFilter", "LogicalResourceId": "watch", "PhysicalResourceId": "w"}
PROVISION = {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": "provision1", "PhysicalResourceId": "p"}


def found(check: str, account: AnsweringAccount) -> tuple[str, str, str]:
    told = cluster.finding_of(check, account, NOW)
    assert told.check == check
    return told.state, told.says, told.mends


def stack_of(*resources: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"status": "UPDATE_COMPLETE", "ListStackResources": {"StackResourceSummaries": list(resources)}, **more}


def of_function(**settings: str) -> dict[str, Any]:
    return {"GetFunctionConfiguration": {"Environment": {"Variables": settings}}}


@pytest.mark.parametrize(
    ("cluster", "finding"),
    [
        (
            None,
            (PROBLEM, "there is no EKS cluster prod in eu-west-1", "aws eks list-clusters --region eu-west-1"),
        ),
        (
            {"status": "CREATING"},
            (PROBLEM, "the cluster is CREATING", "aws eks wait cluster-active --region eu-west-1 --name prod"),
        ),
        (
            {"status": "ACTIVE", "version": "1.33"},
            (
                PROBLEM,
                "access entries are off (authentication mode CONFIG_MAP)",
                (
                    "aws eks update-cluster-config --region eu-west-1 --name prod "
                    "--access-config authenticationMode=API_AND_CONFIG_MAP"
                ),
            ),
        ),
        (
            {"version": "1.33", "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}},
            (OK, "Kubernetes 1.33, access entries are on", ""),
        ),
        (
            {"status": "UPDATING", "version": "1.32", "accessConfig": {"authenticationMode": "API"}},
            (OK, "Kubernetes 1.32, access entries are on", ""),
        ),
    ],
)
def test_the_cluster(cluster: dict[str, Any] | None, finding: tuple[str, str, str]) -> None:
    assert found("cluster", AnsweringAccount(cluster=cluster)) == finding


TURN_ON = (
    "aws eks update-cluster-config --region eu-west-1 --name prod "
    """--logging '{"clusterLogging":[{"types":["audit"],"enabled":true}]}'"""
)
OFF = (PROBLEM, 'the audit log is off: turn it on, or deploy with -c auditLogGroup=""', TURN_ON)
NOT_WRITTEN_YET = (
    PROBLEM,
    f"the log group {GROUP} is not there yet: EKS makes it with its first line",
    f"aws logs describe-log-groups --region eu-west-1 --log-group-name-prefix {GROUP}",
)


@pytest.mark.parametrize(
    ("cluster", "groups", "finding"),
    [
        ({}, None, OFF),
        ({"logging": {"clusterLogging": [{"types": ["audit"], "enabled": False}]}}, None, OFF),
        ({"logging": {"clusterLogging": [{"types": ["api"], "enabled": True}]}}, None, OFF),
        (AUDIT, None, NOT_WRITTEN_YET),
        (AUDIT, [f"{GROUP}-b"], NOT_WRITTEN_YET),
        (AUDIT, [f"{GROUP}-b", GROUP], (OK, f"EKS writes it to {GROUP}", "")),
    ],
)
def test_the_audit_log_is_on_and_has_been_written(
    cluster: dict[str, Any], groups: list[str] | None, finding: tuple[str, str, str]
) -> None:
    listed = {"logGroups": [{"logGroupName": name} for name in groups or ()]}
    answers = {"DescribeLogGroups": listed} if groups is not None else {}
    account = AnsweringAccount(cluster=cluster, **answers)
    assert found("audit-log", account) == finding
    if groups is not None:
        assert account.asked[-1] == ("DescribeLogGroups", {"logGroupNamePrefix": GROUP})


def test_an_audit_log_without_a_subscription_of_ours_is_not_used() -> None:
    unused = AnsweringAccount(cluster={}, **stack_of(PROVISION))
    assert found("audit-log", unused) == (
        OK,
        'not used: it is deployed with auditLogGroup "", so only the schedules wake functions',
        "",
    )
    assert found("audit-log", AnsweringAccount(cluster={}, **stack_of(PROVISION, FILTER))) == OFF


@pytest.mark.parametrize(
    ("names", "finding"),
    [
        ([], (OK, "0 of 2 are taken", "")),
        (["a"], (OK, "1 of 2 are taken", "")),
        (
            ["a", "b c"],
            (
                PROBLEM,
                f"both subscriptions of {GROUP} are taken: a, b c",
                f"aws logs delete-subscription-filter --region eu-west-1 --log-group-name {GROUP} --filter-name 'b c'",
            ),
        ),
        (["a", "fleetwright-prod-watchauditlog1-X"], (OK, "2 of 2 are taken", "")),
    ],
)
def test_a_subscription_of_the_audit_log_is_free(names: list[str], finding: tuple[str, str, str]) -> None:
    listed = {"subscriptionFilters": [{"filterName": name} for name in names]}
    account = AnsweringAccount(DescribeSubscriptionFilters=listed)
    assert found("subscription", account) == finding
    assert account.asked == [("DescribeSubscriptionFilters", {"logGroupName": GROUP})]
    assert found("subscription", AnsweringAccount()) == (OK, "0 of 2 are taken", "")


@pytest.mark.parametrize(
    ("limits", "status", "finding"),
    [
        (
            {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 119},
            "",
            (OK, "119 concurrent executions are unreserved", ""),
        ),
        (
            {"ConcurrentExecutions": 2000, "UnreservedConcurrentExecutions": 118},
            "",
            (
                PROBLEM,
                "118 concurrent executions are unreserved, 119 are needed",
                (
                    "aws service-quotas request-service-quota-increase --region eu-west-1 --service-code lambda "
                    "--quota-code L-B99A9384 --desired-value 2001"
                ),
            ),
        ),
        (
            {"UnreservedConcurrentExecutions": 100},
            "UPDATE_COMPLETE",
            (OK, "100 concurrent executions are unreserved", ""),
        ),
        (
            None,
            "UPDATE_COMPLETE",
            (
                PROBLEM,
                "0 concurrent executions are unreserved, 100 are needed",
                (
                    "aws service-quotas request-service-quota-increase --region eu-west-1 --service-code lambda "
                    "--quota-code L-B99A9384 --desired-value 1000"
                ),
            ),
        ),
    ],
)
def test_concurrency_is_left_for_what_the_functions_reserve(
    limits: dict[str, int] | None, status: str, finding: tuple[str, str, str]
) -> None:
    answers = {} if limits is None else {"GetAccountSettings": {"AccountLimit": limits}}
    assert found("concurrency", AnsweringAccount(status=status, **answers)) == finding


def test_a_cluster_in_auto_mode_is_refused() -> None:
    """EKS provisions its nodes from the same NodePools: two provisioners would launch for the same pods."""
    account = AnsweringAccount(cluster={"version": "1.33", "computeConfig": {"enabled": True}})
    state, says, mends = found("cluster", account)
    assert (state, "Auto Mode" in says) == (PROBLEM, True)
    assert "--compute-config enabled=false" in mends


def test_a_log_group_that_takes_no_subscription_is_a_problem() -> None:
    """The deployment would fail at its subscription filter."""
    logging = {"clusterLogging": [{"types": ["audit"], "enabled": True}]}
    for kind, expected in (("INFREQUENT_ACCESS", PROBLEM), ("STANDARD", OK)):
        groups = {"logGroups": [{"logGroupName": GROUP, "logGroupClass": kind}]}
        account = AnsweringAccount(cluster={"logging": logging}, DescribeLogGroups=groups)
        assert found("audit-log", account)[0] == expected


@pytest.mark.parametrize(("answer", "state"), [("Allow", OK), ("Terminate", PROBLEM)])
def test_functions_that_wait_by_messages_may_loop(answer: str, state: str) -> None:
    """Lambda would drop their 17th message in a row, and nodes would be found minutes late."""
    resources = [
        {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": "executeFunction1", "PhysicalResourceId": "f-1"}
    ]
    listed = {"StackResourceSummaries": resources}
    config = {"RecursiveLoop": answer}
    account = AnsweringAccount(status="UPDATE_COMPLETE", ListStackResources=listed, GetFunctionRecursionConfig=config)
    result = found("loops", account)
    assert result[0] == state
    assert ("put-function-recursion-config" in result[2]) == (state == PROBLEM)
    assert found("loops", AnsweringAccount())[0] == OK, "not deployed yet"


def test_spot_needs_its_service_linked_role() -> None:
    assert found("spot-role", AnsweringAccount(GetRole="NoSuchEntity")) == (
        PROBLEM,
        "the account has no service-linked role for spot: spot launches fail",
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    )
    account = AnsweringAccount(GetRole={"Role": {}})
    assert found("spot-role", account) == (OK, "the service-linked role is there", "")
    assert account.asked == [("GetRole", {"RoleName": "AWSServiceRoleForEC2Spot"})]


@pytest.mark.parametrize("is_planned", [True, False])
def test_moves_are_announced_by_the_strategy_of_the_scheduler(*, is_planned: bool) -> None:
    """Otherwise, commands name nodes that kube-scheduler does not choose."""
    most = {"nodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}
    function = {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": "provision1", "PhysicalResourceId": "p"}
    own = of_function(SCHEDULER_CONFIG=json.dumps(most)) if is_planned else of_function()
    account = AnsweringAccount(cluster={"kubeSchedulerConfig": most}, **stack_of(function, **own))
    state, says, mends = found("scoring", account)
    assert (state, "MostAllocated" in says) == (OK if is_planned else PROBLEM, True)
    assert ("schedulerConfig=" in mends) is not is_planned


def test_the_strategy_is_named_before_a_deployment() -> None:
    says = "kube-scheduler scores nodes by LeastAllocated"
    assert found("scoring", AnsweringAccount(cluster={})) == (OK, says, "")


READ_LOGS = (
    "aws logs tail --region eu-west-1 --since 1h $(aws lambda list-functions --region eu-west-1 "
    """--query "Functions[?contains(FunctionName,'refreshcatalogue')].LoggingConfig.LogGroup" --output text)"""
)


@pytest.mark.parametrize(
    ("hours", "finding"),
    [
        ([], (PROBLEM, "prices were never read: nothing new is known of the market", READ_LOGS)),
        ([5, 2], (OK, "prices were read at 2026-11-19 22:00 UTC", "")),
        (
            [3, 5],
            (PROBLEM, "prices were last read at 2026-11-19 21:00 UTC: nothing new is known of the market", READ_LOGS),
        ),
    ],
)
def test_prices_are_at_most_two_hours_old(hours: list[int], finding: tuple[str, str, str]) -> None:
    objects = {"Contents": [{"LastModified": NOW - timedelta(hours=old)} for old in hours]}
    deployed = stack_of(PROVISION, **of_function(BUCKET_NAME="own"))
    account = AnsweringAccount(ListObjectsV2=objects, **deployed)
    assert found("market", account) == finding
    assert account.asked[-1] == ("ListObjectsV2", {"Bucket": "own", "Prefix": "catalogue/"})


def test_prices_are_looked_for_where_they_are_shared_and_after_the_deployment_alone() -> None:
    assert found("market", AnsweringAccount()) == (OK, "not deployed yet: the deployment reads prices", "")
    settings = of_function(BUCKET_NAME="own", SHARED_BUCKET_NAME="shared")
    account = AnsweringAccount(**stack_of(PROVISION, **settings))
    assert found("market", account)[1].startswith("prices were never read")
    assert account.asked[-1] == ("ListObjectsV2", {"Bucket": "shared", "Prefix": "catalogue/"})
    without = AnsweringAccount(**stack_of(PROVISION, **of_function()))
    assert found("market", without)[1].startswith("prices were never read")


@pytest.mark.parametrize(
    ("network", "finding"),
    [
        ({}, (OK, "the API server can be reached", "")),
        (
            {"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0", "10.0.0.0/8"]},
            (OK, "the API server can be reached", ""),
        ),
        (
            {"publicAccessCidrs": ["10.0.0.0/8", "172.16.0.0/12"]},
            (
                PROBLEM,
                "the API server is open to 10.0.0.0/8, 172.16.0.0/12 only: functions outside of its VPC cannot reach it",
                DEPLOYS + """ -c vpc='{"id": "VPC", "subnets": ["SUBNET"]}'""",
            ),
        ),
        (
            {"endpointPublicAccess": False, "vpcId": "vpc-1", "subnetIds": ["s-1"], "clusterSecurityGroupId": "sg-1"},
            (
                PROBLEM,
                "the API server is private: functions outside of its VPC cannot reach it",
                DEPLOYS + """ -c vpc='{"id": "vpc-1", "subnets": ["s-1"], "clusterSecurityGroup": "sg-1"}'""",
            ),
        ),
    ],
)
def test_the_api_server_is_reached_from_outside_of_its_vpc(
    network: dict[str, Any], finding: tuple[str, str, str]
) -> None:
    assert found("endpoint", AnsweringAccount(cluster={"resourcesVpcConfig": network})) == finding


def test_functions_in_a_vpc_reach_a_private_api_server() -> None:
    private = {"resourcesVpcConfig": {"endpointPublicAccess": False}}
    inside = {"GetFunctionConfiguration": {"VpcConfig": {"SubnetIds": ["s-1"]}}}
    account = AnsweringAccount(cluster=private, **stack_of(PROVISION, **inside))
    assert found("endpoint", account) == (OK, "the API server is private; the functions that ask it are in a VPC", "")
    outside = AnsweringAccount(
        cluster=private, **stack_of(PROVISION, GetFunctionConfiguration={"VpcConfig": {"SubnetIds": []}})
    )
    assert found("endpoint", outside)[0] == PROBLEM


def test_an_access_entry_lets_nodes_join() -> None:
    entries = {"accessEntries": ["arn:people", "arn:nodes"]}
    types = [{"accessEntry": {"type": "STANDARD"}}, {"accessEntry": {"type": "EC2_WINDOWS"}}]
    account = AnsweringAccount(cluster={}, ListAccessEntries=entries, DescribeAccessEntry=types)
    assert found("node-entries", account) == (OK, "nodes of arn:nodes may join", "")
    assert account.asked[1:] == [
        ("ListAccessEntries", {"clusterName": "prod"}),
        ("DescribeAccessEntry", {"clusterName": "prod", "principalArn": "arn:people"}),
        ("DescribeAccessEntry", {"clusterName": "prod", "principalArn": "arn:nodes"}),
    ]
    none = AnsweringAccount(cluster={}, ListAccessEntries=entries)
    assert found("node-entries", none) == (
        PROBLEM,
        "no access entry of type EC2_LINUX: nodes cannot join, unless the ConfigMap aws-auth has their role",
        f"{DEPLOYS} -c nodeAccessEntries=true",
    )
    assert found("node-entries", AnsweringAccount()) == (UNKNOWN, "there is no cluster to ask", "")


@pytest.mark.parametrize(
    ("status", "state", "says", "command"),
    [
        ("", OK, "not deployed yet", ""),
        ("CREATE_IN_PROGRESS", OK, "fleetwright-prod is CREATE_IN_PROGRESS", ""),
        ("UPDATE_ROLLBACK_COMPLETE", OK, "fleetwright-prod is UPDATE_ROLLBACK_COMPLETE", ""),
        ("UPDATE_FAILED", PROBLEM, "describe-stack-events says why; roll back, then deploy again", "rollback-stack"),
        (
            "IMPORT_ROLLBACK_FAILED",
            PROBLEM,
            "the events of the stack name the cause; remove it, then deploy again",
            "describe-stack-events",
        ),
        (
            "CREATE_FAILED",
            PROBLEM,
            "describe-stack-events says why; delete the stack, then deploy again",
            "delete-stack",
        ),
        (
            "UPDATE_ROLLBACK_FAILED",
            PROBLEM,
            "describe-stack-events names the cause; remove it, then continue the rollback",
            "continue-update-rollback",
        ),
    ],
)
def test_a_stack_is_finished_or_the_way_out_is_told(status: str, state: str, says: str, command: str) -> None:
    if state == PROBLEM:
        says = f"fleetwright-prod is {status}: {says}"
        command = f"aws cloudformation {command} --stack-name fleetwright-prod --region eu-west-1"
    account = AnsweringAccount(status=status)
    assert found("stack", account) == (state, says, command)
    assert account.asked == [("DescribeStacks", {"StackName": "fleetwright-prod"})]


def test_a_function_has_its_own_group_as_soon_as_it_is_deployed() -> None:
    deployed = stack_of(PROVISION, **of_function(MODE="shadow"))
    right = [{"accessEntry": {"kubernetesGroups": [f"fleetwright:{name}"]}} for name in ("provision", "disrupt")]
    assert found("access-entries", AnsweringAccount(DescribeAccessEntry=right, **deployed)) == (
        OK,
        "each function that asks the API server is in its group",
        "",
    )
    assert found("access-entries", AnsweringAccount()) == (
        OK,
        "not deployed yet: the deployment creates the functions' entries",
        "",
    )


# The key with which an account encrypts volumes: launches fail where the functions' roles may not use it.


KEY = "arn:aws:kms:eu-west-1:123456789012:key/k"
ROLES = [f"{ROLE}{name}" for name in ("execute", "provision", "reconcile")]
BY_EBS = (OK, "volumes are encrypted with EBS' own key, or not", "")
ADMITS = (OK, f"the key {KEY} of volumes admits the functions' roles", "")


def volume_key_found(account: AnsweringAccount) -> tuple[str, str, str]:
    told = cluster.finding_of("volume-key", account, NOW)
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
    assert volume_key_found(AnsweringAccount()) == BY_EBS
    assert volume_key_found(account(GetEbsEncryptionByDefault={"EbsEncryptionByDefault": False})) == BY_EBS
    assert volume_key_found(account(default="arn:aws:kms:eu-west-1:1:alias/aws/ebs")) == BY_EBS
    assert volume_key_found(account(default="")) == BY_EBS
    assert (
        volume_key_found(account(DescribeKey={"KeyMetadata": {"KeyManager": "AWS", "KeyState": "Disabled"}})) == BY_EBS
    )


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
    assert volume_key_found(account(DescribeKey=answer)) == (
        PROBLEM,
        f"volumes are encrypted with the key alias/volumes, which is {state}: launches fail",
        f"aws kms {command} --region eu-west-1 --key-id alias/volumes",
    )


def test_the_policy_is_that_of_the_key_behind_the_alias() -> None:
    asked = account(to(*ROLES))
    assert volume_key_found(asked) == ADMITS
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
    assert (
        volume_key_found(account(to(*ROLES[1:]), to(ROLES[0], operations=fewer), status="UPDATE_COMPLETE")) == SHUT_OUT
    )


def test_before_the_deployment_no_grant_can_be_created() -> None:
    without = account()
    assert volume_key_found(without) == (
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
    assert volume_key_found(granted) == (SHUT_OUT if finding is None else finding)
    assert ("ListGrants", {"KeyId": KEY, "GranteePrincipal": ROLES[0]}) in granted.asked


def test_what_a_policy_denies_is_not_granted() -> None:
    denied = account(to(*ROLES), to(ROLES[2], operations=("Decrypt",), Effect="Deny"), status="UPDATE_COMPLETE")
    assert volume_key_found(denied) == (
        PROBLEM,
        f"the policy of the key {KEY} of volumes denies its use to {ROLES[2]}: launches fail",
        f"aws kms get-key-policy --region eu-west-1 --key-id {KEY}",
    )


def test_conditions_that_cannot_be_judged_leave_it_open() -> None:
    condition = {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}
    says = f"cannot tell whether the key {KEY} of volumes admits {', '.join(ROLES)}: it depends on conditions"
    assert volume_key_found(account(to(*ROLES, Condition=condition))) == (UNKNOWN, says, "")
    denied = to(*ROLES, operations=("Decrypt",), Effect="Deny", Condition=condition)
    assert volume_key_found(account(to(*ROLES), denied)) == (UNKNOWN, says, "")
