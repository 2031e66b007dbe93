"""Which offerings of a planned claim are requested from EC2."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.launch.selection import (
    AT_ONCE,
    CLOCKS_APART,
    FASTEST,
    LONGEST_WAIT,
    OVERRIDES_MAX,
    QUIET,
    RISE,
    SLOWEST,
    TYPES_MAX,
    Pace,
    Selection,
    admits_reservation,
    first_of_each,
    in_one_request,
    latest_full,
    one_request,
    rate_of,
    select_offerings,
    slowed,
    take_turn,
    token_time,
)
from core.model.catalogue import InstanceType, Offering, cheapest_first
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, STRICT
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal
from core.reasons.pods import PodReason
from core.scheduling import schedule
from tests.builders import CLASS_REF, ZONES, a_pod, a_pool, a_snapshot, a_type

# The pace of requests to EC2: multiplicative decrease where EC2 throttles, additive increase once it is quiet.


NOW = 1_800_000_000_000
SECOND = 1_000
BACK_AGAIN = QUIET + (FASTEST - SLOWEST) * SECOND // RISE + SECOND
"""By then, every bucket has the fastest rate again."""


def turns(pace: Pace, now: int, number: int) -> tuple[list[int], Pace]:
    """The waits of this many requests at once, and the bucket after them; what must not wait takes no turn."""
    waits = []
    for _ in range(number):
        turn = take_turn(pace, now)
        waits.append(turn.wait)
        pace = pace if turn.pace is None else turn.pace
    return waits, pace


def test_a_full_bucket_serves_a_burst_then_one_request_for_each_token() -> None:
    waits, _ = turns(Pace(), NOW, AT_ONCE + 3)
    assert waits == [0] * AT_ONCE + [200, 400, 600]


def test_each_throttled_answer_halves_the_rate() -> None:
    for answers, rate in ((1, 2500), (2, 1250), (3, 625), (8, SLOWEST), (100, SLOWEST)):
        assert slowed(Pace(), NOW, NOW, answers).rate == rate


def test_a_reduced_rate_spreads_requests_evenly() -> None:
    """A burst is what EC2 throttles."""
    pace = slowed(Pace(), NOW, NOW, 3)
    waits, _ = turns(pace, NOW, 4)
    assert waits == [1600, 3200, 4800, 6400]


def test_a_wait_that_is_too_long_takes_no_turn() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    turn = take_turn(pace, NOW)
    assert (turn.wait, turn.pace) == (token_time(SLOWEST), None)
    assert take_turn(pace, NOW + token_time(SLOWEST)).wait == 0


def test_a_bucket_may_be_full_no_later_than_the_longest_wait_allows() -> None:
    """The row in the table is written on this condition: a moment later, the turn would come too late."""
    last = Pace(full_at=latest_full(NOW), rate=FASTEST, slowed_at=NOW - BACK_AGAIN)
    turn = take_turn(last, NOW)
    assert turn.pace is not None
    assert turn.wait == LONGEST_WAIT
    later = take_turn(Pace(full_at=latest_full(NOW) + 1, rate=FASTEST, slowed_at=NOW - BACK_AGAIN), NOW)
    assert later.pace is None


def test_requests_side_by_side_reduce_the_rate_once() -> None:
    """A hundred throttled requests of one burst say no more than one of them."""
    pace = slowed(Pace(), NOW, NOW + SECOND, 1)
    for number in range(100):
        pace = slowed(pace, NOW + number, NOW + 2 * SECOND, 3)
    assert pace.rate == FASTEST // 2


def test_a_request_at_the_reduced_rate_reduces_it_further() -> None:
    pace = slowed(Pace(), NOW, NOW, 1)
    assert slowed(pace, NOW + SECOND, NOW + SECOND, 1).rate == FASTEST // 4


def test_the_rate_stays_until_it_has_been_quiet_and_then_rises_evenly() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    rates = [rate_of(pace, NOW + QUIET + seconds * SECOND) for seconds in (-44, 0, 1, 2, 10)]
    assert rates == [SLOWEST, SLOWEST, SLOWEST + RISE, SLOWEST + 2 * RISE, SLOWEST + 10 * RISE]
    assert rate_of(pace, NOW + BACK_AGAIN) == FASTEST


def test_a_bucket_that_has_recovered_is_as_new() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    waits, after = turns(pace, NOW + BACK_AGAIN, AT_ONCE + 1)
    assert waits == [0] * AT_ONCE + [200]
    assert (after.rate, after.slowed_at) == (FASTEST, 0)


def test_turns_that_were_given_before_the_throttling_are_waited_for() -> None:
    """They are sent all the same, and the next request comes after them."""
    waits, pace = turns(Pace(), NOW, AT_ONCE + 10)
    after = slowed(pace, NOW, NOW, 1)
    assert take_turn(after, NOW).wait == waits[-1] + token_time(after.rate)


@pytest.mark.parametrize(
    "pace",
    [
        Pace(full_at=latest_full(NOW) + CLOCKS_APART + 1),
        Pace(full_at=NOW, rate=SLOWEST, slowed_at=NOW + CLOCKS_APART + 1),
        Pace(full_at=10**18, rate=SLOWEST, slowed_at=10**18),
        Pace(full_at=-5, rate=SLOWEST, slowed_at=1),
    ],
)
def test_a_moment_of_a_wrong_clock_stops_nothing(pace: Pace) -> None:
    turn = take_turn(pace, NOW)
    assert turn.wait == 0
    assert turn.pace is not None
    assert turn.pace.full_at == NOW + token_time(FASTEST)


@given(rate=st.integers(-(10**9), 10**9), slowed_at=st.integers(0, NOW + 10**7), full_at=st.integers(-(10**9), 10**15))
def test_whatever_is_stored_the_rate_is_within_its_bounds_and_comes_back(
    rate: int, slowed_at: int, full_at: int
) -> None:
    pace = Pace(full_at, rate, slowed_at)
    assert SLOWEST <= rate_of(pace, NOW) <= FASTEST
    assert rate_of(pace, NOW + CLOCKS_APART + BACK_AGAIN) == FASTEST or slowed_at > NOW + CLOCKS_APART
    turn = take_turn(pace, NOW)
    assert turn.wait >= 0
    assert (turn.pace is None) == (turn.wait > LONGEST_WAIT)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 3)), max_size=60))
def test_while_ec2_throttles_requests_are_at_least_as_far_apart_as_the_rate_says(steps: list[tuple[int, int]]) -> None:
    """Each request waits for its turn, and EC2 throttles some of its attempts."""
    pace, now, last = slowed(Pace(), NOW, NOW, 3), NOW, NOW
    for gap, answers in steps:
        now += gap
        turn = take_turn(pace, now)
        if turn.pace is None:
            continue
        sent, rate = now + turn.wait, rate_of(pace, now)
        if rate < FASTEST:
            assert sent - last >= token_time(rate) - 1 or pace.slowed_at > last
        pace, last = turn.pace, sent
        if answers:
            pace, now = slowed(pace, sent, sent, answers), max(now, sent)


def test_a_throttled_answer_to_a_request_that_was_sent_before_counts_once_the_rate_is_the_fastest_again() -> None:
    """It says that even this rate is too fast; while the rate is reduced, it is the same sign again."""
    pace = slowed(Pace(), NOW, NOW, 1)
    recovered = NOW + QUIET + (FASTEST // 2) * SECOND // RISE
    assert rate_of(pace, recovered) == FASTEST > rate_of(pace, recovered - SECOND)
    assert slowed(pace, NOW - 1, recovered - SECOND, 1) == pace
    assert slowed(pace, NOW - 1, recovered, 1).rate == FASTEST // 2
    assert slowed(pace, NOW - 1, recovered, 1).slowed_at == recovered


@pytest.mark.parametrize(("ahead", "rate"), [(0, SLOWEST), (1, FASTEST)])
def test_a_clock_that_is_a_little_ahead_is_believed(ahead: int, rate: int) -> None:
    assert rate_of(Pace(full_at=NOW, rate=SLOWEST, slowed_at=NOW + CLOCKS_APART + ahead), NOW) == rate


def test_a_request_that_was_sent_at_the_moment_of_the_throttling_came_after_it() -> None:
    """It had the reduced rate already, so its own throttling is another sign."""
    pace = slowed(Pace(), NOW, NOW, 1)
    assert slowed(pace, NOW, NOW + SECOND, 1).rate == FASTEST // 4
    assert slowed(pace, NOW - 1, NOW + SECOND, 1) == pace


def test_a_bucket_that_never_slowed_has_the_fastest_rate() -> None:
    assert rate_of(Pace(rate=SLOWEST), NOW) == FASTEST


@pytest.mark.parametrize(("ahead", "is_believed"), [(0, True), (1, False)])
def test_a_full_bucket_of_a_clock_a_little_ahead_is_believed(ahead: int, *, is_believed: bool) -> None:
    """Otherwise, requests of a sandbox whose clock is a second ahead count for nothing in the next one."""
    pace = Pace(full_at=latest_full(NOW) + CLOCKS_APART + ahead)
    assert (take_turn(pace, NOW).wait > 0) is is_believed


def test_a_token_takes_a_second_at_one_hertz() -> None:
    """Rates are millihertz, moments milliseconds."""
    assert [token_time(rate) for rate in (1_000, 5_000, 33)] == [1_000, 200, 30_303]


# Which reserved offerings one request asks for.


def reserved(
    identity: str, kind: str = "default", price: int = 1, places: int = 1, *, interruptible: bool = False
) -> Offering:
    return Offering("p5.48xlarge", "zone-a", labels.RESERVED, price, True, identity, places, kind, interruptible)


def ids(*offerings: Offering) -> list[str]:
    return [offering.reservation_id for offering in in_one_request(offerings)]


def test_one_kind_and_of_each_place_the_reservation_with_most_places() -> None:
    usual = reserved("cr-1"), reserved("cr-2", places=5)
    assert ids(reserved("cr-b", "capacity-block"), *usual, reserved("cr-i", interruptible=True)) == ["cr-2"]


def test_the_kind_with_the_cheapest_offering_wins_and_one_block_is_enough() -> None:
    blocks = reserved("cr-b", "capacity-block"), reserved("cr-c", "capacity-block")
    assert ids(reserved("cr-1", price=2), *blocks) == ["cr-b"]


def test_a_claim_is_held_to_what_it_was_planned_for() -> None:
    """Another reservation's places are promised to other claims."""
    planned = [Requirement.one_of(labels.RESERVATION_ID, "cr-1")]
    assert admits_reservation(planned, reserved("cr-1"))
    assert not admits_reservation(planned, reserved("cr-2"))
    assert admits_reservation(planned, Offering("p5.48xlarge", "zone-a", labels.ON_DEMAND, 1))
    assert not admits_reservation([Requirement.one_of(labels.RESERVATION_TYPE, "capacity-block")], reserved("cr-1"))


