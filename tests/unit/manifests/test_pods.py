"""Pods: from wire to model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.errors import InvalidInputError
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.steps import ClaimFacts
from core.manifests import pods
from core.manifests.pods import GRACE_SECONDS_MAX, PodSpecTranslator, PodTranslator, pod_terms, preferred_pod_terms
from core.manifests.storage import equality_selector
from core.manifests.wire import decoding, resources
from core.manifests.wire.objects import WireLabelSelector
from core.manifests.wire.pod import WirePodAffinityTerm, WireWeightedPodAffinityTerm
from core.model.pod import HostPort, NodeSelectorTerm, Owner, Pod, PodSpec, PreferredTerm, VolumeUse
from core.model.snapshot import PodDisruptionBudget, Service, WorkloadSelector
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from tests.builders import NOW, a_pod, a_selector
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node
from tests.unit.manifests.objects_for_tests import written
from tests.unit.manifests.pods_for_tests import WHOLE, a_wire_pod, translated

# What a pod requests of a node.


GIB = 2**30


def a_container(
    cpu: str = "", memory: str = "", *, name: str = "c", sidecar: bool = False, limits: dict[str, str] | None = None
) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}, **policy}


def requests(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, int]:
    pod = decoding.from_object(resources.PODS, {"metadata": {"name": "p"}, "spec": spec, "status": status or {}})
    return pods.of_pod(pod) if status else pods.of_spec(pod.spec)


def test_containers_add_up_and_the_pod_takes_one_slot() -> None:
    """Otherwise, a node is overfull."""
    found = requests(containers=[a_container("500m", "1Gi"), a_container("1", "1Gi")])
    assert found == {"cpu": 1500, "memory": 2 * GIB, "pods": 1}


def test_init_containers_set_a_floor_and_do_not_add_up() -> None:
    """They run one after the other, before the other containers."""
    found = requests(containers=[a_container("1")], initContainers=[a_container("3"), a_container("2")])
    assert found["cpu"] == 3000


def test_sidecars_count_with_the_containers() -> None:
    """They run as long as the containers."""
    found = requests(containers=[a_container("1")], initContainers=[a_container("2", sidecar=True)])
    assert found["cpu"] == 3000


def test_an_init_container_counts_with_the_sidecars_before_it_only() -> None:
    """Order matters: a sidecar that starts later does not run yet."""
    before = [a_container("2", sidecar=True), a_container("4")]
    after = [a_container("4"), a_container("2", sidecar=True)]
    assert requests(containers=[a_container("1")], initContainers=before)["cpu"] == 6000
    assert requests(containers=[a_container("1")], initContainers=after)["cpu"] == 4000


def test_limits_replace_missing_requests() -> None:
    """The API server fills them in; a manifest that was not applied yet must give the same plan."""
    found = requests(containers=[a_container("1", limits={"cpu": "4", "memory": "2Gi"})])
    assert found == {"cpu": 1000, "memory": 2 * GIB, "pods": 1}


def test_pod_level_requests_replace_the_containers_sum() -> None:
    """Kubernetes schedules by the pod's own figure if it has one."""
    spec = {"containers": [a_container("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}}
    assert requests(**spec) == {"cpu": 3000, "memory": GIB, "pods": 1}


def test_pod_level_limits_fill_in_only_resources_without_container_requests() -> None:
    """When the API server fills in the pod's requests, containers' requests win over the pod's limit."""
    spec = {"containers": [a_container("1")], "resources": {"limits": {"cpu": "3", "memory": "4Gi"}}}
    assert requests(**spec) == {"cpu": 1000, "memory": 4 * GIB, "pods": 1}


def test_overhead_of_the_runtime_class_is_added() -> None:
    """A sandboxed pod needs room for its sandbox."""
    assert requests(containers=[a_container("1")], overhead={"cpu": "250m"})["cpu"] == 1250


@pytest.mark.parametrize(
    ("reason", "expected"), [("Deferred", 4000), ("Infeasible", 2000)], ids=["waits", "can never be"]
)
def test_resizing_in_place_counts_the_larger_size(reason: str, expected: int) -> None:
    """Neither size may be given away, but a size that the node refuses is not planned for elsewhere."""
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1500m"}}}
        ],
    }
    assert requests(status, containers=[a_container("4")])["cpu"] == expected


def test_the_old_field_of_a_resize_says_nothing() -> None:
    """kube-scheduler has read the condition alone since 1.33 (component-helpers, IsPodResizeInfeasible)."""
    status = {"resize": "Infeasible", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}]}
    assert requests(status, containers=[a_container("4")])["cpu"] == 4000


def test_three_sums_of_a_resized_pod_are_compared() -> None:
    """kube-scheduler 1.37 does not add up the largest size of each container: what one gives back, the other takes."""
    status = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "3"}}},
            {"name": "d", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "1"}}},
        ]
    }
    assert requests(status, containers=[a_container("1"), a_container("3", name="d")])["cpu"] == 4000


