"""Decoding the API's objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from core.errors import InvalidInputError
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.manifests.wire.decoding import PARTS_MAX, explained, located, readable_rest
from core.manifests.wire.pod import SHARED_BYTES_MAX, SharedValues, WirePod, WirePodSpec
from core.manifests.wire.resources import Resource
from core.reasons.pods import PodReason

# An object with an unreadable field is kept without the field, so that its node does not look empty.


def test_an_unreadable_field_is_dropped_and_the_object_kept() -> None:
    found = readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": "many"}})
    assert isinstance(found, WirePod)
    assert (found.metadata.name, found.node_name) == ("p", "n")
    assert found.unreadable.startswith("spec.containers: ")


@pytest.mark.parametrize("obj", [[], {}, {"metadata": "p"}, {"metadata": {"name": 3}}])
def test_an_object_without_a_name_is_dropped(obj: object) -> None:
    assert readable_rest(WirePod, obj) is None


def test_the_place_is_given_in_the_users_notation() -> None:
    assert explained("Expected `str`, got `int` - at `$.spec.tolerations[...].key`") == (
        "must be text, not a number",
        "spec.tolerations.*.key",
    )
    assert explained("Expected `str` - at `key` in `$.metadata.labels`") == ("a key: must be text", "metadata.labels")


def test_what_is_missing_or_of_another_type_is_said_without_names_of_types() -> None:
    assert explained("Object missing required field `topologyKey` - at `$.spec`") == ("is required", "spec.topologyKey")
    assert explained("Object missing required field `name`") == ("is required", "name")
    assert explained("Expected `datetime | null`, got `int` - at `$.t`") == ("must be a time, not a number", "t")
    assert explained("Expected `int | null`, got `float` - at `$.y`") == ("must be a whole number", "y")
    assert explained("Expected `int | str`, got `float` - at `$.y`") == ("must be a whole number or text", "y")
    assert explained("Expected `str`, got `null` - at `$.y`") == ("must be text, not null", "y")
    assert explained("Expected `int | str`, got `array` - at `$.z`") == ("must be a number or text, not a list", "z")


def test_the_entry_at_fault_is_named() -> None:
    obj = {"spec": {"tolerations": [{"labels": {"team": "a", "example.com/gen": 5}}], "selector": {"gen": True}}}
    assert located("spec.selector.*", "must be text, not true or false", obj) == "spec.selector.gen"
    place = "spec.tolerations[0].labels"
    assert located(f"{place}.*", "must be text, not a number", obj) == f"{place}[example.com/gen]"
    assert located(f"{place}.*", "must be text, not a list", obj) == f"{place}.*"
    assert located("spec.selector", "must be a list, not an object", obj) == "spec.selector"


def test_a_fault_at_the_top_drops_that_field_alone() -> None:
    found = readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": 5, "status": {"phase": "Running"}})
    assert isinstance(found, WirePod)
    assert (found.metadata.name, found.status.phase, found.unreadable) == (
        "p",
        "Running",
        "spec: must be an object, not a number",
    )


def test_the_first_of_several_faults_is_named() -> None:
    found = readable_rest(
        WirePod, {"metadata": {"name": "p"}, "spec": {"nodeName": 5, "containers": "many"}, "status": 7}
    )
    assert isinstance(found, WirePod)
    assert found.unreadable in {
        "spec.nodeName: must be text, not a number",
        "spec.containers: must be a list, not text",
    }
    assert found.spec.containers == ()


def test_the_object_that_could_not_be_read_stays_as_it_is() -> None:
    """It is shown to its author, and read again by the next run."""
    obj = {"metadata": {"name": "p"}, "spec": {"nodeName": 5, "containers": []}, "status": 7}
    before = copy.deepcopy(obj)
    assert readable_rest(WirePod, obj) is not None
    assert obj == before


def test_an_object_with_very_many_faults_is_none_of_its_kind() -> None:
    """Sixteen may be left out; beyond, nothing says that it is a pod at all."""

    def readable(faults: int) -> bool:
        names = [field.encode_name for field in msgspec.structs.fields(WirePodSpec)][:faults]
        return readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": dict.fromkeys(names, 1.5)}) is not None

    assert readable(PARTS_MAX - 1)
    assert not readable(PARTS_MAX)


def a_manifest(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": [{"name": "main"}], **spec}}


def a_page(*items: dict[str, Any], token: str = "") -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"continue": token}, "items": list(items)}).encode()


def test_a_page_gives_its_items_and_the_token_of_the_next() -> None:
    """Otherwise, a cluster with more than one page of pods is read in part."""
    page = decoding.decode_page(resources.PODS, a_page(a_manifest("a"), a_manifest("b"), token="next"))
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert page.continue_token == "next"
    assert page.rejected == ()


def test_one_bad_object_does_not_lose_the_list() -> None:
    """Otherwise, one odd Service stops provisioning for all others."""
    bad = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"selector": 3}}
    good = {"metadata": {"name": "a"}}
    page = decoding.decode_page(resources.SERVICES, a_page(good, bad))
    assert [found.metadata.name for found in page.items] == ["a"]
    assert page.rejected == (("shop/bad", "spec.selector: must be an object, not a number"),)


def test_the_readable_part_of_an_unreadable_pod_is_kept() -> None:
    """Without the pod, its node would look empty and be removed."""
    bad = a_manifest("bad", containers=[{"name": 3}], nodeName="n")
    bad["metadata"] |= {"labels": {"app": 4}, "uid": "u"}
    page = decoding.decode_page(resources.PODS, a_page(a_manifest("a"), bad, a_manifest("c")))
    assert [pod.metadata.name for pod in page.items] == ["a", "bad", "c"]
    assert page.rejected == ()
    odd = page.items[1]
    assert (odd.metadata.namespace, odd.metadata.uid, odd.node_name) == ("shop", "u", "n")
    assert odd.unreadable == "metadata.labels.*: must be text, not a number"


@pytest.mark.parametrize("item", [5, {}, {"metadata": {"name": 7}}, {"metadata": "x"}])
def test_a_list_with_a_nameless_pod_is_refused(item: Any) -> None:
    """It is unknown which node it keeps, so no decision is possible."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        decoding.decode_page(resources.PODS, a_page(a_manifest("a"), item))


