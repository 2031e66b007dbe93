"""Objects with empty fields: the API server leaves them out or writes null, and both mean that there is nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cli.doctor.cluster_api import DEFINITIONS, ROLES, ClusterApi
from cli.doctor.cluster_roles import cluster_roles
from cli.doctor.definitions import definitions
from cli.doctor.errors import NotAllowedError, NotAnsweredError
from cli.doctor.finding import OK, PROBLEM
from core.api import crds
from installation.cluster_roles import manifests
from tests.builders import NOW

POOLS = "nodepools.karpenter.sh"


class Objects:
    """An account whose cluster has these objects, by kind and name."""

    def __init__(self, *objects: dict[str, Any], **settings: str) -> None:
        self.found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        self.api = self
        self._settings = settings

    def is_deployed(self) -> bool:
        return bool(self._settings)

    def settings(self) -> dict[str, str]:
        return self._settings

    def find(self, resource: Any, name: str) -> dict[str, Any] | None:
        return self.found.get((resource.kind, name))


def roles(**settings: str) -> Any:
    return Objects(*manifests(), **settings)


def told(account: Any) -> tuple[str, str]:
    found = cluster_roles("cluster-roles", account, NOW)
    return found.state, found.says


def test_roles_that_are_missing_are_listed_by_kind() -> None:
    account = roles()
    assert told(account)[0] == OK
    del account.found["ClusterRole", "fleetwright-execute"]
    assert told(account) == (PROBLEM, "there is no ClusterRole fleetwright-execute")
    del account.found["ClusterRoleBinding", "fleetwright-provision"]
    del account.found["ClusterRoleBinding", "fleetwright-execute"]
    assert told(account) == (
        PROBLEM,
        (
            "there is no ClusterRole fleetwright-execute; "
            "there is no ClusterRoleBinding fleetwright-provision, fleetwright-execute"
        ),
    )


@pytest.mark.parametrize("rules", [None, [], [{"apiGroups": None, "resources": None, "verbs": None}]])
def test_a_role_without_rules_allows_nothing(rules: Any) -> None:
    account = roles()
    account.found["ClusterRole", "fleetwright-execute"] = {"kind": "ClusterRole", "rules": rules}
    state, says = told(account)
    assert state == PROBLEM
    assert says.startswith("ClusterRole fleetwright-execute does not allow create ")
    assert says.count(", ") == 2
    assert says.rpartition(" and ")[2].endswith(" more")


@pytest.mark.parametrize(
    ("rule", "is_allowed"),
    [
        ({"apiGroups": [""], "resources": ["*"], "verbs": ["create"]}, True),
        ({"apiGroups": ["*"], "resources": ["*/binding"], "verbs": ["*"]}, True),
        ({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["*"]}, False),
        ({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}, False),
        ({"apiGroups": [""], "resources": ["*/eviction"], "verbs": ["*"]}, False),
        ({"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["get"]}, False),
        ({"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"], "resourceNames": ["p"]}, False),
    ],
)
def test_a_subresource_is_allowed_as_kubernetes_reads_it(rule: dict[str, Any], is_allowed: bool) -> None:
    account = roles()
    role = account.found["ClusterRole", "fleetwright-execute"]
    others = [one for one in role["rules"] if "pods/binding" not in one["resources"]]
    rest = [{**one, "resources": ["pods/eviction"]} for one in role["rules"] if "pods/binding" in one["resources"]]
    account.found["ClusterRole", "fleetwright-execute"] = {**role, "rules": [*others, *rest, rule]}
    assert ("create pods/binding" in told(account)[1]) != is_allowed


def test_a_plain_resource_is_not_allowed_by_rules_of_subresources() -> None:
    account = roles()
    role = account.found["ClusterRole", "fleetwright-execute"]
    account.found["ClusterRole", "fleetwright-execute"] = {
        **role,
        "rules": [*({"apiGroups": ["*"], "resources": ["*/", "*/nodes"], "verbs": ["*"]},)],
    }
    assert told(account)[0] == PROBLEM


@pytest.mark.parametrize("settings", [{"BIND_PODS": "false"}, {"BIND_PODS": "FALSE"}, {"BIND_PODS": "true"}, {}])
def test_the_permission_of_a_setting_that_is_off_is_not_needed(settings: dict[str, str]) -> None:
    account = roles(MODE="act", **settings)
    role = account.found["ClusterRole", "fleetwright-execute"]
    left = [
        {**one, "resources": [name for name in one["resources"] if name != "pods/binding"]} for one in role["rules"]
    ]
    account.found["ClusterRole", "fleetwright-execute"] = {**role, "rules": left}
    assert told(account)[0] == (OK if settings.get("BIND_PODS", "").lower() == "false" else PROBLEM)


def installed(**changes: Any) -> Any:
    """All definitions; those of NodePools with these changes of their version, and `status` beside it."""
    account: Any = Objects(*crds.definitions())
    found = account.found[DEFINITIONS.kind, POOLS]
    status = changes.pop("status", None)
    version = {**found["spec"]["versions"][0], **changes}
    account.found[DEFINITIONS.kind, POOLS] = {**found, "spec": {"versions": [version]}, "status": status}
    return account


def said(account: Any) -> str:
    return definitions("definitions", account, NOW).says


def test_definitions_with_null_in_them_are_read() -> None:
    assert said(installed()) == "all 4 are installed, with every field of this release"
    assert said(installed(status={"conditions": None})) == said(installed())
    assert said(installed(subresources=None)) == (f"{POOLS} has no subresource status, so no condition can be written")
    for schema in (None, {"openAPIV3Schema": None}, {"openAPIV3Schema": {"properties": None}}):
        assert said(installed(schema=schema)) == f"{POOLS} drops spec, which this release reads"
    account = installed()
    account.found[DEFINITIONS.kind, POOLS]["spec"] = {"versions": []}
    assert said(account) == f"{POOLS} does not serve v1, only nothing"


def test_a_definition_that_is_not_established_says_why() -> None:
    def with_condition(**fields: str) -> str:
        return said(
            installed(status={"conditions": [{"type": "Other"}, {"type": "Established", "status": "False", **fields}]})
        )

    assert with_condition(message="conflict", reason="NoConflicts") == f"{POOLS} is not established: conflict"
    assert with_condition(reason="NotAccepted") == f"{POOLS} is not established: NotAccepted"
    assert with_condition() == f"{POOLS} is not established: "


class Answering(ClusterApi):
    """An API server that gives one answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self._unreachable = ""
        error = f"{status} {body.decode()}"
        answer = SimpleNamespace(status=status, body=body, error=lambda call: f"{call}: {error}")
        self._transport = SimpleNamespace(send=lambda *_: answer)  # type: ignore[assignment]


def test_a_list_and_a_version_may_be_empty() -> None:
    for body in (b"{}", b'{"items": null}', b'{"items": []}'):
        assert Answering(200, body).list(ROLES) == []
    assert Answering(200, b'{"items": [{"a": 1}]}').list(ROLES) == [{"a": 1}]
    assert Answering(404, b"").list(ROLES) == []
    assert Answering(404, b"").version() == Answering(200, b"{}").version() == "of an unknown version"
    assert Answering(200, b'{"gitVersion": "v1.33"}').version() == "v1.33"


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (300, NotAnsweredError, "kube:list clusterroles: 300 {}"),
        (403, NotAllowedError, "kube:list clusterroles"),
        (401, NotAnsweredError, "no access entry of the cluster is for these credentials: use those of kubectl"),
    ],
)
def test_other_answers_are_no_answer(status: int, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as refused:
        Answering(status, b"{}").list(ROLES)
    assert str(refused.value) == says


def test_an_answer_that_is_no_object_is_no_answer() -> None:
    with pytest.raises(NotAnsweredError, match="the answer is not that of an API server"):
        Answering(200, b"<html>").find(ROLES, "x")
