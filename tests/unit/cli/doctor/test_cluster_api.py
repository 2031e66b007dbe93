"""What the functions need in the cluster: the doctor asks the API server, and changes nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

import boto3
import pytest

from cli.doctor import cluster
from cli.doctor.cluster import cluster_roles, definitions, karpenter
from cli.doctor.cluster_api import BINDINGS, DEFINITIONS, ROLES, ClusterApi, NotAllowedError, NotAnsweredError
from cli.doctor.network import OK, PROBLEM, UNKNOWN, Account, AccountFinding
from core.api import crds
from installation.cluster_roles import manifests
from tests.builders import NOW, a_class_manifest
from tests.fakes.api_server import ApiServer, Failure, serving

KEYS: Final = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
ROLE: Final = "arn:aws:iam::123456789012:role/fleetwright-prod-eu-west-1-"


class Installed(Account):
    """A cluster, and the settings of its functions; no settings before the deployment."""

    def __init__(self, url: str, **settings: str) -> None:
        super().__init__(boto3.Session(region_name="eu-west-1", **KEYS), "prod", "fleetwright-prod")
        self._url, self._settings = url, settings
        self.entries: dict[str, list[str]] = {}

    def is_deployed(self) -> bool:
        return bool(self._settings)

    def settings(self) -> dict[str, str]:
        return self._settings

    def described(self) -> dict[str, Any]:
        return {"endpoint": self._url}

    def resources(self) -> Iterator[Any]:
        return iter(())

    def role(self, name: str) -> str:
        return f"arn:aws:iam::123456789012:role/{name}"

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        assert (service, operation, arguments["clusterName"]) == ("eks", "DescribeAccessEntry", "prod")
        groups = self.entries.get(arguments["principalArn"])
        return None if groups is None else {"accessEntry": {"kubernetesGroups": groups}}


def install(server: ApiServer, **flags: bool) -> None:
    """Apply the definitions and the ClusterRoles."""
    for definition in crds.definitions():
        server.put(DEFINITIONS.path(), copy.deepcopy(definition))
    for manifest in manifests(**flags):
        kind = ROLES if manifest["kind"] == ROLES.kind else BINDINGS
        server.put(kind.path(), copy.deepcopy(manifest))


def found(check: str, account: Account) -> AccountFinding:
    """The result of one check."""
    return cluster.finding_of(check, account, NOW)


@pytest.mark.parametrize(
    ("authority", "data"), [({"data": "LS0t"}, "LS0t"), ({"data": None}, ""), ({}, ""), (None, ""), ("absent", "")]
)
def test_the_servers_certificate_is_the_clusters_own(authority: Any, data: str) -> None:
    account = Installed("https://api")
    told = {"endpoint": "https://api"} | ({} if authority == "absent" else {"certificateAuthority": authority})
    account.described = lambda: told  # type: ignore[method-assign]
    assert account.api._address() == ("https://api", data)


def test_an_empty_cluster_lacks_definitions_and_roles(server: ApiServer, url: str) -> None:
    account = Installed(url)
    assert found("api-server", account).says == "it answers, and is v1.33.1-eks-1"
    told = found("definitions", account)
    assert (told.state, told.mends) == (PROBLEM, "fleetwright crds | kubectl apply --server-side -f -")
    assert told.says.startswith(f"the cluster has no {POOLS}, ")
    assert "ec2nodeclasses.karpenter.k8s.aws" in told.says
    told = found("cluster-roles", account)
    assert (told.state, told.mends) == (PROBLEM, ".venv/bin/python -m infra.cluster_role | kubectl apply -f -")
    names = "fleetwright-provision, fleetwright-disrupt, fleetwright-execute, fleetwright-reconcile"
    assert told.says == f"there is no ClusterRole {names}; there is no ClusterRoleBinding {names}"
    assert {request.method for request in server.requests} == {"GET"}


def test_an_installed_cluster_is_right(server: ApiServer, url: str) -> None:
    install(server)
    account = Installed(url)
    assert [found(check, account).state for check in ("definitions", "cluster-roles")] == [OK, OK]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ({"subresources": None}, "has no subresource status, so no condition can be written"),
        ({"schema": None}, "drops "),
        ({"schema": {"openAPIV3Schema": None}}, "drops "),
        ({"schema": {"openAPIV3Schema": {"type": "object", "properties": None}}}, "drops "),
        (
            {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}},
            "drops spec.",
        ),
    ],
)
def test_a_definition_without_a_part_lacks_what_is_in_it(version: dict[str, Any], told: str) -> None:
    """The API server answers null for what nobody has written."""
    (ours, *_) = crds.definitions()
    installed = copy.deepcopy(ours)
    installed["spec"]["versions"][0] |= version
    problems = list(cluster._problems(ours, installed))
    assert len(problems) == 1
    assert problems[0].startswith(told)


@pytest.mark.parametrize(("fewer", "said"), [(3, ""), (4, " and 1 more")])
def test_of_many_dropped_fields_three_are_named(fewer: int, said: str) -> None:
    (ours, *_) = crds.definitions()
    installed = copy.deepcopy(ours)
    fields = installed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    dropped = [f"spec.{name}" for name in list(fields)[:fewer]]
    for name in list(fields)[:fewer]:
        del fields[name]
    (problem,) = cluster._problems(ours, installed)
    assert problem == f"drops {', '.join(dropped[:3])}{said}, which this release reads"


@pytest.mark.parametrize("function", ["provision", "disrupt", "execute", "reconcile"])
def test_a_role_that_lacks_a_rule_is_named_with_it(server: ApiServer, url: str, function: str) -> None:
    """An update whose ClusterRoles were not applied ends in refused calls."""
    install(server)
    path = f"{ROLES.path()}/fleetwright-{function}"
    server.objects[path]["rules"] = [r for r in server.objects[path]["rules"] if r["resources"] != ["ec2nodeclasses"]]
    told = found("cluster-roles", Installed(url))
    assert told.state == PROBLEM
    assert f"ClusterRole fleetwright-{function} does not allow" in told.says
    assert "list ec2nodeclasses.karpenter.k8s.aws" in told.says


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, OK),
        ({"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}, PROBLEM),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["one"]}, PROBLEM),
        ({"nonResourceURLs": ["*"], "verbs": ["*"]}, PROBLEM),
    ],
)
def test_rules_are_read_as_kubernetes_does(server: ApiServer, url: str, rule: dict[str, Any], state: str) -> None:
    install(server)
    server.objects[f"{ROLES.path()}/fleetwright-execute"]["rules"] = [rule]
    assert found("cluster-roles", Installed(url)).state == state


@pytest.mark.parametrize(
    "wrong",
    [
        {"subjects": [{"kind": "Group", "name": "fleetwright:provision"}]},
        {"subjects": [{"kind": "User", "name": "fleetwright:execute"}]},
        {"subjects": None},
        {"roleRef": {"kind": "ClusterRole", "name": "view"}},
    ],
)
def test_a_binding_binds_the_group_of_its_function(server: ApiServer, url: str, wrong: dict[str, Any]) -> None:
    install(server)
    server.objects[f"{BINDINGS.path()}/fleetwright-execute"].update(wrong)
    told = found("cluster-roles", Installed(url))
    assert told.says.endswith("does not bind the group fleetwright:execute to ClusterRole fleetwright-execute")


def test_a_binding_of_another_role_is_deleted_first(server: ApiServer, url: str) -> None:
    """The API server refuses a changed `roleRef`, so `kubectl apply` alone would end in an error."""
    install(server)
    applies = ".venv/bin/python -m infra.cluster_role | kubectl apply -f -"
    server.objects[f"{BINDINGS.path()}/fleetwright-provision"]["subjects"] = None
    assert found("cluster-roles", Installed(url)).mends == applies
    for function in ("disrupt", "execute"):
        server.objects[f"{BINDINGS.path()}/fleetwright-{function}"]["roleRef"]["name"] = "view"
    names = "fleetwright-disrupt fleetwright-execute"
    assert found("cluster-roles", Installed(url)).mends == f"kubectl delete clusterrolebinding {names} && {applies}"


@pytest.mark.parametrize(
    ("settings", "flag", "option"),
    [
        ({"SURGE_RESTARTS": "true"}, "surge", "--surge"),
        ({"STEER_SCALE_IN": "True"}, "steering", "--steer"),
        ({"FEATURE_GATES": "PodDeletionCostManagement=true"}, "steering", "--steer"),
        ({"MODE": "approve"}, "approval", "--approve"),
    ],
)
def test_settings_that_need_more_ask_for_more(
    server: ApiServer, url: str, settings: dict[str, str], flag: str, option: str
) -> None:
    install(server)
    told = found("cluster-roles", Installed(url, **settings))
    assert (told.state, told.mends) == (
        PROBLEM,
        f".venv/bin/python -m infra.cluster_role {option} | kubectl apply -f -",
    )
    install(server, **{flag: True})
    assert found("cluster-roles", Installed(url, **settings)).state == OK


def test_a_shadow_needs_its_lists_alone(server: ApiServer, url: str) -> None:
    install(server, shadow=True)
    assert found("cluster-roles", Installed(url, MODE="shadow")).state == OK
    assert found("cluster-roles", Installed(url, MODE="act")).state == PROBLEM


def test_rules_of_settings_that_are_off_may_be_removed(server: ApiServer, url: str) -> None:
    """The page on deploying permits it."""
    install(server)
    path = f"{ROLES.path()}/fleetwright-execute"
    optional = (["pods/binding", "pods/eviction"], ["pods/status"])
    server.objects[path]["rules"] = [r for r in server.objects[path]["rules"] if r["resources"] not in optional]
    server.objects[path]["rules"] += [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
    told = found("cluster-roles", Installed(url, MODE="act"))
    assert told.says == "ClusterRole fleetwright-execute does not allow create pods/binding, patch pods/status"
    assert found("cluster-roles", Installed(url, BIND_PODS="false", NOMINATE_PODS="False")).state == OK


def _old(definition: dict[str, Any]) -> None:
    definition["spec"]["versions"][0]["name"] = "v1beta1"


def _converted(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**version, "name": "v1beta1"}, {**version, "storage": False}]


def _without_budgets(definition: dict[str, Any]) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["disruption"]["properties"]["budgets"]["items"]["properties"][
        "nodes"
    ]
    del schema["properties"]["spec"]["properties"]["weight"]


def _refused(definition: dict[str, Any]) -> None:
    definition["status"] = {"conditions": [{"type": "Established", "status": "False", "message": "names conflict"}]}


def _without_status(definition: dict[str, Any]) -> None:
    definition["spec"]["versions"][0]["subresources"] = {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_old, "does not serve v1, only v1beta1"),
        (_converted, "stores v1beta1, so v1 depends on another program's conversion"),
        (_without_budgets, "drops spec.disruption.budgets[].nodes, spec.weight, which this release reads"),
        (_refused, "is not established: names conflict"),
        (_without_status, "has no subresource status, so no condition can be written"),
    ],
)
def test_a_definition_of_another_release_is_named_with_what_is_wrong(
    server: ApiServer, url: str, change: Any, says: str
) -> None:
    install(server)
    change(server.objects[f"{DEFINITIONS.path()}/{POOLS}"])
    told = found("definitions", Installed(url))
    assert (told.state, told.says) == (PROBLEM, f"{POOLS} {says}")
    assert told.mends == "fleetwright crds | kubectl apply --server-side --force-conflicts -f -"


def test_a_definition_that_keeps_unknown_fields_drops_none(server: ApiServer, url: str) -> None:
    install(server)
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = f"{DEFINITIONS.path()}/{POOLS}"
    server.objects[path]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    assert found("definitions", Installed(url)).state == OK


def test_karpenters_definition_of_kubelets_fields_works(server: ApiServer, url: str) -> None:
    """The page on deploying says so; it has fourteen fields of kubelet's configuration."""
    install(server)
    path = f"{DEFINITIONS.path()}/ec2nodeclasses.karpenter.k8s.aws"
    schema = server.objects[path]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["kubelet"] = {"type": "object", "properties": {"maxPods": {"type": "integer"}}}
    told = found("definitions", Installed(url))
    assert told.state == OK
    assert re.fullmatch(r"all 5 are installed, with all but \d+ of spec.kubelet, as Karpenter's lack", told.says)


