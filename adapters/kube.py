"""The cluster's API (`adapters.ports.Kubernetes`): endpoint, token, transport, pages and errors."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import urllib3
import urllib3.exceptions
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from adapters.observability import MISSING_PERMISSIONS
from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    ExpiredError,
    JsonObject,
    ListChanges,
    Listing,
    LostReplyError,
    NotFoundError,
    PortError,
    Session,
    SeveralBudgetsError,
    ThrottledError,
    TransientError,
)
from adapters.runtime import WORKERS
from core.errors import InvalidInputError
from core.interpreter import collector_paused
from core.manifests.wire import decoding
from core.manifests.wire.resources import NAMESPACES, PODS, Resource
from core.version import VERSION

# Classifies answers of the Kubernetes API.


GONE: Final = 410
UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_DETAIL_MAX: Final = 300
_DIGITS_MAX: Final = 9
_BUDGET_CAUSE: Final = "DisruptionBudget"
"""The cause in Kubernetes' answer to an eviction that a PodDisruptionBudget forbids."""

_LONGEST_WAIT: Final = timedelta(minutes=1)
"""The longest delay requested by a busy server that is respected."""

_BY_STATUS: Final[dict[int, type[PortError]]] = {
    UNAUTHORIZED: DeniedError,
    _FORBIDDEN: DeniedError,
    _NOT_FOUND: NotFoundError,
    409: ConflictError,
    GONE: ExpiredError,
    412: ConflictError,
}


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None
    retry_after: int = msgspec.field(default=0, name="retryAfterSeconds")


class _Status(msgspec.Struct, frozen=True):
    """The parts of Kubernetes' Status that are read here. An admission webhook may have written all of it."""

    message: str | None = None
    details: _Details | None = None

    @property
    def names_budget(self) -> bool:
        """Whether a PodDisruptionBudget is the cause."""
        causes = (self.details.causes if self.details else None) or ()
        return any(cause.reason == _BUDGET_CAUSE for cause in causes) or "disruption budget" in (self.message or "")


def of_answer(call: str, status: int, body: bytes, *, is_eviction: bool = False, retry_after: str = "") -> PortError:
    """Return the error for an unsuccessful answer.

    429 on an eviction means a PodDisruptionBudget forbids it if the answer's cause is `DisruptionBudget`, and an overloaded
    server otherwise (Kubernetes' eviction API). `retry_after` is the header of that name, empty for none.
    """
    api_status = _read(body)
    detail = f"{status} {api_status.message or body[:_DETAIL_MAX].decode(errors='replace')}"[:_DETAIL_MAX]
    if status == UNAUTHORIZED:
        detail = f"{detail}: the cluster rejects this role's token; does the role have an access entry?"
    if is_eviction and status == _TOO_MANY and api_status.names_budget:
        return EvictionBlockedError(call, detail)
    if is_eviction and status >= 500 and "more than one PodDisruptionBudget" in detail:
        return SeveralBudgetsError(call, detail)
    if status == _TOO_MANY:
        return ThrottledError(call, detail, _wait(api_status, retry_after))
    if status >= 500:
        return TransientError(call, detail)
    error = _BY_STATUS.get(status, DeniedError)(call, detail)
    if status == _FORBIDDEN:
        MISSING_PERMISSIONS.note(str(error))
    return error


def of_listing(call: str, resource: Resource, status: int, body: bytes) -> PortError:
    """Return the error for a listing: if the collection does not exist, the cluster does not serve the kind at all."""
    if status != _NOT_FOUND:
        return of_answer(call, status, body)
    what = f"the cluster serves no {resource.plural} as {resource.api_version}"
    return DeniedError(call, f"{what}: apply this release's CustomResourceDefinitions (`fleetwright crds`)")


def of_transport(call: str, error: urllib3.exceptions.HTTPError, *, is_write: bool) -> PortError:
    """Return the error for a request without an answer; a write may or may not have been applied."""
    never_arrived = isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)
    if is_write and not never_arrived:
        return LostReplyError(call, str(error)[:_DETAIL_MAX])
    return TransientError(call, str(error)[:_DETAIL_MAX])


