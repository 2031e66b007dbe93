"""Templates become the pods that the API server would store: witnesses are the admission plugins of Kubernetes 1.37.

Paths in docstrings are below `plugin/pkg/admission` and `pkg/quota/v1/evaluator/core` of that release.
"""

from __future__ import annotations

from typing import Any

import pytest

from core.manifests.admission import AdmissionNote, Admitted, Plugin, PodAdmission, PodQuotas
from core.manifests.pods import of_spec
from core.manifests.wire import decoding, resources
from core.manifests.wire.pod import WirePodSpec
from core.manifests.wire.resources import Resource
from core.manifests.workloads import Expansion, Idle, expand

GI = 2**30


def an_object(resource: Resource, name: str = "x", namespace: str = "shop", **fields: Any) -> Any:
    metadata = fields.pop("metadata", {})
    named = {"name": name, **({"namespace": namespace} if resource.namespaced else {}), **metadata}
    return decoding.from_object(resource, {"metadata": named, **fields})


def a_template(**spec: Any) -> WirePodSpec:
    written = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}], **spec}}
    found: WirePodSpec = decoding.from_object(resources.PODS, written).spec
    return found


def with_requests(**amounts: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": amounts}}


def with_limits(**amounts: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": amounts}}


def admitted(template: WirePodSpec, *objects: tuple[Resource, Any]) -> Admitted:
    return PodAdmission(_by_kind(objects)).admit("shop", template)


def _by_kind(objects: Any) -> dict[Resource, list[Any]]:
    found: dict[Resource, list[Any]] = {}
    for resource, obj in objects:
        found.setdefault(resource, []).append(obj)
    return found


def a_limit_range(*limits: dict[str, Any], namespace: str = "shop") -> tuple[Resource, Any]:
    return resources.LIMIT_RANGES, an_object(resources.LIMIT_RANGES, "bounds", namespace, spec={"limits": list(limits)})


def of_containers(**bounds: Any) -> dict[str, Any]:
    return {"type": "Container", **bounds}


@pytest.mark.parametrize(
    ("bounds", "container", "cpu"),
    [
        ({"defaultRequest": {"cpu": "1"}}, {"name": "main"}, 1000),
        ({"default": {"cpu": "2"}}, {"name": "main"}, 2000),
        ({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"name": "main"}, 1000),
        ({"max": {"cpu": "3"}}, {"name": "main"}, 3000),
        ({"min": {"cpu": "250m"}}, {"name": "main"}, 250),
        ({"default": {"cpu": "2"}}, with_requests(cpu="500m"), 500),
        ({"defaultRequest": {"cpu": "1"}}, with_limits(cpu="4"), 4000),
    ],
)
def test_a_limit_range_gives_containers_what_they_lack(
    bounds: dict[str, Any], container: dict[str, Any], cpu: int
) -> None:
    """A limit counts as request first, then come the defaults (limitranger, and SetDefaults_LimitRangeItem)."""
    found = admitted(a_template(containers=[container]), a_limit_range(of_containers(**bounds)))
    assert of_spec(found.spec)["cpu"] == cpu
    assert found.refusal is None


def test_defaults_go_to_sidecars_and_init_containers_too() -> None:
    """Both are containers of the pod (mergePodResourceRequirements)."""
    template = a_template(initContainers=[{"name": "proxy", "restartPolicy": "Always"}])
    found = admitted(template, a_limit_range(of_containers(defaultRequest={"cpu": "1"})))
    assert of_spec(found.spec)["cpu"] == 2000
    effect = "requests cpu 1 to container main; requests cpu 1 to container proxy"
    assert [str(note) for note in found.notes] == [f"LimitRange bounds adds {effect}"]


def test_a_limit_range_of_another_namespace_says_nothing() -> None:
    """It is a namespace's own."""
    other = a_limit_range(of_containers(defaultRequest={"cpu": "1"}), namespace="other")
    assert "cpu" not in of_spec(admitted(a_template(), other).spec)


@pytest.mark.parametrize(
    ("limit", "container", "problem"),
    [
        (of_containers(max={"cpu": "1"}), with_requests(cpu="2"), "request 2 of cpu is above the limit 1"),
        (of_containers(max={"cpu": "1"}), with_limits(cpu="2"), "container's limit of cpu is 2, at most 1"),
        (of_containers(min={"cpu": "1"}), with_requests(cpu="500m"), "container's request of cpu is 500m, at least 1"),
        (of_containers(default={"cpu": "1"}), with_requests(cpu="2"), "request 2 of cpu is above the limit 1"),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, with_limits(memory="2Gi"), "pod's limit of memory is 2Gi"),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, with_requests(memory="512Mi"), "pod's limit of memory is none"),
        ({"type": "Pod", "min": {"memory": "1Gi"}}, {"name": "main"}, "pod's request of memory is none"),
        (
            of_containers(maxLimitRequestRatio={"cpu": "2"}),
            {"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}},
            "container's limit of cpu is more than 2 times its request",
        ),
    ],
)
def test_a_pod_beyond_the_bounds_is_never_created(
    limit: dict[str, Any], container: dict[str, Any], problem: str
) -> None:
    """PodValidateLimitFunc, and the validation of a request above its limit."""
    found = admitted(a_template(containers=[container]), a_limit_range(limit))
    assert found.refusal is not None
    assert problem in str(found.refusal)


def test_a_pod_within_the_bounds_is_created() -> None:
    """A ratio and bounds are inclusive."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    bounds = of_containers(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "2"})
    assert admitted(a_template(containers=[container]), a_limit_range(bounds)).refusal is None


def a_runtime_class(name: str = "kata", **fields: Any) -> tuple[Resource, Any]:
    return resources.RUNTIME_CLASSES, an_object(resources.RUNTIME_CLASSES, name, handler="kata", **fields)


def test_a_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    """`runtimeclass`: setOverhead and setScheduling."""
    scheduling = {
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    }
    runtime = a_runtime_class(overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    found = admitted(a_template(runtimeClassName="kata", containers=[with_requests(cpu="1")]), runtime)
    assert of_spec(found.spec)["cpu"] == 1250
    assert found.spec.node_selector == {"kubernetes.io/arch": "arm64"}
    assert "kata" in [toleration.key for toleration in found.spec.tolerations]
    expected = (
        "RuntimeClass kata adds overhead cpu 250m and node selector kubernetes.io/arch=arm64 and a toleration of kata"
    )
    assert [str(note) for note in found.notes] == [expected]


@pytest.mark.parametrize(
    "template",
    [
        {"runtimeClassName": "gvisor"},
        {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
        {"overhead": {"cpu": "250m"}},
        {"runtimeClassName": "kata", "nodeSelector": {"kubernetes.io/arch": "amd64"}},
    ],
)
def test_a_pod_that_contradicts_its_runtime_class_is_never_created(template: dict[str, Any]) -> None:
    """An unknown class, another overhead or one without a class, or another value of a selected label."""
    scheduling = {"nodeSelector": {"kubernetes.io/arch": "arm64"}}
    runtime = a_runtime_class(overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    found = admitted(a_template(**template), runtime)
    assert found.refusal is not None
    assert found.refusal.plugin is Plugin.RUNTIME_CLASS


def test_a_runtime_class_that_the_input_lacks_changes_nothing() -> None:
    """Manifests in a repository rarely include the cluster's classes."""
    assert admitted(a_template(runtimeClassName="kata")).refusal is None


def test_a_pod_tolerates_the_taints_of_the_devices_that_it_requests() -> None:
    """`extendedresourcetoleration`: for each extended resource of any container, with NoSchedule; EKS has it on."""
    template = a_template(
        containers=[with_requests(**{"nvidia.com/gpu": "1", "cpu": "1", "hugepages-2Mi": "2Mi"})],
        initContainers=[{"name": "i", "resources": {"requests": {"aws.amazon.com/neuron": "1"}}}],
    )
    added = [(t.key, t.operator, t.effect) for t in admitted(template).spec.tolerations]
    assert added[-2:] == [("aws.amazon.com/neuron", "Exists", "NoSchedule"), ("nvidia.com/gpu", "Exists", "NoSchedule")]
    assert added[:2] == [
        ("node.kubernetes.io/not-ready", "Exists", "NoExecute"),
        ("node.kubernetes.io/unreachable", "Exists", "NoExecute"),
    ]
    assert len(added) == 4


def a_priority_class(name: str, value: int, **fields: Any) -> tuple[Resource, Any]:
    return resources.PRIORITY_CLASSES, an_object(resources.PRIORITY_CLASSES, name, value=value, **fields)


@pytest.mark.parametrize(
    ("template", "refusal"),
    [
        ({"priorityClassName": "high", "priority": 9}, None),
        ({"priorityClassName": "high", "priority": 8}, "it states priority 8, and gets 9"),
        ({"priority": 8}, "it states priority 8, and gets 3"),
        ({"priorityClassName": "elsewhere", "priority": 8}, None),
    ],
)
def test_a_pod_states_no_other_priority_than_its_classs(template: dict[str, Any], refusal: str | None) -> None:
    """`priority`: the number is computed; one that was written before must be the same."""
    classes = (
        a_priority_class("high", 9),
        a_priority_class("usual", 5, globalDefault=True),
        a_priority_class("least", 3, globalDefault=True),
    )
    found = admitted(a_template(**template), *classes).refusal
    assert (found and found.effect) == refusal


def test_a_pod_without_a_class_gets_the_lowest_default_one() -> None:
    """`priority`: quotas of a class count such pods, too."""
    classes = (a_priority_class("usual", 5, globalDefault=True), a_priority_class("least", 3, globalDefault=True))
    found = admitted(a_template(), *classes)
    assert found.spec.priority_class_name == "least"
    assert [str(note) for note in found.notes] == ["PriorityClass least adds priority 3"]


def test_a_priority_class_must_exist_where_all_are_known() -> None:
    """`priority`; every cluster has Kubernetes' own two classes."""
    system = [
        (resources.PRIORITY_CLASSES, an_object(resources.PRIORITY_CLASSES, name, value=2_000_000_000))
        for name in ("system-cluster-critical", "system-node-critical")
    ]
    template = a_template(priorityClassName="urgent")
    assert admitted(template).refusal is None
    assert admitted(template, *system).refusal == AdmissionNote(
        Plugin.PRIORITY, "urgent", "there is none of that name", refuses=True
    )


def test_nothing_is_created_in_a_namespace_that_terminates() -> None:
    """NamespaceLifecycle (k8s.io/apiserver)."""
    ending = an_object(resources.NAMESPACES, "shop", status={"phase": "Terminating"})
    found = admitted(a_template(), (resources.NAMESPACES, ending))
    assert str(found.refusal) == "Namespace shop refuses the pod: it is being terminated"


def a_quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> tuple[Resource, Any]:
    fields: dict[str, Any] = {"spec": {"hard": hard, **spec}, "status": {"used": used or {}}}
    return resources.RESOURCE_QUOTAS, an_object(resources.RESOURCE_QUOTAS, "team", **fields)


def created(
    template: dict[str, Any],
    *objects: tuple[Resource, Any],
    replicas: int = 5,
    resource: Resource = resources.DEPLOYMENTS,
) -> Expansion:
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}], **template}}}
    (expansion,) = expand(_by_kind([*objects, (resource, an_object(resource, "web", spec=spec))]))
    return expansion


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        (a_quota({"pods": "3"}), 3),
        (a_quota({"count/pods": "2"}), 2),
        (a_quota({"requests.cpu": "2500m"}), 2),
        (a_quota({"cpu": "4"}, {"cpu": "3"}), 1),
        (a_quota({"limits.memory": "4Gi"}), 4),
        (a_quota({"requests.nvidia.com/gpu": "1"}), 1),
        (a_quota({"requests.storage": "1Gi", "services": "1"}), 5),
        (a_quota({"pods": "1"}, scopes=["BestEffort"]), 5),
        (a_quota({"pods": "1"}, scopes=["NotBestEffort"]), 1),
        (a_quota({"pods": "1"}, scopes=["Terminating"]), 5),
        (a_quota({"pods": "1"}, scopes=["NotTerminating"]), 1),
        (
            a_quota(
                {"pods": "0"},
                scopeSelector={
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            ),
            5,
        ),
        (
            a_quota(
                {"pods": "0"},
                scopeSelector={
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]
                },
            ),
            0,
        ),
    ],
)
def test_a_quota_says_how_many_pods_may_exist(quota: tuple[Resource, Any], count: int) -> None:
    """Those beyond it are never created, and the workload says how many."""
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    found = created({"containers": [with_limits(**amounts)]}, quota)
    assert (len(found.pods), found.refused) == (count, 5 - count)
    assert (found.refusal is None) == (count == 5)


