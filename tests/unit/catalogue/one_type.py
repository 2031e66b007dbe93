"""One instance type as EC2 describes it, and a market that offers it."""

from __future__ import annotations

from typing import Any

from core.catalogue.build import build_catalogue
from core.catalogue.document import Market, Shape, read_shape

M5: dict[str, Any] = {
    "InstanceType": "m5.large",
    "SupportedUsageClasses": ["on-demand", "spot"],
    "SupportedVirtualizationTypes": ["hvm"],
    "Hypervisor": "nitro",
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "Manufacturer": "Intel", "SustainedClockSpeedInGhz": 3.1},
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 8192},
    "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10, "NetworkCards": []},
}


MARKET = Market(
    region="us-east-1",
    offered={"m5.large": ("us-east-1b", "us-east-1a")},
    on_demand={"m5.large": 96_000_000},
    spot={"m5.large": {"us-east-1a": 30_000_000}},
)


def shape(**changes: Any) -> Shape:
    return read_shape({**M5, **changes})


def offered(market: Market, *node_classes: dict[str, Any]) -> list[tuple[str, str, int, bool]]:
    built = build_catalogue([shape()], market, node_classes)
    types = built.types_for("c") if node_classes else built.default
    return [(o.zone[-1], o.capacity_type, o.price, o.available) for o in types[0].offerings]