@pytest.mark.parametrize("is_init", [False, True], ids=["container", "init container"])
def test_granted_resources_count_before_the_container_has_them(is_init: bool) -> None:
    """The kubelet reports them apart, and for plain init containers, too."""
    statuses = [{"name": "c", "allocatedResources": {"cpu": "3"}}]
    if is_init:
        init = {"containers": [a_container("1", name="d")], "initContainers": [a_container("1")]}
        assert requests({"initContainerStatuses": statuses}, **init)["cpu"] == 3000
    else:
        assert requests({"containerStatuses": statuses}, containers=[a_container("1")])["cpu"] == 3000


@pytest.mark.parametrize(("asked", "granted", "has"), [("1", "1", "3"), ("1", "3", "1"), ("3", "1", "1")])
def test_the_pods_own_resources_count_at_their_largest(asked: str, granted: str, has: str) -> None:
    """A pod that shrinks as a whole keeps its room until the kubelet has taken it back (Kubernetes 1.36)."""
    status = {"allocatedResources": {"cpu": granted}, "resources": {"requests": {"cpu": has}}}
    spec = {"containers": [a_container("500m", "1Gi")], "resources": {"requests": {"cpu": asked}}}
    assert requests(status, **spec) == {"cpu": 3000, "memory": GIB, "pods": 1}
    infeasible = status | {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    assert requests(infeasible, **spec)["cpu"] == (1000 if asked == "3" else 3000)


def test_the_pods_status_counts_for_containers_without_pod_level_requests() -> None:
    """The kubelet reports sums for every pod; these replace those of the containers' statuses."""
    status = {
        "allocatedResources": {"cpu": "2"},
        "resources": {"requests": {"cpu": "1"}},
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "7"}}],
    }
    assert requests(status, containers=[a_container("1")])["cpu"] == 2000


def test_a_negative_quantity_names_its_field() -> None:
    """A user cannot correct a field that is not named."""
    with pytest.raises(InvalidInputError) as caught:
        requests(containers=[a_container("1"), a_container("-1")])
    assert caught.value.field == "spec.containers[1].resources.requests.cpu"
    assert "negative" in caught.value.problem


@pytest.mark.parametrize("kind", ["requests", "limits"])
@pytest.mark.parametrize("other", [{}, {"requests": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}])
def test_a_bad_amount_names_requests_or_limits(kind: str, other: dict[str, Any]) -> None:
    resources = {**other, kind: {**other.get(kind, {}), "cpu": "lots"}}
    with pytest.raises(InvalidInputError) as caught:
        requests(containers=[{"name": "c", "resources": resources}])
    assert caught.value.field == f"spec.containers[0].resources.{kind}.cpu"


def test_one_container_with_a_status_is_enough_to_ask_for_the_others() -> None:
    """The kubelet reports them one by one; an init container's counts, too."""
    known = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    for statuses, states in (
        ({"containerStatuses": [{"name": "d"}, known]}, True),
        ({"containerStatuses": [{"name": "d"}], "initContainerStatuses": [known]}, True),
        ({"containerStatuses": [{"name": "d", "allocatedResources": {"cpu": "1"}}]}, True),
        ({"allocatedResources": {"cpu": "1"}}, True),
        ({"resources": {"requests": {"cpu": "1"}}}, True),
        ({"containerStatuses": [{"name": "d"}]}, False),
        ({}, False),
    ):
        pod = decoding.from_object(resources.PODS, {"metadata": {"name": "p"}, "status": statuses})
        assert pods.states_resources(pod.status) is states


# Reading pod affinity terms.


TERM = WirePodAffinityTerm(
    topology_key="failure-domain.beta.kubernetes.io/zone",
    label_selector=WireLabelSelector(match_labels={"app": "db"}),
    namespaces=("b", "a", "b"),
)


def test_a_term_has_one_meaning_in_each_notation() -> None:
    (found,) = pod_terms((TERM,), field="spec.affinity.podAffinity")
    assert (found.topology_key, found.namespaces, found.selector) == (labels.ZONE, ("a", "b"), a_selector(app="db"))
    (preferred,) = preferred_pod_terms((WireWeightedPodAffinityTerm(weight=7, pod_affinity_term=TERM),), field="f")
    assert (preferred.weight, preferred.term) == (7, found)


def test_a_missing_topology_key_names_its_place() -> None:
    with pytest.raises(InvalidInputError) as caught:
        pod_terms((WirePodAffinityTerm(topology_key=""),), field="spec.affinity.podAffinity")
    where = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
    assert caught.value.field == where


# Specs of pods: from wire to model.


