"""A node to render user data for, and helpers that parse the parts of it."""

from __future__ import annotations

import email
from email.message import Message
from typing import Any

import msgspec
import yaml

from core.ami_families.family import Bootstrap, Cluster
from core.model.values.taints import UNREGISTERED, Taint

CLUSTER = Cluster(
    name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.100.0.0/16"
)


NODE = Bootstrap(
    cluster=CLUSTER,
    labels={"karpenter.sh/nodepool": "general", "team": "a"},
    taints=(Taint("gpu", "NoSchedule", "yes"), UNREGISTERED),
    max_pods=29,
)


def changed(**changes: Any) -> Bootstrap:
    return msgspec.structs.replace(NODE, **changes)


def documents(text: str) -> list[Message]:
    """The parts, parsed as cloud-init does: with Python's own MIME parser."""
    parsed = email.message_from_string(text)
    assert parsed.is_multipart()
    return [part for part in parsed.walk() if not part.is_multipart()]


def node_config(text: str) -> Any:
    last = documents(text)[-1]
    assert last.get_content_type() == "application/node.eks.aws"
    return yaml.safe_load(str(last.get_payload()))
