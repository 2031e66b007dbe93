"""The Kubernetes port over real HTTP."""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from adapters import kube
from adapters.kube import PAGE_SIZE, RESTARTS_MAX, Endpoint, HttpKubernetes, Transport
from adapters.ports import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    ListChanges,
    LostReplyError,
    NotFoundError,
    TransientError,
)
from core.manifests.wire import decoding
from core.manifests.wire.resources import NAMESPACES, NODE_POOLS, NODES, PODS
from core.version import VERSION
from tests.fakes.api_server import ApiServer, Failure, Request, serving


class Tokens:
    """A token that changes when it is renewed."""

    def __init__(self) -> None:
        self.renewals = 0

    def __call__(self) -> str:
        return f"token-{self.renewals}"

    def renew(self) -> None:
        self.renewals += 1


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def kubernetes(server: ApiServer) -> Iterator[HttpKubernetes]:
    with serving(server) as url:
        yield HttpKubernetes(Transport(lambda: Endpoint(url), Tokens()))


def a_pod(name: str, namespace: str = "shop", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, "spec": spec, **more}


def test_a_list_is_read_to_its_last_page(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, pods beyond the first page would wait forever."""
    names = [f"p{n:04}" for n in range(2 * PAGE_SIZE + 1)]
    for name in names:
        server.put(PODS.path(namespace="shop"), a_pod(name))
    assert [pod.metadata.name for pod in kubernetes.list(PODS).items] == names
    assert len(server.requests) == 3
    assert all(f"limit={PAGE_SIZE}" in request.path for request in server.requests)


NAMESPACES_OF_PODS = {"a": 9, "a-b": 4, "b": 23, "c": 0, "d": 1}


@pytest.fixture
def crowded(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """A server with pods in five namespaces, for pages of five; from ten pods after the first page on, lists are divided."""
    monkeypatch.setattr(kube, "PAGE_SIZE", 5)
    monkeypatch.setattr(kube, "REMAINING_APART_MIN", 10)
    for namespace, pods in NAMESPACES_OF_PODS.items():
        server.put(NAMESPACES.path(), {"metadata": {"name": namespace}})
        for number in range(pods):
            server.put(PODS.path(namespace=namespace), a_pod(f"p{number:02}", namespace))
    return server


def pod_lists(server: ApiServer) -> list[str]:
    """The paths of the lists of pods that the server was asked for, without what is asked of them."""
    return [request.path.split("?")[0] for request in server.requests if "/pods?" in request.path]


def test_a_long_list_is_that_of_all_namespaces_in_the_servers_order(
    crowded: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions must not depend on the way in which pods were read: both lists are equal, byte for byte."""
    apart = msgspec.json.encode(kubernetes.list(PODS).items)
    assert set(pod_lists(crowded)) == {PODS.path(), *(PODS.path(namespace=name) for name in NAMESPACES_OF_PODS)}
    assert pod_lists(crowded).count(PODS.path()) == 1
    crowded.requests.clear()
    monkeypatch.setattr(kube, "REMAINING_APART_MIN", 10_000)
    assert msgspec.json.encode(kubernetes.list(PODS).items) == apart
    assert set(pod_lists(crowded)) == {PODS.path()}


def test_a_namespace_that_is_new_while_the_others_are_read_is_read_too(
    crowded: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods may run already: a node would seem to have room, or to be empty."""
    answer, versions = crowded.answer, list[int]()

    def with_a_new_namespace(request: Request) -> tuple[int, Any]:
        if request.path.startswith(PODS.path(namespace="b")):
            crowded.put(NAMESPACES.path(), {"metadata": {"name": "aa"}})
            crowded.put(PODS.path(namespace="aa"), a_pod("new", "aa"))
        status, page = answer(request)
        if "/pods?" in request.path and not request.path.startswith(PODS.path()):
            versions.append(int(page["metadata"]["resourceVersion"]))
        return status, page

    monkeypatch.setattr(crowded, "answer", with_a_new_namespace)
    monkeypatch.setattr(kube, "CONTINUED_MIN", 0)
    listing = kubernetes.list(PODS)
    assert int(listing.version) == min(versions)  # what came later is among the changes
    namespaces = [pod.metadata.namespace for pod in listing.items]
    assert namespaces == ["a-b"] * 4 + ["a"] * 9 + ["aa"] + ["b"] * 23 + ["d"]


def test_the_list_of_one_namespace_that_expires_starts_over_alone(
    crowded: ApiServer, kubernetes: HttpKubernetes
) -> None:
    crowded.expire_lists = RESTARTS_MAX - 1
    assert len(kubernetes.list(PODS).items) == sum(NAMESPACES_OF_PODS.values())
    assert pod_lists(crowded).count(PODS.path(namespace="c")) == 1


def test_an_error_of_one_namespace_is_that_of_the_list(
    crowded: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that lacks a namespace would be believed."""
    answer = crowded.answer
    broken = PODS.path(namespace="d")
    monkeypatch.setattr(
        crowded, "answer", lambda request: (500, {}) if request.path.startswith(broken) else answer(request)
    )
    with pytest.raises(TransientError):
        kubernetes.list(PODS)


def test_short_and_selected_lists_and_those_of_many_namespaces_are_read_page_by_page(
    crowded: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list for each of a thousand namespaces takes longer than a few pages of all."""
    kubernetes.list(PODS, fields="spec.nodeName=")
    monkeypatch.setattr(kube, "NAMESPACES_PER_PAGE_MAX", 0)
    kubernetes.list(PODS)
    crowded.says_what_remains = False
    monkeypatch.undo()
    kubernetes.list(PODS)
    assert set(pod_lists(crowded)) == {PODS.path()}


@pytest.mark.parametrize(
    ("pods", "says_how_many", "count"), [(0, True, 0), (1, True, 1), (7, True, 7), (7, False, None)]
)
def test_counting_objects_takes_one_small_request(
    server: ApiServer, kubernetes: HttpKubernetes, pods: int, says_how_many: bool, count: int | None
) -> None:
    """Otherwise, a cluster of 100,000 pods sends all of them each minute to tell that it is idle."""
    server.objects.clear()
    server.says_what_remains = says_how_many
    for number in range(pods):
        server.objects[f"/api/v1/namespaces/default/pods/p-{number}"] = {"metadata": {"name": f"p-{number}"}}
    assert kubernetes.count(PODS) == count


@pytest.fixture
def followed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """A server with two pods, of which short lists can be continued."""
    monkeypatch.setattr(kube, "CONTINUED_MIN", 0)
    for name in ("p1", "p2"):
        server.put(PODS.path(namespace="shop"), a_pod(name))
    return server


def test_what_has_happened_since_a_list_is_read_event_by_event(followed: ApiServer, kubernetes: HttpKubernetes) -> None:
    """A list that is continued with these must be the server's list at that version, with that many objects."""
    since = kubernetes.list(PODS).version
    followed.put(PODS.path(namespace="shop"), a_pod("p3"))
    followed.put(PODS.path(namespace="shop"), a_pod("p1", spec={"nodeName": "n1", "containers": "none"}))
    followed.remove(PODS.path("p2", "shop"))
    followed.put(NODES.path(), {"metadata": {"name": "n1"}})
    changes = kubernetes.changes(PODS, since)
    assert changes is not None
    assert [(name, item and item.node_name) for name, item in changes.events] == [
        ("shop/p3", ""),
        ("shop/p1", "n1"),
        ("shop/p2", None),
    ]
    assert (changes.version, changes.objects) == (str(followed.version), 2)
    assert kubernetes.changes(PODS, changes.version) == ListChanges((), changes.version, 2)


def test_later_events_are_left_out(
    followed: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of objects is that of the version that was asked for first."""
    since, answer = kubernetes.list(PODS).version, followed.answer

    def and_then_another(request: Request) -> tuple[int, Any]:
        if "watch" in request.path:
            followed.put(PODS.path(namespace="shop"), a_pod("p4"))
        return answer(request)

    followed.put(PODS.path(namespace="shop"), a_pod("p3"))
    monkeypatch.setattr(followed, "answer", and_then_another)
    changes = kubernetes.changes(PODS, since)
    assert changes is not None
    assert [name for name, _ in changes.events] == ["shop/p3"]
    assert (changes.version, changes.objects) == (str(followed.version - 1), 3)


@pytest.mark.parametrize("gap", ["compacted", "restored", "no bookmark", "too many", "not an event", "410"])
def test_without_certainty_that_no_event_is_missing_there_are_no_changes(
    gap: str, followed: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is continued with a gap would be believed for minutes."""
    since = kubernetes.list(PODS).version
    for name in ("p3", "p4"):
        followed.put(PODS.path(namespace="shop"), a_pod(name))
    followed.put(NODES.path(), {"metadata": {"name": "n1"}})  # so that the version is not that of a pod
    match gap:
        case "compacted":
            followed.compacted_at = followed.version
        case "restored":
            followed.version = 1
        case "no bookmark":
            followed.sends_bookmarks = False
        case "too many":
            monkeypatch.setattr(kube, "EVENTS_MAX", 2)
        case _:
            answer = followed.answer
            odd = (410, {"code": 410}) if gap == "410" else (200, [{"kind": "Pod"}])
            monkeypatch.setattr(followed, "answer", lambda r: odd if "watch" in r.path else answer(r))
    assert kubernetes.changes(PODS, since) is None


def test_a_watch_that_may_not_be_or_breaks_off_is_an_error(followed: ApiServer, kubernetes: HttpKubernetes) -> None:
    since = kubernetes.list(PODS).version
    answer = followed.answer
    followed.answer = lambda r: (403, {"message": "no"}) if "watch" in r.path else answer(r)  # type: ignore[method-assign]
    with pytest.raises(DeniedError, match="kube:watch pods"):
        kubernetes.changes(PODS, since)


def test_a_list_that_is_short_selected_or_lacks_what_has_no_room_cannot_be_continued(
    followed: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a list left out for want of room depends on its order."""
    assert kubernetes.list(PODS).version == str(followed.version)
    assert kubernetes.list(PODS, fields="spec.nodeName=").version == ""
    room = decoding.NamespaceRoom
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "NamespaceRoom", lambda resource: room(resource, at_most=1))
        assert kubernetes.list(PODS).version == ""
    monkeypatch.setattr(kube, "CONTINUED_MIN", 3)
    assert kubernetes.list(PODS).version == ""


def test_pages_of_huge_objects_are_asked_for_in_smaller_ones(
    server: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, 500 pods of a megabyte each take more memory than a function has, and end each of its runs."""
    monkeypatch.setattr(kube, "BODY_MAX", 64 << 10)
    for number in range(700):
        many = {"labels": {"filler": "x" * 2000}} if number in range(400, 450) else {}
        pod = a_pod(f"p{number:04}")
        server.put(PODS.path(namespace="shop"), {**pod, "metadata": {**pod["metadata"], **many}})
    listing = kubernetes.list(PODS)
    assert [pod.metadata.name for pod in listing.items] == [f"p{number:04}" for number in range(700)]
    sizes = [int(request.path.partition("limit=")[2].partition("&")[0]) for request in server.requests]
    assert sizes[:2] == [500, 50]
    assert 5 in sizes
    assert len(sizes) < 60


def test_an_object_that_is_too_large_alone_is_told(
    server: ApiServer, kubernetes: HttpKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server has none: the run ends with what is wrong, not for lack of memory."""
    monkeypatch.setattr(kube, "BODY_MAX", 1000)
    server.put(PODS.path(namespace="shop"), a_pod("p" * 2000))
    with pytest.raises(TransientError, match="the answer has more than"):
        kubernetes.list(PODS)


def test_an_empty_list_is_no_error(kubernetes: HttpKubernetes) -> None:
    """A new cluster has no NodePools."""
    assert kubernetes.list(NODE_POOLS).items == ()


def test_a_list_that_expires_while_it_is_read_starts_over(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, the two halves would be of different moments, or the run would fail for nothing."""
    for n in range(PAGE_SIZE + 1):
        server.put(NODES.path(), {"metadata": {"name": f"n{n:04}"}})
    server.expire_lists = RESTARTS_MAX - 1
    assert len(kubernetes.list(NODES).items) == PAGE_SIZE + 1
    server.expire_lists = RESTARTS_MAX
    with pytest.raises(TransientError, match="expired"):
        kubernetes.list(NODES)


def test_one_unreadable_object_loses_no_other(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, one odd pod would stop the cluster from scaling."""
    server.put(PODS.path(namespace="shop"), a_pod("good"))
    server.put(PODS.path(namespace="shop"), a_pod("odd", spec={"containers": "none"}))
    listing = kubernetes.list(PODS)
    assert [(pod.metadata.name, bool(pod.unreadable)) for pod in listing.items] == [("good", False), ("odd", True)]


def test_listing_leaves_the_garbage_collector_as_it_was(kubernetes: HttpKubernetes) -> None:
    """A function that never collects again dies of its memory bound."""
    assert gc.isenabled()
    kubernetes.list(PODS)
    assert gc.isenabled()


def test_objects_are_read_and_written(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """The life of a node in the API: created, changed, changed conditionally, deleted."""
    kubernetes.create(NODES, {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "labels": {"a": "1"}}})
    assert server.objects[NODES.path("n1")]["kind"] == "Node"
    kubernetes.patch(NODES, "n1", {"metadata": {"labels": {"a": None, "b": "2"}}})
    assert kubernetes.get(NODES, "n1").metadata.labels == {"b": "2"}
    assert server.requests[1].headers["content-type"] == "application/merge-patch+json"
    with pytest.raises(ConflictError):
        kubernetes.patch(NODES, "n1", {"metadata": {"resourceVersion": "6"}, "spec": {"unschedulable": True}})
    kubernetes.patch(NODES, "n1", {"metadata": {"resourceVersion": "7"}, "spec": {"unschedulable": True}})
    with pytest.raises(ConflictError):
        kubernetes.delete(NODES, "n1", uid="other")
    kubernetes.delete(NODES, "n1", uid="u1", grace_seconds=0)
    assert server.requests[-1].body["gracePeriodSeconds"] == 0
    with pytest.raises(NotFoundError):
        kubernetes.get(NODES, "n1")


def test_a_status_is_patched_through_its_subresource(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """The API server ignores a status that is sent with the object."""
    server.put(NODE_POOLS.path(), {"metadata": {"name": "general"}})
    kubernetes.patch(NODE_POOLS, "general", {"status": {"nodes": 1}}, subresource="status")
    assert server.requests[-1].path == "/apis/karpenter.sh/v1/nodepools/general/status"
    assert kubernetes.get(NODE_POOLS, "general")["status"] == {"nodes": 1}


def test_creating_an_existing_object_is_a_conflict(kubernetes: HttpKubernetes) -> None:
    """A second writer must learn that it was late."""
    kubernetes.create(NODES, {"metadata": {"name": "n1"}})
    with pytest.raises(ConflictError):
        kubernetes.create(NODES, {"metadata": {"name": "n1"}})


def test_a_pod_is_bound_once_and_only_that_one(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """The scheduler may be faster, and a pod of the same name may be another one."""
    server.put(PODS.path(namespace="shop"), a_pod("cart"))
    with pytest.raises(NotFoundError):
        kubernetes.bind("shop", "gone", uid="uid-gone", node="n1")
    with pytest.raises(ConflictError):
        kubernetes.bind("shop", "cart", uid="an earlier pod of the same name", node="n1")
    kubernetes.bind("shop", "cart", uid="uid-cart", node="n1")
    assert server.objects[PODS.path("cart", "shop")]["spec"]["nodeName"] == "n1"
    with pytest.raises(ConflictError):
        kubernetes.bind("shop", "cart", uid="uid-cart", node="n2")


def test_an_eviction_is_refused_by_its_budget(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """A budget's refusal must differ from an overloaded server: one needs time for pods, the other for the server."""
    server.put(PODS.path(namespace="shop"), a_pod("cart"))
    server.blocked[PODS.path("cart", "shop")] = "cart-pdb"
    with pytest.raises(EvictionBlockedError):
        kubernetes.evict("shop", "cart", uid="uid-cart")
    server.failures.append(Failure(429, b'{"message": "too many requests"}'))
    with pytest.raises(TransientError):
        kubernetes.evict("shop", "cart", uid="uid-cart")
    server.blocked.clear()
    with pytest.raises(ConflictError):
        kubernetes.evict("shop", "cart", uid="an earlier pod of the same name")
    kubernetes.evict("shop", "cart", uid="uid-cart")
    with pytest.raises(NotFoundError):
        kubernetes.evict("shop", "cart", uid="uid-cart")


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, DeniedError), (401, DeniedError), (422, DeniedError), (429, TransientError), (500, TransientError)],
)
def test_refusals_say_whether_to_try_again(
    status: int, error: type[Exception], server: ApiServer, kubernetes: HttpKubernetes
) -> None:
    """Retrying a forbidden call hammers the server; giving up on an overload leaves pods pending."""
    server.failures += [Failure(status, b"<html>not JSON</html>")] * 2
    with pytest.raises(error, match=str(status)):
        kubernetes.patch(NODES, "n1", {})


def test_a_token_that_the_server_rejects_is_renewed(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, a sandbox whose token expired while it slept fails its first run."""
    server.accepted_token = "token-1"
    assert kubernetes.list(NODES).items == ()
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer token-0", "Bearer token-1"]


def test_a_write_whose_reply_is_lost_may_have_happened(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Repeating it blindly could evict the pod's successor."""
    server.put(PODS.path(namespace="shop"), a_pod("cart"))
    server.failures.append(Failure(drops=True))
    with pytest.raises(LostReplyError):
        kubernetes.evict("shop", "cart", uid="uid-cart")
    assert PODS.path("cart", "shop") not in server.objects


def test_a_read_whose_reply_is_lost_is_repeated(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """A connection that the server closed while the sandbox slept is no failure."""
    server.failures.append(Failure(drops=True))
    assert kubernetes.list(NODES).items == ()


def test_a_list_from_a_server_with_a_stale_cache_is_repeated(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, a run fails whenever many objects are created at once and the server's cache is a moment behind."""
    server.failures += [Failure(504)] * 2
    assert kubernetes.list(NODES).items == ()
    server.failures += [Failure(504)] * 3
    with pytest.raises(TransientError, match="504"):
        kubernetes.list(NODES)


def test_a_connection_that_fails_did_nothing() -> None:
    """Repeating it is safe, unlike after a lost reply."""
    kubernetes = HttpKubernetes(Transport(lambda: Endpoint("http://127.0.0.1:1"), Tokens()))
    with pytest.raises(TransientError) as raised:
        kubernetes.create(NODES, {"metadata": {"name": "n1"}})
    assert not isinstance(raised.value, LostReplyError)


def test_an_unreadable_certificate_authority_is_reported() -> None:
    """Otherwise, an endless retry would hide a broken setting."""
    kubernetes = HttpKubernetes(Transport(lambda: Endpoint("https://127.0.0.1:1", "bm8gcGVt"), Tokens()))
    with pytest.raises(DeniedError, match="certificate authority"):
        kubernetes.list(NODES)


def test_only_the_clusters_own_certificate_is_trusted(server: ApiServer, tmp_path: Path) -> None:
    """Otherwise, a server in the cluster's place gets our token."""
    own_certificate, other = a_certificate(tmp_path / "own.pem"), a_certificate(tmp_path / "other.pem")
    with serving(server, certificate=tmp_path / "own.pem") as url:
        trusted = HttpKubernetes(Transport(lambda: Endpoint(url, own_certificate), Tokens()))
        assert trusted.list(NODES).items == ()
        fooled = HttpKubernetes(Transport(lambda: Endpoint(url, other), Tokens()))
        with pytest.raises(TransientError, match="certificate"):
            fooled.list(NODES)
    assert len(server.requests) == 1


def a_certificate(path: Path) -> str:
    """A self-signed certificate of this machine with its key, in a file; and its base64 as EKS would give it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    path.write_bytes(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return base64.b64encode(pem).decode()


def test_a_list_may_have_a_selector(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """To drain one node of five thousand, its twenty pods are read and not a hundred thousand."""
    for n in range(PAGE_SIZE + 2):
        bound = {"spec": {"nodeName": "n1" if n else "n2", "containers": []}}
        server.put(PODS.path(namespace="shop"), a_pod(f"p{n:04}", **bound))
    assert len(kubernetes.list(PODS, fields="spec.nodeName=n1").items) == PAGE_SIZE + 1
    assert all("fieldSelector=spec.nodeName%3Dn1" in request.path for request in server.requests)
    server.put(NODES.path(), {"metadata": {"name": "a", "labels": {"tier": "web"}}})
    server.put(NODES.path(), {"metadata": {"name": "b"}})
    assert [node.metadata.name for node in kubernetes.list(NODES, labels="!tier").items] == ["b"]


def test_requests_have_our_user_agent(server: ApiServer, kubernetes: HttpKubernetes) -> None:
    """Otherwise, the server's audit log says `python-urllib3`, as of half the programs in the world."""
    kubernetes.list(NODES)
    assert [request.headers["user-agent"] for request in server.requests] == [f"fleetwright/{VERSION}"]


def test_a_proxy_of_the_environment_is_used_unless_the_server_is_exempt(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a VPC whose only way out is a proxy, every run would time out."""
    there = Endpoint("http://kubernetes.invalid")
    with serving(server) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert HttpKubernetes(Transport(lambda: there, Tokens())).list(NODES).items == ()
        assert [request.path.partition("?")[0] for request in server.requests] == [f"{there.url}/api/v1/nodes"]
        monkeypatch.setenv("NO_PROXY", "kubernetes.invalid")
        with pytest.raises(TransientError):
            HttpKubernetes(Transport(lambda: there, Tokens())).list(NODES)
    assert len(server.requests) == 1


def test_each_request_waits_for_its_turn(server: ApiServer) -> None:
    """A renewed token is a request more."""
    turns: list[int] = []
    server.accepted_token = "token-1"
    with serving(server) as url:
        HttpKubernetes(Transport(lambda: Endpoint(url), Tokens(), lambda: turns.append(1))).list(NODES)
    assert len(turns) == len(server.requests) == 2