def fault(**spec: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        translated(**spec)
    return caught.value


def test_a_node_selector_is_translated_to_current_label_keys() -> None:
    """Pods that select by a beta label mean the label that nodes have today."""
    pod = translated(nodeSelector={"failure-domain.beta.kubernetes.io/zone": "a", "team": "b"})
    assert pod.spec.node_selector == (Requirement.one_of("team", "b"), Requirement.one_of(labels.ZONE, "a"))


def test_the_ebs_drivers_zone_key_means_the_zone() -> None:
    """A pod that follows its volume by that key can run on a new node."""
    pod = translated(nodeSelector={"topology.ebs.csi.aws.com/zone": "a"})
    assert pod.spec.node_selector == (Requirement.one_of(labels.ZONE, "a"),)


def node_affinity(*expressions: dict[str, Any], **term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **term}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_node_affinity_becomes_requirements() -> None:
    """Bounds on one key are kept side by side, in any order."""
    above = {"key": "cpus", "operator": "Gt", "values": ["4"]}
    below = {"key": "cpus", "operator": "Lt", "values": ["9"]}
    one, other = (translated(affinity=node_affinity(*pair)) for pair in ((above, below), (below, above)))
    assert one.spec.required_terms == other.spec.required_terms
    assert [(r.gte, r.lte) for r in one.spec.required_terms[0].requirements] == [(None, 8), (5, None)]


@pytest.mark.parametrize(("written", "seconds"), [(2**63 - 1, GRACE_SECONDS_MAX), (-(2**63), 0), (45, 45)])
def test_any_grace_period_can_be_added_to_a_moment(written: int, seconds: int) -> None:
    """If this failed, one pod would stop the drain of its node, so that all pods there end with a spot instance."""
    spec = translated(terminationGracePeriodSeconds=written).spec
    pod = a_pod("a", node_name="n", phase="Running", termination_grace_seconds=spec.termination_grace_seconds)
    assert spec.termination_grace_seconds == seconds
    for moments in ({"deadline": NOW + timedelta(hours=1)}, {"ends_at": NOW + timedelta(minutes=2)}):
        record = a_leaving(reason="SpotInterrupted", tainted=timedelta(seconds=30), **moments)
        step = next_claim_step(record, ClaimFacts(nodes=(a_node(leaving=True),), pods=(pod,)), NOW)
        assert isinstance(step, steps.Drain | steps.Wait)


def test_a_bound_that_is_no_number_cannot_be_scored() -> None:
    preferred = [{"weight": 1, "preference": _terms("Gt", "abc")}]
    spec = translated(affinity={"nodeAffinity": {PREFERRED: preferred}}).spec
    assert spec.unscorable.endswith("[0].preference.matchExpressions[0].values: Gt takes one whole number")


@pytest.mark.parametrize(
    ("key", "names"), [("spec.unschedulable", ["true"]), ("metadata.name", ["n1", "n2"]), ("metadata.name", [])]
)
def test_match_fields_are_marked(key: str, names: list[str]) -> None:
    """The API server knows no field but the name, and one name: no node meets another."""
    fields = [{"key": key, "operator": "In", "values": names}]
    assert translated(affinity=node_affinity(matchFields=fields)).spec.required_terms[0].uses_fields


def test_an_unknown_operator_names_its_field() -> None:
    """The message must lead to the place in the file."""
    error = fault(affinity=node_affinity({"key": "a", "operator": "Within", "values": ["b"]}))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    assert error.field == f"{path}.matchExpressions[0].operator"
    assert "'Within'" in error.problem


def test_in_without_values_is_refused() -> None:
    """Read as DoesNotExist, it would get a meaning that the user did not write."""
    error = fault(affinity=node_affinity({"key": "a", "operator": "In"}))
    assert error.field.endswith("matchExpressions[0].values")


def test_a_bound_takes_one_value() -> None:
    """The API server refuses more."""
    error = fault(affinity=node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]}))
    assert error.field.endswith("[0].values")


def test_a_pod_with_odd_bounds_is_kept() -> None:
    """Without a running pod, its node would look empty. No node meets a bound that is not a number."""
    term = translated(affinity=node_affinity({"key": "a", "operator": "Gt", "values": ["x"]})).spec.required_terms[0]
    assert term.requirements == ()
    assert not term.uses_fields
    below = translated(affinity=node_affinity({"key": "a", "operator": "Lt", "values": ["-1"]})).spec.required_terms[0]
    assert [r.lte for r in below.requirements] == [-2]
    (toleration,) = translated(tolerations=[{"key": "k", "operator": "Gt", "value": "1"}]).spec.tolerations
    assert not toleration.tolerates(Taint("k", NO_SCHEDULE, "1"))


def test_deprecated_keys_in_a_pod_selector_stay_as_written() -> None:
    """They are aliases of node labels; a pod's label of that name has no alias."""
    key = "beta.kubernetes.io/arch"
    spread = {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
    }
    selector = translated(topologySpreadConstraints=[spread]).spec.spreads[0].selector
    assert selector is not None
    assert selector.matches({key: "arm64"})


def test_an_affinity_without_terms_is_refused() -> None:
    """It would match no node; the API server refuses it."""
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    assert fault(affinity=required).field.endswith("nodeSelectorTerms")


