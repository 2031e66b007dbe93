"""Parses an instance's user data for its kubelet: labels, taints and settings, as each AMI family's bootstrap does.

AL2023 reads NodeConfig documents (nodeadm), Bottlerocket settings in TOML, AL2 a call of `bootstrap.sh` in a shell script.
"""

from __future__ import annotations

import base64
import email
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

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
        found = read(text)
        if found is not None:
            return found
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


def _take_kubelet_config(config: KubeletConfig, given: Mapping[str, Any]) -> None:
    config.max_pods = given.get("maxPods", config.max_pods)
    config.pods_per_core = given.get("podsPerCore", config.pods_per_core)
    for taint in given.get("registerWithTaints") or ():
        config.taints.append(_taint(taint["key"], taint.get("value", ""), taint["effect"]))
    config.kube_reserved |= _texts(given.get("kubeReserved"))
    config.system_reserved |= _texts(given.get("systemReserved"))
    config.eviction_hard |= _texts(given.get("evictionHard"))


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


def _texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (given or {}).items()}
