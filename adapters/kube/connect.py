"""Assembles the client for an EKS cluster."""

from __future__ import annotations

from adapters.aws.eks import EksCluster
from adapters.aws.service import QUICK, AwsService
from adapters.aws.session import Session
from adapters.kube.client import HttpKubernetes
from adapters.kube.pool import Endpoint
from adapters.kube.rate_limit import RateLimit
from adapters.kube.token import EksToken, presigner
from adapters.kube.transport import Transport
from adapters.ports import Clock


def kubernetes_of(session: Session, cluster: str, clock: Clock) -> HttpKubernetes:
    """Return a client of the EKS cluster of this name, with the session's credentials; no request is sent yet."""
    described = EksCluster(AwsService(make=lambda: session.client("eks", config=QUICK)), cluster, clock)

    def endpoint() -> Endpoint:
        found = described.describe().cluster
        return Endpoint(found.endpoint, found.certificate_authority)

    token = EksToken(presigner(session, cluster=cluster), clock)
    return HttpKubernetes(Transport(endpoint, token, RateLimit()))