def test_tolerations_default_to_equal() -> None:
    """As in the API server."""
    pod = translated(tolerations=[{"key": "gpu", "value": "true"}, {"operator": "Exists"}])
    assert pod.spec.tolerations == (Toleration("gpu", "Equal", "true", ""), Toleration("", "Exists"))


@pytest.mark.parametrize(
    ("toleration", "field"),
    [({"operator": "Like"}, "operator"), ({"effect": "Never"}, "effect")],
    ids=["operator", "effect"],
)
def test_a_toleration_outside_the_rules_is_refused(toleration: dict[str, str], field: str) -> None:
    """Read as something else, it would admit the pod to nodes with taints."""
    assert fault(tolerations=[toleration]).field == f"spec.tolerations[0].{field}"


def test_spread_constraints_carry_every_field() -> None:
    """With a field missing, pods would be spread by another rule than the scheduler's."""
    written = {
        "topologyKey": "failure-domain.beta.kubernetes.io/zone",
        "maxSkew": 2,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash"],
    }
    spread = translated(topologySpreadConstraints=[written]).spec.spreads[0]
    assert (spread.topology_key, spread.max_skew, spread.when_unsatisfiable) == (labels.ZONE, 2, "ScheduleAnyway")
    assert (spread.min_domains, spread.node_affinity_policy, spread.node_taints_policy) == (3, "Ignore", "Honor")
    assert spread.match_label_keys == ("pod-template-hash",)
    assert spread.selector is not None
    assert spread.selector.matches({"app": "a"})


@pytest.mark.parametrize(
    ("change", "field"), [({"maxSkew": 0}, "maxSkew"), ({"whenUnsatisfiable": "No"}, "whenUnsatisfiable")]
)
def test_a_spread_constraint_outside_the_rules_is_refused(change: dict[str, Any], field: str) -> None:
    """A skew of zero can never be met."""
    error = fault(topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1, **change}])
    assert error.field == f"spec.topologySpreadConstraints[0].{field}"


def test_pod_affinity_carries_namespaces_and_label_keys() -> None:
    """Without them, the rule would select the wrong pods."""
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
        "namespaces": ["y", "x"],
        "namespaceSelector": {},
        "matchLabelKeys": ["k"],
        "mismatchLabelKeys": ["m"],
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]}
    spec = translated(affinity={"podAffinity": required, "podAntiAffinity": preferred}).spec
    (found,) = spec.affinity
    assert (found.namespaces, found.match_label_keys, found.mismatch_label_keys) == (("x", "y"), ("k",), ("m",))
    assert found.namespace_selector is not None
    assert found.selector is not None
    assert not found.selector.matches({"app": "b"})
    assert [(w.weight, w.term) for w in spec.preferred_anti_affinity] == [(5, found)]


def test_a_term_without_a_topology_key_is_refused() -> None:
    """It has no domains."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}
    assert fault(affinity={"podAntiAffinity": required}).field.endswith("[0].topologyKey")


def test_a_label_selector_has_no_bounds() -> None:
    """Gt is for nodes only; the API server refuses it here."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
    error = fault(topologySpreadConstraints=[{"topologyKey": "z", "maxSkew": 1, "labelSelector": selector}])
    assert error.field.endswith("labelSelector.matchExpressions[0].operator")


def test_host_ports_of_regular_containers_count() -> None:
    """Two pods with one host port must not share a node; ports of the pod's own network do not matter."""
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    bound = [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    pod = translated(containers=[{"ports": ports}, {"ports": bound}], initContainers=[{"ports": [{"hostPort": 9}]}])
    assert pod.spec.host_ports == (HostPort(53, "UDP", "10.0.0.1"), HostPort(8080))


@pytest.mark.parametrize("host_network", [False, True])
def test_a_sidecar_holds_its_host_ports_as_long_as_the_pod_runs(host_network: bool) -> None:
    """Two pods of a service mesh with one host port in the sidecar never share a node (kube-scheduler, GetHostPorts)."""
    port = {"containerPort": 80} if host_network else {"hostPort": 80}
    init = [{"restartPolicy": "Always", "ports": [port]}, {"ports": [{"containerPort": 81, "hostPort": 81}]}]
    assert translated(hostNetwork=host_network, initContainers=init).spec.host_ports == (HostPort(80),)


def test_two_colons_are_an_address_like_any_other() -> None:
    """kube-scheduler lets the pods share a node: for it, only 0.0.0.0 stands for all addresses."""
    any_address, colons = (
        translated(containers=[{"ports": [{"hostPort": 80, "hostIP": ip}]}]).spec.host_ports[0] for ip in ("", "::")
    )
    other = HostPort(80, host_ip="10.0.0.1")
    assert not colons.conflicts(other)
    assert colons.conflicts(colons)
    assert colons.conflicts(any_address)


def test_with_host_network_every_port_is_a_host_port() -> None:
    """The API server fills it in."""
    pod = translated(hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}])
    assert pod.spec.host_ports == (HostPort(80),)