def test_nulls_count_as_absent() -> None:
    """Clients write `creationTimestamp: null`; the API server treats it as absent."""
    written = a_manifest("a", containers=None, nodeSelector=None)
    written["metadata"]["creationTimestamp"] = None
    page = decoding.decode_page(resources.PODS, a_page(written))
    assert page.rejected == ()
    assert page.items[0].spec.containers == ()


def test_an_empty_page_may_have_null_items() -> None:
    """The API server writes null for an empty list of some kinds."""
    assert decoding.decode_page(resources.PODS, b'{"items": null, "metadata": {}}').items == ()


def test_a_page_that_is_not_a_list_is_refused() -> None:
    """Otherwise, an error body looks like an empty cluster, and every node like an empty one."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        decoding.decode_page(resources.PODS, b"<html>")


def test_whole_numbers_are_quantities_too() -> None:
    """The API server accepts YAML's `cpu: 1`, so a pod with it must not be lost."""
    pod = decoding.from_object(
        resources.PODS, a_manifest(containers=[{"name": "c", "resources": {"requests": {"cpu": 1}}}])
    )
    assert pod.spec.containers[0].resources.requests == {"cpu": 1}


def test_pods_with_one_spec_share_one_object() -> None:
    """Otherwise, fifty thousand pods of a few workloads do not fit a function's memory."""
    first, second = (a_manifest(name, nodeName=f"node-{name}", volumes=[{"name": f"token-{name}"}]) for name in "ab")
    left, right = decoding.decode_page(resources.PODS, a_page(first, second)).items
    assert left.spec is right.spec
    assert (left.node_name, right.node_name) == ("node-a", "node-b")


def test_karpenters_own_kinds_are_not_changed() -> None:
    """`core.api` reads them; a dropped field would be an ignored setting."""
    pool = {"metadata": {"name": "default"}, "spec": {"anything": [1, None]}}
    assert decoding.from_object(resources.NODE_POOLS, pool) == pool
    assert decoding.decode_page(resources.NODE_POOLS, a_page(pool)).items == (pool,)


