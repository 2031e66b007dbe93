"""What the functions may do in the cluster."""

from __future__ import annotations

from infra.cluster_role import KUBERNETES_GROUP, manifests


def test_the_binding_gives_the_role_to_the_functions_group() -> None:
    role, binding = manifests()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == KUBERNETES_GROUP


def test_no_rule_reaches_secrets_or_everything() -> None:
    rules = manifests()[0]["rules"]
    assert rules
    for rule in rules:
        assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])
        assert not {"secrets", "configmaps"} & set(rule["resources"])