def test_roles_of_functions_are_in_their_groups(url: str) -> None:
    account = Installed(url, MODE="act")
    functions = ("provision", "disrupt", "execute", "reconcile")
    account.entries = {f"{ROLE}{name}": [f"fleetwright:{name}"] for name in functions}
    assert found("access-entries", account).state == OK
    account.entries[f"{ROLE}disrupt"] = ["auditors", "fleetwright:provision"]
    del account.entries[f"{ROLE}execute"]
    told = found("access-entries", account)
    assert told.state == PROBLEM
    assert f"the entry of {ROLE}disrupt lacks the group fleetwright:disrupt; {ROLE}execute has no entry" in told.says
    update, create = told.mends.split(" && ")
    start = "-access-entry --region eu-west-1 --cluster-name prod --principal-arn "
    assert (
        update
        == f"aws eks update{start}{ROLE}disrupt --kubernetes-groups auditors fleetwright:provision fleetwright:disrupt"
    )
    assert create == f"aws eks create{start}{ROLE}execute --kubernetes-groups fleetwright:execute"


def test_a_shadow_has_two_entries(url: str) -> None:
    account = Installed(url, MODE="shadow")
    account.entries = {f"{ROLE}{name}": [f"fleetwright:{name}"] for name in ("provision", "disrupt")}
    assert found("access-entries", account).state == OK
    assert found("access-entries", Installed(url)).says.startswith("not deployed yet")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "no access entry of the cluster is for these credentials: use those of kubectl"),
        (403, "these credentials may not call kube:get customresourcedefinitions"),
        (500, "kube:get customresourcedefinitions: 500 {}"),
    ],
)
def test_an_answer_that_tells_nothing_leaves_the_check_open(
    server: ApiServer, url: str, status: int, says: str
) -> None:
    server.failures += [Failure(status=status)] * 2
    told = found("definitions", Installed(url))
    assert (told.state, told.says) == (UNKNOWN, says)