def _wait(api_status: _Status, header: str) -> timedelta:
    """Return the delay that the server requests, from the header or else from the answer's details (both in seconds)."""
    stated = (
        int(header[:_DIGITS_MAX]) if header.isdecimal() else api_status.details.retry_after if api_status.details else 0
    )
    return timedelta(seconds=min(int(_LONGEST_WAIT.total_seconds()), max(0, stated)))


def _read(body: bytes) -> _Status:
    """Return the answer's Status; an empty one if the body is not a Status, as from a proxy."""
    try:
        return msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, RecursionError):
        return _Status()


# Creates the connection pool for one API server, with its certificate authority and the environment's proxy, if any.


CONNECTIONS: Final = WORKERS
"""The most open connections: one for each message that `execute` handles concurrently."""


class Endpoint(msgspec.Struct, frozen=True):
    """The address of an API server.

    `certificate_authority` is base64 of PEM, as from EKS; empty for the system's authorities.
    """

    url: str
    certificate_authority: str = ""


def pool_of(endpoint: Endpoint, call: str) -> urllib3.PoolManager:
    """Return a pool for the server, through HTTPS_PROXY unless NO_PROXY names the server. Raises DeniedError."""
    try:
        proxy = _proxy_of(endpoint.url)
        if proxy:
            return urllib3.ProxyManager(proxy, num_pools=1, maxsize=CONNECTIONS, ssl_context=_trust(endpoint))
        return urllib3.PoolManager(num_pools=1, maxsize=CONNECTIONS, ssl_context=_trust(endpoint))
    except (ValueError, ssl.SSLError) as error:
        problem = f"the certificate authority of {endpoint.url}, or the proxy on the way, cannot be read: {error}"
        raise DeniedError(call, problem) from error


def _proxy_of(url: str) -> str:
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return ""
    return getproxies().get(parts.scheme, "")


def _trust(endpoint: Endpoint) -> ssl.SSLContext | None:
    if not endpoint.url.startswith("https:"):
        return None
    if endpoint.certificate_authority:
        return ssl.create_default_context(cadata=base64.b64decode(endpoint.certificate_authority).decode())
    return ssl.create_default_context()


# Limits the requests of one sandbox to the API server: a token bucket.


PER_SECOND: Final = 200
BURST: Final = 300
"""Karpenter's figures for its client. They limit one client; the server's priority and fairness balances all clients."""


