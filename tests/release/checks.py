"""The install test of each kind of file: it raises if the file is not fit, and returns what it measured."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import yaml
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from infra.packaging.bundles import bundle_of
from infra.packaging.sbom import SPECIFICATION
from infra.packaging.start import why_not_started
from infra.release.image import ENTRY
from infra.release.rewriting import references
from infra.release.version import Version
from installation.cluster_roles import manifests
from installation.wiring import ALL_BY_NAME
from tests.release import channel_checks, template_checks
from tests.release.tools import ROOT, MissingToolError, schemas, tool

EXAMPLES: Final = ROOT / "examples"
PLAN: Final = ("plan", "-f", str(EXAMPLES / "pools"), "-f", str(EXAMPLES / "workloads" / "shop.yaml"))


@dataclass(frozen=True, slots=True)
class Place:
    """A release's folder, an empty folder for the test, and the version that files must state."""

    folder: Path
    work: Path
    version: str

    def only(self, pattern: str) -> Path:
        """Return the one file of the release with this pattern."""
        (found,) = self.folder.glob(pattern)
        return found


def wheel(place: Place) -> str:
    """Install the wheel where nothing else is, and ask it."""
    built = place.only("*.whl")
    _check_record(built)
    python = place.work / "clean" / "bin" / "python"
    venv.create(python.parents[1], with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    _run([*pip, str(built)])
    size = sum(path.stat().st_size for path in python.parents[1].rglob("*") if path.is_file() and not path.is_symlink())
    program = str(python.parent / "fleetwright")
    _answers(program, place)
    _run([str(python.parent / "kubectl-fleetwright"), "--version"], {"PATH": f"{python.parent}:/usr/bin:/bin"})
    seconds = _seconds([program, "--version"])
    return f"no package is built from sources; {size // 10**6} MB installed; {seconds:.2f} s to --version"


def single_file(place: Place) -> str:
    """Run the file with nothing around it but an interpreter."""
    program = str(place.only("*.pyz"))
    around = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(place.work)}
    first = _seconds([program, "--version"], around)
    _answers(program, place, around)
    later = min(_seconds([program, "--version"], around) for _ in range(3))
    size = Path(program).stat().st_size // 10**6
    return f"{size} MB; {first:.1f} s to --version at the first run, {later:.2f} s at later ones"


def functions(place: Place) -> str:
    """Look for each zip that a template names, and for each handler in it."""
    zips = {path.name: zipfile.ZipFile(path) for path in (place.folder / "lambda").glob("*.zip")}
    templates = [json.loads(path.read_text()) for path in (place.folder / "cloudformation").glob("*.json")]
    named = {name for template in templates for name in _zips(template)}
    if named != set(zips):
        raise AssertionError(f"templates name {sorted(named)}, the release has {sorted(zips)}")
    for spec in ALL_BY_NAME.values():
        (archive,) = (zips[name] for name in zips if name.startswith(f"fleetwright-{bundle_of(spec).name}-"))
        module = spec.handler.rpartition(".")[0].replace(".", "/")
        if not {f"{module}.pyc", f"{module}.py"} & set(archive.namelist()):
            raise AssertionError(f"{archive.filename} has no {module}")
    sizes = ", ".join(
        f"{name} {(place.folder / 'lambda' / name).stat().st_size / 10**6:.1f} MB" for name in sorted(zips)
    )
    unstarted = why_not_started()
    started = (
        f"not started: {unstarted}" if unstarted else "`infra.packaging` started every function on Lambda's Python"
    )
    return f"{sizes}; {started}"


