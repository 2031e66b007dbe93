"""Creates the clients of an EKS cluster's API server."""

from __future__ import annotations

from collections.abc import Callable

from adapters.aws.services import QUICK, AwsService, EksCluster
from adapters.kube import EksToken, Endpoint, HttpKubernetes, RateLimit, Transport, presigner
from adapters.ports import Clock, Session


def kubernetes_of(session: Session, cluster: str, clock: Clock) -> HttpKubernetes:
    """Return a client of the EKS cluster of this name, with the session's credentials; no request is sent yet."""
    described = EksCluster(AwsService(make=lambda: session.client("eks", config=QUICK)), cluster, clock)

    def endpoint() -> Endpoint:
        description = described.describe().cluster
        return Endpoint(description.endpoint, description.certificate_authority)

    token = EksToken(presigner(session, cluster=cluster), clock)
    return HttpKubernetes(Transport(endpoint, token, RateLimit()))


def transport_to(session: Session, cluster: str, address: Callable[[], tuple[str, str]], clock: Clock) -> Transport:
    """Return what sends single requests to the EKS cluster of this name, with the session's credentials; none is sent yet.

    `address` returns the server's URL and its certificate authority, as EKS describes them.
    """
    return Transport(lambda: Endpoint(*address()), EksToken(presigner(session, cluster=cluster), clock))