class RateLimit:
    """Lets `burst` requests through at once and `per_second` from then on; later ones wait their turn. Threads may share it.

    Args:
        now, pause: A monotonic clock in seconds, and a function that waits that many seconds.
    """

    def __init__(
        self,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._pause = pause
        self._lock = Lock()
        self._tokens = float(burst)
        self._refilled = now()

    def __call__(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            moment = self._now()
            refilled = self._tokens + (moment - self._refilled) * self._per_second
            self._tokens = min(float(self._burst), refilled) - 1
            self._refilled = moment
            wait = -self._tokens / self._per_second
        if wait > 0:
            self._pause(wait)


# Creates bearer tokens for EKS: a presigned STS request that proves our identity without being sent.


PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
VALID_FOR: Final = timedelta(minutes=14)
"""EKS accepts a token for 15 minutes from its signing."""

_URL_SECONDS: Final = 60
"""Validity stated in the presigned URL; EKS requires 60."""

_DOMAINS: Final = (
    ("cn-", "amazonaws.com.cn"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
)
"""Prefix of regions → domain of their partition's services: EKS accepts a token for its own partition's STS only."""

Presign = Callable[[], str]


class EksToken:
    """The bearer token of one cluster, renewed shortly before it expires."""

    def __init__(self, presign: Presign, clock: Clock) -> None:
        self._presign = presign
        self._clock = clock
        self._made: tuple[datetime, str] | None = None

    def __call__(self) -> str:
        """Return the token. Raises DeniedError if the function has no credentials."""
        now = self._clock.now()
        made = self._made
        if made is None or not timedelta(0) <= now - made[0] < VALID_FOR:
            url = self._presign()
            made = self._made = (now, PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="))
        return made[1]

    def renew(self) -> None:
        """Discard the token: the server rejected it."""
        self._made = None


def presigner(session: Session, *, cluster: str) -> Presign:
    """Return a function that signs `sts:GetCallerIdentity` for `cluster` with the session's credentials, offline."""

    def presign() -> str:
        credentials, region = session.get_credentials(), session.region_name
        if credentials is None:
            raise DeniedError("sts:GetCallerIdentity", "no AWS credentials")
        signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", credentials, session.events)
        request: dict[str, Any] = {
            "method": "GET",
            "url": f"https://sts.{region}.{domain_of(region)}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {CLUSTER_HEADER: cluster},
            "context": {},
        }
        url: str = signer.generate_presigned_url(
            request, region_name=region, expires_in=_URL_SECONDS, operation_name=""
        )
        return url

    return presign


def domain_of(region: str) -> str:
    """Return the domain of the services of the region's partition."""
    return next((domain for prefix, domain in _DOMAINS if region.startswith(prefix)), "amazonaws.com")


# Sends requests to the API server, with tokens, timeouts and retries. Threads may share it.


CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
"""The read timeout. A page of 500 pods takes the server well under a second; a busy server takes longer."""

HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": f"fleetwright/{VERSION}",
}
"""The user agent by which the server's audit log distinguishes our requests."""

LATE: Final = 504
"""An API server whose cache is behind etcd answers a list after three seconds and requests a retry."""

READ_AGAIN: Final = urllib3.Retry(
    total=2, connect=1, read=1, status=2, status_forcelist=(LATE,), allowed_methods=("GET",), raise_on_status=False
)
"""Retries of reads: the server may have closed an idle connection. A repeated read is harmless; a repeated write is not."""


BODY_MAX: Final = 64 << 20
"""The most bytes of an answer, uncompressed. A page of 500 usual pods has 2 to 8 MiB; an object, which etcd bounds at 1.5 MiB,
has a few."""


class LongAnswerError(TransientError):
    """The answer has more than `BODY_MAX` bytes and was not read to its end."""

    def __init__(self, call: str) -> None:
        super().__init__(call, f"the answer has more than {BODY_MAX >> 20} MiB")


class Token(Protocol):
    """Provides the bearer token."""

    def __call__(self) -> str:
        """Return the current token."""
        ...

    def renew(self) -> None:
        """Discard the token: the server rejected it."""
        ...


class Answer(NamedTuple):
    """The server's answer; `retry_after` is the header of that name, empty for none."""

    status: int
    body: bytes
    retry_after: str = ""

    def error(self, call: str) -> PortError:
        """Return the error for an unsuccessful answer."""
        return of_answer(call, self.status, self.body, retry_after=self.retry_after)


class Transport:
    """Sends requests. The server's address is resolved at the first request, so that a cold start does not wait for it.

    Args:
        limit: Called before each request; it may wait.
    """

    def __init__(self, endpoint: Callable[[], Endpoint], token: Token, limit: Callable[[], None] | None = None) -> None:
        self._endpoint = endpoint
        self._token = token
        self._limit = limit
        self._server: tuple[str, urllib3.PoolManager] | None = None

    def send(self, call: str, method: str, path: str, body: bytes | None = None, *, content_type: str = "") -> Answer:
        """Send one request. A token that the server no longer accepts is renewed once. Raises PortError."""
        answer = self._send(call, method, path, body, content_type)
        if answer.status == UNAUTHORIZED:
            self._token.renew()
            answer = self._send(call, method, path, body, content_type)
        return answer

    def lines(self, call: str, path: str) -> Generator[bytes]:
        """Send a GET and yield the lines of its answer as they arrive; close the iterator to end the request.

        Raises PortError. A rejected token is no special case: the request before this one has renewed it.
        """
        try:
            response = self._opened(call, "GET", path, None, "")
            with closing(response):
                if response.status >= 300:
                    raise of_answer(call, response.status, response.read(_DETAIL_MAX))
                yield from _lines(call, response.stream(STREAM_BYTES))
        except urllib3.exceptions.HTTPError as error:
            raise of_transport(call, error, is_write=False) from error

    def _send(self, call: str, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        is_read = method == "GET"
        try:
            try:
                return self._exchange(call, method, path, body, content_type)
            except urllib3.exceptions.ProtocolError:  # also where an answer breaks off, which `READ_AGAIN` does not see
                if not is_read:
                    raise
                return self._exchange(call, method, path, body, content_type)
        except urllib3.exceptions.HTTPError as error:
            raise of_transport(call, error, is_write=not is_read) from error

    def _exchange(self, call: str, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        """Send one request and read its answer. Raises urllib3's HTTPError, LongAnswerError."""
        response = self._opened(call, method, path, body, content_type)
        data = response.read(BODY_MAX + 1)
        if len(data) > BODY_MAX:
            response.close()
            raise LongAnswerError(call)
        response.release_conn()
        return Answer(response.status, data, response.headers.get("Retry-After", ""))

    def _opened(
        self, call: str, method: str, path: str, body: bytes | None, content_type: str
    ) -> urllib3.BaseHTTPResponse:
        """Send one request, and return its answer before it is read. Raises urllib3's HTTPError."""
        if self._limit is not None:
            self._limit()
        headers = {**HEADERS, "Authorization": f"Bearer {self._token()}"}
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        url, pool = self._connected(call)
        return pool.request(
            method,
            url + path,
            body=body,
            headers=headers,
            retries=READ_AGAIN if method == "GET" else False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            preload_content=False,
        )

    def _connected(self, call: str) -> tuple[str, urllib3.PoolManager]:
        server = self._server
        if server is None:
            endpoint = self._endpoint()
            server = self._server = (endpoint.url.rstrip("/"), pool_of(endpoint, call))
        return server


def _lines(call: str, chunks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the lines of an answer. Raises LongAnswerError."""
    received, unfinished = 0, b""
    for chunk in chunks:
        received += len(chunk)
        if received > BODY_MAX:
            raise LongAnswerError(call)
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        yield from lines


PAGE_SIZE: Final = 500
PAGES_MAX: Final = 2000
"""The most pages of a list: a million objects of one kind, more than any cluster has."""

SMALLER: Final = 10
"""A page that is too large is asked for again with a tenth of its objects; pages grow again where there is room. The limit may
change, since a continue token names the last key alone (Kubernetes, `apiserver/pkg/storage/continue.go`)."""

REMAINING_APART_MIN: Final = 2_500
"""With so many objects after the first page, each namespace is listed by itself, several at once: a page of one list must wait
for the page before, which at 300,000 pods takes longer than a run may."""

NAMESPACES_PER_PAGE_MAX: Final = 4
"""With more namespaces for each page of the whole list, their lists would take longer than its pages."""

READERS: Final = 4
"""How many lists are read at once. Decoding takes a third of the time of a page, and all of them share one processor."""

CONTINUED_MIN: Final = 10_000
"""Longer lists are continued. Shorter ones are listed within the second or two that a quiet watch waits for its bookmark."""

WATCH_SECONDS: Final = 3
"""How long a watch lasts at most. The API server sends a bookmark two seconds before its end (`cacheWatcher.nextBookmarkTime`),
so a quiet kind is known to be up to date after a second or two."""

EVENTS_MAX: Final = 20_000
"""The most events of one watch: more are read faster as a list."""

STREAM_BYTES: Final = 65_536

RESTARTS_MAX: Final = 3
"""How often a list restarts because its continue token expired during the read (410)."""

EVICTION: Final = "eviction"
BINDING: Final = "binding"
_METHODS: Final = {"get": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
_MERGE_PATCH: Final = "application/merge-patch+json"


class HttpKubernetes:
    """Client of one API server. Writes are single attempts."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Return the kind's objects in all namespaces that both selectors select, page by page. Raises PortError.

        A long list without selectors is read by namespace, in the order of the whole list.
        """
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        with collector_paused():
            listing = self._list(resource, {name: selector for name, selector in selectors.items() if selector})
        return listing if len(listing.items) >= CONTINUED_MIN else msgspec.structs.replace(listing, version="")

    def count(self, resource: Resource) -> int | None:
        """Return how many objects of the kind there are: a page of one, plus the number that the server reports as remaining.

        Raises PortError.

        The server reports it only for lists without selectors, and may omit it (Kubernetes' ListMeta).
        """
        return self._extent(resource)[0]

    def changes(self, resource: Resource, since: str) -> ListChanges | None:
        """Return what has happened from a version of the whole list until now; None if that is not certain. Raises PortError.

        A list of one object says which version is the present one. Later events are left out, so that the server's number of
        objects is that of the result. A server that was restored from a backup may be behind `since`.
        """
        objects, until = self._extent(resource)
        if not until.isdecimal() or int(until) < int(since):
            return None
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": WATCH_SECONDS,
        }
        lines = self._transport.lines(_call("watch", resource), f"{resource.path()}?{urlencode(query)}")
        try:
            with collector_paused(), closing(lines):
                events = _events_until(resource, lines, int(until))
        except (ExpiredError, LongAnswerError, InvalidInputError):
            return None
        return None if events is None else ListChanges(events, until, objects)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """Return one object as its wire struct. Raises NotFoundError, PortError."""
        body = self._send("get", resource, resource.path(name, namespace))
        try:
            return decoding.decode(resource, body)
        except InvalidInputError as error:
            raise DeniedError(_call("get", resource), str(error)) from error

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists, PortError."""
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        self._send("create", resource, resource.path(namespace=namespace), manifest)

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """Apply a JSON merge patch.

        A `metadata.resourceVersion` in the body makes it conditional (ConflictError). Raises PortError.
        """
        path = resource.path(name, namespace, subresource)
        self._send("patch", resource, path, body, subresource=subresource)

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object, with a UID precondition if one is given. Raises NotFoundError, ConflictError, PortError."""
        options = _delete_options(uid, grace_seconds) | {"propagationPolicy": "Background"}
        self._send("delete", resource, resource.path(name, namespace), options)

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod that has no node. Raises NotFoundError, ConflictError, PortError."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._send("create", PODS, PODS.path(name, namespace, BINDING), binding, subresource=BINDING)

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod. Raises EvictionBlockedError, NotFoundError, ConflictError, PortError."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid, None),
        }
        self._send("create", PODS, PODS.path(name, namespace, EVICTION), eviction, subresource=EVICTION)

    def _extent(self, resource: Resource) -> tuple[int | None, str]:
        """Return how many objects of the kind there are, None if the server does not say, and the version of their list."""
        call = _call("list", resource)
        answer = self._transport.send(call, "GET", f"{resource.path()}?{urlencode({'limit': 1})}")
        if answer.status >= 300:
            raise of_listing(call, resource, answer.status, answer.body)
        try:
            return decoding.decode_extent(answer.body)
        except InvalidInputError as error:
            raise TransientError(call, str(error)) from error

    def _list(self, resource: Resource, selectors: Mapping[str, str], namespace: str = "") -> Listing:
        """Return the whole list, of one namespace if one is given; it is begun again if a continue token expires."""
        for _ in range(RESTARTS_MAX):
            listing = self._list_once(resource, selectors, namespace)
            if listing is not None:
                return listing
        raise TransientError(_call("list", resource), f"the list expired {RESTARTS_MAX} times while it was read")

    def _list_once(self, resource: Resource, selectors: Mapping[str, str], namespace: str) -> Listing | None:
        """Return the whole list, None if a continue token expired during the read."""
        items: list[Any] = []
        rejected: list[tuple[str, str]] = []
        room = decoding.NamespaceRoom(resource)
        token, size = "", PAGE_SIZE
        for _ in range(PAGES_MAX):
            query = urlencode({"limit": size, **selectors, **({"continue": token} if token else {})})
            path = f"{resource.path(namespace=namespace)}?{query}"
            try:
                answer = self._transport.send(_call("list", resource), "GET", path)
            except LongAnswerError:
                if size == 1:
                    raise
                size = max(1, size // SMALLER)
                continue
            if len(answer.body) < BODY_MAX // SMALLER:
                size = min(PAGE_SIZE, size * SMALLER)
            if answer.status == GONE:
                return None
            if answer.status >= 300:
                raise of_listing(_call("list", resource), resource, answer.status, answer.body)
            page = _decoded(resource, answer.body)
            may_divide = not token and resource.namespaced and not namespace and not selectors
            if may_divide and (page.remaining or 0) >= REMAINING_APART_MIN:
                apart = self._list_by_namespace(resource, len(page.items) + (page.remaining or 0))
                if apart is not None:
                    return apart
            page = room.within(page)
            items += page.items
            rejected += page.rejected
            token = page.continue_token
            if not token:
                is_whole = not selectors and not room.is_exceeded and page.version.isdecimal()
                return Listing(tuple(items), tuple(rejected), page.version if is_whole else "", room.held)
        raise TransientError(_call("list", resource), f"more than {PAGES_MAX} pages")

    def _list_by_namespace(self, resource: Resource, objects: int) -> Listing | None:
        """Return the list of about so many objects in the server's order; None if its namespaces are too many, or one.

        Namespaces that are new when all others are read are read, too: a pod that runs must not be missed.
        """
        names = self._namespaces()
        if not 1 < len(names) <= NAMESPACES_PER_PAGE_MAX * -(-objects // PAGE_SIZE):
            return None
        listings = self._listed_apart(resource, names)
        listings |= self._listed_apart(resource, [name for name in self._namespaces() if name not in listings])
        ordered = [listings[name] for name in sorted(listings, key=_place_of)]
        versions = [listing.version for listing in ordered]
        return Listing(
            items=tuple(item for listing in ordered for item in listing.items),
            rejected=tuple(rejected_object for listing in ordered for rejected_object in listing.rejected),
            version=min(versions, key=int) if all(versions) else "",
            held={name: size for listing in ordered for name, size in listing.held.items()},
        )

    def _namespaces(self) -> tuple[str, ...]:
        """Return the names of all namespaces; none if they may not be listed."""
        try:
            return tuple(str(namespace.metadata.name) for namespace in self._list(NAMESPACES, {}).items)
        except DeniedError:
            return ()

    def _listed_apart(self, resource: Resource, namespaces: Sequence[str]) -> dict[str, Listing]:
        """Return the lists of these namespaces, read by several threads. The first error ends all of them."""
        with ThreadPoolExecutor(READERS) as readers:
            reads = {name: readers.submit(self._list, resource, {}, name) for name in namespaces}
            try:
                return {name: read.result() for name, read in reads.items()}
            except PortError:
                readers.shutdown(wait=False, cancel_futures=True)
                raise

    def _send(
        self, verb: str, resource: Resource, path: str, body: JsonObject | None = None, *, subresource: str = ""
    ) -> bytes:
        call = _call(verb, resource) + (f"/{subresource}" if subresource else "")
        raw = None if body is None else msgspec.json.encode(body)
        content_type = _MERGE_PATCH if verb == "patch" else ""
        answer = self._transport.send(call, _METHODS[verb], path, raw, content_type=content_type)
        if answer.status >= 300:
            is_eviction = subresource == EVICTION
            raise of_answer(call, answer.status, answer.body, is_eviction=is_eviction, retry_after=answer.retry_after)
        return answer.body


def _place_of(namespace: str) -> str:
    """Return the key of a namespace's place in the server's order: its keys are `namespace/name`, so "a-b" is before "a"."""
    return f"{namespace}/"


def _events_until(resource: Resource, lines: Iterable[bytes], until: int) -> tuple[tuple[str, Any | None], ...] | None:
    """Return the events up to a version; None if the watch ends before it is certain that these are all.

    Raises InvalidInputError for an error of the server, and for what is no event.
    """
    events: list[tuple[str, Any | None]] = []
    for line in islice(lines, EVENTS_MAX):
        event = decoding.decode_event(resource, line)
        if event.name and event.version <= until:
            events.append((event.name, event.item))
        if event.version >= until:
            return tuple(events)
    return None


def _decoded(resource: Resource, body: bytes) -> decoding.Page:
    try:
        return decoding.decode_page(resource, body)
    except InvalidInputError as error:
        raise TransientError(_call("list", resource), str(error)) from error


def _delete_options(uid: str, grace_seconds: int | None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _call(verb: str, resource: Resource) -> str:
    return f"kube:{verb} {resource.plural}"