def test_only_volumes_with_claims_are_kept() -> None:
    """A config map does not tie a pod to a zone."""
    ephemeral = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
    pod = translated(
        volumes=[
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
            {"name": "scratch", "ephemeral": ephemeral},
        ]
    )
    assert pod.spec.volumes == (VolumeUse("data-0"), VolumeUse("", "scratch", "gp3"))
    assert pod.claim_names() == ("data-0", "p-scratch")


def test_priority_comes_from_the_class_if_the_pod_has_none() -> None:
    """Raw manifests have not been through admission, which fills it in."""
    translator = PodSpecTranslator({"high": 100}, default_priority=7)
    found = [
        translator.spec(a_wire_pod(**spec).spec).priority
        for spec in ({}, {"priorityClassName": "high"}, {"priorityClassName": "high", "priority": 3})
    ]
    assert found == [7, 100, 3]
    for name, priority in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
        assert translator.spec(a_wire_pod(priorityClassName=name).spec).priority == priority


AFFINITY = "spec.affinity.nodeAffinity"
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def _terms(operator: str, *values: str, key: str = "team") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nodeSelector": {"team": "a b"}}, "spec.nodeSelector['team']: 'a b' cannot be the value of a label"),
        ({"nodeSelector": {"t t": "a"}}, "spec.nodeSelector['t t']: 't t' cannot be the key of a label"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_terms("NotIn", "ok", "a'b")]}}}},
            f'{AFFINITY}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[1]: "a\'b" cannot be the value of a label',
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_terms("Exists", key="a/b/c")]}}}},
            f"{AFFINITY}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: 'a/b/c' cannot be the key of a label",
        ),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_terms("Gt", "9" * 5_000)]}}}}, ""),
    ],
)
def test_a_pod_with_an_invalid_selector_label_is_kept_and_reports_it(spec: dict[str, Any], problem: str) -> None:
    """If it were planned for, it could write into user data; if it were dropped, its node would look empty."""
    pod = translated(nodeName="n", **spec)
    assert (pod.node_name, pod.spec.problem) == ("n", problem)


def test_a_bad_alternative_leaves_the_others() -> None:
    """Alternatives are ORed, and kube-scheduler passes over one that it cannot parse."""
    terms = [_terms("In", "a b"), _terms("In", "a")]
    spec = translated(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}).spec
    assert spec.problem == ""
    assert [bool(term.requirements) for term in spec.required_terms] == [False, True]


def test_a_preference_that_cannot_be_parsed_asks_for_nothing() -> None:
    """The API server accepts any text in a preferred term: the pod is planned for, and the fault is reported."""
    preferred = [{"weight": 1, "preference": _terms("In", "a\nb")}]
    spec = translated(affinity={"nodeAffinity": {PREFERRED: preferred}}).spec
    where = f"{AFFINITY}.{PREFERRED}[0].preference.matchExpressions[0].values[0]"
    assert (spec.problem, spec.unscorable) == ("", f"{where}: 'a\\nb' cannot be the value of a label")
    assert [preference.term for preference in spec.preferred_terms] == [NodeSelectorTerm()]


def test_match_fields_name_a_node() -> None:
    """kube-scheduler knows one field, the node's name."""
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
    (term,) = translated(affinity=node_affinity(matchFields=fields)).spec.required_terms
    assert term.requirements == (Requirement(labels.NODE_NAME, True, ("n1",)),)
    assert not term.uses_fields


def test_pods_of_a_daemon_set_share_one_spec() -> None:
    """Each is bound by its node's name, which would make a spec of its own for every pod."""
    owner = {"kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "controller": True}
    translator = PodTranslator()

    def of_daemon(name: str) -> Pod:
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
        spec = {"containers": [], "affinity": node_affinity(matchFields=fields)}
        metadata = {"name": name, "ownerReferences": [owner]}
        return translator.pod(decoding.from_object(resources.PODS, {"metadata": metadata, "spec": spec}))

    assert of_daemon("a").spec is of_daemon("b").spec


@pytest.mark.parametrize(
    "written",
    [
        _terms("In", "a\nb"),
        _terms("Gt", "many"),
        _terms("Lt", str(-(2**63))),
        _terms("Gt", str(2**63 - 1)),
        _terms("Exists", key="a/b/c"),
    ],
)
def test_a_preference_that_no_label_can_satisfy_is_empty(written: dict[str, Any]) -> None:
    """The API server checks no value of a preference: it matches no node, and the pod runs as if it were not there."""
    pod = translated(affinity={"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": written}]}})
    assert pod.spec.preferred_terms == (PreferredTerm(1, NodeSelectorTerm()),)
    assert not pod.spec.problem


@pytest.mark.parametrize(("operator", "bound"), [("Lt", -(2**63)), ("Gt", 2**63 - 1)])
def test_a_requirement_beyond_the_last_number_is_met_by_no_node(operator: str, bound: int) -> None:
    """Its bound would leave 64 bits, and no document could store it."""
    terms = {REQUIRED: {"nodeSelectorTerms": [_terms(operator, str(bound))]}}
    assert translated(affinity={"nodeAffinity": terms}).spec.required_terms == (NodeSelectorTerm(),)


