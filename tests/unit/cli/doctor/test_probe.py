"""What the probes conclude from AWS's answers. Requests and answers are held against the SDK's models of the services."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from cli.doctor.network import OK, PROBLEM, UNKNOWN, AccountAnswer, AccountFinding
from cli.doctor.probe import PROBES, probe
from core.model.values.quotas import STANDARD
from simulator.aws.session import problems_of
from tests.unit.cli.doctor.answering_account import AnsweringAccount

NOW: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
CLUSTER: Final[dict[str, Any]] = {
    "name": "prod",
    "version": "1.35",
    "resourcesVpcConfig": {"subnetIds": ["subnet-1"], "clusterSecurityGroupId": "sg-1"},
}
ROLE: Final = {"Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:eu-west-1:1:q"}]}
DENIED: Final = "UnauthorizedOperation: You may not perform this operation. Encoded authorization failure message: xyz"


class ModelledAccount(AnsweringAccount):
    """An account whose requests AWS would take and whose answers it could give; `refused` lists the ones it would not take."""

    def __init__(self, *, nodes: dict[str, str] | None = None, daemon_sets: tuple[str, ...] = (), **given: Any) -> None:
        self.calls: list[str] = []
        self.refused: list[str] = []
        given.setdefault("GetCallerIdentity", {"Arn": "arn:aws:sts::123456789012:assumed-role/a/b"})
        super().__init__(**given)
        listed = [
            {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}
            for name, version in (nodes or {}).items()
        ]
        self.__dict__["api"] = SimpleNamespace(
            version=lambda: "v1.35.1-eks-1",
            list=lambda _: listed,
            find=lambda _kind, name, _namespace="": {"metadata": {"name": name}} if name in daemon_sets else None,
        )

    def answered(self, service: str, operation: str, region: str = "", **arguments: Any) -> AccountAnswer:
        model = get_session().get_service_model(service).operation_model(operation)
        self.refused += problems_of(f"{service}:{operation}", model.input_shape, arguments)
        assert not model.input_shape or not ParamValidator().validate(arguments, model.input_shape).has_errors()
        self.calls.append(f"{service}:{operation}{' (DryRun)' if arguments.get('DryRun') else ''}")
        answer = super().answered(service, operation, region, **arguments)
        if not answer.code:
            body = {name: value for name, value in answer.body.items() if name != "ResponseMetadata"}
            report = ParamValidator().validate(body, model.output_shape)
            assert not report.has_errors(), report.generate_report()
        return answer


def finding(name: str, account: ModelledAccount) -> AccountFinding:
    """The finding of one probe, whose calls are among those that it lists."""
    account.calls.clear()
    (told,) = (found for found in probe_one(name, account))
    assert sorted(set(account.calls) - set(PROBES[name].calls)) == []
    return told


def probe_one(name: str, account: ModelledAccount) -> list[AccountFinding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "cli.doctor.probe.PROBES", {name: PROBES[name]}
        )  # the table itself keeps its order for other tests
        return list(probe(account, NOW))


def dated(shift: timedelta) -> dict[str, Any]:
    there = datetime.now(UTC) + shift
    headers = {"date": there.strftime("%a, %d %b %Y %H:%M:%S GMT")}
    return {"Arn": "arn:aws:sts::123456789012:user/a", "ResponseMetadata": {"HTTPHeaders": headers}}


@pytest.mark.parametrize(
    ("shift", "state", "says"),
    [
        (timedelta(0), OK, "clock is"),
        (timedelta(minutes=3), PROBLEM, "behind"),
        (timedelta(minutes=-3), PROBLEM, "ahead"),
    ],
)
def test_a_clock_that_is_wrong_is_told(shift: timedelta, state: str, says: str) -> None:
    """Tokens for the API server are signed with it, and valid for a minute from the moment that they state."""
    told = finding("clock", ModelledAccount(GetCallerIdentity=dated(shift)))
    assert (told.state, says in told.says) == (state, True)


def simulated(decision: str, **detail: Any) -> dict[str, Any]:
    result = {"EvalActionName": "sqs:SendMessage", "EvalResourceName": "q", "EvalDecision": decision, **detail}
    return {"EvaluationResults": [result]}


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (simulated("allowed"), OK, "IAM allows all that 7 statements of 7 roles say"),
        (simulated("implicitDeny"), PROBLEM, "its own policies"),
        (
            simulated("explicitDeny", OrganizationsDecisionDetail={"AllowedByOrganizations": False}),
            PROBLEM,
            "an organization's policy",
        ),
        (
            simulated("implicitDeny", PermissionsBoundaryDecisionDetail={"AllowedByPermissionsBoundary": False}),
            PROBLEM,
            "its boundary",
        ),
    ],
)
def test_who_takes_a_permission_away_is_named(answer: dict[str, Any], state: str, says: str) -> None:
    """Nothing in the stack shows an organization's policy, and its first sign would be a launch that is denied."""
    account = ModelledAccount(
        status="UPDATE_COMPLETE",
        ListStackResources={"StackResourceSummaries": []},
        ListRolePolicies={"PolicyNames": ["p"], "IsTruncated": False},
        GetRolePolicy={"RoleName": "r", "PolicyName": "p", "PolicyDocument": ROLE},
        ListAttachedRolePolicies={"AttachedPolicies": []},
        SimulatePrincipalPolicy=answer,
    )
    account._answers["DescribeStacks"]["Stacks"][0] |= {"StackName": "s", "CreationTime": NOW}
    # The model wants policies as text; botocore decodes them.
    told = finding_without_models("permissions", account)
    assert (told.state, says in told.says) == (state, True)


