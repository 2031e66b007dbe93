"""The cluster over HTTP, in its own process: an API server with pages and selectors, a table, and EC2.

It answers the requests of the measured runs, and none of them changes it. Between runs, `GET /new/N` adds pods that wait.
"""

from __future__ import annotations

import argparse
import gzip
import re
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.scale.cluster import Cluster, instance_xml
from benchmarks.scale.names import instance_id, node_name
from benchmarks.scale.pods import pod_on
from benchmarks.scale.records import claim, command
from benchmarks.scale.rows import rows_of
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

CLUSTER: Final = "scale"
PAGE: Final = 500
TABLE_PAGE_BYTES: Final = 1_000_000
"""DynamoDB ends a page of a query at a megabyte."""

RCU_BYTES: Final = 4096
GZIP_LENGTH_BYTES: Final = 4
"""A gzip file ends with the length of its content (RFC 1952)."""

EC2_PAGE: Final = 1000
_NODE_SELECTOR: Final = re.compile(r"spec\.nodeName=([^,]*)")
_PODS_OF_NAMESPACE: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods")


class World:
    """The served data, made once: lists of the API server by page, rows by partition. Counts requests."""

    def __init__(self, cluster: Cluster, page_seconds: float = 0.0, *, may_watch: bool = True) -> None:
        self.cluster = cluster
        self.page_seconds = page_seconds
        self.may_watch = may_watch
        self._new: list[JsonObject] = []
        self.counts: Counter[str] = Counter()
        self.url = ""
        self._pages: dict[Resource, list[bytes]] = {}
        self._by_path = {resource.path(): resource for resource in resources.ALL}
        self._nodes = {node_name(index): index for index in range(cluster.nodes)}
        self._rows: dict[str, list[JsonObject]] = {}
        claims, commands = rows_of(CLUSTER, [claim(index) for index in range(cluster.nodes)], [command()])
        for row in claims:  # a command in progress would keep `disrupt` from deciding, so no query finds it
            self._rows.setdefault(row["pk"]["S"], []).append(row)
        self._row = {(row["pk"]["S"], row["sk"]["S"]): row for row in (*claims, *commands)}
        for resource in resources.ALL:
            self.pages(resource)
        self._pods_by_namespace = _by_namespace(cluster.objects(resources.PODS))

    def pages(self, resource: Resource) -> list[bytes]:
        """A whole list, page by page, compressed."""
        if resource not in self._pages:
            total = sum(1 for _ in self.cluster.objects(resource))
            self._pages[resource] = list(_paged(self.cluster.objects(resource), total))
        return self._pages[resource]

    def get(self, target: str) -> tuple[int, bytes]:
        """The API server's answer to a GET: status and compressed body."""
        url = urlsplit(target)
        resource = self._by_path.get(url.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "watch" in query and resource is not None:
            return self._watch(resource, int(query["resourceVersion"]))
        in_namespace = _PODS_OF_NAMESPACE.fullmatch(url.path)
        if in_namespace is not None:
            self.counts["list pods of a namespace"] += 1
            time.sleep(self.page_seconds)
            return 200, self._pods_by_namespace[in_namespace[1]][int(query.get("continue", 0))]
        if resource is None:
            return self._object(url.path)
        time.sleep(self.page_seconds)
        selectors = ",".join(query[name] for name in ("fieldSelector", "labelSelector") if name in query)
        self.counts[f"list {resource.plural} {selectors}".rstrip()] += 1
        number_of_page = int(query.get("continue", 0))
        if selectors:
            return 200, next(islice(_paged(self._selected(resource, selectors)), number_of_page, None))
        if query.get("limit") == "1":
            return 200, self._first(resource)
        return 200, self.pages(resource)[number_of_page]

    def add(self, pods: int) -> None:
        """Let new pods wait; only lists by namespace and watches have them."""
        first = self.cluster.pods + len(self._new)
        new = [pod_on(index, "") for index in range(first, first + pods)]
        self._new += new
        for namespace in sorted({pod["metadata"]["namespace"] for pod in new}):
            pages = self._pods_by_namespace[namespace]
            page = msgspec.json.decode(gzip.decompress(pages[-1]))
            page["items"] += [pod for pod in new if pod["metadata"]["namespace"] == namespace]
            pages[-1] = gzip.compress(msgspec.json.encode(page), 1)

    @property
    def _version(self) -> int:
        return 1 + len(self._new)

    def _first(self, resource: Resource) -> bytes:
        """The first object of a list, and how many remain."""
        new = len(self._new) if resource == resources.PODS else 0
        total = sum(1 for _ in self.cluster.objects(resource)) + new
        metadata = {"resourceVersion": str(self._version), "continue": "1", "remainingItemCount": total - 1}
        items = list(islice(self.cluster.objects(resource), 1))
        return gzip.compress(msgspec.json.encode({"kind": "List", "metadata": metadata, "items": items}), 1)

    def _watch(self, resource: Resource, since: int) -> tuple[int, bytes]:
        """The pods that are new since a version, and a bookmark."""
        self.counts[f"watch {resource.plural}"] += 1
        if not self.may_watch:
            return 403, gzip.compress(b'{"kind":"Status","code":403}', 1)
        events: list[JsonObject] = []
        for version, pod in enumerate(self._new[since - 1 :], since + 1) if resource == resources.PODS else ():
            metadata = {**pod["metadata"], "resourceVersion": str(version)}
            events.append({"type": "ADDED", "object": {**pod, "metadata": metadata}})
        events.append({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}})
        return 200, gzip.compress(b"".join(msgspec.json.encode(event) + b"\n" for event in events), 1)

    def _selected(self, resource: Resource, selectors: str) -> Iterator[JsonObject]:
        node = _NODE_SELECTOR.search(selectors)
        if resource == resources.PODS and node is not None:
            yield from self.cluster.pods_of(node[1])
            yield from () if node[1] else self._new

    def _object(self, path: str) -> tuple[int, bytes]:
        kind, name = path.rstrip("/").split("/")[-2:]
        self.counts[f"get {kind}"] += 1
        if kind == "nodes" and name in self._nodes:
            return 200, gzip.compress(msgspec.json.encode(self.cluster.node(self._nodes[name])), 1)
        if kind == "ec2nodeclasses":
            return 200, gzip.compress(msgspec.json.encode(next(self.cluster.objects(resources.EC2_NODE_CLASSES))), 1)
        return 404, gzip.compress(b'{"kind":"Status","code":404}', 1)

    def table(self, operation: str, request: JsonObject) -> JsonObject:
        """DynamoDB's answer."""
        self.counts[f"dynamodb {operation}"] += 1
        match operation:
            case "Query":
                return self._query(request)
            case "GetItem":
                row = self._row.get((request["Key"]["pk"]["S"], request["Key"]["sk"]["S"]))
                self.counts["RCU"] += 1
                return {"Item": row} if row else {}
            case "UpdateItem":
                return {"Attributes": {**request["Key"], "fence": {"N": "1"}}}
            case _:
                return {}

    def _query(self, request: JsonObject) -> JsonObject:
        rows = self._rows.get(request["ExpressionAttributeValues"][":p"]["S"], [])
        after = request.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        page: list[JsonObject] = []
        size = 0
        ordered = sorted(rows, key=lambda row: str(row["sk"]["S"]))
        for row in ordered:
            if row["sk"]["S"] > after:
                page.append(row)
                size += len(msgspec.json.encode(row))
                if size > TABLE_PAGE_BYTES:
                    break
        self.counts["RCU"] += -(-size // RCU_BYTES) // (1 if request.get("ConsistentRead") else 2)
        last = page[-1] if page else None
        is_end = last is None or last is ordered[-1]
        return {"Items": page} | (
            {} if is_end or last is None else {"LastEvaluatedKey": {"pk": last["pk"], "sk": last["sk"]}}
        )

    def ec2(self, form: dict[str, list[str]]) -> str:
        """EC2's answer; empty for calls that the measured runs do not need."""
        action = form["Action"][0]
        self.counts[f"ec2 {action}"] += 1
        token, items = "", ""
        if action == "DescribeInstances":
            instance_ids = {value for values in form.values() for value in values if value.startswith("i-")}
            start = int(form.get("NextToken", ["0"])[0])
            indexes = [n for n in range(self.cluster.nodes) if not instance_ids or instance_id(n) in instance_ids]
            items = "".join(instance_xml(index, CLUSTER) for index in indexes[start : start + EC2_PAGE])
            if start + EC2_PAGE < len(indexes):
                token = f"<nextToken>{start + EC2_PAGE}</nextToken>"
        space = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
        return f"<{action}Response {space}><reservationSet>{items}</reservationSet>{token}</{action}Response>"


class Server(ThreadingHTTPServer):
    """Serves one cluster."""

    daemon_threads = True

    def __init__(self, world: World) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world = world
        world.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        world = self.server.world
        if self.path == "/counts":
            body, world.counts = msgspec.json.encode(dict(sorted(world.counts.items()))), Counter()
            return self._reply(200, body, "application/json")
        if self.path.startswith("/clusters/"):
            described = {"cluster": {"endpoint": world.url, "version": "1.34"}}
            return self._reply(200, msgspec.json.encode(described), "application/json")
        if self.path.startswith("/new/"):
            world.add(int(self.path.rpartition("/")[2]))
            return self._reply(200, b"{}", "application/json")
        status, body = world.get(self.path)
        world.counts["bytes from the API server"] += len(body)
        world.counts["bytes of JSON from the API server"] += int.from_bytes(body[-GZIP_LENGTH_BYTES:], "little")
        return self._reply(status, body, "application/json", encoding="gzip")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        world, target = self.server.world, self.headers.get("X-Amz-Target", "")
        if target.startswith("DynamoDB"):
            answer = world.table(target.partition(".")[2], msgspec.json.decode(raw))
            return self._reply(200, msgspec.json.encode(answer), "application/x-amz-json-1.0")
        if target.startswith("AmazonSQS"):
            entries = msgspec.json.decode(raw)["Entries"]
            world.counts["sqs messages"] += len(entries)
            sent = [{"Id": entry["Id"], "MessageId": entry["Id"], "MD5OfMessageBody": ""} for entry in entries]
            return self._reply(200, msgspec.json.encode({"Successful": sent}), "application/x-amz-json-1.0")
        if raw.startswith(b"Action="):
            return self._reply(200, world.ec2(parse_qs(raw.decode())).encode(), "text/xml")
        world.counts[f"other {target or self.path.partition('?')[0]}"] += 1
        return self._reply(201, b"{}", "application/json")

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.world.counts["patch"] += 1
        self._reply(200, b"{}", "application/json")

    do_DELETE = do_PUT = do_PATCH  # noqa: N815 - the names that http.server looks for

    def _reply(self, status: int, body: bytes, kind: str, *, encoding: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _by_namespace(objects: Iterator[JsonObject]) -> dict[str, list[bytes]]:
    """The pages of each namespace's list."""
    by_namespace: dict[str, list[JsonObject]] = {}
    for obj in objects:
        by_namespace.setdefault(obj["metadata"]["namespace"], []).append(obj)
    return {namespace: list(_paged(iter(by_namespace.pop(namespace)))) for namespace in sorted(by_namespace)}


def _paged(objects: Iterator[JsonObject], total: int | None = None) -> Iterator[bytes]:
    """Pages of a list, which say what remains of a known total; the token of the next page is its number."""
    page: list[JsonObject] = []
    after = 0
    waiting = next(objects, None)
    while True:
        while waiting is not None and len(page) < PAGE:
            page.append(waiting)
            waiting = next(objects, None)
        after += 1
        metadata: JsonObject = {"resourceVersion": "1"} | ({"continue": str(after)} if waiting is not None else {})
        if waiting is not None and total is not None:
            metadata["remainingItemCount"] = total - after * PAGE
        yield gzip.compress(msgspec.json.encode({"kind": "List", "metadata": metadata, "items": page}), 1)
        if waiting is None:
            return
        page = []


def main() -> None:
    """Serve until killed; prints the port when ready."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("nodes", "pods", "pending"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--page-seconds", type=float, default=0.0)
    parser.add_argument("--no-watch", action="store_true")
    arguments = parser.parse_args()
    cluster = Cluster(nodes=arguments.nodes, pods=arguments.pods, pending=arguments.pending)
    server = Server(World(cluster, arguments.page_seconds, may_watch=not arguments.no_watch))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