def test_a_quota_of_cpu_wants_a_request_of_every_container() -> None:
    """The evaluator's Constraints; a LimitRange may give it."""
    quota = a_quota({"requests.cpu": "100"})
    found = created({}, quota)
    assert (len(found.pods), found.refused) == (0, 5)
    assert "every container must state requests.cpu" in str(found.refusal)
    assert len(created({}, quota, a_limit_range(of_containers(default={"cpu": "1"}))).pods) == 5


def test_pods_that_run_count_where_a_quota_has_no_status() -> None:
    """Otherwise, its status counts them."""
    running = an_object(resources.PODS, "old", metadata={"uid": "1"}, spec={"containers": [{"name": "main"}]})
    finished = an_object(resources.PODS, "done", metadata={"uid": "2"}, status={"phase": "Succeeded"})
    pods = [(resources.PODS, running), (resources.PODS, finished)]
    assert len(created({}, a_quota({"pods": "3"}), *pods).pods) == 2
    assert len(created({}, a_quota({"pods": "3"}, {"pods": "1"}), *pods).pods) == 2


def test_one_quota_counts_the_pods_of_all_workloads() -> None:
    """It is the namespace's."""
    objects = _by_kind([a_quota({"pods": "3"})])
    quotas, template = PodQuotas(objects), a_template()
    assert [quotas.refusal("shop", template) is None for _ in range(4)] == [True, True, True, False]
    assert quotas.refusal("other", template) is None


