"""The files for other channels, each judged by the program that would read it, where that is here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

import yaml

from infra.release.archives import sha256
from tests.release.tools import ROOT, STACK_PROVIDER, MissingToolError, tool

EXAMPLES: Final = ROOT / "examples"

USES: Final = """
on: pull_request
permissions: {contents: read, pull-requests: write, security-events: write}
jobs:
  fleetwright:
    runs-on: ubuntu-latest
    steps:
    - uses: actions/checkout@v4
    - uses: ./action
      with: {files: pools workloads, from: base/pools base/workloads, package: fleetwright.whl}
"""
"""A workflow that uses the action, for actionlint, which checks a local action's inputs."""


MODULE_TEST: Final = """
mock_provider "aws" {}

variables {
  cluster_name = "prod"
  node_role    = "Nodes"
  region       = "eu-west-1"
  code_bucket  = "releases"
  settings     = { PollSeconds = "5" }
}

run "the_stack_has_the_name_the_template_and_the_parameters" {
  command = plan
  assert {
    condition     = aws_cloudformation_stack.fleetwright.name == "fleetwright-prod"
    error_message = "The command line looks for another name."
  }
  assert {
    condition     = startswith(aws_cloudformation_stack.fleetwright.template_url, "https://releases.s3.eu-west-1.amazonaws.com/")
    error_message = "The template is elsewhere."
  }
  assert {
    condition = alltrue([for name, value in { ClusterName = "prod", NodeRole = "Nodes", PollSeconds = "5" } :
      aws_cloudformation_stack.fleetwright.parameters[name] == value])
    error_message = "The stack gets other parameters."
  }
}

run "a_variant_that_is_not_released_is_refused" {
  command = plan
  variables { variant = "fleetwright-other" }
  expect_failures = [var.variant]
}

run "a_cluster_whose_stack_would_be_another_clusters_state_is_refused" {
  command = plan
  variables { cluster_name = "prod-state" }
  expect_failures = [var.cluster_name]
}
"""
"""What `terraform test` asks of the module, with a provider that creates nothing."""


def github_action(folder: Path, work: Path) -> str:
    """Run the action's script on the examples, with the checkout's command line, and let actionlint judge a use of it."""
    action = work / "action"
    shutil.copytree(folder / "github-action", action)
    stated = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
    for script in ("run.sh", "comment.sh"):
        _run(["bash", "-n", str(action / script)])
    made = run_script(action / "run.sh", work)
    if made["code"] != "0" or "nodes" not in made["markdown"] or json.loads(made["sarif"])["version"] != "2.1.0":
        raise AssertionError(f"the script made {made}")
    used = set(re.findall(r"inputs\.([a-z-]+)", (action / "action.yml").read_text(encoding="utf-8")))
    if used != set(stated["inputs"]):
        raise AssertionError(f"the action reads {sorted(used)}, and declares {sorted(stated['inputs'])}")
    says = "its script validates and compares the examples"
    try:
        linter = tool("actionlint")
    except MissingToolError as error:
        return f"{says}; {error}"
    workflows = work / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "use.yml").write_text(USES)
    _run(["git", "init", "--quiet", str(work)])
    _run([linter, "-no-color", str(workflows / "use.yml")], folder=work)
    return f"{says}; actionlint accepts a workflow that uses it"


def run_script(script: Path, work: Path) -> dict[str, str]:
    """Run the action's script as GitHub does; return what it noted and wrote."""
    program = work / "fleetwright"
    program.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m cli "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "FLEETWRIGHT": str(program),
        "GITHUB_OUTPUT": str(work / "output"),
        "GITHUB_STEP_SUMMARY": str(work / "summary.md"),
        "RUNNER_TEMP": str(work),
        "INPUT_FILES": f"{EXAMPLES / 'workloads' / 'shop.yaml'} {EXAMPLES / 'workloads' / 'gpu.yaml'}",
        "INPUT_FROM": str(EXAMPLES / "workloads" / "shop.yaml"),
        "INPUT_SHARED": str(EXAMPLES / "pools"),
        "INPUT_FAIL_ON": "pods-lost cost+500",
        "INPUT_CATALOG": "",
        "INPUT_PACKAGE": "",
        "INPUT_SARIF": "fleetwright.sarif",
    }
    _run(["bash", str(script)], folder=work, around=environment)
    noted = dict(line.split("=", 1) for line in (work / "output").read_text().splitlines())
    return {
        "code": noted["code"],
        "markdown": (work / noted["difference"]).read_text(),
        "sarif": (work / noted["sarif"]).read_text(),
    }


def gitlab_component(folder: Path) -> str:
    """Read both documents of the component, and look for each input that it uses."""
    text = (folder / "gitlab" / "fleetwright.yml").read_text(encoding="utf-8")
    header, jobs = yaml.safe_load_all(text)
    used = set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", text))
    if used != set(header["spec"]["inputs"]):
        raise AssertionError(f"it reads {sorted(used)}, and declares {sorted(header['spec']['inputs'])}")
    for job in jobs.values():
        _run(["bash", "-n"], given="\n".join(job["script"]))
    return "header and script can be read; no GitLab has run it"


