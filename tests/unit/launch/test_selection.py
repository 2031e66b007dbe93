"""Which offerings of a planned claim are requested from EC2."""

from __future__ import annotations

import random

import msgspec
import pytest

from core import labels
from core.launch.selection import (
    OVERRIDES_MAX,
    TYPES_MAX,
    Selection,
    one_request,
    select_offerings,
)
from core.model.catalogue import InstanceType, Offering, cheapest_first
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, STRICT
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.reasons.refusal import Refusal
from core.scheduling import schedule
from tests.builders import CLASS_REF, ZONES, a_pod, a_pool, a_snapshot, a_type

FAMILY = f"{labels.AWS_GROUP}/instance-family"
SIZE = f"{labels.AWS_GROUP}/instance-size"


def a_claim(*types: InstanceType, wanted: dict[str, int] | None = None) -> PlannedClaim:
    return PlannedClaim(
        name="general-1",
        node_pool="general",
        node_class=CLASS_REF,
        instance_types=tuple(found.name for found in types),
        zones=tuple(sorted({o.zone for found in types for o in found.offerings})),
        capacity_types=(labels.ON_DEMAND, labels.SPOT),
        requirements=tuple(Requirement(key, True, (), min_values=count) for key, count in (wanted or {}).items()),
    )


def selected(*types: InstanceType, wanted: dict[str, int] | None = None, policy: str = STRICT) -> Selection:
    found = select_offerings(a_claim(*types, wanted=wanted), types, policy)
    assert isinstance(found, Selection)
    return found


def bought(*types: InstanceType, wanted: dict[str, int] | None = None) -> list[str]:
    offerings = selected(*types, wanted=wanted).offerings
    return list(dict.fromkeys(f"{o.instance_type}/{o.capacity_type}" for o in offerings))


def families(selection: Selection) -> set[str]:
    return {offering.instance_type.partition(".")[0] for offering in selection.offerings}


def test_accelerators_and_metal_are_left_to_pods_that_need_them() -> None:
    """Otherwise, a cheap spot GPU is taken from the pods that wait for one."""
    plain = a_type("m5.large", price=0.2)
    gpu = a_type("g5.xlarge", price=0.1, extra={"nvidia.com/gpu": "1"})
    metal = a_type("m5.metal", price=0.1)
    assert bought(plain, gpu, metal) == ["m5.large/spot"]
    assert bought(gpu, metal) == ["g5.xlarge/spot", "m5.metal/spot"]
    assert bought(plain, gpu, wanted={labels.INSTANCE_TYPE: 2}) == ["g5.xlarge/spot", "m5.large/spot"]


def test_only_offerings_of_the_claim_are_requested() -> None:
    """A node in another zone is useless for pods whose volumes are in this one."""
    kind = a_type("m5.large", price=0.1)
    claim = msgspec.structs.replace(a_claim(kind), zones=(ZONES[1],), capacity_types=(labels.ON_DEMAND,))
    found = select_offerings(claim, (kind,), STRICT)
    assert isinstance(found, Selection)
    assert {(o.zone, o.capacity_type) for o in found.offerings} == {(ZONES[1], labels.ON_DEMAND)}


def test_an_offering_that_ec2_refused_is_not_requested_again() -> None:
    """A request for an unavailable offering is refused again, and the pod waits seconds longer."""
    kind = a_type("m5.large", price=0.1)
    refused = tuple(
        msgspec.structs.replace(o, available=(o.zone, o.capacity_type) != (ZONES[0], labels.SPOT))
        for o in kind.offerings
    )
    found = select_offerings(a_claim(kind), (msgspec.structs.replace(kind, offerings=refused),), STRICT)
    assert isinstance(found, Selection)
    assert {o.capacity_type for o in found.offerings} == {labels.SPOT}
    assert {o.zone for o in found.offerings} == {*ZONES[1:]}


def test_spot_that_costs_more_than_on_demand_is_not_launched() -> None:
    """It would be more expensive and less reliable."""
    cheap = a_type("m5.large", price=0.1, capacity_types=("on-demand",))
    expensive = a_type("m5.4xlarge", price=0.9, capacity_types=("spot",))
    assert bought(cheap, expensive) == ["m5.large/on-demand"]