def test_a_server_that_does_not_answer_is_asked_once() -> None:
    """A private endpoint is not reached from a laptop: each further check would wait for its timeout."""
    with serving(ApiServer()) as gone:
        pass
    account = Installed(gone)
    told = found("api-server", account)
    assert told.state == UNKNOWN
    assert told.says.startswith("the API server does not answer from here: ")
    assert found("definitions", account).says == found("cluster-roles", account).says == told.says


# Objects with empty fields: the API server leaves them out or writes null, and both mean that there is nothing.


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

    def list(self, resource: Any) -> list[dict[str, Any]]:
        return [obj for (kind, _), obj in self.found.items() if kind == resource.kind]


def roles(**settings: str) -> Any:
    return Objects(*manifests(), **settings)


def told(account: Any) -> tuple[str, str]:
    found = cluster_roles("cluster-roles", account, NOW)
    return found.state, found.says


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
    assert said(installed()) == "all 5 are installed, with every field of this release"
    assert said(installed(status={"conditions": None})) == said(installed())
    assert said(installed(subresources=None)) == (f"{POOLS} has no subresource status, so no condition can be written")
    for schema in (None, {"openAPIV3Schema": None}, {"openAPIV3Schema": {"properties": None}}):
        assert said(installed(schema=schema)) == f"{POOLS} drops spec, which this release reads"
    account = installed()
    account.found[DEFINITIONS.kind, POOLS]["spec"] = {"versions": []}
    assert said(account) == f"{POOLS} does not serve v1, only nothing"


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


