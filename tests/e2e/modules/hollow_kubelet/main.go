// Command hollowkubelet runs one kubelet as Kubernetes ships it, over a container runtime that only pretends.
//
// What it admits and refuses is the kubelet's own; containers start at once and run for ever. It ends with its process.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	criclient "k8s.io/cri-client/pkg"
	fakecri "k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

const (
	runtimePatience = 15 * time.Second
	queriesPerSec   = 50
)

func main() {
	name := flag.String("name", "", "name of the Node")
	providerID := flag.String("provider-id", "", "the instance")
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	resources := flag.String("resources", "", "capacity, as cpu=4,memory=16Gi")
	maxPods := flag.Int("max-pods", 58, "pods at once")
	klog.InitFlags(nil)
	flag.Parse()

	options := kubemark.HollowKubeletOptions{NodeName: *name, MaxPods: *maxPods, NodeLabels: map[string]string{}}
	flags, config := kubemark.GetHollowKubeletConfig(&options)
	// Two kubelets on one machine must not fight for a port, and somebody else plays the cloud.
	config.EnableServer = false
	config.ProviderID = *providerID
	flags.CloudProvider = "external"
	remove := func() { _ = os.RemoveAll(flags.RootDirectory) }

	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	rest.ContentType = "application/vnd.kubernetes.protobuf"
	rest.QPS, rest.Burst = queriesPerSec, 2*queriesPerSec
	client := clientOf(rest)
	beats := restclient.CopyConfig(rest)
	beats.QPS, beats.Timeout = -1, config.NodeStatusUpdateFrequency.Duration

	socket := "unix://" + filepath.Join(flags.RootDirectory, "cri.sock")
	runtime := fakecri.NewFakeRemoteRuntime()
	must(runtime.Start(socket))
	logger := klog.Background()
	service, err := criclient.NewRemoteRuntimeService(socket, runtimePatience, noop.NewTracerProvider(), &logger)
	must(err)

	hollow := kubemark.NewHollowKubelet(flags, config, client, clientOf(beats), &cadvisortest.Fake{NodeName: *name},
		runtime.ImageService, service, cm.NewStubContainerManagerWithDevicePluginResource(quantities(*resources)))
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	hollow.KubeletDeps.Recorder = events.NewRecorder(legacyscheme.Scheme, corev1.EventSource{Component: "kubelet", Host: *name})

	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ends
		remove()
		os.Exit(0)
	}()
	hollow.Run(context.Background())
}

func clientOf(config *restclient.Config) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(config)
	must(err)
	return client
}

func quantities(text string) corev1.ResourceList {
	found := corev1.ResourceList{}
	for _, part := range strings.Split(text, ",") {
		if key, amount, ok := strings.Cut(part, "="); ok {
			found[corev1.ResourceName(key)] = resource.MustParse(amount)
		}
	}
	return found
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