def test_the_cheapest_on_demand_offering_is_what_spot_must_not_exceed() -> None:
    """A costly type on demand would make costly spot look cheap."""
    cheap, costly = (
        a_type(f"m5.{size}", price=price, capacity_types=("on-demand",)) for size, price in (("a", 0.1), ("b", 0.5))
    )
    spot = a_type("m5.c", price=0.9, capacity_types=("spot",))
    assert bought(cheap, costly, spot) == ["m5.a/on-demand", "m5.b/on-demand"]


def test_excluded_types_do_not_count_among_the_sixty() -> None:
    """Truncated before the exclusion, the request had fewer types, and EC2 less to choose from."""
    metal = [a_type(f"a{n}.metal", price=0.01) for n in range(30)]
    plain = [a_type(f"m{n}.large", price=0.1 + n / 1000) for n in range(70)]
    assert len(selected(*metal, *plain).types) == TYPES_MAX


def test_the_cheapest_sixty_types_hold_the_values_that_min_values_require() -> None:
    """A NodePool that requires five families got one: its 60 cheapest types are of one family."""
    cheap = [a_type(f"aa.{i:03}", price=0.10 + i / 10000, **{FAMILY: "aa"}) for i in range(70)]
    expensive = [a_type(f"f{i}.x", price=1.0 + i / 100, **{FAMILY: f"f{i}"}) for i in range(4)]
    demand = Requirement(FAMILY, False, ("aa", "f0", "f1", "f2", "f3"), min_values=5)
    snapshot = a_snapshot(types=(*cheap, *expensive), node_pools=(a_pool("default", demand),), pods=(a_pod(),))
    (claim,) = schedule(snapshot).claims
    found = select_offerings(claim, (*cheap, *expensive), STRICT)
    assert isinstance(found, Selection)
    assert families(found) == {"aa", "f0", "f1", "f2", "f3"}
    assert len(found.types) == TYPES_MAX
    assert not found.min_values_relaxed


def test_min_values_that_sixty_types_cannot_meet_are_refused_or_relaxed() -> None:
    """Strict is a promise; under BestEffort, pods would wait for a request that is impossible."""
    by_family = [a_type(f"f{i:02}.x", price=0.1 + i / 1000, **{FAMILY: f"f{i:02}", SIZE: "x"}) for i in range(40)]
    by_size = [a_type(f"f00.s{i:02}", price=0.5 + i / 1000, **{FAMILY: "f00", SIZE: f"s{i:02}"}) for i in range(40)]
    types, wanted = (*by_family, *by_size), {FAMILY: 40, SIZE: 40}
    refused = select_offerings(a_claim(*types, wanted=wanted), types, STRICT)
    assert isinstance(refused, Refusal)
    assert refused.reason == PodReason.MIN_VALUES_NOT_MET
    assert f"40 of {FAMILY}" in refused.message
    assert "79 instance types" in refused.message
    relaxed = selected(*types, wanted=wanted, policy=BEST_EFFORT)
    assert relaxed.min_values_relaxed
    assert [found.name for found in relaxed.types] == [found.name for found in types[:TYPES_MAX]]


def test_few_types_on_spot_are_no_reason_to_refuse_a_claim() -> None:
    """Karpenter counts minValues before it chooses the capacity type; otherwise, pods wait until spot is back."""
    on_demand = [a_type(f"f{i}.x", capacity_types=("on-demand",), **{FAMILY: f"f{i}"}) for i in range(3)]
    spot = a_type("aa.x", capacity_types=("spot",), **{FAMILY: "aa"})
    assert bought(*on_demand, spot, wanted={FAMILY: 4}) == ["aa.x/spot"]


def test_a_claim_without_an_offering_is_refused() -> None:
    """Otherwise, EC2 gets an empty request, and its error does not mention the claim."""
    found = select_offerings(a_claim(a_type("m5.large")), (), STRICT)
    assert isinstance(found, Refusal)
    assert found.reason == PodReason.NO_OFFERING_AVAILABLE


def test_a_request_stays_within_ec2s_limits_and_keeps_every_type() -> None:
    """With one offering too many, EC2 refuses the request; the most expensive types lost all of theirs to cheaper ones."""
    zones = tuple(f"us-east-1{letter}" for letter in "abcdefgh")
    many = [a_type(f"m5.x{n:03}", price=1 + n / 1000, zones=zones) for n in range(100)]
    found = selected(*many)
    assert len({offering.instance_type for offering in found.offerings}) == TYPES_MAX
    assert len(found.offerings) == OVERRIDES_MAX == 300, "EC2 refuses more for type instant"
    assert found.offerings[0].instance_type == "m5.x000"


