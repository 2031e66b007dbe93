"""Output in its three formats."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
import yaml

from cli.answers.plan import claim_document, disruption_document, plan_document
from cli.errors import InputError
from cli.terminal import output
from cli.terminal.output import filled, records
from cli.terminal.style import Style
from core.model.plan import Binding, Cost, DisruptionCost, DisruptionPlan, ObjectRef, Plan, PlannedClaim, Unschedulable
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW

# `-o jsonpath=`: as in kubectl, for scripts that are written already.


DOCUMENT = {
    "kind": "Plan",
    "count": 2,
    "ok": True,
    "nothing": None,
    "items": [{"name": "a", "pods": ["p", "q"]}, {"name": "b", "pods": []}],
}


WHOLE = json.dumps(DOCUMENT)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "Plan"),
        (".kind", "Plan"),
        ("kind", "Plan"),
        ("{kind}", "Plan"),
        ("{$.kind}", "Plan"),
        ("{.count} of {.ok}, {.nothing}", "2 of true, null"),
        ("{.items[*].name}", "a b"),
        ("{.items[1].name}", "b"),
        ("{.items[0].pods}", '["p", "q"]'),
        ("{['kind']}", "Plan"),
        ("{.absent}", ""),
        ("{@}", WHOLE),
        ("{.}", WHOLE),
        ("{$}", WHOLE),
        (r'{"a\tb\n\"\\\x"}', 'a\tb\n"\\\\x'),
        ("<{ .kind }>", "<Plan>"),
        (r'{range .items[*]}{.name}:{@.pods[0]}{"\n"}{end}done', "a:p\nb:\ndone"),
        ("{range .items[*]}{range .pods[*]}{@},{end};{end}", "p,q,;;"),
        ("{range .absent[*]}{.name}{end}none", "none"),
    ],
)
def test_a_template_is_filled(template: str, text: str) -> None:
    assert filled(template, DOCUMENT) == text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{end}", "{end} without {range …}"),
        ("{range .items[*]}{end}{end}", "{end} without {range …}"),
        ("{range .items[*]}{.name}", "{range .items[*]} without {end}"),
        ("{range .items[*]}{range .pods[*]}{end}", "{range .items[*]} without {end}"),
        ('{"open}', "'\"open' is not a path"),
        ('{shut"}', "'shut\"' is not a path"),
        ("{.items[}", "'.items[' is not a path such as .nodeClaims[*].name"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        filled(template, DOCUMENT)
    assert problem in raised.value.problem
    assert raised.value.source == "-o jsonpath"


CLAIM = PlannedClaim(
    name="default-0",
    node_pool="default",
    node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default"),
    labels={"team": "a"},
    taints=(Taint("gpu", "NoSchedule", "true"), Taint("b", "NoExecute")),
    requirements=(Requirement.of("size", "Gt", ["3"], min_values=2), Requirement.one_of("zone", "a")),
    instance_types=("m7g.xlarge", "m6g.xlarge"),
    zones=("us-east-1a",),
    capacity_types=("spot",),
    resources={"pods": 14, "memory": 9 * 2**30, "cpu": 3200},
    pods=("shop/cart-0",),
    price=163_200_000,
)


def test_a_claim_has_the_format_of_the_contract() -> None:
    """Other programs read it."""
    assert claim_document(CLAIM) == {
        "name": "default-0",
        "nodePool": "default",
        "labels": {"team": "a"},
        "taints": [{"key": "gpu", "effect": "NoSchedule", "value": "true"}, {"key": "b", "effect": "NoExecute"}],
        "startupTaints": [],
        "requirements": [
            {"key": "size", "operator": "Gte", "values": ["4"], "minValues": 2},
            {"key": "zone", "operator": "In", "values": ["a"]},
        ],
        "instanceTypes": ["m7g.xlarge", "m6g.xlarge"],
        "zones": ["us-east-1a"],
        "capacityTypes": ["spot"],
        "resources": {"cpu": "3200m", "memory": "9Gi", "pods": "14"},
        "pods": ["shop/cart-0"],
        "price": 0.1632,
    }


def test_a_plan_says_cost_bound_and_gap() -> None:
    """Without a bound, both stay empty; a plan that costs nothing has no gap."""
    plan = Plan(
        now=NOW,
        claims=(CLAIM,),
        bindings=(Binding("a/b", "n"),),
        unschedulable=(Unschedulable("a/c", "NoOfferingFits", "too big"),),
        cost=Cost(200_000_000, 150_000_000),
    )
    document = plan_document(plan)
    assert document["now"] == "2026-11-20T00:00:00Z"
    assert document["cost"] == {"hourly": 0.2, "lowerBound": 0.15, "gap": 0.25, "spotHourly": 0.1632}
    assert document["bindings"] == [{"pod": "a/b", "node": "n"}]
    page = "docs/reference/reason-codes.md#noofferingfits"
    assert document["unschedulable"] == [{"pod": "a/c", "reason": "NoOfferingFits", "message": "too big", "page": page}]
    assert plan_document(Plan(now=NOW))["cost"] == {"hourly": 0.0, "lowerBound": None, "gap": None, "spotHourly": 0.0}
    assert plan_document(Plan(now=NOW, cost=Cost(0, 0)))["cost"]["gap"] == 0.0


def test_an_unlimited_budget_is_null() -> None:
    """Zero would mean that no node may be disrupted."""
    plan = DisruptionPlan(now=NOW, budgets={"default": {"Empty": None, "Drifted": 0}}, cost=DisruptionCost(2, 1, 1))
    assert disruption_document(plan)["budgets"] == {"default": {"Empty": None, "Drifted": 0}}


def test_table_columns_are_aligned() -> None:
    """It must be readable without colour or a wide terminal."""
    text = output.table(("NAME", "N"), [("a", 1), ("longer", 20)])
    assert text.splitlines() == ["NAME     N", "a        1", "longer  20"]


def test_columns_of_short_words_shrink_until_a_narrow_terminal_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns broke the rows of a plan anywhere: no column went below 18."""
    monkeypatch.setattr(output, "line_width", lambda: 30)
    drawn = output.table(["TYPE", "CAPACITY"], [["m5.large (or 2 others)", "on-demand, spot"]])
    assert max(map(len, drawn.splitlines())) <= 30
    assert {"m5.large", "on-demand,"} <= set(drawn.split())


