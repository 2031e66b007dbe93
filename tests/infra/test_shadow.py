"""With `mode: shadow` nothing can be done: every permission of the stack and of the ClusterRoles is looked through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from installation.cluster_roles import RULES_OF, SHADOW_RULES_OF, manifests, verbs
from installation.wiring import SHADOW_FUNCTIONS
from simulator.run import run
from tests.access.playing import held_to
from tests.access.template import Deployment
from tests.infra.conftest import synthesize
from tests.infra.policies import KINDS, actions_of
from tests.simulation.karpenter import Karpenter, beside_karpenter
from tests.simulation.operated import operated
from tests.simulation.test_shadow import Site

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
