"""Rows of the table: those of an earlier version can still be read."""

from __future__ import annotations

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Offering

SPOT = Offering("m5.large", "us-east-1a", "spot", 40_000_000)

ROW_OF_2026_10 = b"""{
    "name": "general-1",
    "plan": {
        "name": "general-1",
        "node_pool": "general",
        "node_class": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "instance_types": ["m5.large"],
        "zones": ["us-east-1a"],
        "capacity_types": ["spot"]
    },
    "token": "t",
    "requested_at": "2026-10-01T00:00:00Z",
    "phase_since": "2026-10-01T00:00:00Z",
    "phase": "launched",
    "offerings": [
        {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40000000}
    ],
    "machine": {
        "instance_id": "i-1",
        "provider_id": "aws:///us-east-1a/i-1",
        "offering": {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40000000}
    }
}"""
"""As written when an offering of a claim and an offering of the catalogue were two types."""


def test_a_row_of_an_earlier_version_is_read() -> None:
    """Otherwise, an upgrade loses every claim, and with them the nodes."""
    record = msgspec.json.decode(ROW_OF_2026_10, type=ClaimRecord)
    assert record.offerings == (SPOT,)
    assert record.machine is not None
    assert record.machine.offering == SPOT


def test_a_row_holds_only_the_offering_fields_that_an_earlier_version_reads() -> None:
    """During an upgrade, functions of both versions read the same rows; and writes are paid by the kilobyte."""
    written = msgspec.json.decode(msgspec.json.encode(SPOT))
    assert written == {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40_000_000}