def test_an_error_names_object_and_field() -> None:
    """The author of the manifest must find the place."""
    with pytest.raises(InvalidInputError) as caught:
        decoding.from_object(resources.PODS, a_manifest("a", priority="high"))
    assert caught.value.subject == "Pod shop/a"
    assert caught.value.field == "spec.priority"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priority": 10**20}, "spec.priority"),
        ({"terminationGracePeriodSeconds": -(2**63) - 1}, "spec.terminationGracePeriodSeconds"),
        ({"containers": [{"name": "c", "ports": [{}, {"hostPort": 2**70}]}]}, "spec.containers[0].ports[1].hostPort"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 10**30, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
    ],
)  # fmt: skip
def test_a_number_that_no_api_server_takes_is_named(spec: dict[str, Any], field: str) -> None:
    """It ended as an internal error, without the name of the file."""
    with pytest.raises(InvalidInputError) as caught:
        decoding.from_object(resources.PODS, a_manifest("a", **spec))
    assert (caught.value.subject, caught.value.field) == ("Pod shop/a", field)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (resources.DEPLOYMENTS, ("template",)),
        (resources.JOB_SETS, ("replicatedJobs", 0, "template", "spec", "template")),
        (resources.LEADER_WORKER_SETS, ("leaderWorkerTemplate", "workerTemplate")),
    ],
)
def test_a_number_that_no_api_server_takes_is_named_in_a_template(resource: Resource, path: tuple[Any, ...]) -> None:
    """It raised an error of the decoder where the command line made the pods, and ended the command."""
    spec: Any = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 10**30}]}]}}
    for key in reversed(path):
        spec = [spec] if isinstance(key, int) else {key: spec}
    with pytest.raises(InvalidInputError) as raised:
        decoding.from_object(resource, {"metadata": {"name": "a"}, "spec": spec})
    assert raised.value.problem == "does not fit into 64 bits"
    assert raised.value.field.endswith("spec.containers[0].ports[0].containerPort")


def test_every_struct_reads_an_object_with_nothing_but_a_name() -> None:
    """A minimal object is legal in every kind; a superfluous required field would reject it."""
    for resource in resources.ALL:
        decoding.from_object(resource, {"metadata": {"name": "a"}})


def test_one_object_is_decoded_like_a_page() -> None:
    """`get` and `list` must agree about an object."""
    raw = json.dumps(a_manifest("a", nodeName="n")).encode()
    pod = decoding.decode(resources.PODS, raw)
    assert isinstance(pod, WirePod)
    assert pod == decoding.decode_page(resources.PODS, a_page(a_manifest("a", nodeName="n"))).items[0]
    with pytest.raises(InvalidInputError, match="not JSON"):
        decoding.decode(resources.PODS, b"{")


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        ({"metadata": {"name": "a", "namespace": "shop"}}, "shop/a"),
        ({"metadata": {"name": "a"}}, "a"),
        ({"metadata": {}}, "without a name"),
        ({"metadata": "a"}, "without a name"),
        ("a", "without a name"),
    ],
)
def test_any_object_has_a_name_in_messages(obj: object, name: str) -> None:
    assert decoding.name_of(obj) == name


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ({"items": [{}, {}], "metadata": {}}, 2),
        ({"items": None, "metadata": {}}, 0),
        ({"metadata": {}}, 0),
        ({"items": [{}], "metadata": {"continue": "next", "remainingItemCount": 4}}, 5),
        ({"items": [{}], "metadata": {"continue": "next"}}, None),
        ({"items": [{}], "metadata": {"remainingItemCount": 4}}, 1),
    ],
)
def test_objects_are_counted_from_the_first_page(page: dict[str, Any], count: int | None) -> None:
    assert decoding.decode_extent(json.dumps(page).encode())[0] == count


@pytest.mark.parametrize("items", [None, []])
def test_a_page_without_items_is_empty(items: list[Any] | None) -> None:
    """An API server written in Go says null."""
    page = decoding.decode_page(resources.PODS, json.dumps({"metadata": {"continue": "t"}, "items": items}).encode())
    assert (tuple(page.items), page.continue_token, page.rejected) == ((), "t", ())