def test_long_lists_are_cut_with_a_count() -> None:
    """Sixty instance types do not fit on a line."""
    assert output.several(["a", "b", "c", "d"], 2) == "a, b +2"
    assert output.several(["a"]) == "a"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_output_goes_to_standard_output_in_the_requested_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe does not change the format: people page through tables, programs ask for JSON."""
    document = {"kind": "Plan", "text": "größer", "list": [1, None]}
    output.show(document, form, lambda _: "table")
    text = capsys.readouterr().out
    assert (yaml.safe_load(text) if form == "yaml" else json.loads(text)) == document
    for person in ("table", None):
        output.show(document, person, lambda _: "table\n\n")
        assert capsys.readouterr().out == "table\n"


# A table on a narrow terminal: a line for each column of a row.


HEADINGS = ("NODE", "TYPE", "$/H")


def shown(*rows: tuple[str, ...], width: int = 24) -> list[str]:
    return list(records(HEADINGS, rows, width))


def test_each_row_is_its_name_and_its_columns_below() -> None:
    assert shown(("n1", "m5.large", "0.1"), ("n2", "", "0.2"), ("n3", " ", "")) == [
        "n1",
        "  TYPE  m5.large",
        "  $/H   0.1",
        "n2",
        "  $/H   0.2",
        "n3",
    ]


def test_a_cell_of_several_words_is_wrapped_beside_its_heading() -> None:
    assert shown(("n1", "one two three four five", ""), width=20) == [
        "n1",
        "  TYPE  one two",
        "        three four",
        "        five",
    ]


def test_a_word_that_needs_more_room_stands_below_its_heading() -> None:
    """Beside `TYPE` there are 12 columns of 20."""
    assert shown(("n1", "x" * 12, ""), width=20) == ["n1", f"  TYPE  {'x' * 12}"]
    assert shown(("n1", f"ab {'x' * 14}", ""), width=20) == ["n1", "  TYPE", "    ab", f"    {'x' * 14}"]
    assert shown(("n1", f"a {'x' * 14}", ""), width=20) == ["n1", "  TYPE", f"    a {'x' * 14}"]


def test_no_word_is_broken() -> None:
    name = "ip-10-0-1-7.eu-central-1.compute.internal"
    assert shown((name, name, ""), width=20) == [name, "  TYPE", f"    {name}"]


def test_a_table_of_one_column_is_its_names() -> None:
    assert list(records(("NODE",), [("n1",), ("n2",)], 20)) == ["n1", "n2"]


# Tables and lines at the width of the reader: what is wrapped, what is never broken, what stays in one line.


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output is a terminal; a test sets its width with `wide`."""
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    return monkeypatch


def wide(terminal: pytest.MonkeyPatch, columns: int) -> None:
    terminal.setattr(shutil, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))


@pytest.mark.parametrize(("columns", "width"), [(10, 20), (20, 20), (120, 120), (200, 200), (300, 200)])
def test_lines_are_as_wide_as_the_terminal_within_bounds(
    terminal: pytest.MonkeyPatch, columns: int, width: int
) -> None:
    wide(terminal, columns)
    assert output.line_width() == width


