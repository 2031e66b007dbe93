"""Ports: what controllers need from the outside, and the errors that a port may raise."""

from core.api.objects import JsonObject
from lambdas.ports.clock import Clock
from lambdas.ports.cloud_provider import CloudProvider, Impairment, Instance, Launched
from lambdas.ports.errors import (
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
    TransientError,
    UnfulfilledError,
    reason_of,
)
from lambdas.ports.kubernetes import Kubernetes, Listing
from lambdas.ports.market import CatalogueSource, CatalogueStore, QuotaSource, QuotaStore
from lambdas.ports.object_store import ObjectStore
from lambdas.ports.queues import FunctionQueues, Queue, Topic, WindowSchedules

__all__ = [
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
    "SeveralBudgetsError",
    "ThrottledError",
    "Topic",
    "TransientError",
    "UnfulfilledError",
    "WindowSchedules",
    "reason_of",
]
