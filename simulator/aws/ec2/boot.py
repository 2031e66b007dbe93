"""Boots instances: from a launch to a Node in the cluster, as EC2, the AMI's bootstrap and the kubelet do."""

from __future__ import annotations

import base64
import email
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from core import labels
from core.model.values import quantity
from core.model.values.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from simulator.aws.ec2.instances import Instance
from simulator.aws.installation import Exchange, Region
from simulator.clock import VirtualClock
from simulator.market.node_facts import NodeFacts

# Parses an instance's user data for its kubelet: labels, taints and settings, as each AMI family's bootstrap does.
#
# AL2023 reads NodeConfig documents (nodeadm), Bottlerocket settings in TOML, AL2 a call of `bootstrap.sh` in a shell script.


NODE_CONFIG: Final = "application/node.eks.aws"

_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_ALLOWED_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_READ_ONCE: Final = 1024
"""Maximum number of parsed user data to keep: a fleet has one per launch template."""

_ALLOWED_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_FLAG: Final = re.compile(r"--([a-z-]+)[= ](.*)", re.DOTALL)
_BOOTSTRAP: Final = "/etc/eks/bootstrap.sh"


class KubeletConfig(msgspec.Struct, kw_only=True):
    """A kubelet's settings. Taints have the Node's form; reserved amounts and thresholds are as written."""

    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}

    @property
    def starts(self) -> bool:
        """Whether the kubelet starts with them: it rejects labels in Kubernetes' own domains, with few exceptions."""
        return all(_may_set(key) for key in self.labels)


@lru_cache(_READ_ONCE)
def read_user_data(encoded: str) -> KubeletConfig | None:
    """Return the settings, or None for user data that joins no cluster: missing or unreadable. Not to be changed."""
    try:
        text = base64.b64decode(encoded).decode()
    except ValueError:
        return None
    for read in (_read_bottlerocket, _read_mime):
        script = read(text)
        if script is not None:
            return script
    return None


def _may_set(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if key in _ALLOWED_LABELS or _is_within(domain, _ALLOWED_DOMAINS):
        return True
    return not _is_within(domain, _KUBERNETES_DOMAINS)


def _is_within(domain: str, domains: Iterable[str]) -> bool:
    return any(domain == wide or domain.endswith("." + wide) for wide in domains)


def _read_bottlerocket(text: str) -> KubeletConfig | None:
    try:
        settings = tomllib.loads(text).get("settings", {}).get("kubernetes", {})
    except tomllib.TOMLDecodeError:
        return None
    if "cluster-name" not in settings:
        return None
    return KubeletConfig(
        labels=dict(settings.get("node-labels", {})),
        taints=[
            _taint(key, *value.rsplit(":", 1))
            for key, values in settings.get("node-taints", {}).items()
            for value in ([values] if isinstance(values, str) else values)
        ],
        max_pods=settings.get("max-pods"),
        kube_reserved=dict(settings.get("kube-reserved", {})),
        system_reserved=dict(settings.get("system-reserved", {})),
        eviction_hard=dict(settings.get("eviction-hard", {})),
    )


def _read_mime(text: str) -> KubeletConfig | None:
    parts = list(_parts(text))
    configs = [body for kind, body in parts if kind == NODE_CONFIG or "node.eks.aws/v1" in body]
    if configs:
        return _read_node_configs(configs)
    scripts = [body for _, body in parts if _BOOTSTRAP in body]
    return _read_bootstrap(scripts[-1]) if scripts else None


def _parts(text: str) -> Iterable[tuple[str, str]]:
    if not text.lstrip().startswith(("MIME-Version:", "Content-Type:")):
        yield "", text
        return
    message = email.message_from_string(text.lstrip())
    for part in message.walk():
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            yield part.get_content_type(), payload.decode()


def _read_node_configs(bodies: Iterable[str]) -> KubeletConfig | None:
    config = KubeletConfig()
    for body in bodies:
        try:
            document = yaml.safe_load(body)
        except yaml.YAMLError:
            return None
        kubelet = ((document or {}).get("spec") or {}).get("kubelet") or {}
        _take_kubelet_config(config, kubelet.get("config") or {})
        _take_flags(config, kubelet.get("flags") or ())
    return config


def _take_kubelet_config(config: KubeletConfig, fields: Mapping[str, Any]) -> None:
    config.max_pods = fields.get("maxPods", config.max_pods)
    config.pods_per_core = fields.get("podsPerCore", config.pods_per_core)
    for taint in fields.get("registerWithTaints") or ():
        config.taints.append(_taint(taint["key"], taint.get("value", ""), taint["effect"]))
    config.kube_reserved |= _texts(fields.get("kubeReserved"))
    config.system_reserved |= _texts(fields.get("systemReserved"))
    config.eviction_hard |= _texts(fields.get("evictionHard"))


def _take_flags(config: KubeletConfig, flags: Iterable[str]) -> None:
    for flag in flags:
        match = _FLAG.fullmatch(flag.strip())
        if match is None:
            continue
        name, value = match.group(1), match.group(2).strip().strip('"')
        if name == "node-labels":
            config.labels |= _pairs(value, "=")
        elif name == "register-with-taints":
            config.taints += [_read_taint(entry) for entry in value.split(",") if entry]
        elif name == "max-pods":
            config.max_pods = int(value)
        elif name == "pods-per-core":
            config.pods_per_core = int(value)
        elif name == "kube-reserved":
            config.kube_reserved |= _pairs(value, "=")
        elif name == "system-reserved":
            config.system_reserved |= _pairs(value, "=")
        elif name == "eviction-hard":
            config.eviction_hard |= _pairs(value, "<")


def _read_bootstrap(script: str) -> KubeletConfig | None:
    joined = script.replace("\\\n", " ")
    line = next((line for line in joined.splitlines() if _BOOTSTRAP in line and not line.startswith("#")), "")
    try:
        words = shlex.split(line)
        extra = words[words.index("--kubelet-extra-args") + 1] if "--kubelet-extra-args" in words else ""
        config = KubeletConfig()
        _take_flags(config, shlex.split(extra))
    except (ValueError, IndexError):
        return None
    return config


def _read_taint(text: str) -> dict[str, str]:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return _taint(key, value, effect)


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def _pairs(text: str, between: str) -> dict[str, str]:
    pairs = (entry.split(between, 1) for entry in text.split(",") if between in entry)
    return {key.strip(): value.strip() for key, value in pairs}


def _texts(amounts: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (amounts or {}).items()}


# Computes a node's capacity and allocatable (Kubernetes, node allocatable).


_SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}


