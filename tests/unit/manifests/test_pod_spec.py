"""Specs of pods: from wire to model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core import labels
from core.errors import InvalidInputError
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.facts import ClaimFacts
from core.manifests.pod_spec import GRACE_SECONDS_MAX, PodSpecTranslator
from core.model.pod import HostPort, PodSpec, VolumeUse
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node
from tests.unit.manifests.pods_for_tests import WHOLE, a_wire_pod, translated


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


def test_match_fields_are_marked() -> None:
    """A new node cannot promise its name."""
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
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
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": _terms("In", "a\nb")}]}}},
            f"{AFFINITY}.{PREFERRED}[0].preference.matchExpressions[0].values[0]: 'a\\nb' cannot be the value of a label",
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


def test_every_field_of_a_spec_is_read() -> None:
    """What is lost decides no placement: a pod of another scheduler would get a node, or one without its volumes."""
    spec, bare = translated(**WHOLE).spec, translated().spec
    lost = [name for name in PodSpec.__struct_fields__ if getattr(spec, name) == getattr(bare, name)]
    assert lost == ["problem"]  # nothing is wrong with it


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
