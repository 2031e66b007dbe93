// Command kueue runs Kueue's controllers and scheduler for batch/v1 Jobs whose queues ask for nodes with ProvisioningRequests.
//
// It leaves out what takes a Service network or certificates, webhooks above all, so a Job must be submitted suspended; and other
// frameworks of jobs, topologies and MultiKueue, which would double what is compiled.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	requests "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configuration "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/cache/queue"
	"sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	admission "sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

// orEnd returns a value, or ends the process with the error.
func orEnd[T any](value T, err error) T {
	endOn(err)
	return value
}

func endOn(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	path := flag.String("config", "", "file of Kueue's Configuration")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))

	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, configuration.AddToScheme, kueue.AddToScheme, requests.AddToScheme,
	} {
		endOn(add(types))
	}
	options, settings, err := config.Load(types, *path)
	endOn(err)
	endOn(feature.DefaultMutableFeatureGate.SetFromMap(settings.FeatureGates))
	options.Metrics = server.Options{BindAddress: "0"}

	ctx := ctrl.SetupSignalHandler()
	manager := orEnd(ctrl.NewManager(ctrl.GetConfigOrDie(), options))
	run(ctx, manager, settings)
	endOn(manager.AddHealthzCheck("healthz", func(*http.Request) error { return nil }))
	endOn(manager.AddReadyzCheck("readyz", func(*http.Request) error {
		if !manager.GetCache().WaitForCacheSync(ctx) {
			return http.ErrServerClosed
		}
		return nil
	}))
	endOn(manager.Start(ctx))
}

// run adds to the manager, in this order, what one controller needs of another: caches, indexes, queues, checks, Jobs, the scheduler.
func run(ctx context.Context, manager ctrl.Manager, settings configuration.Configuration) {
	client, indexes := manager.GetClient(), manager.GetFieldIndexer()
	preemptions := expectations.New()
	cache := scheduler.New(client)
	requeuer := queue.NewRequeuer()
	endOn(manager.Add(requeuer))
	queues := queue.NewManager(client, cache, requeuer, queue.WithPreemptionExpectations(preemptions))

	frameworks := jobframework.WithEnabledFrameworks([]string{job.FrameworkName})
	endOn(indexer.Setup(ctx, indexes))
	endOn(provisioning.ServerSupportsProvisioningRequest(manager))
	endOn(provisioning.SetupIndexer(ctx, indexes))
	endOn(jobframework.SetupIndexes(ctx, indexes, frameworks))

	if failed, err := core.SetupControllers(manager, queues, cache, &settings, nil, preemptions, nil); err != nil {
		log.Fatalf("controller %s: %v", failed, err)
	}
	checks := orEnd(provisioning.NewController(client, manager.GetEventRecorderFor("kueue-provisioning-requests"), nil))
	endOn(checks.SetupWithManager(manager))
	jobs := orEnd(job.NewReconciler(ctx, client, indexes, manager.GetEventRecorderFor("kueue-jobs"), frameworks,
		jobframework.WithManagerName(constants.KueueName), jobframework.WithCache(cache), jobframework.WithQueues(queues)))
	endOn(jobs.SetupWithManager(manager))
	endOn(manager.Add(admission.New(queues, cache, client, manager.GetEventRecorderFor(constants.AdmissionName),
		admission.WithPreemptionExpectations(preemptions))))
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
}