def charts(place: Place) -> str:
    """Read both charts, and let Helm judge them where it is."""
    for path in (place.folder / "charts").glob("*.tgz"):
        with tarfile.open(path) as archive:
            archive.extractall(place.work, filter="data")
    found = list(yaml.safe_load_all(_yaml(place.work / "fleetwright-crd" / "templates")))
    kinds = sorted(document["spec"]["names"]["kind"] for document in found if document)
    wanted = sorted(
        yaml.safe_load(path.read_text())["spec"]["names"]["kind"] for path in (ROOT / "crds").glob("*.yaml")
    )
    if kinds != wanted:
        raise AssertionError(f"the chart of definitions has {kinds}")
    try:
        helm = tool("helm")
    except MissingToolError as error:
        return f"both can be unpacked, and have the {len(kinds)} definitions; {error}"
    for name in ("fleetwright-crd", "fleetwright-access"):
        _run([helm, "lint", "--strict", str(place.work / name)])
    for values, wanted in (((), manifests()), (("--set", "shadow=true"), manifests(shadow=True))):
        chart = ["template", "x", str(place.work / "fleetwright-access"), "--kube-version", "1.33.1-eks-1", *values]
        made = [document for document in yaml.safe_load_all(_run([helm, *chart])) if document]
        if sorted(map(_identity, made)) != sorted(map(_identity, wanted)):
            raise AssertionError(f"helm template {' '.join(values)} makes other objects than infra.cluster_role")
    says = "helm lint and helm template make what infra.cluster_role prints"
    try:
        return f"{says}; {_conforms(helm, place.work)}"
    except MissingToolError as error:
        return f"{says}; {error}"


def _conforms(helm: str, work: Path) -> str:
    """Hold what both charts render against the API's schemas, of the oldest and the newest version that they are for."""
    judge, published = tool("kubeconform"), schemas("kubernetes")
    count = 0
    for version in ("1.31", "1.37"):
        folder = work / version
        folder.mkdir()
        for path in (published / f"v{version}.0-local-strict").glob(
            "*.json"
        ):  # as a server names them, which is not here
            schema = json.loads(path.read_text().replace("/api/_definitions.json", "_definitions.json"))
            schema.pop("$id", None)
            (folder / path.name).write_text(json.dumps(schema))
        location = f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
        for name, values in (("fleetwright-crd", ()), ("fleetwright-access", ()), ("fleetwright-access", ("shadow",))):
            given = [part for value in values for part in ("--set", f"{value}=true")]
            rendered = folder / f"{name}{''.join(values)}.yaml"
            rendered.write_text(
                _run([helm, "template", "x", str(work / name), "--kube-version", f"{version}.0", *given])
            )
            stated = json.loads(
                _run([judge, "-strict", "-summary", "-output", "json", "-schema-location", location, str(rendered)])
            )
            if not stated["summary"]["valid"] or stated["summary"]["skipped"]:
                raise AssertionError(f"kubeconform judges nothing in {name}: {stated['summary']}")
            count += stated["summary"]["valid"]
    return f"kubeconform finds {count} objects valid in Kubernetes 1.31 and 1.37"


def bill_of_materials(place: Place) -> str:
    """Compare the bill with what the single file holds."""
    bill = json.loads(place.only("*.cdx.json").read_text())
    listed = {component["name"]: component["version"] for component in bill["components"]}
    with zipfile.ZipFile(place.only("*.pyz")) as archive:
        folders = {name.split("/")[1] for name in archive.namelist() if ".dist-info/METADATA" in name}
    held = dict(folder.removesuffix(".dist-info").split("-", 1) for folder in folders)
    held = {name.replace("_", "-").replace(".", "-").lower(): version for name, version in held.items()}
    own = held.pop("fleetwright-eks")
    if own != Version(place.version).of_python or held != listed:
        raise AssertionError(f"the single file holds {held}, the bill lists {listed}")
    licensed = sum("licenses" in component for component in bill["components"])
    says = f"{len(listed)} packages as in the single file, {licensed} with a license; no vulnerabilities were looked up"
    inside = [zipfile.ZipFile(path).read("sbom.cdx.json") for path in sorted((place.folder / "lambda").glob("*.zip"))]
    try:
        judge = _bill_schema()
    except MissingToolError as error:
        return f"{says}; {error}"
    for stated in (bill, *map(json.loads, inside)):
        judge.validate(stated)
    return f"{says}; {1 + len(inside)} bills conform to CycloneDX' schema"


