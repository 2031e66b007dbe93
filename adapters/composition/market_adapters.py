"""Creates the adapters of the market: instance types, offerings, prices and quotas, which clusters of a region share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from adapters.aws.service import PATIENT, AwsService
from adapters.composition.table_adapters import TableAdapters
from adapters.ports import (
    CatalogueSource,
    CatalogueStore,
    JsonObject,
    NotFoundError,
    QuotaSource,
    QuotaStore,
)
from core.api.objects import name_of

if TYPE_CHECKING:
    from botocore.config import Config

    from core.model.catalogue import InstanceType
    from core.price_terms.term_prices import TermPrices


class MarketAdapters(TableAdapters):
    """The adapters that read the market, and those that store the last reading; `Adapters` adds the others."""

    @property
    def region(self) -> str:
        """The region of the session."""
        return str(self._session.region_name)

    def _types_for(self, node_class: JsonObject) -> tuple[InstanceType, ...]:
        """Return the types as sized for a resolved EC2NodeClass; none before the first reading of the market."""
        try:
            return self.catalogues.catalogue([node_class]).types_for(name_of(node_class))
        except NotFoundError:
            return ()

    @cached_property
    def catalogues(self) -> CatalogueStore:
        """The last reading of the market; embedders may share one among several applications."""
        from adapters.aws.s3_catalogue import S3CatalogueStore

        bucket = self.settings.shared_bucket_name or self.settings.bucket_name
        return S3CatalogueStore(self._service("s3"), bucket, self.settings.sizing(), self._term_prices())

    def _term_prices(self) -> TermPrices | None:
        terms = self.settings.terms()
        if terms is None:
            return None
        from core.price_terms.term_prices import TermPrices

        return TermPrices(terms)

    @cached_property
    def catalogue_source(self) -> CatalogueSource:
        """Reads the current market from AWS."""
        from adapters.aws.market import AwsMarket, pricing_region

        region = self._session.region_name
        pricing = self._service("pricing", region_name=pricing_region(region))
        return AwsMarket(self._service("ec2"), pricing, region=region, clock=self.clock)

    @cached_property
    def quota_source(self) -> QuotaSource:
        """Reads the current quotas from AWS."""
        from adapters.aws.quotas import AwsQuotas

        return AwsQuotas(self._service("service-quotas"), self._service("ec2"), clock=self.clock)

    @cached_property
    def quotas(self) -> QuotaStore:
        """The last reading of the quotas, shared by the clusters of the account and region."""
        from adapters.aws.s3_quotas import S3QuotaStore

        return S3QuotaStore(self._service("s3"), self.settings.shared_bucket_name or self.settings.bucket_name)

    def _service(self, name: str, config: Config = PATIENT, **more: str) -> AwsService:
        return AwsService(make=lambda: self._session.client(name, config=config, **more))
