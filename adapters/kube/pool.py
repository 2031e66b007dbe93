"""Creates the connection pool for one API server, with its certificate authority and the environment's proxy, if any."""

from __future__ import annotations

import base64
import ssl
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import urllib3

from adapters.ports import DeniedError
from adapters.runtime.parallel_tasks import WORKERS

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
