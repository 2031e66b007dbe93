package main

import (
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// describePlan is the answer in the form of `fleetwright plan -o json`.
func describePlan(results scheduling.Results, at time.Time) map[string]any {
	claims, hourly := []any{}, 0.0
	for i, n := range results.NewNodeClaims {
		c := describeClaim(n, i)
		hourly += c["price"].(float64)
		claims = append(claims, c)
	}
	bindings, unschedulable := []any{}, []any{}
	for _, n := range results.ExistingNodes {
		for _, p := range n.Pods {
			bindings = append(bindings, map[string]any{"pod": key(p), "node": n.Name()})
		}
	}
	for p, err := range results.PodErrors {
		unschedulable = append(unschedulable, map[string]any{"pod": key(p), "reason": "Karpenter", "message": err.Error()})
	}
	sort.Slice(unschedulable, func(i, j int) bool {
		return unschedulable[i].(map[string]any)["pod"].(string) < unschedulable[j].(map[string]any)["pod"].(string)
	})
	return map[string]any{"apiVersion": "fleetwright.dev/v1", "kind": "Plan", "now": at, "nodeClaims": claims, "bindings": bindings, "unschedulable": unschedulable,
		"cost": map[string]any{"hourly": hourly, "lowerBound": nil, "gap": nil}}
}

// internal labels are set by Karpenter itself and say nothing about the plan.
var internal = map[string]bool{v1.NodePoolLabelKey: true, v1.NodeRegisteredLabelKey: true, v1.NodeInitializedLabelKey: true, "karpenter.test.sh/testnodeclass": true, corev1.LabelHostname: true}

func describeClaim(n *scheduling.NodeClaim, i int) map[string]any {
	its := append(cloudprovider.InstanceTypes{}, n.InstanceTypeOptions...)
	its = its.OrderByPrice(n.Requirements)
	names, price := []string{}, 0.0
	zones, capacityTypes := map[string]bool{}, map[string]bool{}
	for j, it := range its {
		names = append(names, it.Name)
		available := it.Offerings.Available().Compatible(n.Requirements)
		if j == 0 {
			price = available.Cheapest().Price
		}
		for _, o := range available {
			zones[o.Zone()], capacityTypes[o.CapacityType()] = true, true
		}
	}
	labels := map[string]string{}
	for k, v := range n.Labels {
		labels[k] = v
	}
	requirements := []any{}
	for _, k := range n.Requirements.Keys().UnsortedList() {
		if internal[k] {
			continue
		}
		r := n.Requirements.Get(k)
		requirements = append(requirements, r.NodeSelectorRequirement())
		if r.Len() == 1 && r.Operator() == corev1.NodeSelectorOpIn {
			labels[k] = r.Any()
		}
	}
	for k := range internal {
		delete(labels, k)
	}
	pods := []string{}
	for _, p := range n.Pods {
		pods = append(pods, key(p))
	}
	taints, startup := n.Spec.Taints, n.Spec.StartupTaints
	if taints == nil {
		taints = []corev1.Taint{}
	}
	if startup == nil {
		startup = []corev1.Taint{}
	}
	used := map[string]string{}
	for k, v := range n.Spec.Resources.Requests {
		used[string(k)] = v.String()
	}
	return map[string]any{"name": fmt.Sprintf("%s-%d", n.NodePoolName, i), "nodePool": n.NodePoolName, "labels": labels, "taints": taints, "startupTaints": startup,
		"requirements": requirements, "instanceTypes": names, "zones": sortedKeys(zones), "capacityTypes": sortedKeys(capacityTypes), "resources": used, "pods": pods, "price": price}
}

func key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
