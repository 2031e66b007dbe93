"""What folders of manifests hold beside objects, and what becomes of it."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.errors import InputError
from cli.manifests.foreign import placeholder_in, template_in
from cli.manifests.reading import UnreadableDocument, gather, parse, read

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
OBJECT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def folder(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def names(path: str) -> list[str]:
    return [document.name for document in read([path])]


def test_what_begins_with_a_dot_is_left_out_of_a_folder_and_read_where_it_is_named(tmp_path: Path) -> None:
    root = folder(tmp_path, _dot_github__a_dot_yaml=POD % "a", b_dot_yaml=POD % "b")
    assert names(root) == ["b"]
    assert names(f"{root}/.github/a.yaml") == ["a"]


def test_a_template_in_a_folder_is_left_out_with_the_command_that_renders_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = "kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n"
    root = folder(
        tmp_path, chart__Chart_dot_yaml="name: x\n", chart__templates__a_dot_yaml=template, b_dot_yaml=POD % "b"
    )
    assert names(root) == ["b"]
    said = capsys.readouterr().err
    assert f"helm template {root}/chart" in said
    assert "left out 1 file of other tools (no kind and apiVersion)" in said


def test_files_that_are_no_yaml_are_all_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = folder(tmp_path, a_dot_yaml="kind: A\n\tb: 1\n", b_dot_yaml="kind: [", c_dot_yaml=POD % "c")
    with pytest.raises(InputError) as caught:
        read([root])
    assert "a.yaml" in str(caught.value)
    assert "b.yaml" in str(caught.value)
    assert "begins with a tab" in str(caught.value)
    assert main(["plan", "-f", root, "-o", "json"]) == 2
    answer = capsys.readouterr()
    first, second, *_ = answer.err.splitlines()
    assert first.startswith(f"warning: left out: {root}/a.yaml: document 1: line 2, column 1: is not YAML")
    assert second.startswith(f"warning: left out: {root}/b.yaml: ")
    assert [warning["object"] for warning in json.loads(answer.out)["warnings"]] == [
        f"File/{root}/a.yaml",
        f"File/{root}/b.yaml",
    ]
    assert main(["consolidate", "-f", root]) == 2
    assert capsys.readouterr().out == ""


def test_a_plan_of_a_folder_leaves_out_objects_that_repeat_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]%s}\n"
    listed = "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: d, name: e}}]\n"
    root = folder(
        tmp_path, a_dot_yaml=pod % ("a", ", nodeName: x, nodeName: y"), b_dot_yaml=pod % ("b", ""), c_dot_yaml=listed
    )
    assert main(["plan", "-f", root, "-o", "json"]) == 2
    answer = capsys.readouterr()
    assert [pod["pod"] for pod in json.loads(answer.out)["unschedulable"]] == ["default/b"]
    assert f"left out: {root}/a.yaml: document 1: line 4" in answer.err
    assert f"left out: {root}/c.yaml: document 1: items[0]" in answer.err
    assert main(["plan", "-f", f"{root}/a.yaml", "-f", f"{root}/b.yaml"]) == 2
    assert capsys.readouterr().out == ""


def test_a_folder_of_which_nothing_can_be_read_has_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", folder(tmp_path, a_dot_yaml="kind: [")]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith(f"fleetwright: {tmp_path}/a.yaml: ")


def test_a_document_that_is_no_yaml_leaves_those_around_it(tmp_path: Path) -> None:
    text = f"{POD % 'a'}---\nkind: {{y: ${{NAME}}}}\n---\n{POD % 'c'}"
    found = gather([folder(tmp_path, a_dot_yaml=text)])
    assert [(document.name, document.index) for document in found.documents] == [("a", 0), ("c", 2)]
    (problem,) = found.unreadable
    assert (problem.line, problem.error.index) == (5, 1)
    assert "${NAME}" in problem.error.problem


def test_validate_reports_a_file_that_cannot_be_read_beside_the_findings_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = folder(
        tmp_path,
        a_dot_yaml="{{ if }}\nkind: b\n",
        b_dot_yaml="apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: x}\n",
    )
    assert main(["validate", "-f", root, "-o", "json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [found["code"] for found in problems] == ["Unreadable", "InvalidValue"]


def test_a_plain_equals_sign_is_text() -> None:
    (document,) = parse("kind: X\nenum: [=, =~]", "x.yaml")
    assert document.object["enum"] == ["=", "=~"]


@pytest.mark.parametrize("field", ["patches: [{path: p.yaml}]", "patchesStrategicMerge: [p.yaml]"])
def test_a_patch_of_kustomize_is_no_object(tmp_path: Path, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = folder(tmp_path, kustomization_dot_yaml=field, p_dot_yaml=POD % "patch", a_dot_yaml=POD % "a")
    assert names(root) == ["a"]
    assert f"kustomize build {root}" in capsys.readouterr().err


@pytest.mark.parametrize("directive", ["$patch: delete\n", "spec: {containers: [{name: a, $patch: replace}]}\n"])
def test_a_merge_directive_makes_a_patch(tmp_path: Path, directive: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The kustomization that names it may lie elsewhere: a deleted Deployment was planned with its pods."""
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: patch}\n" + directive
    root = folder(tmp_path, a_dot_yaml=f"{POD % 'a'}---\n{text}", b_dot_yaml=text)
    assert [document.name for document in read([root])] == ["a"]
    assert "left out 2 files of Kustomize" in capsys.readouterr().err


