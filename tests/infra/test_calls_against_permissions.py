"""What each function asks for against what its role and ClusterRole give it.

Nothing is refused, and nothing is idle without a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from infra.cluster_role import RULES_OF, group_of, verbs
from lambdas.adapters.kube.connect import kubernetes_of
from lambdas.wiring import BY_NAME
from simulator.run import run
from tests.access import world
from tests.access.iam import Policy, Request, UnknownPolicyError, read_statement
from tests.access.playing import held_to
from tests.access.recording import Access
from tests.access.template import Deployment
from tests.builders import NOW
from tests.fakes.world import FakeClock
from tests.infra.conftest import synthesize

BY_LAMBDA: Final = {
    "logs:CreateLogStream": "Lambda writes the function's log.",
    "logs:PutLogEvents": "Lambda writes the function's log.",
    "sqs:ReceiveMessage": "Lambda polls the queue for the function.",
    "sqs:DeleteMessage": "Lambda polls the queue for the function.",
    "sqs:ChangeMessageVisibility": "Lambda polls the queue for the function.",
    "sqs:GetQueueAttributes": "Lambda polls the queue, and sends failed invocations to another.",
    "sqs:GetQueueUrl": "Lambda polls the queue, and sends failed invocations to another.",
    "sqs:SendMessage": "Lambda sends failed invocations to the queue of failures.",
}
_MISSING: Final = "An object that is not there yet is told as missing, not as denied."
_CLASS: Final = "A class whose status nobody has written yet is resolved at the launch."
_RESOLVES: Final = {
    "ec2:DescribeImages": _CLASS,
    "ec2:DescribeSecurityGroups": _CLASS,
    "ec2:DescribeSubnets": _CLASS,
    "iam:AddRoleToInstanceProfile": _CLASS,
    "iam:CreateInstanceProfile": _CLASS,
    "iam:GetInstanceProfile": _CLASS,
    "iam:TagInstanceProfile": _CLASS,
    "ssm:GetParameters": _CLASS,
}
SELDOM: Final[Mapping[str, Mapping[str, str]]] = {
    "provision": {
        "s3:ListBucket": _MISSING,
        "dynamodb:DeleteItem": "A claim that EC2 refuses is forgotten.",
        **_RESOLVES,
    },
    "disrupt": {"s3:ListBucket": _MISSING},
    "execute": {"s3:ListBucket": _MISSING, **_RESOLVES},
    "reconcile": {
        "s3:GetObject": "An instance found by its tag is adopted with what its type has.",
        "s3:ListBucket": _MISSING,
        "ec2:DeleteLaunchTemplate": "Templates are pruned when they are weeks old.",
        "dynamodb:DeleteItem": "A brake is released; what a lost table left over is dropped.",
        "dynamodb:ConditionCheckItem": "Claims are requested anew only under the lease.",
        "scheduler:UpdateSchedule": "A schedule that another run has just made is set right.",
    },
    "refresh_catalogue": {"s3:ListBucket": _MISSING},
}
"""Function → what two short worlds do not ask for, and why it is needed all the same."""

_VOLUMES: Final = "where a pod has a volume"
_SPREADS: Final = "where the scheduler has default spread constraints"
_BUFFERS: Final = "with the feature gate CapacityBuffer"
SELDOM_LISTED: Final = {
    "persistentvolumes": _VOLUMES,
    "persistentvolumeclaims": _VOLUMES,
    "storageclasses": _VOLUMES,
    "csinodes": _VOLUMES,
    "volumeattachments": _VOLUMES,
    "services": _SPREADS,
    "replicationcontrollers": _SPREADS,
    "replicasets": _SPREADS,
    "statefulsets": _SPREADS,
    "deployments": _BUFFERS,
    "podtemplates": _BUFFERS,
    "capacitybuffers": _BUFFERS,
    "nodeoverlays": "with the feature gate NodeOverlay",
}
SELDOM_DONE: Final = {
    ("provision", "autoscaling.x-k8s.io", "capacitybuffers/status", "patch"): _BUFFERS,
    ("execute", "", "events", "create"): "a drain that comes no further is told",
    ("execute", "karpenter.sh", "nodepools", "get"): "a drain is given back within the limits",
    ("reconcile", "", "nodes", "patch"): "a node that a lost command left tainted is freed",
    ("reconcile", "karpenter.k8s.aws", "ec2nodeclasses", "get"): "an instance found by its tag is adopted",
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Templates with every optional brake on, so that every permission is in them."""
    return Deployment(synthesize(tmp_path_factory.mktemp("cdk"), "pausingAlarms=checkout-errors"))


@pytest.fixture(scope="module")
def played(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Access]]:
    """What each function asked for in two worlds, held to its permissions."""
    with held_to(deployment, {name: verbs(rules) for name, rules in RULES_OF.items()}) as accesses:
        for scenario in (world.life, world.market):
            run(scenario(tmp_path_factory.mktemp("scenario")))
        yield accesses


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_nothing_is_refused(played: dict[str, Access], function: str) -> None:
    """If this failed, the function would stop at this call on AWS, though it works wherever nobody asks for permissions."""
    assert played[function].refused == set()


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_every_permission_is_used_or_has_a_reason(
    played: dict[str, Access], deployment: Deployment, function: str
) -> None:
    """If this failed, a stolen role could do what its function never does."""
    reasons, used = SELDOM.get(function, {}), played[function].used
    assert deployment.policy(function).actions() - used - reasons.keys() - BY_LAMBDA.keys() == set()


@pytest.mark.parametrize("function", sorted(RULES_OF))
def test_every_verb_is_used_or_has_a_reason(played: dict[str, Access], function: str) -> None:
    """If this failed, a stolen role could do in the cluster what its function never does."""
    idle = verbs(RULES_OF[function]) - played[function].verbs
    listed = {found for found in idle if found[2] == "list" and found[1] in SELDOM_LISTED}
    assert {(function, *found) for found in idle - listed} - SELDOM_DONE.keys() == set()


def test_only_functions_that_ask_the_cluster_are_let_in(deployment: Deployment) -> None:
    groups = {name: deployment.groups(name) for name in BY_NAME}
    assert groups == {name: ((group_of(name),) if name in RULES_OF else ()) for name in BY_NAME}


def test_connecting_to_the_cluster_costs_one_look_at_it() -> None:
    """The simulated cluster is reached without; so `CheckedKubernetes` asks for this at each call."""
    asked: list[str] = []

    class Session:
        region_name = "us-east-1"

        def client(self, service: str, **_: Any) -> Any:
            asked.append(service)
            raise LookupError(service)

    with pytest.raises(LookupError):
        kubernetes_of(Session(), "fleetwright", FakeClock(NOW))  # type: ignore[arg-type]
    assert asked == ["eks"]


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
