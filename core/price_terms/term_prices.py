"""Applies price terms to a catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.identity_cache import ByIdentity
from core.model.catalogue import Catalogue, InstanceType
from core.price_terms.terms import ClassCharges, PriceTerms, charged

LISTS_KEPT: Final = 16
CHARGES_KEPT: Final = 16


class TermPrices:
    """Catalogues at the prices of the terms. Equal lists of types give the same object, so results cached for it stay valid."""

    def __init__(self, terms: PriceTerms) -> None:
        self._terms = terms
        self._lists: dict[ClassCharges, ByIdentity[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = {}

    def of(self, catalogue: Catalogue, node_classes: Iterable[Mapping[str, Any]]) -> Catalogue:
        """Return the catalogue for these EC2NodeClass manifests. Types without a class pay for no licence and no address."""
        if self._terms == PriceTerms():
            return catalogue
        default = self._charged(catalogue.default, ClassCharges())
        by_class = {name: self._charged(found, ClassCharges()) for name, found in catalogue.by_node_class.items()}
        for manifest in node_classes:
            try:
                node_class = read_node_class(manifest)
            except InvalidInputError:
                continue  # the class launches nothing, and its validation explains why
            charges = charges_of(node_class, self._terms)
            if charges != ClassCharges():
                by_class[node_class.name] = self._charged(catalogue.types_for(node_class.name), charges)
        return msgspec.structs.replace(catalogue, default=default, by_node_class=dict(sorted(by_class.items())))

    def _charged(self, types: tuple[InstanceType, ...], charges: ClassCharges) -> tuple[InstanceType, ...]:
        known = self._lists.get(charges)
        if known is None:
            if len(self._lists) >= CHARGES_KEPT:
                self._lists.clear()
            known = self._lists[charges] = ByIdentity(partial(_all_charged, self._terms, charges), size=LISTS_KEPT)
        return known(types)


def charges_of(node_class: EC2NodeClass, terms: PriceTerms) -> ClassCharges:
    """Return what a node of the class costs besides the instance. An address counts if the class itself requests one."""
    family = node_class.family.name
    named = (one for one in terms.licences if node_class.name in one.node_classes or family in one.ami_families)
    licence = next(named, None)
    return ClassCharges(
        a_vcpu=licence.a_vcpu if licence is not None else 0,
        a_node=licence.a_node if licence is not None else 0,
        address=terms.public_address if node_class.spec.associate_public_ip_address else 0,
    )


def _all_charged(terms: PriceTerms, charges: ClassCharges, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    return tuple(charged(one, terms, charges) for one in types)
