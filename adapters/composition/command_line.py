"""Creates the adapters that only the command line uses, with the permissions of the person at the terminal."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Final

from adapters.aws.dynamodb.table import DynamoTable, ReadOnlyTable
from adapters.aws.instance_profiles import OwnedProfiles
from adapters.aws.services import PATIENT, QUICK, AwsService, longest
from adapters.composition.functions import Adapters
from adapters.ports import AwsCalls, CatalogueSource, Session
from adapters.runtime import SystemClock

LONGEST_CALL: Final[timedelta] = longest(PATIENT)
"""How long a call of a function to AWS may take with all its attempts."""


class ReadOnlyAdapters(Adapters):
    """The functions' own adapters, on a table that refuses writes."""

    @cached_property
    def table(self) -> DynamoTable:
        """The table for readers."""
        return ReadOnlyTable(self._session.client("dynamodb", config=QUICK), self.settings.table_name)


def aws_calls(session: Session, service: str) -> AwsCalls:
    """Return what calls a service, such as `ec2`, beyond what functions call; the client is created at the first call."""
    return AwsService(make=lambda: session.client(service, config=PATIENT))


def owned_profiles(iam: AwsCalls, *, cluster: str, region: str) -> OwnedProfiles:
    """Return the instance profiles of an installation, to list and to delete."""
    return OwnedProfiles(iam, cluster=cluster, region=region)


def market_reader(session: Session, region: str) -> CatalogueSource:
    """Return the functions' own reader of a region's market. Raises BotoCoreError if there is no such region."""
    from adapters.aws.market import AwsMarket, pricing_region

    ec2 = AwsService(session.client("ec2", config=PATIENT))
    pricing = AwsService(session.client("pricing", region_name=pricing_region(region), config=PATIENT))
    return AwsMarket(ec2, pricing, region=region, clock=SystemClock())


def region_of_prices(region: str) -> str:
    """Return the region whose Pricing service has the price list of `region`."""
    from adapters.aws.market import pricing_region

    return pricing_region(region)