def test_a_stateful_set_claims_no_volumes_for_pods_that_are_refused() -> None:
    """Volumes would cost a zone each."""
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    spec = {"replicas": 3, "template": {"spec": {"containers": [{"name": "main"}]}}, **claims}
    stateful = (resources.STATEFUL_SETS, an_object(resources.STATEFUL_SETS, "db", spec=spec))
    (found,) = expand(_by_kind([a_quota({"pods": "2"}), stateful]))
    assert [claim.metadata.name for claim in found.claims] == ["data-db-0", "data-db-1"]


def a_stateful_set(size: str = "10Gi", **spec: Any) -> tuple[Resource, Any]:
    template = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}, **spec}}
    fields = {
        "replicas": 3,
        "template": {"spec": {"containers": [{"name": "main"}]}},
        "volumeClaimTemplates": [template],
    }
    return resources.STATEFUL_SETS, an_object(resources.STATEFUL_SETS, "db", spec=fields)


A_CLAIM = an_object(resources.PERSISTENT_VOLUME_CLAIMS, "old", spec={"resources": {"requests": {"storage": "10Gi"}}})
DEFAULT_CLASS = an_object(
    resources.STORAGE_CLASSES, "gp3", metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
)


@pytest.mark.parametrize(
    ("objects", "count"),
    [
        ([a_limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}})], 0),
        ([a_limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "20Gi"}})], 0),
        ([a_limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}})], 3),
        ([a_quota({"persistentvolumeclaims": "2"})], 2),
        ([a_quota({"count/persistentvolumeclaims": "2"}, {"count/persistentvolumeclaims": "1"})], 1),
        ([a_quota({"requests.storage": "25Gi"})], 2),
        ([a_quota({"requests.storage": "25Gi"}), (resources.PERSISTENT_VOLUME_CLAIMS, A_CLAIM)], 1),
        ([a_quota({"requests.storage": "25Gi"}, scopes=["NotTerminating"])], 3),
        ([a_quota({"gp3.storageclass.storage.k8s.io/requests.storage": "25Gi"})], 3),
        (
            [
                a_quota({"gp3.storageclass.storage.k8s.io/requests.storage": "25Gi"}),
                (resources.STORAGE_CLASSES, DEFAULT_CLASS),
            ],
            2,
        ),
    ],
)
def test_a_stateful_set_makes_no_pod_whose_claim_is_refused(objects: list[tuple[Resource, Any]], count: int) -> None:
    """It makes the claims first (limitranger, quota/v1/evaluator/core/persistent_volume_claims.go)."""
    (found,) = expand(_by_kind([*objects, a_stateful_set()]))
    assert (len(found.pods), len(found.claims), found.refused) == (count, count, 3 - count)


