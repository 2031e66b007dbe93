"""`spec.kubelet` of an EC2NodeClass: what the kubelet takes, and what each AMI family can pass on to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from core.ami_families.family import AmiFamily
from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.fields import ApiModel, Rule
from core.api.status import Location
from core.catalogue.kubelet import RESERVABLE
from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.quantity import parse_duration

# Types of values in the kubelet's configuration that only the kubelet has.


_COUNT_MAX: Final = 2**31 - 1


def _go_duration(value: Any) -> Any:
    if not isinstance(value, str) or parse_duration(value) is None:
        raise PydanticCustomError("duration", "{given} is not a duration such as 90s or 1h30m", {"given": repr(value)})
    return value


def _duration_or_nanoseconds(value: Any) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= fields.WHOLE_MAX
    return value if is_whole else _go_duration(value)


def _count_or_expression(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("count", "must be a whole number or an expression", {})
    if isinstance(value, int) and value > _COUNT_MAX:
        raise PydanticCustomError("count", "must be at most {most}", {"most": _COUNT_MAX})
    return value


Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
_GO_DURATION: Final = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"

GoDuration = Annotated[
    Any, AfterValidator(_go_duration), WithJsonSchema({"type": "string", "pattern": _GO_DURATION, "maxLength": 64})
]
FlushFrequency = Annotated[
    Any,
    AfterValidator(_duration_or_nanoseconds),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _GO_DURATION}),
]
CountOrExpression = Annotated[
    Any,
    AfterValidator(_count_or_expression),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maximum": _COUNT_MAX}),
]
Reserves = Annotated[dict[str, str], Field(json_schema_extra={"maxProperties": 10})]
"""At most ten keys, which bounds the cost of the API server's rules; only four are valid."""

Thresholds = Annotated[dict[str, Annotated[str, Field(max_length=64)]], Field(json_schema_extra={"maxProperties": 10})]
"""The same, of six."""


# The objects within the kubelet's configuration.


class KubeletPart(ApiModel):
    """A part of the configuration: an unknown field is an error here."""

    model_config = ConfigDict(extra="forbid")


class AnonymousAuthentication(KubeletPart):
    """`anonymous`."""

    enabled: bool | None = None


class WebhookAuthentication(KubeletPart):
    """`webhook`."""

    cache_ttl: GoDuration | None = None
    enabled: bool | None = None


class X509Authentication(KubeletPart):
    """`x509`."""

    client_ca_file: str | None = None


class Authentication(KubeletPart):
    """`authentication`."""

    anonymous: AnonymousAuthentication | None = None
    webhook: WebhookAuthentication | None = None
    x509: X509Authentication | None = None


class WebhookAuthorization(KubeletPart):
    """`webhook`."""

    cache_authorized_ttl: GoDuration | None = None
    cache_unauthorized_ttl: GoDuration | None = None


class Authorization(KubeletPart):
    """`authorization`."""

    mode: str | None = None
    webhook: WebhookAuthorization | None = None


class CrashLoopBackOff(KubeletPart):
    """`crashLoopBackOff`."""

    max_container_restart_period: GoDuration | None = None


class LoggingFormat(KubeletPart):
    """`logging.options.json` and `logging.options.text`."""

    info_buffer_size: fields.Quantity | None = None
    split_stream: bool | None = None


class LoggingOptions(KubeletPart):
    """`options`."""

    json_: Annotated[LoggingFormat | None, Field(alias="json")] = None
    text: LoggingFormat | None = None


class LoggedModule(KubeletPart):
    """`vmodule`."""

    file_pattern: str | None = None
    verbosity: fields.Whole | None = None


class Logging(KubeletPart):
    """`logging`."""

    flush_frequency: FlushFrequency | None = None
    format: str | None = None
    options: LoggingOptions | None = None
    verbosity: fields.Whole | None = None
    vmodule: list[LoggedModule] | None = None


class MemorySwap(KubeletPart):
    """`memorySwap`."""

    swap_behavior: str | None = None


class ReservedMemory(KubeletPart):
    """`reservedMemory`."""

    limits: dict[str, fields.Quantity] | None = None
    numa_node: fields.Whole | None = None


class ShutdownOfPriority(KubeletPart):
    """`shutdownGracePeriodByPodPriority`."""

    priority: fields.Whole | None = None
    shutdown_grace_period_seconds: fields.Whole | None = None


class Tracing(KubeletPart):
    """`tracing`."""

    endpoint: str | None = None
    sampling_rate_per_million: fields.Whole | None = None


class UserNamespaces(KubeletPart):
    """`userNamespaces`."""

    ids_per_pod: fields.Whole | None = None