def finding_without_models(name: str, account: ModelledAccount) -> AccountFinding:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelledAccount, "answered", AnsweringAccount.answered)
        return finding(name, account)


IMAGE: Final = {"Parameters": [{"Name": "n", "Value": "ami-1"}]}


@pytest.mark.parametrize(
    ("answer", "state", "mends"),
    [
        ("DryRunOperation: Request would have succeeded", OK, ""),
        (DENIED, UNKNOWN, ""),
        (
            DENIED.replace("operation.", "operation with an explicit deny in a service control policy."),
            PROBLEM,
            "aws sts decode-authorization-message --encoded-message xyz",
        ),
        ("InvalidParameterValue: no", PROBLEM, "fleetwright doctor --probe --record"),
    ],
)
def test_a_launch_is_asked_for_as_the_functions_make_it(answer: str, state: str, mends: str) -> None:
    """A policy that demands IMDSv2, encryption or tags judges what the request carries."""
    account = ModelledAccount(cluster=CLUSTER, GetParameters=IMAGE, RunInstances=answer)
    told = finding("launch", account)
    assert told.state == state
    assert told.mends.startswith(mends)
    assert account.refused == []


def test_nothing_is_launched() -> None:
    """Each call that could change something is a DryRun."""
    changes = [
        call for one in PROBES.values() for call in one.calls if call.partition(":")[2].startswith(("Run", "Create"))
    ]
    assert changes
    assert all(call.endswith(" (DryRun)") for call in changes)
    reads = ("Describe", "Get", "List", "Simulate", "Filter")
    others = [call for one in PROBES.values() for call in one.calls if call not in changes]
    assert [call for call in others if not call.partition(":")[2].startswith(reads)] == []


def quota(code: str, value: float) -> dict[str, Any]:
    return {"QuotaCode": code, "Value": value}


SUMMARY: Final = {"Roles": 10, "RolesQuota": 1000, "InstanceProfiles": 1, "InstanceProfilesQuota": 1000}