def test_a_quota_counts_the_volume_claims_that_are_yet_to_come() -> None:
    """One that exists counts already, and its pod is made."""
    mine = an_object(
        resources.PERSISTENT_VOLUME_CLAIMS, "data-db-0", spec={"resources": {"requests": {"storage": "10Gi"}}}
    )
    objects = [a_quota({"requests.storage": "20Gi"}), (resources.PERSISTENT_VOLUME_CLAIMS, mine), a_stateful_set()]
    (found,) = expand(_by_kind(objects))
    assert len(found.pods) == 2
    assert str(found.refusal) == (
        "ResourceQuota team refuses the pod: 20Gi of 20Gi requests.storage are used, and its volume claim needs 10Gi"
    )


@pytest.mark.parametrize(
    ("resource", "hard", "count"),
    [
        (resources.DEPLOYMENTS, "count/deployments.apps", 0),
        (resources.DEPLOYMENTS, "count/replicasets.apps", 0),
        (resources.STATEFUL_SETS, "count/statefulsets.apps", 0),
        (resources.STATEFUL_SETS, "count/replicasets.apps", 2),
        (resources.REPLICATION_CONTROLLERS, "replicationcontrollers", 0),
    ],
)
def test_a_quota_counts_workloads(resource: Resource, hard: str, count: int) -> None:
    """One that the quota refuses makes no pods; one that is stored was not refused."""
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "main"}]}}}
    for metadata, pods in (({}, count), ({"uid": "1"}, 2)):
        workload = an_object(resource, "web", metadata=metadata, spec=spec)
        (found,) = expand(_by_kind([a_quota({hard: "0"}), (resource, workload)]))
        assert len(found.pods) == pods