def node_size(facts: NodeFacts, config: KubeletConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Return capacity and allocatable of a node with these facts and this kubelet configuration."""
    capacity = dict(facts.capacity)
    if config.max_pods is not None:
        capacity[PODS] = config.max_pods
    if config.pods_per_core > 0:
        by_cores = config.pods_per_core * (capacity.get(CPU, 0) // 1000)
        capacity[PODS] = min(by_cores, capacity.get(PODS, by_cores))
    kept = {name: _kept(name, facts, config) for name in sorted(capacity)}
    allocatable = {name: max(0, amount - kept[name]) for name, amount in capacity.items()}
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if MEMORY in allocatable:
        allocatable[MEMORY] = max(0, allocatable[MEMORY] - huge)
    return capacity, allocatable


def _kept(name: str, facts: NodeFacts, config: KubeletConfig) -> int:
    reserved = config.kube_reserved.get(name)
    kube = facts.kube_reserved.get(name, 0) if reserved is None else quantity.parse(reserved, name)
    return kube + _amount(config.system_reserved, name) + _threshold(name, facts, config)


def _threshold(name: str, facts: NodeFacts, config: KubeletConfig) -> int:
    written = config.eviction_hard.get(_SIGNALS.get(name, ""))
    if written is None:
        return facts.evicted_at.get(name, 0)
    if not written.endswith("%"):
        return quantity.parse(written, name)
    share = round(float(written[:-1]) * 10_000)
    return 0 if share == 1_000_000 else -(-facts.capacity.get(name, 0) * share // 1_000_000)


def _amount(amounts: Mapping[str, str], name: str) -> int:
    return quantity.parse(amounts[name], name) if name in amounts else 0


KUBELET_VERSION: Final = "v1.35.1"

Join = Callable[[dict[str, Any], str, bool], None]
"""Registers a node: the Node, the claim of its instance, whether it becomes ready."""


ENDS_AFTER: Final = timedelta(seconds=4)
"""From the launch to the end of an instance that cannot start."""


class Concerned(msgspec.Struct, frozen=True, kw_only=True):
    """Which instances a boot fault concerns; None: all."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    node_pool: str | None = None

    def has(self, instance: Instance) -> bool:
        """Whether it concerns this instance."""
        pool = instance.pool
        return (
            self.instance_type in (None, pool.instance_type)
            and self.zone in (None, pool.zone)
            and self.capacity_type in (None, pool.capacity_type)
            and self.node_pool in (None, instance.tags.get(labels.NODEPOOL, ""))
        )


ALL_INSTANCES: Final = Concerned()


class _BootFault(msgspec.Struct):
    """A boot time for the next few instances; None: they never join. With a reason, EC2 ends them for it."""

    left: int
    takes: timedelta | None
    ends: str = ""
    concerned: Concerned = ALL_INSTANCES
    becomes_ready: bool = True


class Boot:
    """Boots instances. `join(node, claim)` registers a Node with the cluster, `end(instance, reason)` ends what cannot start.

    Args:
        takes: Returns how long an instance takes from its launch to the registration of its node.
        region: The instance types, with what their nodes have, and the zones.
    """

    def __init__(
        self,
        clock: VirtualClock,
        exchange: Exchange,
        join: Join,
        end: Callable[[Instance, str], None],
        *,
        takes: Callable[[], timedelta],
        region: Region,
    ) -> None:
        self._clock = clock
        self._exchange = exchange
        self._join = join
        self._end = end
        self._takes = takes
        self._region = region.name
        self._zone_ids = region.zone_ids
        self._facts = region.node_facts()
        self._fault: _BootFault | None = None

    def disturb(self, count: int, takes: timedelta | None, concerned: Concerned = ALL_INSTANCES) -> None:
        """Make the next `count` instances take this long; None: they never join.

        This replaces what remains of an earlier call.
        """
        self._fault = _BootFault(count, takes, concerned=concerned)

    def spoil(self, count: int, concerned: Concerned = ALL_INSTANCES) -> None:
        """Let the next `count` instances join and never become ready. This replaces what remains of an earlier call."""
        self._fault = _BootFault(count, self._takes(), concerned=concerned, becomes_ready=False)

    def fail(self, count: int, reason: str, concerned: Concerned = ALL_INSTANCES) -> None:
        """Let EC2 end the next `count` instances soon after their launch. This replaces what remains of an earlier call."""
        self._fault = _BootFault(count, None, reason, concerned)

    def launched(self, instance: Instance) -> None:
        """Begin to boot a launched instance."""
        fault = self._next_fault(instance)
        if fault is not None and fault.ends:
            self._clock.after(ENDS_AFTER, lambda: self._end(instance, fault.ends))
            return
        takes = self._takes() if fault is None else fault.takes
        if takes is not None:
            becomes_ready = fault is None or fault.becomes_ready
            self._clock.after(takes, lambda: self._register(instance, becomes_ready=becomes_ready))

    def _next_fault(self, instance: Instance) -> _BootFault | None:
        if self._fault is None or self._fault.left <= 0 or not self._fault.concerned.has(instance):
            return None
        self._fault.left -= 1
        return self._fault

    def _register(self, instance: Instance, *, becomes_ready: bool) -> None:
        config = read_user_data(instance.user_data)
        if instance.is_alive and config is not None and config.starts:
            self._join(self._node(instance, config), instance.tags.get(labels.NODECLAIM, ""), becomes_ready)

    def _node(self, instance: Instance, config: KubeletConfig) -> dict[str, Any]:
        facts = self._facts.get(instance.pool.instance_type)
        size = ({}, {}) if facts is None else node_size(facts, config)
        capacity, allocatable = size
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": instance.node_name,
                "labels": dict(sorted({**config.labels, **self._cloud_labels(instance)}.items())),
            },
            "spec": {"providerID": instance.provider_id, "taints": config.taints},
            "status": {
                "capacity": quantity.render_resources(capacity),
                "allocatable": quantity.render_resources(allocatable),
                "addresses": [
                    {"type": "InternalIP", "address": instance.private_ip},
                    {"type": "Hostname", "address": instance.node_name},
                    {"type": "InternalDNS", "address": instance.node_name},
                ],
                "nodeInfo": self._node_info(instance),
            },
        }

    def _node_info(self, instance: Instance) -> dict[str, str]:
        return {
            "architecture": self._exchange.architecture(instance.pool.instance_type),
            "operatingSystem": "linux",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": KUBELET_VERSION,
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12",
            "osImage": instance.image_id,
            "machineID": instance.id,
            "systemUUID": instance.id,
            "bootID": instance.id,
        }

    def _cloud_labels(self, instance: Instance) -> dict[str, str]:
        pool = instance.pool
        architecture = self._exchange.architecture(pool.instance_type)
        cloud_labels = {
            labels.HOSTNAME: instance.node_name,
            labels.ARCH: architecture,
            labels.OS: "linux",
            labels.INSTANCE_TYPE: pool.instance_type,
            labels.REGION: self._region,
            labels.ZONE: pool.zone,
            labels.EBS_ZONE: pool.zone,
        }
        old = {"beta.kubernetes.io/arch": architecture, "beta.kubernetes.io/os": "linux"}
        zone_id = self._zone_ids.get(pool.zone)
        return cloud_labels | old | ({labels.ZONE_ID: zone_id} if zone_id else {})