def test_nothing_reserved_is_asked_for_where_nothing_is_offered() -> None:
    assert ids() == []


def test_every_requirement_for_a_reservation_must_hold_and_one_for_what_it_has_not_may_forbid_it() -> None:
    own = Requirement.one_of(labels.RESERVATION_ID, "cr-1")
    other = Requirement.one_of(labels.RESERVATION_TYPE, "capacity-block")
    assert not admits_reservation([own, other], reserved("cr-1"))
    assert not admits_reservation([other, own], reserved("cr-1"))
    assert admits_reservation([own, Requirement.one_of("team", "a")], reserved("cr-1"))
    untyped = reserved("cr-1", kind="")
    without = Requirement.of(labels.RESERVATION_TYPE, "DoesNotExist", [])
    assert admits_reservation([own, without], untyped)
    assert not admits_reservation([other], untyped)
    assert not admits_reservation([without], reserved("cr-1"))


def test_at_one_price_the_usual_kind_goes_before_blocks_and_these_before_what_may_be_interrupted() -> None:
    usual, block = reserved("cr-u"), reserved("cr-b", "capacity-block")
    interruptible = reserved("cr-a", interruptible=True)
    for offered, chosen in (
        ((interruptible, block, usual), ["cr-u"]),
        ((interruptible, block), ["cr-b"]),
        ((interruptible, usual), ["cr-u"]),
        ((interruptible,), ["cr-a"]),
    ):
        assert ids(*offered) == ids(*reversed(offered)) == chosen


