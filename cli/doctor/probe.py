"""The probes of `doctor --probe`: what the code believes of AWS, proven by reads and DryRuns that cost nothing.

Each probe names its calls, with the permission of each, and the entries of docs/engineering/aws-facts.md that it proves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from adapters.composition.command_line import region_of_prices
from cli.doctor.cluster_api import NoClusterError, NotAllowedError, NotAnsweredError, unanswered
from cli.doctor.network import OK, PROBLEM, UNKNOWN, Account, AccountAnswer, AccountFinding
from cli.doctor.roles import statements
from core.ami_families.al2023 import AL2023
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import LATEST
from core.api.objects import mapping, sequence
from core.launch.validation import DRY_RUN
from core.manifests.wire.resources import DAEMON_SETS, NODES
from core.model.values.quotas import STANDARD
from installation.wiring import FUNCTIONS

REPORT: Final = "fleetwright doctor --probe --record answers.json  # and report it with this file"
"""What to do where AWS answers otherwise than the book of facts says."""

PERMISSION_OF: Final[Mapping[str, str]] = {
    "service-quotas:GetAWSDefaultServiceQuota": "servicequotas:GetAWSDefaultServiceQuota",
    "service-quotas:ListServiceQuotas": "servicequotas:ListServiceQuotas",
    "sts:GetCallerIdentity": "none",
}
"""Calls whose permission has another name, or that need none."""


class Probe(NamedTuple):
    """One probe.

    Attributes:
        check: What it does; it is given its name, the account and the time.
        calls: The calls that it makes, `service:Operation`; a DryRun says so.
        facts: The entries of the book that it proves.
    """

    check: Callable[[str, Account, datetime], AccountFinding]
    calls: tuple[str, ...]
    facts: tuple[str, ...]

    def listed(self) -> list[dict[str, str]]:
        """Return each call with the permission that it needs."""
        bare = [call.removesuffix(_DRY) for call in self.calls]
        return [
            {"call": call, "permission": PERMISSION_OF.get(name, name)}
            for call, name in zip(self.calls, bare, strict=True)
        ]


_DRY: Final = " (DryRun)"


def probe(account: Account, now: datetime) -> Iterator[AccountFinding]:
    """Run every probe, in order. One that has no answer is `unknown`, and the next one runs."""
    for name, entry in PROBES.items():
        try:
            yield entry.check(name, account, now)
        except NoClusterError:
            yield AccountFinding(name, UNKNOWN, "there is no cluster to ask")
        except (NotAllowedError, NotAnsweredError) as error:
            yield AccountFinding(name, UNKNOWN, unanswered(error))


# The clock of this machine, by which tokens for the API server are signed.


SKEW_MAX: Final = timedelta(seconds=60)
"""AWS refuses requests that are five minutes off (docs/engineering/aws-facts.md#signed-requests); the URL in a token for EKS is
valid for 60 seconds from the moment that it states."""


def clock(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether this machine's clock agrees with AWS's."""
    answer = _required(account.answered("sts", "GetCallerIdentity"), "sts:GetCallerIdentity")
    headers = mapping(mapping(answer.body.get("ResponseMetadata")).get("HTTPHeaders"))
    try:
        there = datetime.strptime(str(headers.get("date")), "%a, %d %b %Y %H:%M:%S GMT").replace(
            tzinfo=answer.asked_at.tzinfo
        )
    except ValueError:
        return AccountFinding(name, UNKNOWN, "AWS's answer has no date")
    here = answer.asked_at + (answer.answered_at - answer.asked_at) / 2
    skew = here - there
    says = f"this machine's clock is {abs(skew.total_seconds()):.0f} s {'ahead' if skew > timedelta(0) else 'behind'}"
    if abs(skew) > SKEW_MAX:
        return AccountFinding(
            name, PROBLEM, f"{says}: tokens for the API server are refused", "timedatectl set-ntp true"
        )
    return AccountFinding(name, OK, says)


# What the functions' roles may do, by IAM's own simulator: it knows organizations' policies and boundaries.


SIMULATED_MAX: Final = 200
"""The most statements that are simulated; a deployment has some hundred and twenty."""

_ANY: Final = "anything"


def permissions(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether IAM allows each function what its own policy allows: an organization's policy or a boundary may not."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment makes the roles")
    denied, simulated = list[str](), 0
    for spec in FUNCTIONS:
        role = account.role_name(spec.name)
        for statement in statements(account, role):
            if statement.get("Effect") != "Allow" or simulated == SIMULATED_MAX:
                continue
            simulated += 1
            denied += [f"{spec.name} may not {refusal}" for refusal in _refused(account, account.role(role), statement)]
    if denied:
        more = f" and {len(denied) - _NAMED_MAX} more" if len(denied) > _NAMED_MAX else ""
        mends = "aws organizations list-policies --filter SERVICE_CONTROL_POLICY  # and the role's permissions boundary"
        return AccountFinding(name, PROBLEM, f"{'; '.join(denied[:_NAMED_MAX])}{more}", mends)
    return AccountFinding(name, OK, f"IAM allows all that {simulated} statements of {len(FUNCTIONS)} roles say")


_NAMED_MAX: Final = 5


def _refused(account: Account, role: str, statement: Mapping[str, Any]) -> Iterator[str]:
    """Yield each action of a statement that IAM's simulator refuses to the role, with whose policy refuses it."""
    answer = account.ask(
        "iam",
        "SimulatePrincipalPolicy",
        PolicySourceArn=role,
        ActionNames=_texts(statement.get("Action")),
        ResourceArns=[arn.replace("*", _ANY) if arn != "*" else arn for arn in _texts(statement.get("Resource"))][:1],
        ContextEntries=list(_context(mapping(statement.get("Condition")))),
    )
    for result in mapping(answer).get("EvaluationResults", ()):
        if result.get("EvalDecision") == "allowed":
            continue
        organization = mapping(result.get("OrganizationsDecisionDetail")).get("AllowedByOrganizations", True)
        boundary = mapping(result.get("PermissionsBoundaryDecisionDetail")).get("AllowedByPermissionsBoundary", True)
        by = "an organization's policy" if not organization else "its boundary" if not boundary else "its own policies"
        yield f"{result['EvalActionName']} on {result.get('EvalResourceName', '*')}: {by}"


def _context(condition: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield values with which the conditions of a statement hold."""
    for operator, keys in condition.items():
        for key, values in mapping(keys).items():
            texts = [value.replace("*", _ANY) for value in _texts(values)]
            is_list = ":" in operator
            yield {
                "ContextKeyName": key,
                "ContextKeyType": "stringList" if is_list else "string",
                "ContextKeyValues": texts if is_list else texts[:1],
            }


# A launch as the functions make it, as DryRun with the credentials of who asks.


_TAGS: Final = [{"Key": "fleetwright.dev/probe", "Value": "doctor"}]
_PROBED_TYPE: Final = "m5.large"
_ORGANIZATION: Final = "service control policy"


def launch(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether EC2 would launch: an instance with tags on all that it creates, IMDSv2 and an encrypted volume."""
    described = account.described()
    networks = mapping(described.get("resourcesVpcConfig"))
    subnets = sequence(networks.get("subnetIds"))
    image = _image(account, str(described.get("version") or ""))
    if not image or not subnets:
        return AccountFinding(name, UNKNOWN, "the cluster has no subnet, or AWS publishes no image for its version")
    group = networks.get("clusterSecurityGroupId")
    interface = {"DeviceIndex": 0, "SubnetId": subnets[0], **({"Groups": [group]} if group else {})}
    answer = account.answered(
        "ec2",
        "RunInstances",
        DryRun=True,
        MinCount=1,
        MaxCount=1,
        ImageId=image,
        InstanceType=_PROBED_TYPE,
        NetworkInterfaces=[interface],
        MetadataOptions={"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeType": "gp3", "VolumeSize": 20}}
        ],
        TagSpecifications=[
            {"ResourceType": kind, "Tags": _TAGS} for kind in ("instance", "volume", "network-interface")
        ],
    )
    if answer.code == DRY_RUN:  # DryRunOperation
        return AccountFinding(name, OK, f"EC2 would launch {_PROBED_TYPE} from {image} into {subnets[0]}")
    if answer.is_denied and _ORGANIZATION not in answer.message:
        raise NotAllowedError("ec2:RunInstances")
    says = f"EC2 would not launch: {answer.code or 'no error'}: {_ENCODED.sub('', answer.message)[:300]}"
    encoded = _ENCODED.search(answer.message)
    mends = f"aws sts decode-authorization-message --encoded-message {encoded.group(1)}" if encoded else REPORT
    return AccountFinding(name, PROBLEM, says, mends)


_ENCODED: Final = re.compile(r"\s*Encoded authorization failure message:\s*(\S+)")


# Quotas of the account: vCPUs, rules of the bus, roles and profiles.


VCPUS_MIN: Final = 16
"""vCPUs below which a cluster is scarcely useful; new accounts begin with five."""

RULES_MAX: Final = 300
"""EventBridge's quota of rules of a bus."""

_RULES_OF_A_CLUSTER: Final = sum(bool(spec.rules) for spec in FUNCTIONS)


def quotas(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether quotas leave room for nodes and for a deployment."""
    says, problems, mends = list[str](), list[str](), list[str]()
    tokens = ("NextToken", "NextToken")
    listed = account.every("service-quotas", "ListServiceQuotas", "Quotas", tokens, ServiceCode="ec2", MaxResults=100)
    applied = {str(quota.get("QuotaCode")): quota.get("Value") for quota in listed}
    for kind, code in (("on-demand", STANDARD.on_demand), ("spot", STANDARD.spot)):
        value = applied.get(code)
        if value is None:
            answer = account.ask("service-quotas", "GetAWSDefaultServiceQuota", ServiceCode="ec2", QuotaCode=code)
            value = mapping(mapping(answer).get("Quota")).get("Value")
        if value is None:
            says.append(f"no quota of {kind} vCPUs is listed")
        elif value < VCPUS_MIN:
            problems.append(f"{value:.0f} {kind} vCPUs of the usual families")
            desired = f"--service-code ec2 --quota-code {code} --desired-value {4 * VCPUS_MIN}"
            mends.append(f"aws service-quotas request-service-quota-increase --region {account.region} {desired}")
        else:
            says.append(f"{value:.0f} {kind} vCPUs")
    room = list(_room(account))
    problems += [sentence for sentence, is_enough in room if not is_enough]
    says += [sentence for sentence, is_enough in room if is_enough]
    if problems:
        return AccountFinding(name, PROBLEM, f"only {'; '.join(problems)}", " && ".join(mends) or _QUOTAS_PAGE)
    return AccountFinding(name, OK, "; ".join(says))


_QUOTAS_PAGE: Final = "aws service-quotas list-service-quotas --service-code iam  # and ask for more"


def _room(account: Account) -> Iterator[tuple[str, bool]]:
    """Yield what is free, and whether it suffices for a further cluster, or for one that is deployed already."""
    wanted = 0 if account.is_deployed() else 1
    rules = sum(1 for _ in account.every("events", "ListRules", "Rules", ("NextToken", "NextToken"), Limit=100))
    yield f"{RULES_MAX - rules} rules of the bus are free", RULES_MAX - rules >= wanted * _RULES_OF_A_CLUSTER
    summary = mapping(mapping(account.ask("iam", "GetAccountSummary")).get("SummaryMap"))
    for what, needed in (("Roles", len(FUNCTIONS) + 1), ("InstanceProfiles", 1)):
        if f"{what}Quota" in summary:
            free = int(summary[f"{what}Quota"]) - int(summary.get(what, 0))
            spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", what).lower()
            yield f"{free} {spelled} are free", free >= wanted * needed


# How late EKS delivers the audit log.


LAG_WINDOW: Final = timedelta(minutes=30)
LAG_LINES: Final = 1000
LAG_MAX: Final = timedelta(seconds=60)
"""A median lag beyond which the schedule, once a minute, is faster."""


def log_lag(name: str, account: Account, now: datetime) -> AccountFinding:
    """How long lines of the audit log take from the API server to CloudWatch."""
    lags = _audit_lags(account, now)
    if not lags:
        return AccountFinding(name, UNKNOWN, f"no line of the audit log in the last {LAG_WINDOW.seconds // 60} minutes")
    p50, p99 = percentiles(lags)
    says = f"{len(lags)} lines of the audit log came {p50:.0f} s late at the median, {p99:.0f} s at the 99th percentile"
    if p50 > LAG_MAX.total_seconds():
        return AccountFinding(name, PROBLEM, says, "npx --no-install cdk deploy --all -c lookSeconds=15")
    return AccountFinding(name, OK, says)


def _audit_lags(account: Account, now: datetime) -> list[float]:
    """Ask for the latest lines."""
    events = account.ask(
        "logs",
        "FilterLogEvents",
        logGroupName=f"/aws/eks/{account.cluster}/cluster",
        logStreamNamePrefix="kube-apiserver-audit",
        startTime=int((now - LAG_WINDOW).timestamp() * 1000),
        endTime=int(now.timestamp() * 1000),
        limit=LAG_LINES,
    )
    return lags_of(events)


def lags_of(answer: Mapping[str, Any] | None) -> list[float]:
    """Return the seconds from the end of each audit event in an answer to its ingestion."""
    return [
        max(0.0, (event["ingestionTime"] - _ended(event)) / 1000)
        for event in mapping(answer).get("events", ())
        if "ingestionTime" in event and "timestamp" in event
    ]


def _ended(event: Mapping[str, Any]) -> float:
    """Return when the API server answered, in milliseconds: what the line says, else the time of the log's agent."""
    stage = _STAGE.search(str(event.get("message") or ""))
    if stage is None:
        return float(event["timestamp"])
    return datetime.fromisoformat(stage.group(1)).timestamp() * 1000


_STAGE: Final = re.compile(r'"stageTimestamp":\s*"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z)')


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile, each a value that was seen."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2], ordered[(len(ordered) - 1) * 99 // 100]


# Rules of EC2's requests that only a refusal shows.


_FILTER_VALUES: Final = [f"i-{number:017x}" for number in range(201)]
_NO_GROUP: Final = "pg-00000000000000000"


def ec2_rules(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether EC2 refuses and takes what the code expects of it."""
    ids: dict[str, Any] = {"Filters": [{"Name": "instance-id", "Values": _FILTER_VALUES}]}
    fewer: dict[str, Any] = {"Filters": [{"Name": "instance-id", "Values": _FILTER_VALUES[:200]}]}
    tagged: dict[str, Any] = {"Filters": [{"Name": "tag:fleetwright.dev/probe", "Values": ["doctor"]}]}
    others = [
        difference
        for difference in (
            _otherwise("201 values of a filter", account.answered("ec2", "DescribeInstances", **ids), "FilterLimit"),
            _otherwise("200 unknown ids", account.answered("ec2", "DescribeInstances", **fewer), ""),
            _otherwise(
                "a placement group that does not exist",
                account.answered("ec2", "DescribePlacementGroups", GroupIds=[_NO_GROUP]),
                "InvalidPlacementGroup",
            ),
            _otherwise("reservations by tag", account.answered("ec2", "DescribeCapacityReservations", **tagged), ""),
        )
        if difference
    ]
    if others:
        return AccountFinding(name, PROBLEM, f"EC2 answers otherwise than expected: {'; '.join(others)}", REPORT)
    return AccountFinding(name, OK, "EC2 limits filters, names unknown groups and filters reservations as expected")


def _otherwise(call: str, answer: AccountAnswer, expected: str) -> str:
    """Return what differs from the expected beginning of a code; empty is success. Raises NotAllowedError."""
    if answer.is_denied:
        raise NotAllowedError(f"the call with {call}")
    matches = answer.code.startswith(expected) if expected else not answer.code
    return "" if matches else f"{call}: {answer.code or 'accepted'}, expected {expected or 'an answer'}"


def types(name: str, account: Account, _: datetime) -> AccountFinding:
    """Which instance types take no encrypted volumes; classes with such volumes leave them out."""
    unable = {"Name": "ebs-info.encryption-support", "Values": ["unsupported"]}
    listing = account.ask("ec2", "DescribeInstanceTypes", Filters=[unable], MaxResults=100)
    names = sorted(str(described["InstanceType"]) for described in mapping(listing).get("InstanceTypes", ()))
    return AccountFinding(name, OK, f"encrypted volumes are left to all types but {', '.join(names) or 'none'}")


def prices(name: str, account: Account, now: datetime) -> AccountFinding:
    """Whether the two sources of prices answer."""
    where = region_of_prices(account.region)
    products = account.answered(
        "pricing",
        "GetProducts",
        region=where,
        ServiceCode="AmazonEC2",
        FormatVersion="aws_v1",
        MaxResults=1,
        Filters=[{"Type": "TERM_MATCH", "Field": "regionCode", "Value": account.region}],
    )
    listed = _required(products, "pricing:GetProducts").body.get("PriceList")
    product = json.loads(str(listed[0])) if listed else {}
    history = account.ask(
        "ec2", "DescribeSpotPriceHistory", StartTime=now, MaxResults=1000, ProductDescriptions=["Linux/UNIX"]
    )
    spot = mapping(history).get("SpotPriceHistory", ())
    silent = [
        source
        for source, answer in (("the price list", mapping(product).get("terms")), ("spot prices", spot))
        if not answer
    ]
    if silent:
        reads = f"aws pricing get-products --region {where} --service-code AmazonEC2 --max-items 1"
        return AccountFinding(name, PROBLEM, f"no answer has {' and '.join(silent)}", reads)
    return AccountFinding(name, OK, f"the price list answers in {where}, and {len(spot)} spot prices are on a page")


# Images, kubelets and credentials of pods.


_FAMILIES: Final = (AL2023, BOTTLEROCKET)


def images(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether AWS publishes images for the cluster's version where the families look for them, and EC2 has them."""
    version = str(account.described().get("version") or "")
    paths = [parameter.path for family in _FAMILIES for parameter in family.images(version, LATEST)]
    ids, missing = _parameters(account, paths)
    if missing:
        says = f"AWS publishes no image for Kubernetes {version} as {', '.join(missing[:3])}"
        return AccountFinding(
            name, PROBLEM, says, f"aws ssm get-parameter --region {account.region} --name {missing[0]}"
        )
    described_images = account.ask("ec2", "DescribeImages", ImageIds=sorted(set(ids.values())))
    existing = {
        str(image["ImageId"])
        for image in mapping(described_images).get("Images", ())
        if image.get("State") == "available"
    }
    if lost := sorted(set(ids.values()) - existing):
        return AccountFinding(name, PROBLEM, f"EC2 does not have the published images {', '.join(lost)}", REPORT)
    return AccountFinding(
        name,
        OK,
        f"{len(ids)} parameters of {', '.join(family.alias for family in _FAMILIES)} name {len(existing)} images",
    )


def _image(account: Account, version: str) -> str:
    """Return the image of plain x86 machines; empty if there is none."""
    paths = [image.path for image in AL2023.images(version, LATEST) if "/x86_64/standard/" in image.path]
    ids, _ = _parameters(account, paths)
    return next(iter(ids.values()), "")


_NAMES_MAX: Final = 10
"""Names in a GetParameters request."""


def _parameters(account: Account, paths: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return path → value, and the paths of parameters that do not exist."""
    wanted, values, missing = list(paths), dict[str, str](), list[str]()
    for start in range(0, len(wanted), _NAMES_MAX):
        parameters = mapping(account.ask("ssm", "GetParameters", Names=wanted[start : start + _NAMES_MAX]))
        values |= {str(parameter["Name"]): str(parameter["Value"]) for parameter in parameters.get("Parameters", ())}
        missing += [str(parameter) for parameter in parameters.get("InvalidParameters", ())]
    return values, missing


KUBELETS_BEHIND_MAX: Final = 3
"""Minor versions by which a kubelet may be older than the API server."""

_MINOR: Final = re.compile(r"v?1\.(\d+)")


def kubelets(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each node's kubelet has a version that the API server supports."""
    server = account.api.version()
    stated = _MINOR.match(server)
    if stated is None:
        return AccountFinding(name, UNKNOWN, f"the API server's version is {server}")
    minor, wrong, counted = int(stated.group(1)), list[str](), dict[str, int]()
    for node in account.api.list(NODES):
        kubelet = str(mapping(mapping(node.get("status")).get("nodeInfo")).get("kubeletVersion") or "")
        counted[kubelet] = counted.get(kubelet, 0) + 1
        minor_match = _MINOR.match(kubelet)
        if minor_match is None or not 0 <= minor - int(minor_match.group(1)) <= KUBELETS_BEHIND_MAX:
            wrong.append(f"{node['metadata']['name']} ({kubelet or 'unknown'})")
    if wrong:
        says = f"kubelets beside the API server {server} that Kubernetes does not support: {', '.join(wrong[:5])}"
        return AccountFinding(name, PROBLEM, says, f"kubectl drain {wrong[0].partition(' ')[0]} --ignore-daemonsets")
    versions = ", ".join(f"{count} of {kubelet}" for kubelet, count in sorted(counted.items())) or "there is no node"
    return AccountFinding(name, OK, f"the API server is {server}; kubelets: {versions}")


AGENT: Final = "eks-pod-identity-agent"
"""Name of the add-on and of its DaemonSet."""


def pod_identity(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether pods on new nodes get the credentials that associations promise."""
    tokens = ("nextToken", "nextToken")
    associations = list(
        account.every("eks", "ListPodIdentityAssociations", "associations", tokens, clusterName=account.cluster)
    )
    if not associations:
        return AccountFinding(name, OK, "no pod uses EKS Pod Identity")
    addons = account.every("eks", "ListAddons", "addons", tokens, clusterName=account.cluster)
    summary = f"{len(associations)} service accounts use EKS Pod Identity"
    if any(association.get("serviceAccount") == "karpenter" for association in associations):
        summary += ", Karpenter's among them"
    if AGENT in addons or account.api.find(DAEMON_SETS, AGENT, "kube-system") is not None:
        return AccountFinding(name, OK, f"{summary}, and its agent is installed")
    create = f"aws eks create-addon --region {account.region} --cluster-name {account.cluster} --addon-name {AGENT}"
    return AccountFinding(name, PROBLEM, f"{summary}, and no node has its agent", create)


def _required(answer: AccountAnswer, call: str) -> AccountAnswer:
    """Return the answer of a call that must succeed. Raises NotAllowedError, NotAnsweredError."""
    if answer.is_denied:
        raise NotAllowedError(call)
    if answer.code:
        raise NotAnsweredError(f"{call}: {answer.message or answer.code}")
    return answer


def _texts(written: object) -> list[str]:
    return (
        [written] if isinstance(written, str) else [str(text) for text in written] if isinstance(written, list) else []
    )


_OF_STACK: Final = ("cloudformation:DescribeStacks", "cloudformation:ListStackResources")
_OF_ROLES: Final = (
    "iam:ListRolePolicies",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
)

PROBES: Final[dict[str, Probe]] = {
    "clock": Probe(clock, ("sts:GetCallerIdentity",), ("signed-requests", "eks-tokens")),
    "permissions": Probe(
        permissions,
        (*_OF_STACK, *_OF_ROLES, "sts:GetCallerIdentity", "iam:SimulatePrincipalPolicy"),
        ("encoded-denials", "condition-keys"),
    ),
    "launch": Probe(
        launch,
        ("eks:DescribeCluster", "ssm:GetParameters", f"ec2:RunInstances{_DRY}"),
        ("dry-run-answers", "dry-run-context"),
    ),
    "quotas": Probe(
        quotas,
        (
            "service-quotas:ListServiceQuotas",
            "service-quotas:GetAWSDefaultServiceQuota",
            "cloudformation:DescribeStacks",
            "events:ListRules",
            "iam:GetAccountSummary",
        ),
        ("vcpu-quotas", "applied-quotas"),
    ),
    "log-lag": Probe(log_lag, ("logs:FilterLogEvents",), ("audit-log-lag",)),
    "ec2-rules": Probe(
        ec2_rules,
        ("ec2:DescribeInstances", "ec2:DescribePlacementGroups", "ec2:DescribeCapacityReservations"),
        ("filter-values", "unknown-ids", "placement-group-ids", "reservation-tag-filters"),
    ),
    "types": Probe(types, ("ec2:DescribeInstanceTypes",), ("unencryptable-types",)),
    "prices": Probe(
        prices,
        ("pricing:GetProducts", "ec2:DescribeSpotPriceHistory"),
        ("pricing-regions", "price-pages", "spot-price-history"),
    ),
    "images": Probe(images, ("eks:DescribeCluster", "ssm:GetParameters", "ec2:DescribeImages"), ("image-parameters",)),
    "kubelets": Probe(kubelets, ("eks:DescribeCluster",), ("kubelet-skew",)),
    "pod-identity": Probe(
        pod_identity, ("eks:ListPodIdentityAssociations", "eks:ListAddons", "eks:DescribeCluster"), ("pod-identity",)
    ),
}
"""Name → probe."""
