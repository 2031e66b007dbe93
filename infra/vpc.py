"""The network of functions that use a private API server, as an operator configures it: subnets, security groups, endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from installation.network_services import GATEWAYS, OPTIONAL, SERVICES

ALL: Final = "all"
"""Stands for each service that functions in the VPC call."""

_NAMES: Final = tuple(sorted((*SERVICES, *OPTIONAL)))

_ENDPOINTS_EXPECTED: Final = f"{ALL}, or names among {', '.join(_NAMES)}"

SUBNETS_MAX: Final = 16
"""Lambda puts a function into no more."""


def names(written: object) -> object:
    """Parse a list from `cdk.json`, or a text with commas from `-c`; a name that is given twice counts once."""
    listed = [name.strip() for name in written.split(",") if name.strip()] if isinstance(written, str) else written
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return list(dict.fromkeys(listed))
    return listed


def parsed(written: object) -> object:
    """Parse JSON, the form of an object after `-c`."""
    try:
        return json.loads(written) if isinstance(written, str) else written
    except ValueError:
        return written


def _endpoints(written: object) -> object:
    listed = names(written)
    if listed == [ALL]:
        return listed
    if not isinstance(listed, list | tuple) or not all(service in _NAMES for service in listed):
        raise ValueError(_ENDPOINTS_EXPECTED)
    return sorted(set(listed))


def _ids(kind: str) -> str:
    return rf"^{kind}-[0-9a-f]{{8,17}}$"


class VpcConfig(BaseModel):
    """The network of the functions that call the API server; the others stay outside and reach AWS directly.

    Attributes:
        id: The cluster's VPC, or one that is routed to it.
        subnets: Private subnets in two zones at least, so that one zone may fail.
        security_groups: Groups that the functions get; empty: the stack creates one that allows only outgoing HTTPS.
        cluster_security_group: The cluster's group, which the stack opens to its own group; empty: the operator opens it.
        endpoints: Services for which the stack creates endpoints, or `ALL`; empty: the VPC has them already, or a NAT gateway.
        route_tables: Those of the subnets, for gateway endpoints.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=False)

    id: Annotated[str, Field(pattern=_ids("vpc"), description="the id of a VPC")]
    subnets: Annotated[
        tuple[Annotated[str, Field(pattern=_ids("subnet"))], ...],
        BeforeValidator(names),
        Field(min_length=1, max_length=SUBNETS_MAX, description=f"ids of subnets, one to {SUBNETS_MAX}"),
    ]
    security_groups: Annotated[
        tuple[Annotated[str, Field(pattern=_ids("sg"))], ...],
        BeforeValidator(names),
        Field(max_length=5, description="ids of security groups, five at most"),
    ] = ()
    cluster_security_group: Annotated[
        str, Field(pattern=rf"^$|{_ids('sg')}", description="the id of a security group")
    ] = ""
    endpoints: Annotated[tuple[str, ...], BeforeValidator(_endpoints), Field(description=_ENDPOINTS_EXPECTED)] = ()
    route_tables: Annotated[
        tuple[Annotated[str, Field(pattern=_ids("rtb"))], ...],
        BeforeValidator(names),
        Field(description="ids of route tables"),
    ] = ()

    @model_validator(mode="after")
    def _gateways_have_routes(self) -> VpcConfig:
        gateways = [name for name in self.services(()) if name in GATEWAYS]
        if gateways and not self.route_tables:
            raise ValueError(
                f"routeTables: the gateway endpoints of {' and '.join(gateways)} need those of the subnets"
            )
        if self.cluster_security_group and self.security_groups:
            raise ValueError(
                "clusterSecurityGroup: is for a group of the stack's own; securityGroups are let in by you"
            )
        return self

    def services(self, optional: Iterable[str]) -> tuple[str, ...]:
        """Return the services with an endpoint of the stack's. `optional`: those that not every installation calls."""
        return self.endpoints if self.endpoints != (ALL,) else (*SERVICES, *optional)
