package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
)

// joined is when nodes that a command launches came to be: long enough ago for every consolidateAfter.
var joined = metav1.NewTime(time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC))

// accept is a Validator that waits for nothing: nothing changes here between a decision and its validation.
type accept struct{}

func (accept) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// consolidated carries out Karpenter's commands one after the other until it has none, or its methods have used `secondsMax` of the processors.
// Each starts once the one before has ended: budgets count from the nodes that there are then, and pods run where Karpenter planned them.
func consolidated(ctx context.Context, objects []client.Object, types []*cloudprovider.InstanceType, at time.Time, secondsMax float64) any {
	prices := offeringPrices(types)
	before, used, ended := fleetPrice(objects, prices), 0.0, false
	launched, gone, round := 0, 0, 0
	moves := map[string]int{}
	for ; used < secondsMax; round++ {
		w := newWorld(ctx, objects, types, at)
		begin := cpuSeconds()
		commands := decided(ctx, w)
		used += cpuSeconds() - begin
		if ended = len(commands) == 0; ended {
			break
		}
		for i, command := range commands {
			to := seats(command, fmt.Sprintf("%d-%d", round, i))
			for pod := range to {
				moves[pod]++
			}
			launched += len(command.Replacements)
			gone += len(command.Candidates)
			objects = carriedOut(objects, command, to, fmt.Sprintf("%d-%d", round, i))
		}
	}
	all, most := 0, 0
	for _, n := range moves {
		all, most = all+n, max(most, n)
	}
	return map[string]any{"before": before, "after": fleetPrice(objects, prices), "moves": all, "movedPods": len(moves), "mostMovesOfAPod": most,
		"launched": launched, "gone": gone, "rounds": round, "ended": ended, "cpuSeconds": used}
}

// decided is what the first of Karpenter's methods that finds anything finds.
func decided(ctx context.Context, w *world) []disruption.Command {
	queue := disruption.NewQueue(w.client, w.recorder, w.cluster, w.clock, w.provisioner)
	c := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.provisioner, w.provider, w.recorder, queue)
	for _, m := range []disruption.Method{
		disruption.NewEmptiness(c, disruption.WithValidator(accept{})),
		disruption.NewDrift(w.client, w.cluster, w.provisioner, w.recorder, w.clock),
		disruption.NewMultiNodeConsolidation(c, disruption.WithValidator(accept{})),
		disruption.NewSingleNodeConsolidation(c, disruption.WithValidator(accept{})),
	} {
		candidates, totals, err := disruption.GetCandidatesWithTotals(ctx, w.cluster, w.client, w.recorder, w.clock, w.provider, m.ShouldDisrupt, m.Class(), queue, nil)
		check(err)
		if len(candidates) == 0 {
			continue
		}
		if s, ok := m.(disruption.NodePoolTotalsSetter); ok {
			s.SetNodePoolTotals(totals)
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, w.cluster, w.clock, w.client, w.provider, w.recorder, m.Reason())
		check(err)
		found, err := m.ComputeCommands(ctx, budgets, candidates...)
		check(err)
		var commands []disruption.Command
		for _, command := range found {
			if command.Decision() != disruption.NoOpDecision {
				commands = append(commands, command)
			}
		}
		if len(commands) > 0 {
			return commands
		}
	}
	return nil
}

// seats says to which node each pod of the command's nodes goes.
func seats(command disruption.Command, suffix string) map[string]string {
	to, going := map[string]string{}, leaving(command)
	for i, r := range command.Replacements {
		for _, p := range r.Pods {
			to[key(p)] = newName(r.NodeClaim, suffix, i)
		}
	}
	for _, n := range command.Results.ExistingNodes {
		for _, p := range n.Pods {
			if going[p.Spec.NodeName] {
				to[key(p)] = n.Name()
			}
		}
	}
	return to
}