def an_autoscaler(resource: Resource, kind: str = "Deployment", **spec: Any) -> tuple[Resource, Any]:
    target = {"kind": kind, "name": "web"}
    metadata = {"annotations": spec.pop("annotations", {})}
    return resource, an_object(resource, "scaler", metadata=metadata, spec={"scaleTargetRef": target, **spec})


HPA, KEDA = resources.HORIZONTAL_POD_AUTOSCALERS, resources.SCALED_OBJECTS


@pytest.mark.parametrize(
    ("autoscaler", "replicas", "count"),
    [
        (an_autoscaler(HPA, minReplicas=6, maxReplicas=20), 1, 6),
        (an_autoscaler(HPA, minReplicas=6, maxReplicas=20), 9, 9),
        (an_autoscaler(HPA, maxReplicas=3), 9, 3),
        (an_autoscaler(HPA, minReplicas=6, maxReplicas=20), 0, 0),
        (an_autoscaler(HPA, "StatefulSet", minReplicas=6, maxReplicas=20), 1, 1),
        (an_autoscaler(KEDA, minReplicaCount=4), 1, 4),
        (an_autoscaler(KEDA), 2, 2),
        (an_autoscaler(KEDA, minReplicaCount=4), 0, 4),
        (an_autoscaler(KEDA, minReplicaCount=4, idleReplicaCount=0), 0, 0),
        (an_autoscaler(KEDA, minReplicaCount=4, annotations={"autoscaling.keda.sh/paused": "true"}), 1, 1),
        (an_autoscaler(KEDA, minReplicaCount=4, annotations={"autoscaling.keda.sh/paused-replicas": "2"}), 5, 2),
        (an_autoscaler(KEDA, minReplicaCount=4, annotations={"autoscaling.keda.sh/paused-replicas": "2"}), 0, 2),
    ],
)
def test_an_autoscaler_decides_how_many_pods_there_are(
    autoscaler: tuple[Resource, Any], replicas: int, count: int
) -> None:
    """It raises and lowers the number within its bounds; zero replicas switch off all but KEDA's."""
    assert len(created({}, autoscaler, replicas=replicas).pods) == count