def test_every_field_of_a_spec_is_read() -> None:
    """What is lost decides no placement: a pod of another scheduler would get a node, or one without its volumes."""
    spec, bare = translated(**WHOLE).spec, translated().spec
    lost = [name for name in PodSpec.__struct_fields__ if getattr(spec, name) == getattr(bare, name)]
    assert lost == ["problem", "unscorable", "problem_reason"]  # nothing is wrong with it


@pytest.mark.parametrize(
    ("port", "on_host", "of_pod"),
    [
        ({"containerPort": 80}, (HostPort(80),), ()),
        ({"containerPort": 80, "hostPort": 90}, (HostPort(90),), (HostPort(90),)),
        ({"hostPort": 90}, (HostPort(90),), (HostPort(90),)),
        ({"name": "x"}, (), ()),
        ({"containerPort": 0}, (), ()),
        ({"containerPort": 80, "protocol": "UDP"}, (HostPort(80, "UDP"),), ()),
    ],
)
def test_a_port_is_on_the_host_if_it_says_so_or_the_whole_pod_is(
    port: dict[str, Any], on_host: tuple[HostPort, ...], of_pod: tuple[HostPort, ...]
) -> None:
    """A port without a number takes none."""
    containers = [{"name": "c", "ports": [port]}]
    assert translated(containers=containers, hostNetwork=True).spec.host_ports == on_host
    assert translated(containers=containers).spec.host_ports == of_pod


def test_missing_fields_have_kubernetes_defaults() -> None:
    """A bare manifest is a pending pod of the namespace default."""
    pod = translated()
    assert (pod.key, pod.phase, pod.spec.scheduler_name) == ("default/p", "Pending", "default-scheduler")
    assert pod.spec.requests == {"pods": 1}
    assert pod.is_ready is None


def test_conditions_of_scheduler_and_kubelet_are_read() -> None:
    """In a live cluster, only pods marked unschedulable are planned for."""
    status = {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2026-07-01T00:00:00Z",
            },
            {"type": "Ready", "status": "False"},
        ]
    }
    pod = translated(status=status)
    assert pod.is_marked_unschedulable
    assert pod.unschedulable_since == datetime(2026, 7, 1, tzinfo=UTC), "a pod's wait counts from here"
    assert pod.is_ready is False


def test_a_gated_pod_is_recognized() -> None:
    """It needs no node yet."""
    assert translated(schedulingGates=[{"name": "wait"}]).is_gated