# The kubelet's own configuration (`kubelet.config.k8s.io/v1beta1`, as of Kubernetes 1.36): its fields and their types.
#
# Karpenter passes all of it on to the nodes, and refuses what the kubelet would not know.


class KubeletFields(KubeletPart):
    """All fields of the configuration."""

    address: str | None = None
    allowed_unsafe_sysctls: list[str] | None = None
    api_version: str | None = None
    authentication: Authentication | None = None
    authorization: Authorization | None = None
    cgroup_driver: str | None = None
    cgroup_root: str | None = None
    cgroups_per_qos: bool | None = None
    cluster_dns: list[str] | None = None
    cluster_domain: str | None = None
    config_map_and_secret_change_detection_strategy: str | None = None
    container_log_max_files: Int32 | None = None
    container_log_max_size: str | None = None
    container_log_max_workers: Int32 | None = None
    container_log_monitor_interval: GoDuration | None = None
    container_runtime_endpoint: str | None = None
    content_type: str | None = None
    cpu_cfs_quota: bool | None = None
    cpu_cfs_quota_period: GoDuration | None = None
    cpu_manager_policy: str | None = None
    cpu_manager_policy_options: dict[str, str] | None = None
    cpu_manager_reconcile_period: GoDuration | None = None
    crash_loop_back_off: CrashLoopBackOff | None = None
    enable_contention_profiling: bool | None = None
    enable_controller_attach_detach: bool | None = None
    enable_debug_flags_handler: bool | None = None
    enable_debugging_handlers: bool | None = None
    enable_profiling_handler: bool | None = None
    enable_server: bool | None = None
    enable_system_log_handler: bool | None = None
    enable_system_log_query: bool | None = None
    enforce_node_allocatable: list[str] | None = None
    event_burst: Int32 | None = None
    event_record_qps: Int32 | None = None
    eviction_hard: Thresholds | None = None
    eviction_max_pod_grace_period: Int32 | None = None
    eviction_minimum_reclaim: Thresholds | None = None
    eviction_pressure_transition_period: GoDuration | None = None
    eviction_soft: Thresholds | None = None
    eviction_soft_grace_period: Thresholds | None = None
    fail_cgroup_v1: bool | None = None
    fail_swap_on: bool | None = None
    feature_gates: dict[str, bool] | None = None
    file_check_frequency: GoDuration | None = None
    hairpin_mode: str | None = None
    healthz_bind_address: str | None = None
    healthz_port: Int32 | None = None
    http_check_frequency: GoDuration | None = None
    image_gc_high_threshold_percent: fields.Whole | None = None
    image_gc_low_threshold_percent: fields.Whole | None = None
    image_maximum_gc_age: GoDuration | None = None
    image_minimum_gc_age: GoDuration | None = None
    image_pull_credentials_verification_policy: str | None = None
    image_service_endpoint: str | None = None
    iptables_drop_bit: Int32 | None = None
    iptables_masquerade_bit: Int32 | None = None
    kernel_memcg_notification: bool | None = None
    kind: str | None = None
    kube_api_burst: Int32 | None = None
    kube_a_p_i_qps: Int32 | None = None
    kube_reserved: Reserves | None = None
    kube_reserved_cgroup: str | None = None
    kubelet_cgroups: str | None = None
    local_storage_capacity_isolation: bool | None = None
    logging: Logging | None = None
    make_ip_tables_util_chains: bool | None = None
    max_open_files: fields.Whole | None = None
    max_parallel_image_pulls: Int32 | None = None
    max_pods: CountOrExpression | None = None
    memory_manager_policy: str | None = None
    memory_reservation_policy: str | None = None
    memory_swap: MemorySwap | None = None
    memory_throttling_factor: int | float | None = None
    merge_default_eviction_settings: bool | None = None
    node_lease_duration_seconds: Int32 | None = None
    node_status_max_images: Int32 | None = None
    node_status_report_frequency: GoDuration | None = None
    node_status_update_frequency: GoDuration | None = None
    oom_score_adj: Int32 | None = None
    pod_cidr: str | None = None
    pod_logs_dir: str | None = None
    pod_pids_limit: fields.Whole | None = None
    pods_per_core: Int32 | None = None
    port: Int32 | None = None
    preloaded_images_verification_allowlist: list[str] | None = None
    protect_kernel_defaults: bool | None = None
    provider_id: str | None = None
    qos_reserved: dict[str, str] | None = None
    read_only_port: Int32 | None = None
    register_node: bool | None = None
    register_with_taints: list[dict[str, Any]] | None = None
    registry_burst: Int32 | None = None
    registry_pull_qps: Int32 | None = None
    reserved_memory: list[ReservedMemory] | None = None
    reserved_system_cpus: str | None = None
    resolv_conf: str | None = None
    rotate_certificates: bool | None = None
    run_once: bool | None = None
    runtime_request_timeout: GoDuration | None = None
    seccomp_default: bool | None = None
    serialize_image_pulls: bool | None = None
    server_tls_bootstrap: bool | None = None
    show_hidden_metrics_for_version: str | None = None
    shutdown_grace_period: GoDuration | None = None
    shutdown_grace_period_by_pod_priority: list[ShutdownOfPriority] | None = None
    shutdown_grace_period_critical_pods: GoDuration | None = None
    single_process_oom_kill: bool | None = None
    static_pod_path: str | None = None
    static_pod_url: str | None = None
    static_pod_url_header: dict[str, list[str]] | None = None
    streaming_connection_idle_timeout: GoDuration | None = None
    sync_frequency: GoDuration | None = None
    system_cgroups: str | None = None
    system_reserved: Reserves | None = None
    system_reserved_cgroup: str | None = None
    tls_cert_file: str | None = None
    tls_cipher_suites: list[str] | None = None
    tls_curve_preferences: list[fields.Whole] | None = None
    tls_min_version: str | None = None
    tls_private_key_file: str | None = None
    topology_manager_policy: str | None = None
    topology_manager_policy_options: dict[str, str] | None = None
    topology_manager_scope: str | None = None
    tracing: Tracing | None = None
    user_namespaces: UserNamespaces | None = None
    volume_plugin_dir: str | None = None
    volume_stats_agg_period: GoDuration | None = None


