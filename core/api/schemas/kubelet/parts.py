"""The objects within the kubelet's configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from core.api.schemas import fields
from core.api.schemas.base import ApiModel
from core.api.schemas.kubelet.values import FlushFrequency, GoDuration


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
