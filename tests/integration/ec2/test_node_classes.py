"""What an EC2NodeClass resolves to in an account."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.aws.ec2.fleet import EC2Turns
from adapters.ports import JsonObject, ThrottledError, TransientError
from core import labels
from core.model.values.requirements import Requirement
from tests.builders import NOW, a_pool, a_type
from tests.integration.ec2.conftest import DISCOVERY, VERSION, Account, a_manifest, set_parameter


def condition(status: JsonObject, name: str) -> JsonObject:
    found: JsonObject = next(c for c in status["conditions"] if c["type"] == name)
    return found


def amis(status: JsonObject) -> dict[str, set[str]]:
    """Image → its requirements as text."""
    return {
        ami["id"]: {
            f"{r['key'].rpartition('/')[2]} {r['operator']} {','.join(r.get('values', ()))}".strip()
            for r in ami["requirements"]
        }
        for ami in status["amis"]
    }


def test_a_class_that_resolves_is_ready(account: Account) -> None:
    """Otherwise, no NodePool of it would ever launch."""
    status = account.cloud.resolve(a_manifest())
    assert condition(status, "Ready")["status"] == "True"
    assert condition(status, "Ready")["observedGeneration"] == 3
    assert [s["zone"] for s in status["subnets"]] == ["us-east-1b", "us-east-1a", "us-east-1b"]
    assert status["subnets"][0]["id"] == account.subnets["b23"]
    assert status["subnets"][0]["zoneID"] == "use1-az1"
    assert all(set(subnet) == {"id", "zone", "zoneID"} for subnet in status["subnets"]), "the form is Karpenter's"
    assert status["securityGroups"] == [{"id": account.group, "name": "nodes"}]


def test_subnets_with_few_addresses_are_told_beside_the_status(account: Account) -> None:
    """A plan takes no more of them than there are."""
    resolved = account.cloud.resolve(a_manifest(ipPrefixCount=1))
    assert resolved["subnetAddresses"]["perNode"] == 17
    few = resolved["subnetAddresses"]["free"]
    assert few
    assert set(few) <= {subnet["id"] for subnet in resolved["subnets"]}


def test_each_architecture_gets_its_image(account: Account) -> None:
    """Otherwise, arm64 nodes would be given amd64 images, and plain ones images with GPU drivers."""
    plain = {"instance-gpu-count DoesNotExist", "instance-accelerator-count DoesNotExist"}
    assert amis(account.cloud.resolve(a_manifest())) == {
        account.images["x86_64"]: {"arch In amd64", *plain},
        account.images["arm64"]: {"arch In arm64", *plain},
    }


def test_an_alias_may_be_pinned(account: Account) -> None:
    """A pinned class must not change to a new image by itself."""
    pinned = account.register("pinned")
    root = f"/aws/service/eks/optimized-ami/{VERSION}/amazon-linux-2023/x86_64/standard"
    set_parameter(f"{root}/amazon-eks-node-al2023-x86_64-standard-{VERSION}-v20260101/image_id", pinned)
    status = account.cloud.resolve(a_manifest(amiSelectorTerms=[{"alias": "al2023@v20260101"}]))
    assert [ami["id"] for ami in status["amis"]] == [pinned]


def test_bottlerocket_images_serve_neuron_too(account: Account) -> None:
    """Otherwise, Inferentia nodes would have no image, although Bottlerocket's standard one has the drivers."""
    image = account.register("bottlerocket-aws-k8s-v1.46.0")
    set_parameter(f"/aws/service/bottlerocket/aws-k8s-{VERSION}/x86_64/latest/image_id", image)
    status = account.cloud.resolve(a_manifest(amiSelectorTerms=[{"alias": "bottlerocket@latest"}]))
    assert [ami["id"] for ami in status["amis"]] == [image, image]
    assert {r["operator"] for ami in status["amis"] for r in ami["requirements"] if "accelerator" in r["key"]} == {
        "Exists",
        "DoesNotExist",
    }


