"""What the suite's administrator does where a busy server gives no answer."""

from __future__ import annotations

from core.manifests.wire.resources import NODES
from tests.e2e.parts.admin import Admin
from tests.fakes.api_server import ApiServer, Failure, serving

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def test_an_apply_without_an_answer_is_sent_again() -> None:
    """Otherwise, a server that is busy with new definitions for 20 seconds fails every test of a module."""
    server = ApiServer()
    server.objects["/api/v1"] = {"resources": [{"name": "nodes", "kind": "Node", "namespaced": False}]}
    server.put(NODES.path(), NODE)
    with serving(server) as url:
        admin = Admin(url, b"", "token")
        admin.get("nodes", "n")
        server.failures += [Failure(drops=True)] * 2
        admin.apply([NODE])
    assert [request.method for request in server.requests] == ["GET", "GET", "PATCH", "PATCH", "PATCH"]