EVICTION_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)

_UNIVERSAL: Final = (
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
)
"""The fields that every family can pass on."""

_EVICTION_MAPS: Final = ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")
_THRESHOLDS: Final = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_RESERVED_MAPS: Final = ("kubeReserved", "systemReserved")
_COUNTS: Final = ("maxPods", "podsPerCore", "evictionMaxPodGracePeriod")
_PERCENTS: Final = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
_PERCENTAGE: Final = re.compile(r"[+]?([0-9]+\.?[0-9]*|\.[0-9]+)%\Z")


def unsupported(kubelet: JsonObject, family: AmiFamily) -> Iterator[Location]:
    """Return the fields that the family's bootstrapping cannot pass on."""
    if family.takes_any_kubelet_field:
        return
    for name, value in kubelet.items():
        has_one_server = name != "clusterDNS" or len(value) <= 1
        if name not in _UNIVERSAL or not has_one_server or not family.supports_kubelet_field(name):
            yield (name,)


def _set_by_us(kubelet: JsonObject) -> list[Location]:
    return [("registerWithTaints",)] if "registerWithTaints" in kubelet else []


def _unknown_signals(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, _ in _entries(kubelet, _EVICTION_MAPS) if key not in EVICTION_SIGNALS)


def _bad_thresholds(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, value in _entries(kubelet, _THRESHOLDS) if not _is_threshold(value))


def _bad_grace_periods(kubelet: JsonObject) -> Iterator[Location]:
    for field, key, value in _entries(kubelet, ("evictionSoftGracePeriod",)):
        span = parse_duration(value)
        if span is None or span.total_seconds() < 0:
            yield (field, key)


def _soft_without_partner(kubelet: JsonObject) -> Iterator[Location]:
    pair = ("evictionSoft", "evictionSoftGracePeriod")
    for field, other in (pair, pair[::-1]):
        yield from ((field, key) for key in kubelet.get(field, {}) if key not in kubelet.get(other, {}))


def _not_reservable(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, _ in _entries(kubelet, _RESERVED_MAPS) if key not in RESERVABLE)


def _negative_reserve(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, value in _entries(kubelet, _RESERVED_MAPS) if value.startswith("-"))


def _negative_counts(kubelet: JsonObject) -> Iterator[Location]:
    return ((name,) for name in _COUNTS if isinstance(kubelet.get(name), int) and kubelet[name] < 0)


def _beyond_percent(kubelet: JsonObject) -> Iterator[Location]:
    return ((name,) for name in _PERCENTS if not 0 <= kubelet.get(name, 0) <= 100)


def _high_not_above_low(kubelet: JsonObject) -> list[Location]:
    high, low = (kubelet.get(name) for name in _PERCENTS)
    return [(_PERCENTS[0],)] if high is not None and low is not None and high <= low else []


