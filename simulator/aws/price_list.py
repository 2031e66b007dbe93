"""Describes what the embedded account sells: types, zones, prices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.shape import Shape
from core.model.values import quantity
from simulator.aws.ec2.filters import page, paged
from simulator.aws.errors import AwsError
from simulator.aws.exchange import Exchange, Pool
from simulator.clock import VirtualClock

_PAGE: Final = 1000
_TYPES_PAGE: Final = 100
_PRODUCTS_PAGE: Final = 100
LINUX: Final = "Linux/UNIX"


class PriceListCalls:
    """Answers DescribeInstanceTypes, DescribeInstanceTypeOfferings, DescribeSpotPriceHistory and Pricing's GetProducts."""

    def __init__(self, clock: VirtualClock, exchange: Exchange, shapes: Iterable[Shape], region: str) -> None:
        self._clock = clock
        self._exchange = exchange
        self._region = region
        self._shapes = {shape.instance_type: shape for shape in shapes}
        self._described: tuple[dict[str, Any], ...] = ()
        self._by_filter: dict[str, list[dict[str, Any]]] = {}
        self._products: tuple[int, list[dict[str, Any]]] = (-1, [])

    def describe_types(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceTypes.

        Raises:
            AwsError: If a type is unknown or a filter is none that we have.
        """
        if not self._described:
            self._described = tuple(msgspec.to_builtins(self._shapes[name]) for name in sorted(self._shapes))
        asked = request.get("InstanceTypes") or []
        unknown = sorted(set(asked) - set(self._shapes))
        if unknown:
            raise AwsError("InvalidInstanceType", f"The following supplied instance types do not exist: {unknown}")
        found = [d for d in self._filtered(request.get("Filters") or []) if not asked or d["InstanceType"] in asked]
        return paged("InstanceTypes", found, request, _TYPES_PAGE)

    def describe_offerings(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceTypeOfferings by zone or region."""
        by_zone = request.get("LocationType", "region") == "availability-zone"
        places = {(p.instance_type, p.zone if by_zone else self._region) for p in self._exchange.pools}
        kind = "availability-zone" if by_zone else "region"
        found = [{"InstanceType": t, "LocationType": kind, "Location": place} for t, place in sorted(places)]
        for wanted in request.get("Filters") or []:
            key = {"instance-type": "InstanceType", "location": "Location"}[wanted["Name"]]
            found = [offer for offer in found if offer[key] in wanted["Values"]]
        return paged("InstanceTypeOfferings", found, request, _PAGE)

    def spot_price_history(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSpotPriceHistory: the present price of each pool."""
        asked = set(request.get("InstanceTypes") or [])
        pools = [
            pool
            for pool in self._exchange.pools
            if pool.capacity_type == labels.SPOT and (not asked or pool.instance_type in asked)
        ]
        answer = paged("SpotPriceHistory", pools, request, _PAGE)
        return {**answer, "SpotPriceHistory": [self._spot(pool) for pool in answer["SpotPriceHistory"]]}

    def get_products(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer pricing:GetProducts: on-demand list prices for shared Linux machines."""
        found = self._priced()
        for wanted in request.get("Filters") or []:
            field, value = wanted["Field"], wanted["Value"]
            found = [p for p in found if p["product"]["attributes"].get(field, value) == value]
        products, token = page(found, request, _PRODUCTS_PAGE)
        answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(p) for p in products]}
        return answer if token is None else {**answer, "NextToken": token}

    def _filtered(self, filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        key = json.dumps(filters, sort_keys=True)
        if key not in self._by_filter:
            found = list(self._described)
            for wanted in filters:
                read = _type_filter(wanted["Name"])
                found = [d for d in found if set(read(d)) & set(wanted["Values"])]
            self._by_filter[key] = found
        return self._by_filter[key]

    def _spot(self, pool: Pool) -> dict[str, Any]:
        return {
            "InstanceType": pool.instance_type,
            "AvailabilityZone": pool.zone,
            "ProductDescription": LINUX,
            "SpotPrice": _decimal(self._exchange.price(pool) or 0),
            "Timestamp": self._clock.now(),
        }

    def _priced(self) -> list[dict[str, Any]]:
        changes = self._exchange.price_changes
        if self._products[0] != changes:
            prices = {
                pool.instance_type: self._exchange.price(pool) or 0
                for pool in self._exchange.pools
                if pool.capacity_type == labels.ON_DEMAND
            }
            self._products = (changes, [_product(name, prices[name], self._region) for name in sorted(prices)])
        return self._products[1]


def _type_filter(name: str) -> Callable[[dict[str, Any]], Iterable[str]]:
    readers: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
        "processor-info.supported-architecture": lambda d: d["ProcessorInfo"].get("SupportedArchitectures", ()),
        "supported-virtualization-type": lambda d: d.get("SupportedVirtualizationTypes", ()),
        "supported-usage-class": lambda d: d.get("SupportedUsageClasses", ()),
        "instance-type": lambda d: (d["InstanceType"],),
        "bare-metal": lambda d: (str(d.get("BareMetal", False)).lower(),),
        "hypervisor": lambda d: (d.get("Hypervisor", ""),),
    }
    if name not in readers:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return readers[name]


def _product(name: str, price: int, region: str) -> dict[str, Any]:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": _decimal(price)}}
    return {
        "product": {
            "productFamily": "Compute Instance (bare metal)" if ".metal" in name else "Compute Instance",
            "attributes": {
                "instanceType": name,
                "regionCode": region,
                "operatingSystem": "Linux",
                "preInstalledSw": "NA",
                "tenancy": "Shared",
                "capacitystatus": "Used",
                "licenseModel": "No License required",
                "marketoption": "OnDemand",
                "operation": "RunInstances",
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{name}.term": {"priceDimensions": {f"{name}.rate": dimension}}}},
    }


def _decimal(amount: int) -> str:
    whole, rest = divmod(amount, quantity.NANODOLLARS)
    return f"{whole}.{rest:09d}"
