"""Plans stay within the free addresses of subnets: EC2 refuses no launch, and pods without a place get an event."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.reasons.pods import PodReason
from simulator.run import Result
from tests.simulation.test_node_claims import BY_HAND
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play


def _free(zone: str, addresses: int, number: int = 1) -> dict[str, Any]:
    return {"at": "0s", "subnet": {"zone": zone, "number": number, "freeAddresses": addresses}}


def _play(tmp_path: Path, **free: int) -> Result:
    """Pods of which each needs a node of its own, under subnets with so many addresses."""
    steps = [_free(f"zone-{zone}", addresses) for zone, addresses in free.items()]
    return play(tmp_path, node_pool(), deployment(9, cpu="12"), steps=steps, duration="6m")


def test_a_zone_gets_no_more_nodes_than_its_subnet_has_addresses(tmp_path: Path) -> None:
    """EC2 refused the rest, which closed the subnet for minutes, and nothing was known of it before."""
    result = _play(tmp_path, a=3)
    assert_lawful(result)
    assert result.summary["podsPending"] == 0
    assert not named(result, "launchRefused")
    assert Counter(one["zone"] for one in named(result, "instanceLaunched"))["zone-a"] <= 3


def test_pods_beyond_the_last_address_wait_and_are_told(tmp_path: Path) -> None:
    """Nobody asks EC2 for them."""
    result = _play(tmp_path, a=3, b=2)
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert Counter(one["zone"] for one in named(result, "instanceLaunched")) == {"zone-a": 3, "zone-b": 2}
    assert result.summary["podsUnschedulable"] == {PodReason.NO_FREE_ADDRESS: 4}
    events = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    assert "has the free addresses" in " ".join(o["message"] for o in events if o["involvedObject"]["kind"] == "Pod")


def test_a_burst_uses_all_subnets_of_a_zone_at_once(tmp_path: Path) -> None:
    """One subnet of each zone was asked for all of it, and closed for minutes when it refused."""
    free = {"zone-a": (3, 4), "zone-b": (2, 3)}
    steps = [_free(zone, count, n) for zone, counts in free.items() for n, count in enumerate(counts, start=1)]
    result = play(tmp_path, node_pool(), deployment(12, cpu="12"), steps=steps, duration="6m")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    launched = happened(result, "instanceLaunched")
    assert len(launched) == 12
    first, *_, last = (datetime.fromisoformat(one.t) for one in launched)
    assert last - first < timedelta(seconds=30), "in one round"
    assert result.summary["podsPending"] == 0


def test_addresses_that_come_free_are_used(tmp_path: Path) -> None:
    """By the next reading at the latest."""
    later = {"at": "3m", "subnet": {"zone": "zone-a", "freeAddresses": 50}}
    steps = [_free("zone-a", 1), _free("zone-b", 1), later]
    result = play(tmp_path, node_pool(), deployment(5, cpu="12"), steps=steps, duration="12m")
    assert_lawful(result)
    assert result.summary["podsPending"] == 0
    assert not named(result, "launchRefused")


def test_a_hand_made_node_claim_waits_for_an_address(tmp_path: Path) -> None:
    """EC2 refused it, and closed the subnet with that."""
    steps = [
        *(_free(f"zone-{zone}", 0) for zone in "abc"),
        {"at": "2m", "apply": [BY_HAND]},
        {"at": "8m", "subnet": {"zone": "zone-b", "freeAddresses": 4}},
    ]
    result = play(tmp_path, node_pool(), steps=steps, duration="20m")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert [one["zone"] for one in named(result, "instanceLaunched")] == ["zone-b"]
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "NodeClaim"]
    told = {c["message"] for one in written for c in (one.get("status") or {}).get("conditions", ())}
    assert any("has the free addresses that its node takes" in message for message in told)