def _entries(kubelet: JsonObject, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    return ((name, key, value) for name in names for key, value in kubelet.get(name, {}).items())


def _is_threshold(text: str) -> bool:
    if text.endswith("%"):
        return _PERCENTAGE.match(text) is not None and float(text[:-1]) <= 100
    try:
        return quantity.parse(text) >= 0 and not text.startswith("-") and text == text.strip()
    except InvalidInputError:
        return False


_CEL_IS_PERCENTAGE: Final = (
    "{0}.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)%$') && double({0}.substring(0, {0}.size() - 1)) <= 100.0"
)
_CEL_IS_THRESHOLD: Final = (
    f"({{0}}.endsWith('%') ? ({_CEL_IS_PERCENTAGE}) : (isQuantity({{0}}) && !{{0}}.startsWith('-')))"
)


def _cel_all(names: Iterable[str], holds: str) -> str:
    """For the API server: `holds` of every `key` (and `{0}`, its value) of every one of the maps."""
    return " && ".join(
        f"(!has(self.{name}) || self.{name}.all(key, {holds.format(f'self.{name}[key]')}))" for name in names
    )


def _cel_same_keys(first: str, second: str) -> str:
    within = "(!has(self.{0}) || self.{0}.all(key, has(self.{1}) && key in self.{1}))"
    return f"{within.format(first, second)} && {within.format(second, first)}"


def cel_supported(takes_any_field: str, lacks: Mapping[str, str]) -> str:
    """The opposite of `unsupported` for the API server.

    Args:
        takes_any_field: An expression over the class' `self`: whether its family passes on every field.
        lacks: Field that most families know → an expression: whether the family does not.
    """
    others = sorted(
        field.alias or name
        for name, field in KubeletFields.model_fields.items()
        if field.alias not in (*_UNIVERSAL, "registerWithTaints")
    )
    none = [f"!has(self.kubelet.{name})" for name in others]
    one_server = "(!has(self.kubelet.clusterDNS) || self.kubelet.clusterDNS.size() <= 1)"
    supported = [f"(!{is_lacking} || !has(self.kubelet.{field}))" for field, is_lacking in lacks.items()]
    return f"!has(self.kubelet) || {takes_any_field} || ({' && '.join([one_server, *supported, *none])})"


class KubeletConfiguration(KubeletFields):
    """`spec.kubelet`. Counts and reservations may be expressions, which are checked where they are evaluated."""

    rules = (
        Rule(
            (),
            _set_by_us,
            "is set by the provisioner from the NodePool's taints",
            "!has(self.registerWithTaints)",
            "registerWithTaints",
        ),
        Rule(
            _EVICTION_MAPS,
            _unknown_signals,
            f"is no eviction signal; there are {', '.join(EVICTION_SIGNALS)}",
            _cel_all(_EVICTION_MAPS, f"key in {list(EVICTION_SIGNALS)}"),
        ),
        Rule(
            _THRESHOLDS,
            _bad_thresholds,
            "must be a percentage up to 100% or a quantity of zero or more",
            _cel_all(_THRESHOLDS, _CEL_IS_THRESHOLD),
        ),
        Rule(
            ("evictionSoftGracePeriod",),
            _bad_grace_periods,
            "must be a duration of zero or more such as 90s",
            _cel_all(("evictionSoftGracePeriod",), "duration({0}) >= duration('0s')"),
        ),
        Rule(
            _EVICTION_MAPS,
            _soft_without_partner,
            "evictionSoft and evictionSoftGracePeriod must have the same keys",
            _cel_same_keys("evictionSoft", "evictionSoftGracePeriod"),
        ),
        Rule(
            _RESERVED_MAPS,
            _not_reservable,
            f"cannot be reserved; {', '.join(RESERVABLE)} can",
            _cel_all(_RESERVED_MAPS, f"key in {list(RESERVABLE)}"),
        ),
        Rule(
            _RESERVED_MAPS,
            _negative_reserve,
            "must not be negative",
            _cel_all(_RESERVED_MAPS, "!{0}.startsWith('-')"),
        ),
        Rule(
            _COUNTS,
            _negative_counts,
            "must not be negative",
            "(!has(self.maxPods) || type(self.maxPods) != int || self.maxPods >= 0)"
            " && (!has(self.podsPerCore) || self.podsPerCore >= 0)"
            " && (!has(self.evictionMaxPodGracePeriod) || self.evictionMaxPodGracePeriod >= 0)",
        ),
        Rule(
            _PERCENTS,
            _beyond_percent,
            "must be a percentage from 0 to 100",
            " && ".join(f"(!has(self.{name}) || (self.{name} >= 0 && self.{name} <= 100))" for name in _PERCENTS),
        ),
        Rule(
            _PERCENTS,
            _high_not_above_low,
            "must be greater than imageGCLowThresholdPercent",
            f"!has(self.{_PERCENTS[0]}) || !has(self.{_PERCENTS[1]}) || self.{_PERCENTS[0]} > self.{_PERCENTS[1]}",
        ),
    )