@pytest.mark.parametrize(
    ("listed", "rules", "summary", "state", "says"),
    [
        (
            [quota(STANDARD.on_demand, 64), quota(STANDARD.spot, 32)],
            3,
            SUMMARY,
            OK,
            "64 on-demand vCPUs; 32 spot vCPUs",
        ),
        ([quota(STANDARD.on_demand, 5), quota(STANDARD.spot, 32)], 3, SUMMARY, PROBLEM, "5 on-demand vCPUs"),
        ([quota(STANDARD.on_demand, 64)], 3, SUMMARY, PROBLEM, "5 spot vCPUs"),
        ([quota(STANDARD.on_demand, 64), quota(STANDARD.spot, 32)], 300, SUMMARY, PROBLEM, "0 rules of the bus"),
        (
            [quota(STANDARD.on_demand, 64), quota(STANDARD.spot, 32)],
            3,
            {**SUMMARY, "Roles": 998},
            PROBLEM,
            "2 roles are free",
        ),
    ],
    ids=["enough", "new account", "default", "rules", "roles"],
)
def test_quotas_leave_room(listed: list[Any], rules: int, summary: dict[str, int], state: str, says: str) -> None:
    """A quota that nobody raised may not be listed: then its default counts."""
    account = ModelledAccount(
        ListServiceQuotas={"Quotas": listed},
        GetAWSDefaultServiceQuota={"Quota": {"Value": 5.0}},
        ListRules={"Rules": [{"Name": f"r{number}"} for number in range(rules)]},
        GetAccountSummary={"SummaryMap": summary},
    )
    told = finding("quotas", account)
    assert (told.state, says in told.says) == (state, True)
    assert bool(told.mends) is (state == PROBLEM)
    assert account.refused == []


def line(late: float, *, with_stage: bool = True) -> dict[str, Any]:
    """An audit line that came so many seconds late; the log's agent writes its own time beside it."""
    ended = NOW - timedelta(minutes=5)
    message = json.dumps({"stageTimestamp": ended.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}) if with_stage else "cut"
    return {
        "timestamp": int(ended.timestamp() * 1000),
        "ingestionTime": int(ended.timestamp() * 1000 + late * 1000),
        "message": message,
    }


@pytest.mark.parametrize(
    ("lags", "state", "says"),
    [
        ([], UNKNOWN, "no line"),
        ([4.0, 8.0, 30.0], OK, "3 lines of the audit log came 8 s late at the median, 8 s at the 99th"),
        ([100.0, 120.0, 130.0], PROBLEM, "120 s late"),
    ],
)
@pytest.mark.parametrize("with_stage", [True, False])
def test_the_lag_of_the_audit_log_is_measured(lags: list[float], state: str, says: str, *, with_stage: bool) -> None:
    """EKS promises `within a few minutes`; past a minute, looking without the log is faster."""
    account = ModelledAccount(FilterLogEvents={"events": [line(lag, with_stage=with_stage) for lag in lags]})
    told = finding("log-lag", account)
    assert (told.state, says in told.says, "lookSeconds" in told.mends) == (state, True, state == PROBLEM)


def rules_of_ec2(**more: Any) -> ModelledAccount:
    usual: dict[str, Any] = {
        "DescribeInstances": ["FilterLimitExceeded: too many", {"Reservations": []}],
        "DescribePlacementGroups": "InvalidPlacementGroup.Unknown: unknown",
        "DescribeCapacityReservations": {"CapacityReservations": []},
    }
    return ModelledAccount(**{**usual, **more})


def test_refusals_prove_what_the_code_expects_of_ec2() -> None:
    account = rules_of_ec2()
    assert finding("ec2-rules", account).state == OK
    assert len(account.refused) == 1, "201 values of a filter, on purpose"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"DescribeInstances": [{"Reservations": []}, {"Reservations": []}]}, "201 values of a filter: accepted"),
        (
            {"DescribePlacementGroups": "InvalidParameterValue: no"},
            "InvalidParameterValue, expected InvalidPlacementGroup",
        ),
        ({"DescribeCapacityReservations": "InvalidParameterValue: no"}, "reservations by tag: InvalidParameterValue"),
    ],
)
def test_an_ec2_that_answers_otherwise_is_told_with_what_was_expected(answers: dict[str, Any], says: str) -> None:
    told = finding("ec2-rules", rules_of_ec2(**answers))
    assert told.state == PROBLEM
    assert says in told.says


def test_what_may_not_be_asked_is_unknown() -> None:
    assert finding("ec2-rules", rules_of_ec2(DescribePlacementGroups="UnauthorizedOperation: no")).state == UNKNOWN
    assert finding("types", ModelledAccount(DescribeInstanceTypes="UnauthorizedOperation: no")).state == UNKNOWN
    assert finding("prices", ModelledAccount(GetProducts="AccessDeniedException: no")).state == UNKNOWN
    assert finding("prices", ModelledAccount(GetProducts="InternalErrorException: no")).state == UNKNOWN


