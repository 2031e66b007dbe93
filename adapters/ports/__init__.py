"""Ports: what controllers need from the outside, and the errors that a port may raise."""

from adapters.ports.aws_calls import AwsCalls
from adapters.ports.clock import Clock
from adapters.ports.cloud_provider import CloudProvider, Impairment, Instance, Launched
from adapters.ports.errors import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    InsufficientCapacityError,
    LaunchDeniedError,
    LostReplyError,
    NotFoundError,
    PortError,
    RefusedOffering,
    SeveralBudgetsError,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnfulfilledError,
    reason_of,
)
from adapters.ports.kubernetes import Kubernetes, Listing
from adapters.ports.market import CatalogueSource, CatalogueStore, QuotaSource, QuotaStore
from adapters.ports.object_store import ObjectStore
from adapters.ports.queues import FunctionQueues, Queue, Topic, WindowSchedules
from adapters.ports.session import Session
from core.api.objects import JsonObject

__all__ = [
    "AwsCalls",
    "CatalogueSource",
    "CatalogueStore",
    "Clock",
    "CloudProvider",
    "ConflictError",
    "DeniedError",
    "EvictionBlockedError",
    "FunctionQueues",
    "Impairment",
    "Instance",
    "InsufficientCapacityError",
    "JsonObject",
    "Kubernetes",
    "LaunchDeniedError",
    "Launched",
    "Listing",
    "LostReplyError",
    "NotFoundError",
    "ObjectStore",
    "PortError",
    "Queue",
    "QuotaSource",
    "QuotaStore",
    "RefusedOffering",
    "Session",
    "SeveralBudgetsError",
    "ThrottledError",
    "TooLargeError",
    "Topic",
    "TransientError",
    "UnfulfilledError",
    "WindowSchedules",
    "reason_of",
]
