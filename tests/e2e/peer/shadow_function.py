"""A function with `mode: shadow`, in the cluster with nothing but the ClusterRole that it is deployed with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import boto3
import msgspec

from adapters.composition.functions import Adapters
from adapters.kube import HttpKubernetes
from adapters.run_report import RunReport
from adapters.runtime import SystemClock
from core.api.objects import JsonObject
from core.model.catalogue import Catalogue
from installation import cluster_roles
from installation.settings import SHADOW
from lambdas.application.controllers import Application
from tests.e2e.parts.admin import Admin
from tests.e2e.peer.handover import KwokAsEc2
from tests.e2e.peer.karpenter_side import KarpenterSide
from tests.fakes.lab import SETTINGS
from tests.fakes.world import FakeCatalogues

NAMESPACE: Final = "fleetwright"
GROUP: Final = f"system:serviceaccounts:{NAMESPACE}"
"""Of all our service accounts: the audit log tells by it what was ours."""

RUN: Final = timedelta(minutes=1)


class ShadowFunction:
    """One function: its own service account in place of its IAM role, and its controller over the real API server.

    Attributes:
        admin: Another client with the function's own token, for what the function itself never asks.
    """

    def __init__(self, name: str, side: KarpenterSide, session: boto3.Session, market: Catalogue) -> None:
        self.name = name
        self.admin = Admin(side.control_plane.url, side.control_plane.ca, _token(side.admin, name))
        kubernetes: Any = KwokAsEc2(HttpKubernetes(self.admin._transport))
        settings = msgspec.structs.replace(SETTINGS, mode=SHADOW, wake_up_queue_url=queue_of(session))
        adapters = Adapters(settings, session, SystemClock(), kubernetes=kubernetes, catalogues=FakeCatalogues(market))
        self._application = Application(adapters)

    def run(self) -> RunReport:
        """One invocation. Raises PortError."""
        report, ends = RunReport(), SystemClock().now() + RUN
        if self.name == "provision":
            self._application.shadow_provisioning.run(report, until=ends)
        else:
            self._application.shadow_disruption.run(report, deadline=ends)
        return report


def install(admin: Admin) -> None:
    """Apply the ClusterRoles of a shadow, and bind each to a service account besides its group."""
    names = sorted(cluster_roles.SHADOW_RULES_OF)
    service_accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        for name in names
    ]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    admin.apply([namespace, *service_accounts, *map(_bound, cluster_roles.manifests(shadow=True))])


def queue_of(session: boto3.Session) -> str:
    """The address of the queue that wakes `provision`; there is one afterwards."""
    return str(session.client("sqs").create_queue(QueueName="wake-ups")["QueueUrl"])


def _bound(manifest: JsonObject) -> JsonObject:
    if manifest["kind"] != "ClusterRoleBinding":
        return manifest
    function = manifest["metadata"]["name"].removeprefix(f"{cluster_roles.NAME}-")
    account = {"kind": "ServiceAccount", "name": function, "namespace": NAMESPACE}
    return {**manifest, "subjects": [*manifest["subjects"], account]}


def _token(admin: Admin, account: str) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    return str(admin.post(path, request)["status"]["token"])
