"""A disruption plan as people read it before they run it."""

from __future__ import annotations

from typing import Any

from cli.answers.disruption_table import disruption_names, disruption_table

CLAIM = {"name": "general-0", "instanceTypes": ["c6a.large", "c6a.xlarge"]}
NODES = [f"ip-10-0-{number}-117.eu-central-1.compute.internal" for number in range(4)]


def a_command(nodes: list[str], **changes: Any) -> dict[str, Any]:
    moves = [{"pod": f"shop/{node}", "to": "general-0"} for node in nodes]
    command = {
        "reason": "Underutilized",
        "method": "repack",
        "nodes": nodes,
        "replacements": [CLAIM],
        "moves": moves,
        "savings": 0.5,
        "paybackMinutes": 4,
    }
    return command | changes


def a_document(*commands: dict[str, Any], stay: int = 0) -> dict[str, Any]:
    message = "the disruption budgets of NodePool general let no more nodes go now"
    return {
        "commands": list(commands),
        "blocked": [{"node": f"n{number}", "reason": "Budget", "message": message} for number in range(stay)],
        "budgets": {"general": {"Empty": 1, "Underutilized": 1}, "gpu": {"Empty": None, "Underutilized": 0}},
        "cost": {"before": 2.0, "after": 1.5, "lowerBound": 1.25},
    }


def test_a_command_is_described_once_and_neither_saves_nor_costs_less_than_nothing() -> None:
    text = disruption_table(a_document(a_command(NODES[:2])))
    first, second = [line for line in text.splitlines() if line.startswith("ip-")]
    assert first.split()[1] == "Underutilized"
    assert second.split() == [NODES[1]]
    for after, told in ((2.0, ": saves $0.0000 an hour"), (2.5, ": costs $0.5000 an hour"), (1.0, ": saves $1.0000")):
        cost = {"before": 2.0, "after": after, "lowerBound": None}
        assert told in disruption_table({**a_document(a_command(NODES[:1])), "cost": cost}).splitlines()[0]


def test_the_summary_comes_first_and_node_names_stay_whole() -> None:
    """The names of the disrupted nodes matter most."""
    lines = disruption_table(a_document(a_command(NODES))).splitlines()
    assert lines[0].startswith("4 nodes go, 1 comes, 4 pods move: saves $0.5000 an hour, $365 a month, 25%; ")
    assert lines[0].endswith("; each command pays for itself within 4 minutes")
    assert lines[1] == "$2.0000 an hour before, $1.5000 after; 20.0% above the proven minimum of $1.2500 an hour"
    assert [word for line in lines[4:] for word in line.split() if word.startswith("ip-")] == NODES
    assert lines[4].split()[-1] == "0.5000"


def test_nodes_that_stay_for_the_same_reason_share_an_entry() -> None:
    """Forty nodes took ninety lines with the same text."""
    document = a_document(stay=36)
    text = disruption_table(document)
    assert text.startswith("no node goes; $2.0000 an hour, $1,460 a month")
    assert "36 nodes stay [Budget]: the disruption budgets" in text
    assert "  n0, n1, n2 +33" in text
    assert "n35" in disruption_table(document, shows_all=True)
    budgets = "general 1; gpu any number for Empty, 0 for Underutilized"
    assert f"nodes that NodePools' budgets let go now: {budgets}" in text
    assert "budgets let go before these commands: general 1" in disruption_table(a_document(a_command(NODES)))


def test_waves_and_names_are_shown_where_there_are_any() -> None:
    text = disruption_table(a_document(a_command(NODES[:1], wave=1), a_command(NODES[1:2], wave=2, replacements=[])))
    assert text.splitlines()[3].split()[:4] == ["NODE", "THAT", "GOES", "WAVE"]
    assert "nothing" in text
    assert disruption_names(a_document(a_command(NODES[:2]))) == f"node/{NODES[0]}\nnode/{NODES[1]}"


def test_nodes_of_one_code_with_many_messages_share_an_entry_that_quotes_one_of_them() -> None:
    """The words with the node's name taken out read `is expected on node it, and 19 more such reasons`."""
    document = a_document()
    document["blocked"] = [
        {"node": f"n{number}", "reason": "Nominated", "message": f"pod shop/web-{number} is expected on node n{number}"}
        for number in range(6)
    ]
    text = disruption_table(document)
    assert "6 nodes stay [Nominated], such as n0: pod shop/web-0 is expected on it\n  n1, n2, n3 +2" in text
    assert "every node: --all, or fleetwright explain n0" in text
    assert "n5 stays [Nominated]: pod shop/web-5 is expected on it" in disruption_table(document, shows_all=True)


def test_each_command_says_what_replaces_its_nodes() -> None:
    document = a_document(a_command(NODES[:1]), a_command(NODES[1:2], replacements=[], moves=[]))
    first, second = (line for line in disruption_table(document).splitlines() if line.startswith("ip-10-0"))
    assert "general-0" in first
    assert "nothing" in second


def test_a_command_that_never_pays_back_and_one_without_moves() -> None:
    """The longest payback counts; without one nothing is said of it."""
    several = [a_command(NODES[:1], paybackMinutes=minutes) for minutes in (None, 1, None)]
    assert "each command pays for itself within 1 minute\n" in disruption_table(a_document(*several))
    assert "pays for itself" not in disruption_table(a_document(a_command(NODES[:1], paybackMinutes=None)))


def test_without_commands_and_nodes_that_stay_there_are_no_tables() -> None:
    assert "NODE THAT GOES" not in disruption_table(a_document(stay=1))
    assert "every node: --all, or fleetwright explain n0" in disruption_table(a_document(stay=1))
    assert "every node" not in disruption_table(a_document(a_command(NODES)))
    assert "every node" not in disruption_table(a_document(stay=1), shows_all=True)
