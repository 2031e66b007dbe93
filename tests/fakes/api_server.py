"""A small Kubernetes API server over real HTTP, for tests of clients: objects in memory, pages, preconditions, evictions.

Drive it through its attributes: put objects into `objects`, arm `failures`, expire tokens with `expire_lists`, block evictions
with `blocked`. What arrived is in `requests`.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from core.api.objects import JsonObject
from core.manifests.wire import resources
from simulator.cluster.api import selection

VERSION: Final = {"major": "1", "minor": "33", "gitVersion": "v1.33.1-eks-1"}

GOT_BY_NAME: Final = ("pods", "nodes", "nodepools", "customresourcedefinitions", "clusterroles", "clusterrolebindings")
"""Kinds of which single objects are asked for: otherwise a path below a collection is taken for a collection."""


class Failure(msgspec.Struct):
    """The answer to the next request; with `drops`, the request is carried out and its connection cut."""

    status: int = 0
    body: bytes = b"{}"
    drops: bool = False


class Request(msgspec.Struct):
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ApiServer:
    """The server's world, shared by its threads."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.requests: list[Request] = []
        self.failures: list[Failure] = []
        self.blocked: dict[str, str] = {}
        self.expire_lists = 0
        self.says_what_remains = True
        self.accepted_token: str | None = None
        self.version = 1
        self.compacted_at = 0
        self.sends_bookmarks = True
        self._events: list[tuple[int, str, str, Any]] = []

    def put(self, path: str, obj: Any) -> None:
        """Store an object under the path of its collection and its name."""
        key = f"{path}/{obj['metadata']['name']}"
        self._note("MODIFIED" if key in self.objects else "ADDED", key, obj)
        self.objects[key] = obj

    def remove(self, key: str) -> None:
        """Remove the object at a path."""
        self._note("DELETED", key, self.objects.pop(key))

    def _note(self, kind: str, key: str, obj: Any) -> None:
        self.version += 1
        seen = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._events.append((self.version, kind, key, seen))

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and body for a request."""
        if self.accepted_token and request.headers.get("authorization") != f"Bearer {self.accepted_token}":
            return 401, _status(401, "Unauthorized")
        url = urlsplit(request.path)
        if url.path == "/version":
            return 200, VERSION
        if request.method == "GET" and url.path not in self.objects:
            return self._list(url.path, parse_qs(url.query))
        if request.method == "POST" and url.path.endswith("/eviction"):
            return self._evict(url.path.removesuffix("/eviction"), request.body)
        if request.method == "POST" and url.path.endswith("/binding"):
            return self._bind(url.path.removesuffix("/binding"), request.body)
        if request.method == "POST":
            return self._create(url.path, request.body)
        if url.path.removesuffix("/status") not in self.objects:
            return 404, _status(404, "not found")
        return {"GET": self._get, "PATCH": self._patch, "DELETE": self._delete}[request.method](url.path, request.body)

    def _list(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path.split("/")[-2] in GOT_BY_NAME:
            return 404, _status(404, "not found")
        if "watch" in query:
            return self._watch(path, int(query["resourceVersion"][0]))
        fields, labels = (query.get(name, [""])[0] for name in ("fieldSelector", "labelSelector"))
        resource = next((kind for kind in resources.ALL if path.endswith(f"/{kind.plural}")), None)
        if resource is None:  # one object
            return 404, _status(404, "not found")
        is_selected = selection(resource, fields, labels)
        matching = [o for key, o in sorted(self.objects.items()) if _is_in(key, path) and is_selected(o)]
        # All pages of a list have the version of its first one, as in Kubernetes.
        start, version = map(int, query.get("continue", [f"0.{self.version}"])[0].split("."))
        limit = int(query.get("limit", ["500"])[0])
        if start and self.expire_lists:
            self.expire_lists -= 1
            return 410, _status(410, "The provided continue parameter is too old")
        end = start + limit
        metadata: JsonObject = {"resourceVersion": str(version)} | (
            {"continue": f"{end}.{version}"} if end < len(matching) else {}
        )
        if end < len(matching) and not (fields or labels) and self.says_what_remains:
            metadata["remainingItemCount"] = len(matching) - end
        return 200, {"kind": "List", "metadata": metadata, "items": matching[start:end]}

    def _watch(self, path: str, since: int) -> tuple[int, list[JsonObject]]:
        """Events as the API server streams them: an answer that has begun ends with an event of type ERROR."""
        if since < self.compacted_at:
            gone = _status(410, f"too old resource version: {since} ({self.compacted_at})")
            return 200, [{"type": "ERROR", "object": gone | {"status": "Failure", "reason": "Expired"}}]
        events: list[JsonObject] = [
            {"type": kind, "object": obj}
            for version, kind, key, obj in self._events
            if version > since and _is_in(key, path)
        ]
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
        return 200, [*events, bookmark] if self.sends_bookmarks else events

    def _get(self, path: str, _: Any) -> tuple[int, Any]:
        return 200, self.objects[path]

    def _create(self, path: str, body: JsonObject) -> tuple[int, Any]:
        key = f"{path}/{body['metadata']['name']}"
        if key in self.objects:
            return 409, _status(409, "already exists")
        self.objects[key] = body
        return 201, body

    def _patch(self, path: str, body: JsonObject) -> tuple[int, Any]:
        key = path.removesuffix("/status")
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected and expected != self.objects[key]["metadata"].get("resourceVersion"):
            return 409, _status(409, "the object has been modified")
        changed = self.objects[key] = _merged(self.objects[key], body)
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            del self.objects[key]  # the last finalizer of a deleted object is gone, or it had none
        return 200, changed

    def _delete(self, path: str, body: JsonObject) -> tuple[int, Any]:
        if not self._uid_matches(path, body):
            return 409, _status(409, "Precondition failed: UID in precondition")
        del self.objects[path]
        return 200, _status(200, "")

    def _evict(self, key: str, body: JsonObject) -> tuple[int, Any]:
        if key not in self.objects:
            return 404, _status(404, "not found")
        if key in self.blocked:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget {self.blocked[key]} needs 2"}]
            return 429, _status(429, message) | {"details": {"causes": causes}}
        return self._delete(key, body["deleteOptions"])

    def _bind(self, key: str, body: JsonObject) -> tuple[int, Any]:
        if key not in self.objects:
            return 404, _status(404, "not found")
        pod = self.objects[key]
        if pod["spec"].get("nodeName") or body["metadata"]["uid"] != pod["metadata"].get("uid"):
            return 409, _status(409, "pod is already assigned to a node, or another one")
        self.objects[key] = {**pod, "spec": {**pod["spec"], "nodeName": body["target"]["name"]}}
        return 201, _status(201, "")

    def _uid_matches(self, key: str, options: JsonObject) -> bool:
        wanted = options.get("preconditions", {}).get("uid")
        return wanted in (None, self.objects[key]["metadata"].get("uid"))


@contextmanager
def serving(server: ApiServer, *, certificate: Path | None = None) -> Iterator[str]:
    """Serve on a free port of this machine, over TLS with the certificate and key in a file; gives the address."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def _handle(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key.lower(): value for key, value in self.headers.items()}
            request = Request(self.command, self.path, headers, json.loads(raw) if raw else None)
            server.requests.append(request)
            failure = server.failures.pop(0) if server.failures else None
            if failure is not None and not failure.drops:
                return self._reply(failure.status, failure.body)
            status, answer = server.answer(request)
            if failure is not None:
                self.close_connection = True
                return None
            lines = answer if isinstance(answer, list) else [answer]
            return self._reply(status, "".join(f"{json.dumps(line)}\n" for line in lines).encode())

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
            """Say nothing: a test's output is its own."""

    return Handler


def _is_in(key: str, collection: str) -> bool:
    """Whether an object's path belongs to a collection, in its namespace or in any."""
    if key.rpartition("/")[0] == collection:
        return True
    root, _, plural = collection.rpartition("/")
    parts = key.removeprefix(root + "/").split("/")
    return key.startswith(root + "/") and len(parts) == 4 and parts[0] == "namespaces" and parts[2] == plural


def _merged(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    base = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = _merged(base.get(key), value)
    return base


def _status(code: int, message: str) -> JsonObject:
    return {"kind": "Status", "code": code, "message": message}