@pytest.mark.parametrize("by", ["id", "name", "ssmParameter", "tags"])
def test_images_are_found_by_every_kind_of_term(by: str, account: Account) -> None:
    """Users with their own images select them in any of these ways."""
    image = account.register(f"own-{by}")
    account.ec2.create_tags(Resources=[image], Tags=[{"Key": "use", "Value": by}])
    set_parameter("/own/image", image)
    term: Any = {"id": image, "name": "own-name", "ssmParameter": "/own/image", "tags": {"use": by}}[by]
    status = account.cloud.resolve(a_manifest(amiFamily="AL2023", amiSelectorTerms=[{by: term}]))
    assert [ami["id"] for ami in status["amis"]] == [image]


def test_images_for_machines_that_cannot_be_nodes_are_left_out(account: Account) -> None:
    """A team's name or tag matches its Mac images too, and every type would boot from one of them."""
    mac, own = account.register("team-mac", "arm64_mac"), account.register("team-linux")
    account.ec2.create_tags(Resources=[mac, own], Tags=[{"Key": "team", "Value": "a"}])
    status = account.cloud.resolve(a_manifest(amiFamily="AL2023", amiSelectorTerms=[{"tags": {"team": "a"}}]))
    assert [ami["id"] for ami in status["amis"]] == [own]


@pytest.mark.parametrize(
    ("spec", "name", "reason"),
    [
        ({"subnetSelectorTerms": [{"tags": {"no": "such"}}]}, "SubnetsReady", "SubnetsNotFound"),
        ({"securityGroupSelectorTerms": [{"name": "no-such"}]}, "SecurityGroupsReady", "SecurityGroupsNotFound"),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0123"}]}, "AMIsReady", "AMINotFound"),
        ({"amiSelectorTerms": [{"alias": "al2@latest"}]}, "AMIsReady", "UnsupportedAlias"),
        ({"role": "NoSuchRole"}, "InstanceProfileReady", "InstanceProfileNotFound"),
        ({"userData": "MIME-Version: 1.0\n\nx"}, "ValidationSucceeded", "InvalidConfiguration"),
        ({"blockDeviceMappings": [{"ebs": {}}]}, "ValidationSucceeded", "InvalidSpec"),
        ({"kubelet": {"maxPods": -1}}, "ValidationSucceeded", "InvalidKubeletConfiguration"),
        ({"kubelet": {"maxPod": 20}}, "ValidationSucceeded", "InvalidKubeletConfiguration"),
        ({"kubelet": {"maxPods": "vcpus * 10"}}, "ValidationSucceeded", "KubeletExpressionsDisabled"),
        ({"kubelet": {"kubeReserved": {"cpu": "vcpus * 10"}}}, "ValidationSucceeded", "KubeletExpressionsDisabled"),
        ({"tags": ["not", "a", "map"]}, "ValidationSucceeded", "InvalidSpec"),
    ],
)
def test_unresolved_fields_are_named_and_the_class_is_not_ready(
    spec: dict[str, Any], name: str, reason: str, account: Account
) -> None:
    """Otherwise, every launch would fail, or the user would search in the wrong place."""
    status = account.cloud.resolve(a_manifest(**spec))
    assert (condition(status, name)["status"], condition(status, name)["reason"]) == ("False", reason)
    assert condition(status, "Ready")["status"] == "False"
    assert condition(status, "Ready")["message"]


ASKED = ["CreateFleet", "CreateLaunchTemplate", "RunInstances"]