def krew_manifest(folder: Path, work: Path) -> str:
    """Compare the digest, run the plugin from its archive, and let krew's validator judge the manifest."""
    manifest = folder / "krew" / "fleetwright.yaml"
    stated = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    (platform,) = stated["spec"]["platforms"]
    archive = folder / "krew" / platform["uri"].rpartition("/")[2]
    if platform["sha256"] != sha256(archive):
        raise AssertionError("the manifest has another digest than the archive")
    with zipfile.ZipFile(archive) as packed:
        if packed.namelist() != [platform["bin"], "LICENSE"]:
            raise AssertionError(f"the archive has {packed.namelist()}")
        plugin = Path(packed.extract(platform["bin"], work))
    plugin.chmod(0o755)
    around = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(work)}
    version = _run([str(plugin), "--version"], around=around).strip()
    try:
        validator = tool("validate-krew-manifest")
    except MissingToolError as error:
        return f"the plugin in the archive says {version}; {error}"
    _run([validator, "-skip-install", "-manifest", str(manifest)])
    says = f"the plugin in the archive says {version}; krew's validator accepts the manifest"
    try:
        krew = tool("krew")
    except MissingToolError as error:
        return f"{says}; {error}"
    home = work / "krew"
    placed = {**around, "PATH": f"{home / 'bin'}:{around['PATH']}", "KREW_ROOT": str(home)}
    _run([krew, "install", "--manifest", str(manifest), "--archive", str(archive)], around=placed)
    if _run([str(home / "bin" / "kubectl-fleetwright"), "--version"], around=placed).strip() != version:
        raise AssertionError("the installed plugin is another one")
    return f"{says}, and krew installs it"


def homebrew_formula(folder: Path) -> str:
    """Compare the digest with the wheel's, and let Ruby read the formula."""
    path = folder / "homebrew" / "fleetwright.rb"
    text = path.read_text(encoding="utf-8")
    (wheel,) = folder.glob("*.whl")
    if f'sha256 "{sha256(wheel)}"' not in text or wheel.name not in text:
        raise AssertionError("the formula names another wheel")
    _run([tool("ruby"), "-c", str(path)])
    return "the digest is the wheel's, and Ruby can read it; no brew has installed it"


def terraform_module(folder: Path, work: Path) -> str:
    """Let Terraform format, validate and plan the module, and compare its parameters with the template's."""
    module = folder / "terraform"
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(module.glob("*.tf")))
    template: dict[str, Any] = json.loads((folder / "cloudformation" / "fleetwright.template.json").read_text())
    needed = {name for name, stated in template["Parameters"].items() if "Default" not in stated}
    given = set(re.findall(r"^    (\w+) += var\.", text, re.MULTILINE))
    if not needed <= given <= set(template["Parameters"]):
        raise AssertionError(f"the module gives {sorted(given)}, the template needs {sorted(needed)}")
    if "@" in re.sub(r"#.*", "", text):
        raise AssertionError("a value was not filled in")
    program = tool("terraform")
    _run([program, "fmt", "-check", "-diff", str(module)], around={"PATH": "/usr/bin:/bin", "HOME": str(work)})
    says = "terraform fmt can read it, and it gives the template every parameter without a default"
    try:
        return f"{says}; {_planned(program, module, work)}"
    except MissingToolError as error:
        return f"{says}; {error}"


def _planned(program: str, module: Path, work: Path) -> str:
    """Validate and test the module with a provider of ours that has the stack's schema; a misspelt argument must be refused."""
    provider = Path(tool(STACK_PROVIDER))
    settings = work / "terraform.rc"
    settings.write_text(f'provider_installation {{\n  dev_overrides {{ "hashicorp/aws" = "{provider.parent}" }}\n}}\n')
    around = {"PATH": "/usr/bin:/bin", "HOME": str(work), "TF_CLI_CONFIG_FILE": str(settings)}
    copy = work / "module"
    shutil.copytree(module, copy)
    (copy / "module.tftest.hcl").write_text(MODULE_TEST)
    _run([program, "validate", "-no-color"], around=around, folder=copy)
    passed = _run([program, "test", "-no-color"], around=around, folder=copy)
    main = copy / "main.tf"
    main.write_text(main.read_text(encoding="utf-8").replace("template_url ", "template_uri "), encoding="utf-8")
    wrong = [program, "validate", "-no-color"]
    refused = subprocess.run(wrong, capture_output=True, text=True, check=False, env=around, cwd=copy)  # noqa: S603 - as above
    if refused.returncode == 0 or "template_uri" not in refused.stdout + refused.stderr:
        raise AssertionError("the provider accepts an argument that the stack has not")
    return f"terraform validate accepts it; terraform test: {passed.strip().splitlines()[-1]}"


def _run(
    command: list[str], *, around: dict[str, str] | None = None, folder: Path | None = None, given: str | None = None
) -> str:
    ran = subprocess.run(  # noqa: S603 - our own commands
        command, capture_output=True, text=True, check=True, timeout=600, env=around, cwd=folder, input=given
    )
    return ran.stdout
