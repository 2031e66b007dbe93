"""Connections to one API server: its certificate authority, and the proxy on the way, if the environment names one."""

from __future__ import annotations

import base64
import ssl
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import urllib3

from lambdas.parallel_tasks import WORKERS
from lambdas.ports import DeniedError

CONNECTIONS: Final = WORKERS
"""Kept open: one for each message that `execute` handles at once."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where the API server is. `certificate_authority` is base64 of PEM, as EKS gives it; empty for the system's own."""

    url: str
    certificate_authority: str = ""


def pool_of(endpoint: Endpoint, call: str) -> urllib3.PoolManager:
    """A pool for the server, by way of HTTPS_PROXY unless NO_PROXY names the server. Raises DeniedError."""
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