@pytest.mark.parametrize("operation", ASKED)
def test_a_class_that_ec2_denies_is_not_ready_and_has_its_message(operation: str, account: Account) -> None:
    """Otherwise, the first to notice a missing permission would be the pods that wait for a node."""
    said = "You are not authorized to perform this operation. Encoded authorization failure message: abc"
    account.denied = {operation: ("UnauthorizedOperation", said)}
    status = account.cloud.resolve(a_manifest())
    valid = condition(status, "ValidationSucceeded")
    assert (valid["status"], valid["reason"]) == ("False", f"{operation}AuthCheckFailed")
    assert valid["message"].startswith(f"ec2:{operation}")
    assert ": UnauthorizedOperation: You are not authorized to perform this operation. " in valid["message"]
    assert valid["message"].endswith(" Encoded authorization failure message: abc")
    assert condition(status, "Ready")["status"] == "False"


def test_ec2_is_asked_with_each_image_and_nothing_is_launched(account: Account) -> None:
    account.cloud.resolve(a_manifest())
    assert sorted(name for name in account.called if name in ASKED) == sorted([*ASKED, *ASKED])
    assert all(request["DryRun"] for request in account.fleets)
    assert account.cloud.instances() == ()


class Turns(EC2Turns):
    """Counts the turns that DryRuns take, and their reports of throttling."""

    def __init__(self) -> None:
        self.taken = 0
        self.slowed: list[tuple[datetime | None, int]] = []

    def dry_run(self) -> datetime:
        self.taken += 1
        return NOW

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        self.slowed.append((sent, answers))


def test_each_dry_run_takes_a_turn_and_tells_when_ec2_throttles(account: Account) -> None:
    """EC2 counts a DryRun as a request: twenty new classes would throttle the launches of all clusters."""
    turns = Turns()
    cloud = account.new_sandbox(turns=turns)
    cloud.resolve(a_manifest())
    assert turns.taken == len(account.fleets) + len(account.tries) == 4
    account.denied = {"RunInstances": ("RequestLimitExceeded", "Request limit exceeded.")}
    with pytest.raises(ThrottledError):
        cloud.resolve(a_manifest(detailedMonitoring=True))
    ((sent, answers),) = turns.slowed
    assert (sent, answers > 0) == (NOW, True)


def test_ec2_is_asked_again_only_after_a_change(account: Account) -> None:
    """Otherwise, each round of each function would ask, at the expense of launches."""

    def asked(**spec: Any) -> int:
        account.called.clear()
        account.cloud.resolve(a_manifest(**spec))
        return account.called.count("RunInstances")

    assert [asked(), asked(), asked(detailedMonitoring=True), asked(detailedMonitoring=True)] == [2, 0, 2, 0]


def test_another_sandbox_knows_the_answer_from_the_annotation(account: Account) -> None:
    written = account.cloud.resolve(a_manifest())["launchValidation"]
    account.called.clear()
    known = a_manifest()
    known["metadata"]["annotations"] = {"fleetwright.dev/launch-validation": written}
    assert condition(account.new_sandbox().resolve(known), "Ready")["status"] == "True"
    assert "RunInstances" not in account.called


def test_a_denial_ends_when_ec2_agrees(account: Account) -> None:
    """Somebody permits the action: the class is not edited, and yet becomes ready, after a pause."""
    account.denied = {"RunInstances": ("UnauthorizedOperation", "no")}
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "False"
    account.denied = {}
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "False"
    account.clock.pass_by(timedelta(minutes=1))
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "True"


UNKNOWN_PROFILE = (
    "InvalidParameterValue",
    "Value (shop_1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
)


def test_a_new_instance_profile_is_given_time(account: Account) -> None:
    """IAM makes it known within seconds; a denial would keep every new class waiting for a minute, with a warning."""
    account.denied = {"RunInstances": UNKNOWN_PROFILE}
    with pytest.raises(TransientError, match="a new profile in IAM is visible"):
        account.cloud.resolve(a_manifest())
    account.clock.pass_by(timedelta(seconds=10))
    account.denied = {}
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "True"