// carriedOut is the cluster once the command's nodes are gone, their pods run elsewhere, and new nodes have their DaemonSets' pods.
func carriedOut(objects []client.Object, command disruption.Command, to map[string]string, suffix string) []client.Object {
	going := leaving(command)
	daemons := map[string]*corev1.Pod{}
	var out []client.Object
	for _, o := range objects {
		switch x := o.(type) {
		case *corev1.Node:
			if going[x.Name] {
				continue
			}
		case *v1.NodeClaim:
			if going[x.Status.NodeName] {
				continue
			}
		case *corev1.Pod:
			isDaemon := len(x.OwnerReferences) > 0 && x.OwnerReferences[0].Kind == "DaemonSet"
			if isDaemon {
				daemons[x.Namespace+"/"+x.OwnerReferences[0].Name] = x
			}
			if going[x.Spec.NodeName] {
				if isDaemon {
					continue
				}
				x = x.DeepCopy()
				x.Spec.NodeName = to[key(x)]
				o = x
			}
		}
		out = append(out, o)
	}
	for i, r := range command.Replacements {
		name := newName(r.NodeClaim, suffix, i)
		out = append(out, running(r.NodeClaim, name)...)
		for _, k := range sortedKeys(daemons) {
			p := daemons[k].DeepCopy()
			p.Name = p.OwnerReferences[0].Name + "-" + name
			p.UID = types.UID(p.Name)
			p.Spec.NodeName = name
			out = append(out, p)
		}
	}
	return out
}

func leaving(command disruption.Command) map[string]bool {
	going := map[string]bool{}
	for _, c := range command.Candidates {
		going[c.Name()] = true
	}
	return going
}

func newName(n *scheduling.NodeClaim, suffix string, i int) string {
	return fmt.Sprintf("%s-new-%s-%d", n.NodePoolName, suffix, i)
}

// running is the node, and its claim, that the cheapest offering of n becomes.
func running(n *scheduling.NodeClaim, name string) []client.Object {
	its := append(cloudprovider.InstanceTypes{}, n.InstanceTypeOptions...)
	it := its.OrderByPrice(n.Requirements)[0]
	offering := it.Offerings.Available().Compatible(n.Requirements).Cheapest()
	labels := map[string]string{}
	for k, v := range n.Labels {
		labels[k] = v
	}
	for _, of := range []requirements.Requirements{it.Requirements, n.Requirements} {
		for _, k := range of.Keys().UnsortedList() {
			if r := of.Get(k); r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
				labels[k] = r.Any()
			}
		}
	}
	labels[corev1.LabelHostname], labels[corev1.LabelTopologyZone], labels[v1.CapacityTypeLabelKey] = name, offering.Zone(), offering.CapacityType()
	labels[v1.NodePoolLabelKey], labels[v1.NodeRegisteredLabelKey], labels[v1.NodeInitializedLabelKey] = n.NodePoolName, "true", "true"
	id := "new:///" + name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels, CreationTimestamp: joined}, Spec: corev1.NodeSpec{ProviderID: id, Taints: n.Spec.Taints},
		Status: corev1.NodeStatus{Capacity: it.Capacity, Allocatable: it.Allocatable(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("claim-" + name), Labels: labels, CreationTimestamp: joined, Annotations: n.Annotations}, Spec: n.Spec}
	claim.Status.NodeName, claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable = name, id, it.Capacity, it.Allocatable()
	for _, c := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(c)
	}
	return []client.Object{node, claim}
}

func offeringPrices(its []*cloudprovider.InstanceType) map[string]float64 {
	prices := map[string]float64{}
	for _, t := range its {
		for _, o := range t.Offerings {
			prices[t.Name+"/"+o.Zone()+"/"+o.CapacityType()] = o.Price
		}
	}
	return prices
}

// fleetPrice is the hourly price of the nodes that belong to a NodePool.
func fleetPrice(objects []client.Object, prices map[string]float64) float64 {
	sum := 0.0
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok && n.Labels[v1.NodePoolLabelKey] != "" {
			sum += prices[n.Labels[corev1.LabelInstanceTypeStable]+"/"+n.Labels[corev1.LabelTopologyZone]+"/"+n.Labels[v1.CapacityTypeLabelKey]]
		}
	}
	return sum
}