def _bill_schema() -> Draft7Validator:
    folder = schemas("cyclonedx")
    found = {path.name: json.loads(path.read_text()) for path in folder.glob("*.SNAPSHOT.schema.json")}
    whole = found[f"bom-{SPECIFICATION}.SNAPSHOT.schema.json"]
    # The schemas refer to each other by the names of these files, which their own ids lack.
    named = [(urljoin(whole["$id"], name), DRAFT7.create_resource(schema)) for name, schema in found.items()]
    return Draft7Validator(whole, registry=Registry().with_resources(named))


def image(place: Place) -> str:
    """Follow the image's digests from its index, unpack its layers, and run the program in them alone."""
    with tarfile.open(place.only("*.oci.tar")) as archive:
        contents = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}  # type: ignore[union-attr] - a file has content

    def blob(described: Mapping[str, Any]) -> bytes:
        content = contents[f"blobs/{described['digest'].replace(':', '/')}"]
        if len(content) != described["size"] or f"sha256:{sha256(content).hexdigest()}" != described["digest"]:
            raise AssertionError(f"{described['digest']} is not what the image says")
        return content

    (named,) = json.loads(contents["index.json"])["manifests"]
    manifest = json.loads(blob(named))
    config = json.loads(blob(manifest["config"]))
    layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    if [f"sha256:{sha256(layer).hexdigest()}" for layer in layers] != config["rootfs"]["diff_ids"]:
        raise AssertionError("the layers are not those of the configuration")
    root = place.work / "root"
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            archive.extractall(root, filter="data")
    size = sum(len(layer) for layer in layers) // 10**6
    if os.geteuid() != 0:
        raise MissingToolError(f"digests hold, {size} MB unpacked; not run: chroot needs root")
    shutil.copytree(EXAMPLES, root / "examples")
    (root / "tmp").mkdir(mode=0o777, exist_ok=True)
    inside = config["config"]
    around = dict(variable.split("=", 1) for variable in inside["Env"])
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
    command = [chroot, f"--userspec={inside['User']}", str(root), *inside["Entrypoint"]]
    if Version(place.version).of_python not in _run([*command, "--version"], around):
        raise AssertionError("--version says something else")
    if "on-demand" not in _run(
        [*command, "plan", "-f", "/examples/pools", "-f", "/examples/workloads/shop.yaml"], around
    ):
        raise AssertionError("the plan of the examples names no price")
    says = f"{len(layers)} layers, {size} MB unpacked; --version and a plan ran in them alone, with chroot, as the image's user"
    with tarfile.open(place.only("*.oci.tar")) as archive:
        archive.extractall(place.work / "layout", filter="data")
    for judge in (_taken_by_a_registry, _unpacked_by_umoci):
        try:
            says = f"{says}; {judge(place)}"
        except MissingToolError as error:
            says = f"{says}; {error}"
    return says


def _taken_by_a_registry(place: Place) -> str:
    """Push the layout to a registry on this machine, and let crane validate what the registry then has."""
    crane = tool("crane")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    image = f"127.0.0.1:{port}/fleetwright:{place.version}"
    serve = [crane, "registry", "serve", "--address", f"127.0.0.1:{port}"]
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as serving:  # noqa: S603
        try:
            _until_open(port)
            _run([crane, "push", "--insecure", str(place.work / "layout"), image])
            _run([crane, "validate", "--insecure", "--remote", image])
            config = json.loads(_run([crane, "config", "--insecure", image]))
        finally:
            serving.terminate()
    if config["config"]["Labels"]["org.opencontainers.image.version"] != place.version:
        raise AssertionError(f"the registry has {config['config']}")
    return "crane pushes it to a registry, and validates what the registry has"