def test_owners_are_kept() -> None:
    """A DaemonSet's pod must not cause a new node."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    pod = translated(meta={"ownerReferences": [owner]})
    assert pod.owners == (Owner("DaemonSet", "agent", "apps/v1", "u", True),)
    assert pod.is_daemon


def test_equal_pods_share_one_spec() -> None:
    """The scheduler groups pods by it."""
    translator = PodTranslator()
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    first, second = (translator.pod(a_wire_pod(name, containers=[container])) for name in "ab")
    assert first.spec is second.spec


def test_a_resized_pod_has_its_own_requests() -> None:
    """Its size differs from that of other pods with the same spec."""
    translator = PodTranslator()
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}

    def status(cpu: str) -> dict[str, Any]:
        held = {"requests": {"cpu": cpu}}
        return {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}, "resources": held}]}

    usual = translator.pod(a_wire_pod("a", containers=[container], status=status("1")))
    grown = translator.pod(a_wire_pod("b", containers=[container], status=status("3")))
    others = {"conditions": [{"type": "Ready", "status": "True"}]}
    again = translator.pod(a_wire_pod("c", containers=[container], status=status("3") | others))
    assert usual.spec.requests["cpu"] == 1000
    assert grown.spec.requests["cpu"] == 3000
    assert grown.spec is again.spec


def test_a_pod_without_a_name_is_refused() -> None:
    """Plans identify pods by name."""
    with pytest.raises(InvalidInputError) as caught:
        PodTranslator().pod(a_wire_pod(""))
    assert caught.value.field == "metadata.name"


def test_a_pod_that_cannot_be_read_keeps_its_identity_and_place_where_the_caller_goes_on() -> None:
    """Otherwise, one odd pod stops every plan, or its node counts as empty."""
    translator = PodTranslator()
    good = a_wire_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    assert translator.readable_or_not(good) == translator.pod(good)
    odd = a_wire_pod(nodeName="n", containers=[{"name": "c", "resources": {"requests": {"cpu": "lots"}}}])
    found = translator.readable_or_not(odd)
    assert (found.key, found.node_name, found.spec.requests) == ("default/p", "n", {"pods": 1})
    assert found.unreadable == found.spec.problem
    assert found.unreadable.startswith("spec.containers[0].resources.requests.cpu: ")


def test_every_field_of_a_pod_is_read() -> None:
    """What is lost decides no drain: a pod that was kept, or that has long been terminating, would count as any other."""
    time = "2026-03-01T10:00:00Z"
    meta = {
        "name": "q",
        "namespace": "shop",
        "uid": "u",
        "creationTimestamp": time,
        "deletionTimestamp": time,
        "labels": {"app": "a"},
        "annotations": {labels.DO_NOT_DISRUPT: "true"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"}],
    }
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": time}
    status = {
        "phase": "Running",
        "startTime": time,
        "nominatedNodeName": "n",
        "conditions": [refused, {"type": "Ready", "status": "True"}],
    }
    pod, bare = translated(status=status, meta=meta, **WHOLE), translated()
    lost = [name for name in Pod.__struct_fields__ if getattr(pod, name) == getattr(bare, name)]
    assert lost == ["unschedulable_since", "unreadable", "successor"]  # it keeps no times, and all could be read


@pytest.mark.parametrize(
    ("conditions", "is_ready"),
    [
        ([], None),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], None),
        ([{"type": "Initialized", "status": "True"}], None),
    ],
)
def test_a_pod_of_a_lost_kubelet_is_neither_ready_nor_unready(
    conditions: list[dict[str, str]], is_ready: bool | None
) -> None:
    assert translated(status={"conditions": conditions}).is_ready is is_ready


def test_only_the_schedulers_own_report_marks_a_pod() -> None:
    """A pod that is gated has the same condition with another reason."""
    time = "2026-03-01T10:00:00Z"

    def marked(reason: str) -> tuple[bool, datetime | None]:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": time}
        pod = translated(status={"conditions": [condition]})
        return pod.is_marked_unschedulable, pod.unschedulable_since

    assert marked("Unschedulable") == (True, datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert marked("SchedulingGated") == (False, None)


# Reading PodDisruptionBudgets, DaemonSets, Services, workloads and namespaces.


def test_a_pod_disruption_budget_without_selector_selects_nothing() -> None:
    """With an empty selector it selects everything (policy/v1)."""
    found = [
        pods.pod_disruption_budget(written(resources.POD_DISRUPTION_BUDGETS, spec=spec)).selector
        for spec in ({}, {"selector": {}})
    ]
    assert found[0] is None
    assert found[1] is not None
    assert found[1].matches({})


def test_a_pod_disruption_budgets_numbers_stay_as_written() -> None:
    """50% is not 50."""
    spec = {"minAvailable": "50%", "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    found = pods.pod_disruption_budget(
        written(resources.POD_DISRUPTION_BUDGETS, spec=spec, status={"disruptionsAllowed": 0})
    )
    assert (found.min_available, found.max_unavailable, found.disruptions_allowed) == ("50%", "1", 0)
    assert found.unhealthy_pod_eviction_policy == "AlwaysAllow"
    assert pods.pod_disruption_budget(written(resources.POD_DISRUPTION_BUDGETS)).disruptions_allowed is None


def test_a_daemon_set_is_the_pod_that_its_template_makes() -> None:
    """Its labels and requests are overhead on every node; a fault is named with its place in the template."""
    container = {"name": "c", "resources": {"limits": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    found = pods.daemon_set(written(resources.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert (found.labels, found.spec.requests) == ({"app": "agent"}, {"cpu": 100, "pods": 1})
    container["resources"] = {"requests": {"cpu": "-1"}}
    with pytest.raises(InvalidInputError) as caught:
        pods.daemon_set(written(resources.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert caught.value.field == "spec.template.spec.containers[0].resources.requests.cpu"


def test_selectors_of_services_and_workloads() -> None:
    """Default spread constraints depend on them."""
    service = pods.service(written(resources.SERVICES, spec={"selector": {"app": "a"}}))
    assert service.selector == {"app": "a"}
    workload = pods.workload_selector(
        written(resources.STATEFUL_SETS, spec={"selector": {"matchLabels": {"app": "a"}}}), "StatefulSet"
    )
    assert workload.selector is not None
    assert workload.selector.matches({"app": "a", "b": "c"})
    controller = pods.controller_selector(written(resources.REPLICATION_CONTROLLERS, spec={"selector": {"app": "a"}}))
    assert controller.selector == workload.selector


def test_a_namespace_carries_its_own_name_as_a_label() -> None:
    """Kubernetes sets it; namespace selectors use it."""
    found = pods.namespace(written(resources.NAMESPACES, meta={"labels": {"team": "a"}}))
    assert found.labels == {"kubernetes.io/metadata.name": "x", "team": "a"}


@pytest.mark.parametrize(("namespace", "read"), [("prod", "prod"), (None, "default"), ("", "default")])
def test_an_object_without_a_namespace_is_in_the_default_one(namespace: str | None, read: str) -> None:
    """Users' manifests may leave it out; a budget that is read into another namespace protects others' pods."""
    meta = {} if namespace is None else {"namespace": namespace}
    template = {"spec": {"template": {"spec": {"containers": []}}}}
    daemons = written(resources.DAEMON_SETS, meta=meta, **template)
    budget = written(resources.POD_DISRUPTION_BUDGETS, meta=meta)
    found = [
        pods.pod_disruption_budget(budget),
        pods.unreadable_budget(budget),
        pods.daemon_set(daemons, PodTranslator()),
        pods.unreadable_daemon_set(daemons, InvalidInputError("x")),
        pods.service(written(resources.SERVICES, meta=meta)),
        pods.workload_selector(written(resources.DEPLOYMENTS, meta=meta), "Deployment"),
        pods.controller_selector(written(resources.REPLICATION_CONTROLLERS, meta=meta)),
    ]
    assert [(one.namespace, one.name) for one in found] == [(read, "x")] * len(found)


def test_a_budget_that_cannot_be_read_protects_every_pod_of_its_namespace() -> None:
    """It may select any of them."""
    found = pods.unreadable_budget(written(resources.POD_DISRUPTION_BUDGETS))
    assert found.selector is not None
    assert (found.selector.matches({"any": "pod"}), found.max_unavailable, found.disruptions_allowed) == (True, "0", 0)


def test_a_daemon_set_that_cannot_be_read_says_why() -> None:
    found = pods.unreadable_daemon_set(written(resources.DAEMON_SETS), InvalidInputError("is wrong", field="spec.a"))
    assert (found.spec.problem, found.spec.requests) == ("spec.a: is wrong", {"pods": 1})
    nameless = pods.unreadable_daemon_set(written(resources.DAEMON_SETS), InvalidInputError("is wrong"))
    assert nameless.spec.problem == "is wrong"


@pytest.mark.parametrize(
    ("generation", "observed", "allowed"), [(2, 1, None), (2, 2, 3), (2, 3, 3), (2, None, 3), (0, 0, 3)]
)
def test_a_status_of_an_older_generation_says_nothing(
    generation: int, observed: int | None, allowed: int | None
) -> None:
    """The controller has not seen the new numbers."""
    status = {"disruptionsAllowed": 3, "expectedPods": 3} | (
        {} if observed is None else {"observedGeneration": observed}
    )
    found = pods.pod_disruption_budget(
        written(resources.POD_DISRUPTION_BUDGETS, meta={"generation": generation}, status=status)
    )
    assert (found.disruptions_allowed, found.expected_pods) == (allowed, allowed)


def test_a_controller_without_a_selector_selects_nothing() -> None:
    assert pods.controller_selector(written(resources.REPLICATION_CONTROLLERS)).selector is None
    assert pods.workload_selector(written(resources.DEPLOYMENTS, spec={"replicas": 4}), "Deployment").replicas == 4


def test_every_field_is_read() -> None:
    """What is lost protects no pod, or counts as no overhead."""
    meta = {"namespace": "shop"}
    budget = written(
        resources.POD_DISRUPTION_BUDGETS,
        meta=meta | {"generation": 1},
        spec={
            "selector": {"matchLabels": {"app": "a"}},
            "minAvailable": 2,
            "maxUnavailable": "10%",
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
        status={"disruptionsAllowed": 1, "expectedPods": 4, "observedGeneration": 1},
    )
    assert pods.pod_disruption_budget(budget) == PodDisruptionBudget(
        namespace="shop",
        name="x",
        selector=equality_selector({"app": "a"}),
        min_available="2",
        max_unavailable="10%",
        disruptions_allowed=1,
        expected_pods=4,
        unhealthy_pod_eviction_policy="AlwaysAllow",
    )
    spec = {"selector": {"matchLabels": {"app": "a"}}, "replicas": 3}
    assert pods.workload_selector(written(resources.REPLICA_SETS, meta=meta, spec=spec), "ReplicaSet") == (
        WorkloadSelector(
            namespace="shop", kind="ReplicaSet", name="x", selector=equality_selector({"app": "a"}), replicas=3
        )
    )
    spec = {"selector": {"app": "a"}, "replicas": 3}
    assert pods.controller_selector(written(resources.REPLICATION_CONTROLLERS, meta=meta, spec=spec)) == (
        WorkloadSelector(
            namespace="shop",
            kind="ReplicationController",
            name="x",
            selector=equality_selector({"app": "a"}),
            replicas=3,
        )
    )
    service = pods.service(written(resources.SERVICES, meta=meta, spec={"selector": {"app": "a"}}))
    assert service == Service(namespace="shop", name="x", selector={"app": "a"})


def test_a_daemon_set_of_which_a_part_was_not_read_says_why() -> None:
    """Its pods would otherwise need nothing on a new node."""
    found = msgspec.structs.replace(written(resources.DAEMON_SETS), unreadable="spec.template: must be an object")
    with pytest.raises(InvalidInputError, match="must be an object"):
        pods.daemon_set(found, PodTranslator())
    budget = msgspec.structs.replace(written(resources.POD_DISRUPTION_BUDGETS), unreadable="spec: must be an object")
    with pytest.raises(InvalidInputError, match="spec: must be an object"):
        pods.pod_disruption_budget(budget)