def test_of_reservations_with_as_many_places_the_first_in_the_order_is_taken() -> None:
    """Otherwise, a claim that is selected again would be stored with another reservation."""
    assert ids(reserved("cr-2", places=3), reserved("cr-1", places=3)) == ["cr-1"]
    assert ids(reserved("cr-i", interruptible=True), reserved("cr-b", "capacity-block")) == ["cr-b"]


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


# Instance types that bring the values that minValues require.


TYPES = (
    a_type("a.1", zones=ZONES[:1], **{FAMILY: "a"}),
    a_type("a.2", zones=ZONES[:2], **{FAMILY: "a"}),
    a_type("b.1", zones=ZONES[:1], **{FAMILY: "b"}),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, []),
        ({FAMILY: 1}, ["a.1"]),
        ({FAMILY: 2}, ["a.1", "b.1"]),
        ({FAMILY: 9}, ["a.1", "b.1"]),
        ({labels.INSTANCE_TYPE: 2}, ["a.1", "a.2"]),
        ({labels.ZONE: 2}, ["a.1", "a.2"]),
        ({labels.CAPACITY_TYPE: 2}, ["a.1"]),
        ({FAMILY: 2, labels.INSTANCE_TYPE: 3}, ["a.1", "b.1", "a.2"]),
        ({"example.com/nothing": 2}, []),
    ],
)
def test_the_first_types_that_bring_a_value_are_chosen(wanted: dict[str, int], expected: list[str]) -> None:
    """A type without a new value uses one of the sixty; without a needed one, the requirement is broken."""
    assert [found.name for found in first_of_each(TYPES, wanted)] == expected