# One namespace's objects do not use up the memory of a run.


def _rich(name: str, namespace: str = "big", **spec: Any) -> dict[str, Any]:
    """A pod with eleven kilobytes of labels that no other pod has."""
    many = {f"key-{n}": f"{name}-{n}" for n in range(500)}
    resources_ = {"requests": {"cpu": "1500m", "memory": "1Gi", "example.com/x": "1"}}
    containers = [{"name": "c", "resources": resources_}, {"name": "d", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": name, "namespace": namespace, "labels": many}
    return {"metadata": metadata, "spec": {"containers": containers, "nodeName": "n", **spec}}


def test_pods_beyond_the_room_of_their_namespace_keep_their_place_and_requests() -> None:
    """Otherwise, a namespace with some gigabytes of labels ends every run for all."""
    room = decoding.NamespaceRoom(resources.PODS, at_most=30_000)
    first = room.within(decoding.decode_page(resources.PODS, a_page(*(_rich(f"p{n}") for n in range(10)), token="t")))
    second = room.within(decoding.decode_page(resources.PODS, a_page(_rich("late"), _rich("other", "small"))))
    whole = [pod.metadata.name for pod in (*first.items, *second.items) if pod.metadata.labels]
    assert whole == ["p0", "p1", "p2", "p3", "other"]
    late = second.items[0]
    assert (late.metadata.namespace, late.node_name, first.continue_token) == ("big", "n", "t")
    pod = PodTranslator().pod(late)
    assert pod.spec.requests == {"cpu": 2500, "memory": 2**30, "ephemeral-storage": 0, "pods": 1}
    assert pod.spec.problem_reason == PodReason.TOO_COMPLEX
    assert "more pods of namespace big than fit" in pod.spec.problem


def test_pods_of_one_spec_count_once() -> None:
    """A hundred thousand equal pods of a namespace are no reason to set any aside."""
    room = decoding.NamespaceRoom(resources.PODS, at_most=60_000)
    pods = [_rich("p") for _ in range(200)]
    assert all(pod.metadata.labels for pod in room.within(decoding.decode_page(resources.PODS, a_page(*pods))).items)


def test_a_budget_beyond_the_room_protects_its_namespace_and_other_kinds_are_left_out() -> None:
    """A budget that is not read would let its pods be evicted."""
    budget = {"metadata": {"name": "b", "namespace": "big", "labels": {f"k{n}": "v" for n in range(2_000)}}}
    page = decoding.decode_page(resources.POD_DISRUPTION_BUDGETS, a_page(budget))
    (kept,) = decoding.NamespaceRoom(resources.POD_DISRUPTION_BUDGETS, at_most=1_000).within(page).items
    assert (kept.metadata.name, kept.metadata.labels) == ("b", {})
    assert "more poddisruptionbudgets of namespace big" in kept.unreadable
    page = decoding.decode_page(resources.PERSISTENT_VOLUME_CLAIMS, a_page(budget))
    found = decoding.NamespaceRoom(resources.PERSISTENT_VOLUME_CLAIMS, at_most=1_000).within(page)
    assert (found.items, [name for name, _ in found.rejected]) == ((), ["big/b"])


def test_kinds_without_a_namespace_have_no_bound() -> None:
    """Whoever may write nodes is trusted with more than memory."""
    page = decoding.decode_page(resources.NODES, a_page({"metadata": {"name": "n", "labels": {"a": "b" * 2_000}}}))
    assert decoding.NamespaceRoom(resources.NODES, at_most=10).within(page) is page


def test_shared_values_have_a_bound_on_their_bytes() -> None:
    """They outlive the run, and an API server takes a megabyte of labels from each pod."""
    values = SharedValues()
    first = values.of({"kept": "first"})
    for number in range(SHARED_BYTES_MAX // 2**20 + 2):
        values.of({"large": f"{number}-" + "x" * 2**20})
        assert values.held <= SHARED_BYTES_MAX
    assert values.of({"kept": "first"}) is not first
    huge = "x" * (SHARED_BYTES_MAX + 1)
    assert values.of(huge) is huge
    assert values.held < SHARED_BYTES_MAX
