"""What a release of Karpenter brings, beside what we have: the script of docs/engineering/following-karpenter.md.

python -m tests.oracle.following --provider OLD NEW --core OLD NEW    # folders of `go mod download`
    --programs OLD NEW --corpus FOLDER                                # two schedulers, and the scenarios they are asked
    --requests                                                        # the recorded requests to EC2 beside ours

It prints the rows of the page's table. A name of a release that stands nowhere here is `MISSING`: take it in, or write in
docs/explanation/vs-karpenter.md why not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.oracle.field_table import KINDS, ROOT, fields_of

SECONDS_MAX: Final = 1_800
NAMES_MAX: Final = 40
"""The most names that a row shows; a release changes fewer, and a wrong folder all of them."""

_CONSTRAINTS: Final = ("enum", "default", "minimum", "maximum", "maxItems", "minItems", "pattern", "type")
_SEARCHED: Final = ("core", "installation", "adapters", "docs/explanation", "docs/engineering/handbook")

_GROUPS: Final = {"provider": "karpenter.k8s.aws", "core": "karpenter.sh"}
_IN_GROUP: Final = re.compile(r'(?:apis\.)?Group \+ "/([a-zA-Z0-9.-]+)"')
_CONDITION: Final = re.compile(r'Condition(?:Type|Reason)\w+ *(?:string)? *= *"(\w+)"')
_GATES: Final = re.compile(r"type FeatureGates struct {(.*?)^}", re.MULTILINE | re.DOTALL)
_FLAG: Final = re.compile(r'Var\w*\(&[\w.]+, "([a-z][a-z0-9-]+)"')
_CODE: Final = re.compile(r'"([A-Z][A-Za-z]+(?:\.[A-Za-z]+)*)"')


def fields(old: Path, new: Path) -> list[str]:
    """Fields that the definitions gain or lose; those of kubelet are known by its own types."""
    before, after, ours = (set(fields_of(folder)) for folder in (old, new, ROOT / "crds"))
    changed = sorted(field for field in before ^ after if ".kubelet." not in field)
    return [f"{field} {'removed' if field in before else 'here' if field in ours else 'MISSING'}" for field in changed]


def values(old: Path, new: Path) -> list[str]:
    """Paths whose allowed values or defaults change, with both."""
    before, after = constraints(old), constraints(new)
    return [
        f"{path}: {before[path]} -> {after[path]}"
        for path in sorted(before.keys() & after.keys())
        if before[path] != after[path] and ".kubelet" not in path
    ]


def constraints(folder: Path) -> dict[str, str]:
    """Path -> what its schema demands."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            kind = (definition or {}).get("spec", {}).get("names", {}).get("kind")
            if kind in KINDS:
                newest = next(version for version in definition["spec"]["versions"] if version["storage"])
                found |= dict(_constraints(newest["schema"]["openAPIV3Schema"]["properties"]["spec"], f"{kind} spec"))
    return found


