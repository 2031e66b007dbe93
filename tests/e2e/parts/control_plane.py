"""A real Kubernetes control plane on 127.0.0.1, with kwok for its kubelets."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from adapters.ports import PortError
from tests.e2e.parts.admin import Admin
from tests.e2e.parts.builds import Binaries, binaries
from tests.e2e.parts.certificates import Authority, write_signing_key
from tests.e2e.parts.processes import Part, PartError, Processes, answers, free_ports

CONFIGURATION: Final = Path(__file__).with_name("configuration")
SERVICE_ADDRESSES: Final = "10.100.0.0/16"
"""What EKS gives to Services unless told otherwise."""

POD_ADDRESSES: Final = "10.0.64.0/18"
NODE_LEASES: Final = "kube-node-lease"
NODE_LEASE_SECONDS: Final = 80
"""kwok renews the lease of each of its Nodes after a quarter of it, before a Node would be taken for dead (50 s).

A kubelet's own lasts 40 seconds; a hundred of them, renewed every ten, are a tenth of what a burst's API server is asked.
"""

WEBHOOK_CACHE: Final = "5s"
"""How long a token review counts: short, so that a token taken back is refused while a test still looks."""

AUDIT_MEGABYTES_MAX: Final = 10_000
"""No rotation: readers of the log keep their position in it. Three thousand pods write about 200 MB."""

CONTROLLER_MANAGER: Final = "kube-controller-manager"
KUBE_SCHEDULER: Final = "kube-scheduler"
KWOK: Final = "kwok"

STOP_SECONDS: Final = 1.0
"""Before SIGKILL: an API server waits a minute for its watches, and nothing here outlives the run but etcd's writes."""

_ANNOTATED: Final = (
    "--manage-all-nodes=false",
    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
)
"""For kwok where other kubelets play, too."""

_GROUPS_GATE: Final = ("--feature-gates=GenericWorkload=true",)
_GROUPS_API: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true"

GARBAGE_PERCENT: Final = "400"
"""Collect garbage a quarter as often as Go does by itself: here is memory to spare, and two cores for all."""

CLIENT_QPS: Final = 500
"""What scheduler and controllers may ask a second; the defaults create 20 pods a second."""


@dataclass(frozen=True)
class _Identity:
    user: str
    groups: tuple[str, ...] = ()


ADMIN: Final = _Identity("fleetwright-e2e-admin", ("system:masters",))
SCHEDULER: Final = _Identity("system:kube-scheduler")
CONTROLLERS: Final = _Identity("system:kube-controller-manager")
KUBELETS: Final = _Identity("kwok", ("system:masters", "system:nodes"))
"""kwok speaks for all kubelets; the audit policy knows them by the group."""