def test_a_tool_renders_a_folder_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "kustomize"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nprintf '{(POD % 'rendered').replace(chr(10), chr(92) + 'n')}'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    root = folder(tmp_path / "in", kustomization_dot_yaml="resources: [a.yaml]", a_dot_yaml=POD % "a")
    assert [document.name for document in read([root], kustomize=True)] == ["rendered"]


def test_a_missing_tool_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    root = folder(tmp_path, Chart_dot_yaml="name: x")
    with pytest.raises(InputError, match="needs helm"):
        read([root], helm=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mkdocs.yml", "plugins: !!python/name:x y\n"),
        ("stack.yaml", "Resources: {A: {Type: T, B: !Ref C}}\n"),
        ("play.yml", "- hosts: {{ all }}\n"),
        ("tsconfig.json", '{\n // c\n "a": 1,}'),
    ],
)
def test_a_file_of_another_tool_may_be_unreadable_in_a_folder(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a kind and an apiVersion it is no object, whatever syntax it has: one such file ended `plan -f .`."""
    root = folder(tmp_path, a_dot_yaml=POD % "a")
    (tmp_path / name).write_text(text)
    assert names(root) == ["a"]
    assert f"left out 1 file of other tools (no kind and apiVersion): {root}/{name}" in capsys.readouterr().err
    with pytest.raises(InputError):
        read([f"{root}/{name}"])


def test_a_template_that_is_yaml_by_chance_is_no_object(tmp_path: Path) -> None:
    template = 'kind: Pod\napiVersion: v1\nmetadata: {name: "{{ .Release.Name }}"}\n'
    args = 'kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {nodeName: "{{ .Values.x }}"}\n'
    root = folder(tmp_path, Chart_dot_yaml="name: x", templates__a_dot_yaml=template, templates__b_dot_yaml=args)
    found = gather([root])
    assert found.documents == []
    assert [problem.is_template for problem in found.unreadable] == [True, True]
    assert f"helm template {root} > rendered.yaml" in found.unreadable[0].error.hint


def test_an_object_that_begins_on_the_line_of_its_marker_is_named_and_the_others_are_read() -> None:
    """The parser takes its first key for a text, and stops at the second."""
    problems: list[UnreadableDocument] = []
    pod = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n"
    text = f"{pod}--- {pod}---\n{pod}"
    assert len(parse(text, "a.yaml", problems=problems)) == 2
    (error,) = (problem.error for problem in problems)
    assert "cannot begin on the line of `---`; begin it on the next line" in error.problem
    assert error.place == "line 4, column 5"
    for same in ("--- {kind: Pod, apiVersion: v1}\n", "--- # a: b\nkind: Pod\n"):
        assert len(parse(same, "a.yaml")) == 1


@pytest.mark.parametrize(("head", "stops"), [(b"kind: Pod\n", True), (b"motd: |\n", False)])
def test_a_file_of_a_folder_that_is_not_utf8_stops_a_plan_only_if_it_is_an_object(
    tmp_path: Path, head: bytes, *, stops: bool
) -> None:
    root = folder(tmp_path, a_dot_yaml="kind: Pod\napiVersion: v1\nmetadata: {name: x}\n")
    (tmp_path / "b.yaml").write_bytes(head + b"  caf\xe9\n")
    found = gather([root])
    assert len(found.documents) == 1
    assert [problem.error.problem for problem in found.unreadable] == (
        [f"is not UTF-8 text (byte {len(head) + 5})"] if stops else []
    )
    assert bool(list(found.warnings())) != stops


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("\u00a0\u00a0name: x\n  labels: {}", "non-breaking spaces are before 'name:'"),
        ("<<<<<<< HEAD\n  name: x\n=======\n  name: y\n>>>>>>> b", "has a merge conflict"),
        ("  name: a: b", "a second `: ` on the line"),
        ("  name: [a", "a `[` before it has no `]`"),
    ],
)
def test_a_slip_in_yaml_is_named_as_its_writer_knows_it(line: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse(f"kind: Pod\nmetadata:\n{line}\nspec: {{}}\n", "a.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "<your-role>",
        "[[ cluster ]]",
        "#{cluster}",
        "%CLUSTER%",
        "${A}",
        "x-${CLUSTER_NAME}",
        "<<AZ>>",
        "<YOUR_ROLE>",
        "$(NAME)",
        "__NAME__",
        "$CLUSTER",
    ],
)
def test_placeholders(text: str) -> None:
    assert placeholder_in({"a": [text]})


@pytest.mark.parametrize("text", ["a < b", "price$", "{}", "$5", "a__b"])
def test_texts_that_are_none(text: str) -> None:
    assert not template_in({"a": [text]})


@pytest.mark.parametrize(
    ("name", "says", "command"),
    [
        ("main.tf", "is Terraform, not YAML", "terraform show -json PLAN | jq -r"),
        ("pool.jsonnet", "is Jsonnet, not YAML", "jsonnet pool.jsonnet | jq '.[]'"),
    ],
)
def test_a_program_that_makes_objects_is_named_with_what_runs_it(
    name: str, says: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text('resource "x" "y" {\n  a = 1 : 2\n}\n')
    with pytest.raises(InputError, match=says) as refused:
        read([name])
    assert command in str(refused.value.hint)


@pytest.mark.parametrize(
    ("name", "text", "says", "command"),
    [
        ("kustomization.yml", "kind: Kustomization\nresources: [a.yaml]\n", "of Kustomize", "kustomize build chart"),
        ("values.yaml", "replicas: 2\n", "of Helm", "helm template chart"),
        ("Chart.yaml", "apiVersion: v2\nname: a\n", "of Helm", "helm template chart"),
    ],
)
def test_a_file_of_a_tool_that_is_named_says_what_to_run(
    name: str, text: str, says: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told that apiVersion is required, which its tool does not want."""
    monkeypatch.chdir(tmp_path)
    folder(Path(), chart__Chart_dot_yaml="apiVersion: v2\nname: a\n")
    (Path("chart") / name).write_text(text)
    with pytest.raises(InputError, match=says) as refused:
        read([f"chart/{name}"])
    assert f"`{command} > rendered.yaml`" in str(refused.value.hint)


def test_variables_of_a_script_are_no_placeholders() -> None:
    """A label that is no text was blamed on the ${HOME} of a command."""
    container = {"name": "a", "command": ["sh", "-c", "echo ${HOME}"], "env": [{"name": "A", "value": "$(POD)"}]}
    assert not template_in({"spec": {"containers": [container]}})
    assert template_in({"spec": {"nodeName": "${NODE}"}})


@pytest.mark.parametrize("document", [[OBJECT, OBJECT], {"a.json": OBJECT}])
def test_objects_that_are_in_no_list_of_kubernetes_are_named_with_what_takes_them_out(document: Any) -> None:
    with pytest.raises(InputError, match=r"of [12] objects, which no API server accepts") as refused:
        parse(json.dumps(document), "pools.json")
    assert "`jq '.[]' pools.json > rendered.yaml`" in str(refused.value.hint)
    with pytest.raises(InputError, match="accepts") as refused:
        parse(json.dumps(document), "pools.yaml")
    assert "---" in str(refused.value.hint)


def test_text_right_after_the_mark_of_a_document_is_named() -> None:
    with pytest.raises(InputError, match="has text right after ---"):
        parse("---apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "a.yaml")


@pytest.mark.parametrize(("tool", "mark"), [("helm", "Chart.yaml"), ("kustomize", "kustomization.yaml")])
def test_no_folder_is_an_option_of_the_tool_that_renders_it(
    tool: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--post-renderer=x` is a name that a pull request can give a folder, and Helm would run x."""
    program = tmp_path / "bin" / tool
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (tmp_path / "repository" / "--post-renderer=x").mkdir(parents=True)
    (tmp_path / "repository" / "--post-renderer=x" / mark).write_text("name: x\nresources: []\n")
    monkeypatch.chdir(tmp_path / "repository")
    read(["."], helm=True, kustomize=True)
    assert "./--post-renderer=x" in (tmp_path / "asked").read_text().split()


def test_what_a_kustomization_may_add_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A base's Deployment often gets its selector from the labels of a kustomization, perhaps of another folder."""
    template = "template: {spec: {containers: [{name: c, image: i}]}}"
    base = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{{template}}}\n"
    root = folder(
        tmp_path,
        base__kustomization_dot_yaml="resources: [a.yaml]\n",
        base__a_dot_yaml=base,
        overlay__kustomization_dot_yaml="resources: [../base]\ncommonLabels: {app: a}\n",
    )
    assert main(["validate", "-f", root, "-o", "json"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["field"], problem["severity"]) == ("spec.selector", "warning")
    assert "--kustomize" in problem["message"]
    assert main(["validate", "-f", f"{root}/base/a.yaml"]) == 1
    (tmp_path / "overlay" / "kustomization.yaml").write_text("resources: [../base]\n")
    assert main(["validate", "-f", root]) == 1, "no kustomization adds anything"


def test_the_placeholder_of_an_auto_mode_pool_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = """apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: a}
      requirements: [{key: topology.kubernetes.io/zone, operator: In, values: ["<<AZ>>"]}]
"""
    assert main(["validate", "-f", folder(tmp_path, a_dot_yaml=pool)]) == 1
    assert "values[0]: has the placeholder <<AZ>>; fill it in first" in capsys.readouterr().out


def test_the_templates_of_a_chart_are_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "{{ if .Values.a }}\nkind: Pod\n---\n{{ end }}\nkind: {{ .Values.kind }}\n"
    root = folder(
        tmp_path,
        chart__Chart_dot_yaml="name: x\n",
        chart__templates__a_dot_yaml=template,
        chart__templates__b_dot_yaml=template,
        chart__templates__c_dot_yaml=template,
        d_dot_yaml=POD % "d",
    )
    main(["validate", "-f", root, "-o", "json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    (problem,) = [problem for problem in problems if problem["code"] == "Unreadable"]
    assert (problem["name"], problem["line"]) == (f"{root}/chart/templates/a.yaml", 1)
    assert f"{root}/chart has 2 more templates" in problem["message"]