DELETED = {"deletionTimestamp": "2026-11-28T11:59:00Z"}


@pytest.mark.parametrize(
    "resource",
    [
        resources.DEPLOYMENTS,
        resources.REPLICA_SETS,
        resources.STATEFUL_SETS,
        resources.REPLICATION_CONTROLLERS,
        resources.JOBS,
    ],
)
def test_a_workload_that_is_being_deleted_makes_no_pods(resource: Resource) -> None:
    """No controller of Kubernetes creates for an object with a deletion time."""
    workload = an_object(resource, "web", metadata=DELETED, spec={"template": {}})
    (found,) = expand({resource: [workload]})
    assert (found.pods, found.idle) == ((), Idle.DELETED)


@pytest.mark.parametrize(
    ("job", "idle"),
    [
        ({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}, Idle.MANAGED_ELSEWHERE),
        ({"spec": {"managedBy": "kubernetes.io/job-controller"}}, None),
        ({"spec": {"suspend": True}}, Idle.SUSPENDED),
        ({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, Idle.FAILING),
        ({"status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}}, Idle.ENDING),
        ({"status": {"conditions": [{"type": "FailureTarget", "status": "False"}]}}, None),
        ({"spec": {"backoffLimit": 2}, "status": {"failed": 3}}, Idle.FAILING),
        ({"spec": {"backoffLimit": 3}, "status": {"failed": 3}}, None),
    ],
)
def test_a_job_that_ends_or_runs_elsewhere_makes_no_pods(job: dict[str, Any], idle: Idle | None) -> None:
    """pkg/controller/job/job_controller.go: syncJob and managedByExternalController."""
    (found,) = expand({resources.JOBS: [an_object(resources.JOBS, "j", **job)]})
    assert (found.idle, len(found.pods)) == (idle, 0 if idle else 1)


def test_a_paused_deployment_makes_no_first_replica_set() -> None:
    """pkg/controller/deployment: a paused one only scales the ReplicaSets that it has."""
    spec = {"paused": True, "replicas": 2, "template": {}}
    deployment = an_object(resources.DEPLOYMENTS, "web", spec=spec)
    (found,) = expand({resources.DEPLOYMENTS: [deployment]})
    assert (found.idle, found.pods) == (Idle.PAUSED, ())
    owner = {"ownerReferences": [{"kind": "Deployment", "name": "web"}]}
    replica_set = an_object(resources.REPLICA_SETS, "web-1", metadata=owner)
    (found,) = expand({resources.DEPLOYMENTS: [deployment], resources.REPLICA_SETS: [replica_set]})
    assert (found.idle, len(found.pods)) == (None, 2)