def _constraints(schema: Mapping[str, Any], at: str) -> Iterator[tuple[str, str]]:
    demanded = {name: schema[name] for name in _CONSTRAINTS if name in schema}
    demanded |= {name: sorted(demanded[name], key=str) for name in ("enum",) if name in demanded}
    yield at, json.dumps(demanded, sort_keys=True)
    for name, inner in schema.get("properties", {}).items():
        yield from _constraints(inner, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _constraints(schema["items"], f"{at}[]")


def names(module: str, folder: Path) -> set[str]:
    """Annotations, labels, taints, conditions and reasons in a module's API packages and controllers of classes."""
    found = set[str]()
    for path in _sources(folder, "pkg/apis", "pkg/controllers/nodeclass"):
        text = path.read_text()
        found |= {f"{_GROUPS[module]}/{name}" for name in _IN_GROUP.findall(text)}
        found |= set(_CONDITION.findall(text))
    return found


def options(folder: Path) -> set[str]:
    """Feature gates, and options of the command line."""
    text = (folder / "pkg/operator/options/options.go").read_text()
    gates = " ".join(_GATES.findall(text)).replace("bool", " bool ").split()
    return {name for name in gates if name[0].isupper()} | {f"--{name}" for name in _FLAG.findall(text)}


def codes(folder: Path) -> set[str]:
    """Codes of AWS's errors that the provider knows."""
    return set(_CODE.findall((folder / "pkg/errors/errors.go").read_text()))


def _sources(folder: Path, *parts: str) -> Iterator[Path]:
    for part in parts:
        for path in sorted((folder / part).rglob("*.go")):
            if not path.name.endswith("_test.go") and not path.name.startswith("zz_"):
                yield path


def changed(before: set[str], after: set[str]) -> list[str]:
    """The names that a release adds, marked as ours or not, and those that it removes."""
    added = [f"{name} {'here' if is_named_here(name) else 'MISSING'}" for name in sorted(after - before)]
    return added + [f"{name} removed" for name in sorted(before - after)]


def is_named_here(name: str) -> bool:
    """Whether the name, or what follows its group, stands in our code or in what people read.

    A code of AWS's is known with its prefix, too: a rule may be about all codes that begin so.
    """
    plain = name.removeprefix("--").rpartition("/")[2]
    return plain in _our_words() or ("." in plain and plain.partition(".")[0] in _our_words())


@cache
def _our_words() -> frozenset[str]:
    found = set[str]()
    for folder in _SEARCHED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md"):
                found |= set(re.findall(r"[A-Za-z][\w.-]*\w", path.read_text()))
    return frozenset(found)


def verdicts(program: Path, corpus: Path) -> dict[str, str]:
    """Scenario -> what the runners of a corpus say of a program."""
    found: dict[str, str] = {}
    for script, more in (("run.py", ()), ("run_disruption.py", ("--have", "feature-gates"))):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.json"
            command = [sys.executable, str(corpus / script), "--cmd", str(program), "--json", str(results), *more]
            subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)  # noqa: S603 - the corpus' own runner
            found |= {one["name"]: one["status"] for one in json.loads(results.read_text())["results"]}
    return found


def corpora(old: Path, new: Path, corpus: Path) -> list[str]:
    """The scenarios that the releases judge differently."""
    before, after = verdicts(old, corpus), verdicts(new, corpus)
    return [
        f"{name} {before.get(name)} -> {status}" for name, status in sorted(after.items()) if before.get(name) != status
    ]


def requests() -> list[str]:
    """The members of requests whose difference nobody has decided."""
    from tests.oracle.test_requests import decided, found_in, is_of

    return [
        f"{part} {member}: {kind}"
        for part in ("launch", "trial")
        for member, kind in sorted(found_in(part))
        if not any(is_of(member, row) and kind == of_row for row, of_row in decided(part))
    ]


def row(step: str, found: Iterable[str]) -> str:
    """A row of the page's table."""
    listed = list(found)
    more = f", and {len(listed) - NAMES_MAX} more" if len(listed) > NAMES_MAX else ""
    return f"| {step} | {', '.join(f'`{one}`' for one in listed[:NAMES_MAX]) or 'nothing'}{more} |\n"


def main() -> None:
    """Print the table of a release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--provider", "--core"):
        parser.add_argument(name, nargs=2, type=Path, required=True, metavar=("OLD", "NEW"))
    parser.add_argument("--programs", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--requests", action="store_true")
    given = parser.parse_args()
    sys.stdout.write("| step | found |\n| --- | --- |\n")
    sys.stdout.write("".join(row(*found) for found in table(given)))


def table(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Step and what it found, of each step that was asked for."""
    definitions = [folder / "pkg/apis/crds" for folder in given.provider]
    yield "fields", fields(*definitions)
    yield "values", values(*definitions)
    for module in ("core", "provider"):
        old, new = getattr(given, module)
        yield f"names of the {module}", changed(names(module, old), names(module, new))
        yield f"gates and options of the {module}", changed(options(old), options(new))
    yield "codes of errors", changed(*map(codes, given.provider))
    if given.programs and given.corpus:
        yield "scenarios judged otherwise", corpora(*given.programs, given.corpus)
    if given.requests:
        yield "requests that nobody has decided", requests()


if __name__ == "__main__":
    main()
