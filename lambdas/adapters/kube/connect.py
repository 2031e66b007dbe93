"""Assembles the client for an EKS cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambdas.adapters.aws.eks import EksCluster
from lambdas.adapters.aws.service import QUICK, AwsService
from lambdas.adapters.kube.client import HttpKubernetes
from lambdas.adapters.kube.pool import Endpoint
from lambdas.adapters.kube.rate_limit import RateLimit
from lambdas.adapters.kube.token import EksToken, presigner
from lambdas.adapters.kube.transport import Transport
from lambdas.ports import Clock

if TYPE_CHECKING:
    import boto3


def kubernetes_of(session: boto3.Session, cluster: str, clock: Clock) -> HttpKubernetes:
    """Return a client of the EKS cluster of this name, with the session's credentials; no request is sent yet."""
    described = EksCluster(AwsService(make=lambda: session.client("eks", config=QUICK)), cluster, clock)

    def endpoint() -> Endpoint:
        found = described.describe().cluster
        return Endpoint(found.endpoint, found.certificate_authority)

    token = EksToken(presigner(session, cluster=cluster), clock)
    return HttpKubernetes(Transport(endpoint, token, RateLimit()))
