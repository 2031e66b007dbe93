"""What the functions may do in the cluster."""

from __future__ import annotations

from installation.cluster_roles import RULES_OF, group_of, manifests


def test_each_binding_gives_a_role_to_one_functions_group() -> None:
    found = manifests()
    for function, role, binding in zip(RULES_OF, found[::2], found[1::2], strict=True):
        assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"fleetwright-{function}"
        assert [subject["name"] for subject in binding["subjects"]] == [group_of(function)]


def test_only_execute_evicts_pods_and_deletes_nodes() -> None:
    """A NodeClaim mirrors a claim: deleting one with our own permission ends no node."""
    for role in manifests()[::2]:
        ends = {verb for rule in role["rules"] for verb in rule["verbs"] if "pods/eviction" in rule["resources"]}
        ends |= {"delete" for r in role["rules"] if "delete" in r["verbs"] and r["resources"] != ["nodeclaims"]}
        assert bool(ends) == (role["metadata"]["name"] == "fleetwright-execute")


def test_no_rule_reaches_secrets_or_everything() -> None:
    rules = [rule for role in manifests()[::2] for rule in role["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])
        assert not {"secrets", "configmaps"} & set(rule["resources"])


def test_deployments_are_patched_only_where_single_replicas_may_surge() -> None:
    """Patching a Deployment can run any image as its pods: only surges may grant it."""

    def patches(*, surge: bool) -> bool:
        rules = [rule for found in manifests(surge=surge) for rule in found.get("rules", ())]
        return any("deployments" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)

    assert patches(surge=True)
    assert not patches(surge=False)


def test_disrupt_writes_events_only_where_commands_wait_for_approval() -> None:
    """Everywhere else it changes nothing in the cluster."""

    def verbs_of_disrupt(*, approval: bool) -> set[str]:
        (role,) = (
            found
            for found in manifests(approval=approval)
            if found["kind"] == "ClusterRole" and found["metadata"]["name"] == "fleetwright-disrupt"
        )
        return {verb for rule in role["rules"] for verb in rule["verbs"]}

    assert verbs_of_disrupt(approval=False) == {"list"}
    assert verbs_of_disrupt(approval=True) == {"list", "create"}