def test_elsewhere_lines_have_a_hundred_columns() -> None:
    assert output.line_width() == output.WIDTH_MAX == 100


def test_a_table_that_just_fits_keeps_its_columns(terminal: pytest.MonkeyPatch) -> None:
    """Eleven columns, two between them, and eleven."""
    rows = [("a" * 11, "b" * 11)]
    wide(terminal, 24)
    assert output.table(("ONE", "TWO"), rows).splitlines() == ["ONE          TWO", f"{'a' * 11}  {'b' * 11}"]
    wide(terminal, 23)
    assert output.table(("ONE", "TWO"), rows).splitlines() == ["ONE", "a" * 11, f"  TWO  {'b' * 11}"]


def test_for_programs_a_row_stays_one_line_however_long() -> None:
    assert len(output.table(("A", "B"), [("a" * 79, "b" * 79)]).splitlines()) == 2


def test_a_very_long_word_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no name but an encoded message; a name of eighty characters stays whole."""
    for length, lines in ((81, 3), (80, 2)):
        text = output.table(("N", "MESSAGE"), [("x" * 30, "y" * length)])
        assert len(text.splitlines()) == lines, length


def test_the_widest_texts_shrink_first_and_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 22)
    rows = [("aa aa aa aa aa", "bb bb bb bb bb", "c")]
    assert output.table(("A", "B", "C"), rows).splitlines() == [
        "A         B          C",
        "aa aa aa  bb bb bb   c",
        "aa aa     bb bb",
    ]


def test_numbers_are_to_the_right_and_texts_to_the_left() -> None:
    rows = [("1", 0.5, "", "x"), ("-20", 12.25, "", "1")]
    assert output.table(("N", "PRICE", "NONE", "MIXED"), rows).splitlines() == [
        "  N    PRICE  NONE  MIXED",
        "  1   0.5000        x",
        "-20  12.2500        1",
    ]
    assert output.table(("N", "M"), [("", "a"), ("3", "")]).splitlines() == ["N  M", "   a", "3"]
    assert output.table(("VERSION",), [("1.2.3",)]).splitlines() == ["VERSION", "1.2.3"]
    assert output.table(("A", "B"), []) == "A  B"


def test_lines_are_wrapped_at_spaces_and_go_on_further_in() -> None:
    words = " ".join(["word"] * 21)
    first, second = output.wrapped(f"  {words}").splitlines()
    assert (len(first), second) == (2 + 19 * 5 - 1, "      word word")
    assert output.wrapped("a" * 99 + " ") == "a" * 99
    assert output.wrapped("one\n\ntwo") == "one\n\ntwo"
    assert output.wrapped("x" * 130) == "x" * 130
    assert output.wrapped("") == ""


def test_colours_take_no_room() -> None:
    painted = f"{Style(is_on=True).styled('a' * 50, 'bold')} {'b' * 49}"
    assert output.wrapped(painted) == painted


def test_a_time_is_in_utc_with_its_fraction() -> None:
    there = datetime(2026, 11, 20, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    assert output.rfc3339(there) == "2026-11-20T00:30:00Z"
    assert output.rfc3339(datetime(2026, 11, 20, 0, 0, 1, 500_000, tzinfo=UTC)) == "2026-11-20T00:00:01.500000Z"


def test_nouns_and_lists() -> None:
    assert [output.counted(n, "node") for n in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert output.several(["a", "b", "c"]) == "a, b, c"
    assert output.several(["a", "b", "c", "d", "e"]) == "a, b, c +2"
    assert output.several([]) == ""


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (None, "table\n"),
        ("table", "table\n"),
        ("wide", "wide\n"),
        ("name", "plan/x\n"),
        ("json", '{\n  "kind": "Plan",\n  "ä": 1\n}\n'),
        ("yaml", "kind: Plan\nä: 1\n"),
        ("jsonpath={.kind}", "Plan\n"),
    ],
)
def test_an_answer_has_the_form_that_was_asked_for(
    form: str | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.show({"kind": "Plan", "ä": 1}, form, lambda _: "table\n\n", lambda _: "wide", lambda _: "plan/x")
    assert capsys.readouterr().out == text


def test_without_columns_or_names_of_its_own_an_answer_is_its_table_and_its_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for form in ("wide", "name"):
        output.show({"kind": "Plan"}, form, lambda _: "table")
    assert capsys.readouterr().out == "table\nplan\n"
    output.show({"kind": "Plan"}, "name", str, str, lambda _: "")
    assert capsys.readouterr().out == ""


def test_on_a_terminal_long_lines_of_an_answer_are_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 20)
    output.show({}, None, lambda _: "one two three four five")
    assert capsys.readouterr().out == "one two three four five\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.show({}, None, lambda _: "one two three four five")
    assert capsys.readouterr().out == "one two three four\n    five\n"