def test_a_profile_that_stays_unknown_is_a_denial(account: Account) -> None:
    """People must hear of it; and of one that the class itself names at once."""
    account.denied = {"RunInstances": UNKNOWN_PROFILE}
    with pytest.raises(TransientError):
        account.cloud.resolve(a_manifest())
    account.clock.pass_by(timedelta(minutes=1))
    named = a_manifest(instanceProfile="own")
    del named["spec"]["role"]
    for manifest in (a_manifest(), named):
        assert UNKNOWN_PROFILE[1] in condition(account.cloud.resolve(manifest), "ValidationSucceeded")["message"]


def test_a_deleted_instance_profile_is_made_again(account: Account) -> None:
    """Otherwise, launches fail for as long as the sandbox lives."""
    name = account.cloud.resolve(a_manifest("tidied"))["instanceProfile"]
    account.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="NodeRole")
    account.iam.delete_instance_profile(InstanceProfileName=name)
    account.clock.pass_by(timedelta(minutes=15))
    assert account.cloud.resolve(a_manifest("tidied"))["instanceProfile"] == name
    roles = account.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
    assert [role["RoleName"] for role in roles] == ["NodeRole"]


def test_spot_is_asked_for_where_the_pools_admit_nothing_else(account: Account) -> None:
    """RunInstances would ask for on-demand capacity by default, which a policy may forbid."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    types = (a_type("m5.large", zones=("us-east-1a",)),)
    account.new_sandbox(lambda _: types).resolve(a_manifest(), (spot,))
    (request,) = account.tries
    assert request["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert account.fleets[-1]["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_missing_capacity_does_not_make_a_class_unready(code: str, account: Account) -> None:
    account.denied = {"RunInstances": (code, "not now")}
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "True"


def test_while_ec2_cannot_answer_the_status_stays(account: Account) -> None:
    """A throttled question must make no class unready."""
    account.denied = {"CreateFleet": ("RequestLimitExceeded", "Request limit exceeded.")}
    with pytest.raises(TransientError):
        account.cloud.resolve(a_manifest())
    account.denied = {}
    assert condition(account.cloud.resolve(a_manifest()), "Ready")["status"] == "True"


def test_subnets_are_found_by_id_by_tag_and_by_key_alone(account: Account) -> None:
    """Terms are alternatives: a subnet that several terms match counts once."""
    by_id, by_tag = {"id": account.subnets["a24"]}, {"tags": DISCOVERY}
    by_key = {"tags": {"karpenter.sh/discovery": "*"}}
    for terms, count in (([by_id], 1), ([by_id, by_tag], 3), ([by_key], 3)):
        assert len(account.cloud.resolve(a_manifest(subnetSelectorTerms=terms))["subnets"]) == count


def test_a_condition_keeps_the_time_of_its_last_change(account: Account) -> None:
    """Otherwise, each run writes the object again, and notifies all its watchers."""
    first = account.cloud.resolve(a_manifest())
    account.clock.pass_by(timedelta(minutes=5))
    again = account.cloud.resolve({**a_manifest(), "status": first})
    assert again.pop("subnetAddresses")["free"] == first.pop("subnetAddresses")["free"], "its time is not compared"
    assert again == first
    broken = account.cloud.resolve({**a_manifest(role="NoSuchRole"), "status": first})
    assert condition(broken, "Ready")["lastTransitionTime"] == "2026-11-20T00:05:00Z"
    assert condition(broken, "SubnetsReady")["lastTransitionTime"] == "2026-11-20T00:00:00Z"


def test_an_instance_profile_is_made_once_for_a_role(account: Account) -> None:
    """A new profile in each run would exceed the account's quota."""
    before = len(account.iam.list_instance_profiles()["InstanceProfiles"])
    names = {account.new_sandbox().resolve(a_manifest("fresh"))["instanceProfile"] for _ in range(2)}
    assert len(names) == 1
    assert len(account.iam.list_instance_profiles()["InstanceProfiles"]) == before + 1
    assert account.cloud.resolve(a_manifest(role="", instanceProfile="own"))["instanceProfile"] == "own"
