"""Puts the parts together for an EKS cluster."""

from __future__ import annotations

from collections.abc import Callable

from lambdas.adapters.aws.service import session
from lambdas.adapters.kube.client import HttpKubernetes
from lambdas.adapters.kube.token import EksToken, presigner
from lambdas.adapters.kube.transport import Endpoint, Transport
from lambdas.ports import Clock


def connect(endpoint: Callable[[], Endpoint], *, cluster: str, region: str, clock: Clock) -> HttpKubernetes:
    """A client of the EKS cluster of this name, with the function's own credentials; nothing is sent yet."""
    token = EksToken(presigner(session(), cluster=cluster, region=region), clock)
    return HttpKubernetes(Transport(endpoint, token))