def _until_open(port: int) -> None:
    for _ in range(300):
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("crane's registry did not begin to serve")


def _unpacked_by_umoci(place: Place) -> str:
    """Let umoci unpack the image to a runtime's bundle, and compare what a container would start."""
    bundle = place.work / "bundle"
    _run([tool("umoci"), "unpack", "--image", f"{place.work / 'layout'}:{place.version}", str(bundle)])
    process = json.loads((bundle / "config.json").read_text())["process"]
    if process["args"] != list(ENTRY) or (process["user"]["uid"], process["user"]["gid"]) != (65532, 65532):
        raise AssertionError(f"a container would start {process}")
    return "umoci makes a runtime's bundle of it"


CHECKS: Final[Mapping[str, Callable[[Place], str]]] = {
    "wheel": wheel,
    "single_file": single_file,
    "templates": lambda place: template_checks.templates(place.folder, place.work),
    "functions": functions,
    "charts": charts,
    "github_action": lambda place: channel_checks.github_action(place.folder, place.work),
    "gitlab_component": lambda place: channel_checks.gitlab_component(place.folder),
    "krew_manifest": lambda place: channel_checks.krew_manifest(place.folder, place.work),
    "homebrew_formula": lambda place: channel_checks.homebrew_formula(place.folder),
    "terraform_module": lambda place: channel_checks.terraform_module(place.folder, place.work),
    "bill_of_materials": bill_of_materials,
    "image": image,
}


def _answers(program: str, place: Place, around: Mapping[str, str] | None = None) -> None:
    stated = _run([program, "--version"], around)
    if Version(place.version).of_python not in stated:
        raise AssertionError(f"--version says {stated!r}")
    if "on-demand" not in _run([program, *PLAN], around):
        raise AssertionError("the plan of the examples names no price")
    _run([program, "validate", "-f", str(EXAMPLES / "pools")], around)
    if "fleetwright" not in _run([program, "man"], around):
        raise AssertionError("there is no manual page")


def _check_record(built: Path) -> None:
    """Check that every file of the wheel has the digest that its RECORD lists."""
    with zipfile.ZipFile(built) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        for name, digest, _ in csv.reader(io.StringIO(archive.read(record).decode())):
            wanted = base64.urlsafe_b64encode(sha256(archive.read(name)).digest()).decode().rstrip("=")
            if digest and digest != f"sha256={wanted}":
                raise AssertionError(f"{name} is not what the RECORD says")
        top = {name.split("/", 1)[0] for name in archive.namelist()}
    if {name for name in top if not name.endswith((".dist-info", ".data"))} != {"fleetwright_eks"}:
        raise AssertionError(f"the wheel adds {sorted(top)}")


def _zips(template: Mapping[str, Any]) -> set[str]:
    codes = [r["Properties"]["Code"] for r in template["Resources"].values() if r["Type"] == "AWS::Lambda::Function"]
    for code in codes:
        if "S3Key" in code and references(code) != {"CodeBucket", "CodePrefix"}:
            raise AssertionError(f"{code} is not where the parameters say")
    return {code["S3Key"]["Fn::Sub"].removeprefix("${CodePrefix}") for code in codes if "S3Key" in code}


def _identity(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)


def _yaml(folder: Path) -> str:
    return "\n---\n".join(path.read_text() for path in sorted(folder.glob("*.yaml")))


def _seconds(command: list[str], around: Mapping[str, str] | None = None) -> float:
    began = time.monotonic()
    _run(command, around)
    return time.monotonic() - began


def _run(command: list[str], around: Mapping[str, str] | None = None) -> str:
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "AWS_PROFILE", "KUBECONFIG")
    own = {key: value for key, value in os.environ.items() if key not in hidden} if around is None else dict(around)
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=own, timeout=900, cwd="/")  # noqa: S603
    return ran.stdout
