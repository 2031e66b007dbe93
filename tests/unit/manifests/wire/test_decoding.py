"""Decoding the API's objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import InvalidInputError
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.pod import WirePod


def a_manifest(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": [{"name": "main"}], **spec}}


def a_page(*items: dict[str, Any], token: str = "") -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"continue": token}, "items": list(items)}).encode()


def test_a_page_gives_its_items_and_the_token_of_the_next() -> None:
    """Otherwise, a cluster with more than one page of pods is read in part."""
    page = wire.decode_page(kinds.PODS, a_page(a_manifest("a"), a_manifest("b"), token="next"))
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert page.continue_token == "next"
    assert page.rejected == ()


def test_one_bad_object_does_not_lose_the_list() -> None:
    """Otherwise, one odd Service stops provisioning for all others."""
    bad = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"selector": 3}}
    good = {"metadata": {"name": "a"}}
    page = wire.decode_page(kinds.SERVICES, a_page(good, bad))
    assert [found.metadata.name for found in page.items] == ["a"]
    assert page.rejected == (("shop/bad", "spec.selector: must be an object, not a number"),)


def test_the_readable_part_of_an_unreadable_pod_is_kept() -> None:
    """Without the pod, its node would look empty and be removed."""
    bad = a_manifest("bad", containers=[{"name": 3}], nodeName="n")
    bad["metadata"] |= {"labels": {"app": 4}, "uid": "u"}
    page = wire.decode_page(kinds.PODS, a_page(a_manifest("a"), bad, a_manifest("c")))
    assert [pod.metadata.name for pod in page.items] == ["a", "bad", "c"]
    assert page.rejected == ()
    odd = page.items[1]
    assert (odd.metadata.namespace, odd.metadata.uid, odd.node_name) == ("shop", "u", "n")
    assert odd.unreadable == "metadata.labels.*: must be text, not a number"


@pytest.mark.parametrize("item", [5, {}, {"metadata": {"name": 7}}, {"metadata": "x"}])
def test_a_list_with_a_nameless_pod_is_refused(item: Any) -> None:
    """It is unknown which node it keeps, so no decision is possible."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        wire.decode_page(kinds.PODS, a_page(a_manifest("a"), item))


def test_nulls_count_as_absent() -> None:
    """Clients write `creationTimestamp: null`; the API server treats it as absent."""
    written = a_manifest("a", containers=None, nodeSelector=None)
    written["metadata"]["creationTimestamp"] = None
    page = wire.decode_page(kinds.PODS, a_page(written))
    assert page.rejected == ()
    assert page.items[0].spec.containers == ()


def test_an_empty_page_may_have_null_items() -> None:
    """The API server writes null for an empty list of some kinds."""
    assert wire.decode_page(kinds.PODS, b'{"items": null, "metadata": {}}').items == ()


def test_a_page_that_is_not_a_list_is_refused() -> None:
    """Otherwise, an error body looks like an empty cluster, and every node like an empty one."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        wire.decode_page(kinds.PODS, b"<html>")


def test_whole_numbers_are_quantities_too() -> None:
    """The API server accepts YAML's `cpu: 1`, so a pod with it must not be lost."""
    pod = wire.from_object(kinds.PODS, a_manifest(containers=[{"name": "c", "resources": {"requests": {"cpu": 1}}}]))
    assert pod.spec.containers[0].resources.requests == {"cpu": 1}


def test_pods_with_one_spec_share_one_object() -> None:
    """Otherwise, fifty thousand pods of a few workloads do not fit a function's memory."""
    first, second = (a_manifest(name, nodeName=f"node-{name}", volumes=[{"name": f"token-{name}"}]) for name in "ab")
    left, right = wire.decode_page(kinds.PODS, a_page(first, second)).items
    assert left.spec is right.spec
    assert (left.node_name, right.node_name) == ("node-a", "node-b")


def test_karpenters_own_kinds_are_not_changed() -> None:
    """`core.api` reads them; a dropped field would be an ignored setting."""
    pool = {"metadata": {"name": "default"}, "spec": {"anything": [1, None]}}
    assert wire.from_object(kinds.NODE_POOLS, pool) == pool
    assert wire.decode_page(kinds.NODE_POOLS, a_page(pool)).items == (pool,)


def test_an_error_names_object_and_field() -> None:
    """The author of the manifest must find the place."""
    with pytest.raises(InvalidInputError) as caught:
        wire.from_object(kinds.PODS, a_manifest("a", priority="high"))
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
        wire.from_object(kinds.PODS, a_manifest("a", **spec))
    assert (caught.value.subject, caught.value.field) == ("Pod shop/a", field)


def test_every_struct_reads_an_object_with_nothing_but_a_name() -> None:
    """A minimal object is legal in every kind; a superfluous required field would reject it."""
    for resource in kinds.ALL:
        wire.from_object(resource, {"metadata": {"name": "a"}})


def test_one_object_is_decoded_like_a_page() -> None:
    """`get` and `list` must agree about an object."""
    raw = json.dumps(a_manifest("a", nodeName="n")).encode()
    pod = wire.decode(kinds.PODS, raw)
    assert isinstance(pod, WirePod)
    assert pod == wire.decode_page(kinds.PODS, a_page(a_manifest("a", nodeName="n"))).items[0]
    with pytest.raises(InvalidInputError, match="not JSON"):
        wire.decode(kinds.PODS, b"{")


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
    assert wire.name_of(obj) == name


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
    assert wire.decode_count(json.dumps(page).encode()) == count


@pytest.mark.parametrize("items", [None, []])
def test_a_page_without_items_is_empty(items: list[Any] | None) -> None:
    """An API server written in Go says null."""
    page = wire.decode_page(kinds.PODS, json.dumps({"metadata": {"continue": "t"}, "items": items}).encode())
    assert (tuple(page.items), page.continue_token, page.rejected) == ((), "t", ())