CLASSES = "ec2nodeclasses.karpenter.k8s.aws"


DROPPED = "fields that this version does not know, so that nothing is launched from their EC2NodeClass:"


def of_karpenter(*objects: Any, **fields: Any) -> tuple[str, str]:
    """State and words where Karpenter's own definition of EC2NodeClasses is installed, with these fields in its spec."""
    account: Any = Objects(*crds.definitions(), *objects)
    found = copy.deepcopy(account.found[DEFINITIONS.kind, CLASSES])
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["kubelet"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for name, schema in fields.items():
        spec["properties"].pop(name, None) if schema is None else spec["properties"].update({name: schema})
    account.found[DEFINITIONS.kind, CLASSES] = found
    told = karpenter("karpenter", account, NOW)
    return told.state, told.says


def a_class(name: str = "default", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {**a_class_manifest(name, **spec), "metadata": {"name": name, "annotations": annotations or {}}}


def test_a_cluster_says_which_karpenter_it_has() -> None:
    nothing: Any = Objects()
    assert karpenter("karpenter", nothing, NOW).says == "no definition of Karpenter is installed"
    same = "every field and object means the same here"
    ours: Any = Objects(*crds.definitions())
    assert karpenter("karpenter", ours, NOW)[1:3] == (OK, f"the definitions are ours; {same}")
    assert of_karpenter() == (OK, f"the definitions are Karpenter's, 1.15 or later; {same}")
    assert of_karpenter(enclaveOptions=None) == (OK, f"the definitions are Karpenter's, before 1.15; {same}")
    hashed = a_class(annotations={"karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"})
    assert of_karpenter(hashed)[1].endswith(f"last hashed by Karpenter 1.15; {same}")
    other = a_class(annotations={"karpenter.k8s.aws/ec2nodeclass-hash-version": "v7"})
    assert "by Karpenter of another version (hash v7)" in of_karpenter(other)[1]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            a_class("new", newField={"a": 1}),
            f"{DROPPED} EC2NodeClass new spec.newField",
        ),
        (a_class("wrong", role=7), "our rules refuse EC2NodeClass wrong"),
        (
            a_class("computed", kubelet={"maxPods": "max_pods - 1"}),
            "not ready here, since expressions in spec.kubelet are not evaluated: EC2NodeClass computed",
        ),
        (
            a_class("shared", {"karpenter.k8s.aws/nvidia-consumable-capacity": "memory"}),
            "GPUs are not shared between resource claims here: EC2NodeClass shared",
        ),
        (
            {
                "kind": "NodeClaim",
                "metadata": {"name": "c1"},
                "status": {"conditions": [{"type": "Rebooting", "status": "True"}]},
            },
            "Karpenter reboots nodes of these NodeClaims, so take over when it has ended: c1",
        ),
    ],
)
def test_what_means_something_else_here_is_named(found: dict[str, Any], told: str) -> None:
    assert of_karpenter(found) == (PROBLEM, f"the definitions are Karpenter's, 1.15 or later; {told}")


def test_what_users_accept_means_nothing_else() -> None:
    accepted = a_class("new", {"fleetwright.dev/ignored-fields": "spec.newField"}, newField={"a": 1})
    rebooted = {
        "kind": "NodeClaim",
        "metadata": {"name": "c1"},
        "status": {"conditions": [{"type": "Rebooting", "status": "False"}]},
    }
    assert of_karpenter(accepted, rebooted)[0] == OK


def test_fields_that_our_definitions_lack_are_named() -> None:
    state, says = of_karpenter(newField={"type": "object", "properties": {"a": {"type": "string"}}})
    assert (state, says.partition("; ")[2]) == (PROBLEM, f"our definitions lack {CLASSES} spec.newField")
