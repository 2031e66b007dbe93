from __future__ import annotations

import msgspec
import pytest

from core.errors import InvalidInputError
from installation.settings import Settings, problem_of
from tests.fakes.lab import SETTINGS, Lab, a_pending_pod


def test_functions_read_the_settings_that_the_template_writes() -> None:
    """Otherwise, a deployed function starts with other settings than were given."""
    settings = msgspec.structs.replace(SETTINGS, feature_gates="NodeRepair=true", plan_rounds=5, improve_iterations=7)
    assert Settings.from_environment({**settings.to_environment(), "PATH": "/bin"}) == settings
    assert Settings.from_environment(SETTINGS.to_environment()) == SETTINGS


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TABLE_NAME", "", "is not set"),
        ("LAUNCHES_PER_RUN", "many", "int"),
        ("LAUNCHES_PER_RUN", "0", ">= 1"),
        ("PREFERENCE_POLICY", "Sometimes", "Sometimes"),
        ("FEATURE_GATES", "NodeRepair=maybe", "NodeRepair=maybe"),
        ("PRICE_TERMS", "{", "is not JSON"),
        ("PRICE_TERMS", '{"discounts": [{"percent": 130}]}', "discounts[0].percent: 130 is not a percentage"),
        ("SCHEDULER_CONFIG", "{", "is not JSON"),
        ("SCHEDULER_CONFIG", '{"podTopologySpread": {"defaultConstraints": [{}]}}', "defaultConstraints[0].maxSkew"),
    ],
)
def test_a_bad_setting_is_named(variable: str, value: str, said: str) -> None:
    """Otherwise, an operator searches all variables for the wrong one."""
    with pytest.raises(InvalidInputError) as caught:
        Settings.from_environment({**SETTINGS.to_environment(), variable: value})
    assert caught.value.field == variable
    assert said in str(caught.value)


def test_launches_follow_the_order_of_terms_that_change_it() -> None:
    """Otherwise, EC2 launches the type that is cheapest by its own list, and the discount is lost."""
    texts = (
        "",
        '{"publicAddressDollarsPerHour": 0.005}',
        '{"discounts": [{"percent": 9, "instanceFamilies": ["m7i"]}]}',
    )
    options = [msgspec.structs.replace(SETTINGS, price_terms=text).options() for text in texts]
    assert [found.ranks_by_own_prices for found in options] == [False, False, True]


def test_commitments_of_the_terms_count_in_every_decision() -> None:
    """Otherwise, functions pay for nodes beside hours that are paid for already."""
    text = '{"reservedInstances": [{"name": "ri", "instanceType": "m7i.large", "count": 3}]}'
    (found,) = msgspec.structs.replace(SETTINGS, price_terms=text).options().commitments
    assert (found.name, SETTINGS.options().commitments) == ("ri", ())


def test_plans_for_more_pods_are_searched_longer() -> None:
    """Four more seconds lower the cost of a plan for three thousand pods by a tenth, and it runs for hours."""
    settings = msgspec.structs.replace(SETTINGS, improve_milliseconds=1000)
    assert [settings.improving(pods).total_seconds() for pods in (0, 500, 3000)] == [1, 2, 5]
    assert not msgspec.structs.replace(SETTINGS, improve_milliseconds=0).improving(3000)


@pytest.mark.parametrize("text", ["NodeOverlay=1", "NodeOverlay=T", "NodeOverlay = true"])
def test_feature_gates_are_read_in_every_spelling_that_karpenter_accepts(text: str) -> None:
    """Some of them worked on the command line and stopped the functions."""
    assert msgspec.structs.replace(SETTINGS, feature_gates=text).options().feature_gates.node_overlay


def test_in_a_live_cluster_only_pods_marked_unschedulable_are_planned_for() -> None:
    """Otherwise, nodes are launched for pods that are about to be bound."""
    assert SETTINGS.options().requires_unschedulable_mark


def test_default_spreads_reach_the_plan() -> None:
    """Otherwise, the functions plan pods into one zone, and the scheduler refuses to bind them."""
    constraint = '{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}'
    text = f'{{"podTopologySpread": {{"defaultConstraints": [{constraint}]}}}}'
    settings = msgspec.structs.replace(SETTINGS, scheduler_config=text)
    lab = Lab(scheduler_config=text)
    service = {
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    lab.kubernetes.put(service, *(a_pending_pod(f"p{n}", metadata={"labels": {"app": "web"}}) for n in range(3)))
    lab.provision()
    assert settings.options().default_spreads[0].max_skew == 1
    assert len({claim.machine.offering.zone for claim in lab.claims if claim.machine}) == 3


def test_the_size_of_a_part_is_an_option_and_at_least_one_node() -> None:
    assert SETTINGS.options().part_nodes is None
    assert msgspec.structs.replace(SETTINGS, part_nodes=2000).options().part_nodes == 2000
    assert problem_of("part_nodes", "0")
    assert not problem_of("part_nodes", "1")


@pytest.mark.parametrize(
    ("changed", "option", "without_approval"),
    [
        ({}, 50, None),
        ({"shrink_percent": 20}, 20, None),
        ({"shrink_percent": 100}, None, None),
        ({"mode": "approve", "shrink_percent": 20}, None, 20),
    ],
)
def test_where_commands_need_approval_so_does_shrinking_fast(
    changed: dict[str, object], option: int | None, without_approval: int | None
) -> None:
    """Otherwise, nobody is asked about the very commands that the limit is for."""
    settings = msgspec.structs.replace(SETTINGS, **changed)
    rule = settings.approval_rule()
    assert (settings.options().shrink_percent, rule and rule.shrink_percent) == (option, without_approval)