def test_types_that_take_no_encrypted_volume_are_named() -> None:
    account = ModelledAccount(DescribeInstanceTypes={"InstanceTypes": [{"InstanceType": "m1.small"}]})
    assert finding("types", account).says == "encrypted volumes are left to all types but m1.small"
    assert account.refused == []


SPOT: Final = {
    "SpotPriceHistory": [{"InstanceType": "m5.large", "SpotPrice": "0.03", "AvailabilityZone": "eu-west-1a"}]
}


@pytest.mark.parametrize(
    ("listed", "history", "silent"),
    [
        ([json.dumps({"terms": {"OnDemand": {}, "Reserved": {}}})], SPOT, ""),
        ([], SPOT, "the price list"),
        ([json.dumps({"terms": {"OnDemand": {}}})], {"SpotPriceHistory": []}, "spot prices"),
    ],
)
def test_a_source_of_prices_without_prices_is_named(listed: list[str], history: dict[str, Any], silent: str) -> None:
    account = ModelledAccount(GetProducts={"PriceList": listed}, DescribeSpotPriceHistory=history)
    told = finding("prices", account)
    assert told.state == (PROBLEM if silent else OK)
    assert silent in told.says
    assert account.refused == []


def test_images_are_published_and_there() -> None:
    answer = {"Parameters": [{"Name": "n", "Value": "ami-1"}]}
    there = {"Images": [{"ImageId": "ami-1", "State": "available"}]}
    account = ModelledAccount(cluster=CLUSTER, GetParameters=answer, DescribeImages=there)
    assert finding("images", account).state == OK
    assert account.refused == []
    lost = ModelledAccount(cluster=CLUSTER, GetParameters=answer, DescribeImages={"Images": []})
    assert "does not have the published images ami-1" in finding("images", lost).says
    unpublished = {"Parameters": [], "InvalidParameters": ["/aws/service/eks/x"]}
    told = finding("images", ModelledAccount(cluster=CLUSTER, GetParameters=unpublished))
    assert (told.state, "/aws/service/eks/x" in told.mends) == (PROBLEM, True)


@pytest.mark.parametrize(
    ("version", "state"),
    [("v1.35.0-eks-1", OK), ("v1.32.9-eks-1", OK), ("v1.31.0-eks-1", PROBLEM), ("v1.36.0", PROBLEM), ("", PROBLEM)],
)
def test_kubelets_are_at_most_three_versions_older(version: str, state: str) -> None:
    told = finding("kubelets", ModelledAccount(cluster=CLUSTER, nodes={"a": "v1.35.1-eks-1", "b": version}))
    assert told.state == state
    assert ("b (" in told.says) is (state == PROBLEM)


@pytest.mark.parametrize(
    ("users", "addons", "daemon_sets", "state"),
    [
        ([], [], (), OK),
        (["app"], ["eks-pod-identity-agent"], (), OK),
        (["app"], [], ("eks-pod-identity-agent",), OK),
        (["app", "karpenter"], ["vpc-cni"], (), PROBLEM),
    ],
)
def test_associations_need_the_agent(
    users: list[str], addons: list[str], daemon_sets: tuple[str, ...], state: str
) -> None:
    """Without it, pods on every new node would start without their credentials."""
    account = ModelledAccount(
        cluster=CLUSTER,
        daemon_sets=daemon_sets,
        ListPodIdentityAssociations={"associations": [{"serviceAccount": name} for name in users]},
        ListAddons={"addons": addons},
    )
    told = finding("pod-identity", account)
    assert told.state == state
    assert ("Karpenter's among them" in told.says) is ("karpenter" in users)


def test_a_probe_that_has_no_answer_leaves_the_others() -> None:
    told = list(probe(ModelledAccount(), NOW))
    assert [found.check for found in told] == list(PROBES)
    assert next(found for found in told if found.check == "images").says == "there is no cluster to ask"


@pytest.mark.parametrize("name", sorted(PROBES))
def test_each_call_has_its_permission(name: str) -> None:
    listed = PROBES[name].listed()
    assert [one["call"] for one in listed] == list(PROBES[name].calls)
    assert all(one["permission"] == "none" or ":" in one["permission"] for one in listed)
    assert not any("DryRun" in one["permission"] for one in listed)
