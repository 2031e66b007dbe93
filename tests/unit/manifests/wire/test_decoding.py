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


def test_a_page_gives_its_items_and_where_the_next_begins() -> None:
    """Otherwise a cluster with more than one page of pods would be seen in part."""
    page = wire.decode_page(kinds.PODS, a_page(a_manifest("a"), a_manifest("b"), token="next"))
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert page.continue_token == "next"
    assert page.rejected == ()


def test_one_bad_object_does_not_lose_the_list() -> None:
    """Otherwise one odd Service would stop provisioning for all others."""
    bad = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"selector": 3}}
    good = {"metadata": {"name": "a"}}
    page = wire.decode_page(kinds.SERVICES, a_page(good, bad))
    assert [found.metadata.name for found in page.items] == ["a"]
    assert page.rejected == (("shop/bad", "spec.selector: Expected `object`, got `int`"),)


def test_of_a_pod_that_cannot_be_read_the_rest_is_kept() -> None:
    """Left out, it would make its node look empty, and the node would go with it."""
    bad = a_manifest("bad", containers=[{"name": 3}], nodeName="n")
    bad["metadata"] |= {"labels": {"app": 4}, "uid": "u"}
    page = wire.decode_page(kinds.PODS, a_page(a_manifest("a"), bad, a_manifest("c")))
    assert [pod.metadata.name for pod in page.items] == ["a", "bad", "c"]
    assert page.rejected == ()
    odd = page.items[1]
    assert (odd.metadata.namespace, odd.metadata.uid, odd.node_name) == ("shop", "u", "n")
    assert odd.unreadable == "metadata.labels.*: Expected `str`, got `int`"


@pytest.mark.parametrize("item", [5, {}, {"metadata": {"name": 7}}, {"metadata": "x"}])
def test_a_list_with_something_nameless_among_its_pods_is_refused(item: Any) -> None:
    """Nobody could say which node it keeps, so nothing may be decided."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        wire.decode_page(kinds.PODS, a_page(a_manifest("a"), item))


def test_nulls_count_as_absent() -> None:
    """Clients write `creationTimestamp: null`; the API server takes that for nothing."""
    written = a_manifest("a", containers=None, nodeSelector=None)
    written["metadata"]["creationTimestamp"] = None
    page = wire.decode_page(kinds.PODS, a_page(written))
    assert page.rejected == ()
    assert page.items[0].spec.containers == ()


def test_an_empty_page_may_have_null_items() -> None:
    """The API server writes null for an empty list of some kinds."""
    assert wire.decode_page(kinds.PODS, b'{"items": null, "metadata": {}}').items == ()


def test_a_page_that_is_no_list_is_refused() -> None:
    """Otherwise an error body would look like an empty cluster, and every node like an empty one."""
    with pytest.raises(InvalidInputError, match="list of pods"):
        wire.decode_page(kinds.PODS, b"<html>")


def test_whole_numbers_are_quantities_too() -> None:
    """YAML's `cpu: 1` is accepted by the API server, so a pod with it must not be lost."""
    pod = wire.from_object(kinds.PODS, a_manifest(containers=[{"name": "c", "resources": {"requests": {"cpu": 1}}}]))
    assert pod.spec.containers[0].resources.requests == {"cpu": 1}


def test_pods_with_one_spec_share_one_object() -> None:
    """Fifty thousand pods of a few workloads would not fit a function's memory otherwise."""
    first, second = (a_manifest(name, nodeName=f"node-{name}", volumes=[{"name": f"token-{name}"}]) for name in "ab")
    left, right = wire.decode_page(kinds.PODS, a_page(first, second)).items
    assert left.spec is right.spec
    assert (left.node_name, right.node_name) == ("node-a", "node-b")


def test_karpenters_own_kinds_stay_as_they_are() -> None:
    """`core.api` reads them; a field dropped here would be a setting ignored there."""
    pool = {"metadata": {"name": "default"}, "spec": {"anything": [1, None]}}
    assert wire.from_object(kinds.NODE_POOLS, pool) == pool
    assert wire.decode_page(kinds.NODE_POOLS, a_page(pool)).items == (pool,)


def test_an_error_names_object_and_field() -> None:
    """Whoever wrote the manifest must find the place."""
    with pytest.raises(InvalidInputError) as caught:
        wire.from_object(kinds.PODS, a_manifest("a", priority="high"))
    assert caught.value.subject == "Pod shop/a"
    assert caught.value.field == "spec.priority"


def test_every_struct_reads_an_object_with_nothing_but_a_name() -> None:
    """A minimal object is legal in every kind; a required field too many would reject it."""
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
