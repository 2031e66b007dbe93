"""What a refused call lacks, as AWS and the API server say it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.aws.ec2.fleet import describe
from adapters.observability import LENGTH_MAX, NOT_NAMED, RefusedCall, refused_call
from core.launch.denials import RULES, LaunchDenial

USER = "User: arn:aws:sts::123456789012:assumed-role/fleetwright-prod-eu-west-1-execute/x is not authorized to perform"


ARN = "arn:aws:ec2:eu-west-1:123456789012:instance/"
FORBIDDEN = 'is forbidden: User "r" cannot'


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (
            f"ec2:CreateFleet: UnauthorizedOperation: You may not. {USER}: ec2:RunInstances on resource: {ARN}* because no",
            ("ec2:RunInstances", f"{ARN}*"),
        ),
        (
            f"ec2:TerminateInstances: UnauthorizedOperation: {USER}: ec2:TerminateInstances on resource: {ARN}i-0abc1234 with",
            ("ec2:TerminateInstances", f"{ARN}*"),
        ),
        (
            f"ec2:CreateFleet: UnauthorizedOperation: {USER}: iam:PassRole on resource: arn:aws:iam::1:role/Nodes.",
            ("iam:PassRole", "arn:aws:iam::1:role/Nodes"),
        ),
        (
            f"dynamodb:Query: AccessDeniedException: {USER}: dynamodb:Query on resource: arn:aws:dynamodb:::table/prod because",
            ("dynamodb:Query", "arn:aws:dynamodb:::table/prod"),
        ),
        (
            f"pricing:GetProducts: AccessDeniedException: {USER}: pricing:GetProducts",
            ("pricing:GetProducts", NOT_NAMED),
        ),
        (
            f'kube:evict pods: 403 pods "web-1" {FORBIDDEN} create resource "pods/eviction" in API group "" in the namespace',
            ("kube:create", "pods/eviction"),
        ),
        (
            f'kube:list nodepools: 403 {FORBIDDEN} list resource "nodepools" in API group "karpenter.sh" at the cluster scope',
            ("kube:list", "nodepools.karpenter.sh"),
        ),
        ("ec2:CreateFleet: VcpuLimitExceeded: more than 64", ("ec2:CreateFleet", "VcpuLimitExceeded")),
        (
            "ec2:CreateFleet: VcpuQuotaExceeded (VcpuLimitExceeded: more than 64)",
            ("ec2:CreateFleet", "VcpuLimitExceeded"),
        ),
        ("ec2:CreateFleet: InvalidAMIID.NotFound: ami-1 is gone", ("ec2:CreateFleet", "InvalidAMIID.NotFound")),
        ('kube:evict pods: 403 admission webhook "Guard: x" denied the request', ("kube:evict pods", NOT_NAMED)),
        ("dynamodb", (NOT_NAMED, NOT_NAMED)),
        ("", (NOT_NAMED, NOT_NAMED)),
    ],
)
def test_action_and_resource_are_those_of_the_answer(message: str, refused: tuple[str, str]) -> None:
    assert refused_call(message) == refused


@pytest.mark.parametrize(
    ("resource", "reported"),
    [
        (
            '"arn:aws:s3:::ledger-prod/ledger/decisions/prod/2026/11/27/053100.000000Z-disrupt-7f3a.json.gz"',
            "arn:aws:s3:::ledger-prod/ledger/decisions/*",
        ),
        ('"arn:aws:s3:::market/catalogue/market.json.gz"', "arn:aws:s3:::market/catalogue/*"),
        ('"arn:aws:s3:::market"', "arn:aws:s3:::market"),
        (
            "arn:aws:ec2:eu-west-1:1:fleet/fleet-73fbd2ce-aa30-494c-8788-1cee4aaaaaaa",
            "arn:aws:ec2:eu-west-1:1:fleet/*",
        ),
        ("arn:aws:ec2:eu-west-1::image/ami-0abc", "arn:aws:ec2:eu-west-1::image/*"),
        (
            "arn:aws:iam::1:instance-profile/fleetwright/eu-west-1/prod/default-71a2",
            "arn:aws:iam::1:instance-profile/fleetwright/eu-west-1/prod/*",
        ),
        (
            "arn:aws:scheduler:eu-west-1:1:schedule/fleetwright-prod/w-1",
            "arn:aws:scheduler:eu-west-1:1:schedule/fleetwright-prod/*",
        ),
        ("arn:aws:iam::1:role/team/Nodes.", "arn:aws:iam::1:role/team/Nodes"),
        ("arn:aws:kms:eu-west-1:1:key/1234", "arn:aws:kms:eu-west-1:1:key/1234"),
        ("arn:aws:ssm:eu-west-1:1:parameter/images/base", "arn:aws:ssm:eu-west-1:1:parameter/images/base"),
        ("*", "*"),
    ],
)
def test_one_refused_action_has_few_resources(resource: str, reported: str) -> None:
    """S3 quotes its resources: each decision that the ledger could not store was a metric of its own."""
    assert refused_call(f"x:Y: AccessDenied: {USER}: a:B on resource: {resource} because no policy") == (
        "a:B",
        reported,
    )


@pytest.mark.parametrize("code", sorted({f"{rule.code}{'NotFound' if rule.begins else ''}" for rule in RULES}))
def test_a_refused_launch_and_what_stays_of_it_are_one(code: str) -> None:
    """Two resources would be two contributors of the alarm, and two notifications."""
    standing = LaunchDenial(node_class="default", code=code, call="ec2:CreateFleet", message="no")
    raised = f"ec2:CreateFleet: {code}: no"
    among_errors = f"ec2:CreateFleet: {describe({'ErrorCode': code, 'ErrorMessage': 'no'})}"
    calls = {refused_call(message) for message in (standing.refusal(), raised, among_errors)}
    assert calls == {("ec2:CreateFleet", code)}


@given(st.text(max_size=600))
def test_cloudwatch_takes_whatever_is_read(message: str) -> None:
    """It refuses an empty dimension, and one that is not ASCII."""
    for text in (message, f"x: not authorized to perform: a:B on resource: {message}"):
        call = refused_call(text)
        assert isinstance(call, RefusedCall)
        assert all(0 < len(value) <= LENGTH_MAX and value.isascii() for value in call)
