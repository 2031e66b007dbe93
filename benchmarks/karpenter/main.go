// Command karpenter asks the scheduler of the published module sigs.k8s.io/karpenter where pods would go, or with -disrupt-seconds its disruption methods
// where a cluster ends: it reads Kubernetes manifests and a catalogue as `fleetwright plan` does, and prints a plan in the same form, or what
// became of the cluster. It is the peer of the benchmarks.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
	"sigs.k8s.io/karpenter/pkg/test"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
)

type paths []string

func (p *paths) String() string     { return fmt.Sprint(*p) }
func (p *paths) Set(s string) error { *p = append(*p, s); return nil }

func main() {
	var in paths
	flag.Var(&in, "f", "manifests: file or folder, repeatable")
	catalog := flag.String("catalog", "", "catalogue JSON, .gz too")
	now := flag.String("now", "2026-11-20T12:00:00Z", "the clock")
	repeat := flag.Int("repeat", 1, "solve so many times and report the median time")
	workers := flag.Int("workers", 5, "NumConcurrentReconciles (Karpenter's own benchmark: 5)")
	disrupts := flag.Float64("disrupt-seconds", 0, "carry out disruption instead of planning, command after command, until so many CPU seconds are used")
	spotToSpot := flag.Bool("spot-to-spot", false, "the feature gate SpotToSpotConsolidation")
	flag.Parse()
	log.SetLogger(logging.NopLogger)

	at, err := time.Parse(time.RFC3339, *now)
	check(err)
	types, err := readCatalog(*catalog)
	check(err)
	objects, err := load(in)
	check(err)
	o := test.Options(test.OptionsFields{})
	o.CPURequests = int64(*workers) * 1000
	o.FeatureGates.SpotToSpotConsolidation = *spotToSpot
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "benchmark"), o)
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	if *disrupts > 0 {
		check(e.Encode(consolidated(ctx, objects, types, at, *disrupts)))
		return
	}
	check(e.Encode(plan(ctx, objects, types, at, *repeat)))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// world is Karpenter's in-memory picture of one cluster.
type world struct {
	client      *store
	clock       *clocktesting.FakeClock
	cluster     *state.Cluster
	provider    *provider
	recorder    events.Recorder
	provisioner *provisioning.Provisioner
}

func newWorld(ctx context.Context, objects []client.Object, types []*cloudprovider.InstanceType, at time.Time) *world {
	w := &world{client: newStore(objects), clock: clocktesting.NewFakeClock(at), provider: &provider{types: types}, recorder: events.NewRecorder(&record.FakeRecorder{})}
	w.cluster = state.NewCluster(w.clock, w.client, w.provider)
	for _, o := range objects {
		if x, ok := o.(*v1.NodeClaim); ok {
			w.cluster.UpdateNodeClaim(x)
		}
	}
	for _, o := range objects {
		if x, ok := o.(*corev1.Node); ok {
			check(w.cluster.UpdateNode(ctx, x))
		}
	}
	for _, o := range objects {
		switch x := o.(type) {
		case *corev1.Pod:
			check(w.cluster.UpdatePod(ctx, x))
		case *appsv1.DaemonSet:
			check(w.cluster.UpdateDaemonSet(ctx, x))
		}
	}
	w.provisioner = provisioning.NewProvisioner(w.client, w.recorder, w.provider, w.cluster, w.clock, deviceallocation.NewController(w.client), virtualpods.NewVirtualPodCache(w.client))
	return w
}

func plan(ctx context.Context, objects []client.Object, types []*cloudprovider.InstanceType, at time.Time, repeat int) any {
	var results scheduling.Results
	rejected := map[*corev1.Pod]error{}
	var seconds, cpu, total []float64
	var peak uint64
	for range repeat {
		clear(rejected)
		w := newWorld(ctx, objects, types, at)
		runtime.GC()
		nodes := w.cluster.DeepCopyNodes()
		pods, err := w.provisioner.GetPendingPods(ctx)
		check(err)
		all, err := nodeutils.GetProvisionablePods(ctx, w.client)
		check(err)
		for _, p := range all {
			if err := w.provisioner.Validate(ctx, p); err != nil {
				rejected[p] = err
			}
		}
		begin := time.Now()
		going, err := nodes.Deleting().CurrentlyReschedulablePods(ctx, w.client, w.clock, w.recorder)
		check(err)
		pods = append(pods, going...)
		opts := []scheduling.Options{scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(int(options.FromContext(ctx).CPURequests / 1000)),
			scheduling.MinValuesPolicy(options.FromContext(ctx).MinValuesPolicy)}
		s, err := w.provisioner.NewScheduler(ctx, pods, nodes.Active(), nil, opts...)
		if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
			results.PodErrors = map[*corev1.Pod]error{}
			for _, p := range pods {
				results.PodErrors[p] = err
			}
			seconds, cpu, total = append(seconds, 0), append(cpu, 0), append(total, 0)
			continue
		}
		check(err)
		solve, used := time.Now(), cpuSeconds()
		results, err = s.Solve(ctx, pods)
		check(err)
		results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
		seconds = append(seconds, time.Since(solve).Seconds())
		cpu = append(cpu, cpuSeconds()-used)
		total = append(total, time.Since(begin).Seconds())
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.Sys)
	}
	for p, err := range rejected {
		if results.PodErrors == nil {
			results.PodErrors = map[*corev1.Pod]error{}
		}
		results.PodErrors[p] = err
	}
	out := describePlan(results, at)
	out["timing"] = map[string]any{"solveSeconds": median(seconds), "solveCpuSeconds": median(cpu), "scheduleSeconds": median(total), "runs": seconds, "peakBytes": peak}
	return out
}

func median(x []float64) float64 {
	y := append([]float64{}, x...)
	sort.Float64s(y)
	return y[len(y)/2]
}

// cpuSeconds is what this process has used of the processors so far: on a busy machine it says more than the clock.
func cpuSeconds() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