@pytest.mark.parametrize("seed", range(20))
def test_the_selection_does_not_depend_on_order_and_is_idempotent(seed: int) -> None:
    """Otherwise, a claim stored twice makes two requests with one token, or loses offerings when it is selected again."""
    draw = random.Random(seed)  # noqa: S311 - a test's own dice
    types = [
        a_type(
            f"f{draw.randrange(9)}.s{n}",
            price=draw.choice((0.1, 0.2, 0.3)),
            zones=tuple(draw.sample(ZONES, draw.randint(1, len(ZONES)))),
            **{FAMILY: f"f{n % 9}"},
        )
        for n in range(draw.choice((3, 70, 150)))
    ]
    wanted = draw.choice(({}, {FAMILY: 6}, {FAMILY: 3, labels.INSTANCE_TYPE: 20}))
    found = selected(*types, wanted=wanted)
    again = draw.sample(types, len(types))
    assert selected(*again, wanted=wanted).offerings == found.offerings
    assert list(found.offerings) == cheapest_first(found.offerings)
    assert one_request(found.offerings) == found.offerings
    assert len({offering.capacity_type for offering in found.offerings}) == 1


def test_reserved_offerings_of_one_kind_are_requested_before_others() -> None:
    """EC2 refuses a request that names a block beside other reservations."""
    kind = a_type("m5.large", price=0.1)
    places = [
        Offering("m5.large", ZONES[0], labels.RESERVED, 1, True, name, 1, of_kind)
        for name, of_kind in (("cr-1", "default"), ("cr-b", "capacity-block"))
    ]
    kind = msgspec.structs.replace(kind, offerings=(*kind.offerings, *places))
    claim = msgspec.structs.replace(a_claim(kind), capacity_types=labels.CAPACITY_TYPES)
    found = select_offerings(claim, (kind,), STRICT)
    assert isinstance(found, Selection)
    assert [offering.reservation_id for offering in one_request(found.offerings)] == ["cr-1"]


def test_spot_may_cost_as_much_as_on_demand() -> None:
    on_demand = a_type("m5.large", price=0.1, capacity_types=("on-demand",))
    spot = a_type("m5.xlarge", price=0.25, capacity_types=("spot",))
    assert {o.price for o in spot.offerings} == {o.price for o in on_demand.offerings}
    assert bought(on_demand, spot) == ["m5.xlarge/spot"]


def test_as_many_values_as_a_request_has_types_are_no_reason_to_refuse() -> None:
    types = [a_type(f"f{i:02}.x", price=0.1 + i / 1000, **{FAMILY: f"f{i:02}"}) for i in range(TYPES_MAX + 1)]
    found = selected(*types, wanted={FAMILY: TYPES_MAX})
    assert (len(found.types), found.min_values_relaxed) == (TYPES_MAX, False)
    assert isinstance(select_offerings(a_claim(*types, wanted={FAMILY: TYPES_MAX + 1}), types, STRICT), Refusal)


def test_the_types_of_a_selection_have_its_offerings_alone() -> None:
    """Their prices are what the launch is compared by: one that is not requested would be the cheapest."""
    kind = a_type("m5.large", price=0.1)
    (found,) = selected(kind).types
    assert {offering.capacity_type for offering in found.offerings} == {labels.SPOT}
    assert len(found.offerings) == len(ZONES)


def test_a_reservation_that_the_claim_does_not_admit_is_not_requested() -> None:
    """Its places are promised to other claims."""
    kind = a_type("m5.large", price=0.1)
    place = Offering("m5.large", ZONES[0], labels.RESERVED, 1, True, "cr-1", 1, "default")
    kind = msgspec.structs.replace(kind, offerings=(*kind.offerings, place))
    other = (Requirement.one_of(labels.RESERVATION_ID, "cr-2"),)
    claim = msgspec.structs.replace(a_claim(kind), capacity_types=labels.CAPACITY_TYPES, requirements=other)
    found = select_offerings(claim, (kind,), STRICT)
    assert isinstance(found, Selection)
    assert {offering.capacity_type for offering in found.offerings} == {labels.SPOT}