class ControlPlane:
    """etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok.

    With `starts_groups`, the gate of Kubernetes' own groups is open, which is off by default in 1.37.

    Attributes:
        url: The API server's URL; it stays the same after a restart.
        ca: Certificate authority of the server, PEM.
        admin_token: A bearer token of the group system:masters.
        audit_log: The server's audit events, one JSON object a line, oldest first.
        admin: A client with that token.
    """

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        *,
        authentication_webhook: Path | None = None,
        qps: int = CLIENT_QPS,
        has_hollow_kubelets: bool = False,
        starts_groups: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._processes = processes
        self._folder = folder
        self._webhook = authentication_webhook
        self._qps = qps
        self._has_hollow_kubelets = has_hollow_kubelets
        self._starts_groups = starts_groups
        self._binaries: Binaries | None = None
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self._tokens = {identity: secrets.token_urlsafe(24) for identity in (ADMIN, SCHEDULER, CONTROLLERS, KUBELETS)}
        self._parts: list[Part] = []
        self._api_server: Part | None = None
        authority = Authority("fleetwright-e2e")
        self._certificate = authority.issue("kube-apiserver", folder)
        self.ca: bytes = authority.pem
        self.url: str = f"https://127.0.0.1:{self._port}"
        self.admin_token: str = self._tokens[ADMIN]
        self.audit_log: Path = folder / "audit.log"
        self.admin: Admin = Admin(self.url, self.ca, self.admin_token)

    def start(self) -> None:
        """Start all of it; returns when the API server is ready and the others run. Builds what is missing first.

        Raises:
            PartError: If a part does not start; it names the log to read.
        """
        self.start_servers()
        for name, command in self._clients().items():
            self._start(name, command)

    def start_servers(self) -> None:
        """Start only etcd and the API server, for callers that need no controllers; otherwise like `start`."""
        self._binaries = binaries()
        self._write_files()
        self._start("etcd", self._etcd(), ready=answers(self._etcd_port, "/readyz"))
        self.start_api_server()

    def stop(self) -> None:
        """Stop all of it, clients before servers."""
        while self._parts:
            self._processes.stop(self._parts.pop(), seconds=STOP_SECONDS)
        self._api_server = None

    def start_api_server(self) -> None:
        """Start the API server, on the port and the data it had before. Raises PartError."""
        if self._api_server is not None:
            raise PartError("the API server is started already")
        self._api_server = self._start("kube-apiserver", self._apiserver(), ready=self._is_ready, first=True)

    def stop_api_server(self) -> None:
        """Stop only the API server, for an outage. The other parts keep trying to reach it."""
        if self._api_server is None:
            raise PartError("the API server is not started")
        self._parts.remove(self._api_server)
        self._processes.stop(self._api_server, seconds=STOP_SECONDS)
        self._api_server = None

    def restart_clients(self) -> None:
        """Restart the components that watch the API server: after an outage client-go sleeps for up to a minute.

        kwok also watches from the present on, and never sees pods that were bound during the outage; kubelets list.
        A new one has another name, and would leave the Nodes alone until the leases that it had before are over.
        """
        commands = self._clients()
        for part in [part for part in self._parts if part.name in commands]:
            self._parts.remove(part)
            self._processes.stop(part, seconds=STOP_SECONDS)
        self.admin.delete_all("leases.coordination.k8s.io", NODE_LEASES)
        for name, command in commands.items():
            self._start(name, command)

    def kubelets_kubeconfig(self) -> Path:
        """Write and return a kubeconfig file for kubelets that run as separate processes."""
        return self.kubeconfig(self._tokens[KUBELETS])

    def kubeconfig(self, token: str) -> Path:
        """Write a kubeconfig file with `token`."""
        path = self._folder / f"kubeconfig-{len(list(self._folder.glob('kubeconfig-*')))}.json"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": self.ca}},
            ],
            "users": [{"name": "e2e", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(content))
        return path

    def _start(
        self, name: str, command: list[str], *, ready: Callable[[], bool] | None = None, first: bool = False
    ) -> Part:
        part = self._processes.start(name, command, environment=_environment(), ready=ready)
        self._parts.insert(1 if first else len(self._parts), part)
        return part

    def _is_ready(self) -> bool:
        try:
            return self.admin.is_ready()
        except PortError:
            return False

    def _write_files(self) -> None:
        write_signing_key(self._folder / "service-account.key")
        rows = [
            ",".join((token, identity.user, identity.user, f'"{",".join(identity.groups)}"'))
            for identity, token in self._tokens.items()
        ]
        tokens = self._folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text("\n".join(rows) + "\n")

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            str(self._built.etcd),
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        webhook = [
            f"--authentication-token-webhook-config-file={self._webhook}",
            f"--authentication-token-webhook-cache-ttl={WEBHOOK_CACHE}",
        ]
        key = self._folder / "service-account.key"
        return [
            str(self._built.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self._certificate.certificate}",
            f"--tls-private-key-file={self._certificate.key}",
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            *(webhook if self._webhook else ()),
            *((*_GROUPS_GATE, _GROUPS_API) if self._starts_groups else ()),
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            f"--audit-policy-file={CONFIGURATION / 'audit_policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            f"--audit-log-maxsize={AUDIT_MEGABYTES_MAX}",
        ]

    def _scheduler(self) -> list[str]:
        return [
            str(self._built.kube_scheduler),
            f"--kubeconfig={self.kubeconfig(self._tokens[SCHEDULER])}",
            "--leader-elect=false",
            "--secure-port=0",
            *(_GROUPS_GATE if self._starts_groups else ()),
            f"--kube-api-qps={self._qps}",
            f"--kube-api-burst={2 * self._qps}",
        ]

    def _clients(self) -> dict[str, list[str]]:
        """Who does something about what the API server holds, and how it is started."""
        return {CONTROLLER_MANAGER: self._controller_manager(), KUBE_SCHEDULER: self._scheduler(), KWOK: self._kwok()}

    def _controller_manager(self) -> list[str]:
        authority = self._folder / "ca.crt"
        authority.write_bytes(self.ca)
        return [
            str(self._built.kube_controller_manager),
            f"--kubeconfig={self.kubeconfig(self._tokens[CONTROLLERS])}",
            "--leader-elect=false",
            "--secure-port=0",
            *(_GROUPS_GATE if self._starts_groups else ()),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._folder / 'service-account.key'}",
            f"--root-ca-file={authority}",
            f"--kube-api-qps={self._qps}",
            f"--kube-api-burst={2 * self._qps}",
        ]

    def _kwok(self) -> list[str]:
        return [
            str(self._built.kwok),
            f"--kubeconfig={self.kubeconfig(self._tokens[KUBELETS])}",
            *(_ANNOTATED if self._has_hollow_kubelets else ("--manage-all-nodes=true",)),
            f"--config={CONFIGURATION / 'stages.yaml'}",
            f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
            f"--cidr={POD_ADDRESSES}",
        ]

    @property
    def _built(self) -> Binaries:
        if self._binaries is None:
            self._binaries = binaries()
        return self._binaries


def _environment() -> dict[str, str]:
    """Nothing of ours that a part might take for its own (proxies, cloud credentials, GOFLAGS)."""
    found = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return found | {"GOGC": GARBAGE_PERCENT}


# Parts that are started together and stopped together, whatever happens in between.


class Together(ABC):
    """A control plane and whatever else a subclass starts in `start`; what it enters into `opened` is left in reverse order.

    Attributes:
        folder: The folder of the parts' files; their logs are in its `logs`.
    """

    control_plane: ControlPlane

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened = ExitStack()
        self.processes = self.opened.enter_context(Processes(folder / "logs"))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.opened.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    @property
    def admin(self) -> Admin:
        """An administrator's client."""
        return self.control_plane.admin

    @abstractmethod
    def start(self) -> None:
        """Start all parts. Raises PartError."""

    def start_control_plane(
        self,
        *,
        authentication_webhook: Path | None = None,
        has_hollow_kubelets: bool = False,
        starts_groups: bool = False,
    ) -> None:
        """Start it in a folder of its own; it has an `admin` from now on. Raises PartError."""
        self.control_plane = ControlPlane(
            self.processes,
            self.folder / "control-plane",
            authentication_webhook=authentication_webhook,
            has_hollow_kubelets=has_hollow_kubelets,
            starts_groups=starts_groups,
        )
        self.opened.callback(self.control_plane.stop)
        self.control_plane.start()
