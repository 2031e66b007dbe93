"""The kubelet's own configuration (`kubelet.config.k8s.io/v1beta1`, as of Kubernetes 1.36): its fields and their types.

Karpenter passes all of it on to the nodes, and refuses what the kubelet would not know.
"""

from __future__ import annotations

from typing import Any

from core.api.schemas import fields
from core.api.schemas.kubelet.parts import (
    Authentication,
    Authorization,
    CrashLoopBackOff,
    KubeletPart,
    Logging,
    MemorySwap,
    ReservedMemory,
    ShutdownOfPriority,
    Tracing,
    UserNamespaces,
)
from core.api.schemas.kubelet.values import CountOrExpression, GoDuration, Int32, Reserves, Thresholds


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
