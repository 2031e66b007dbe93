// Command apiserver says for which fields an API server refuses to create objects.
//
// It reads objects as JSON, one after the other, and answers each with a line of JSON: the refused fields with their messages. The
// judges are the strategies of kube-apiserver's own registry, after its own defaulting. `-emulate 1.31` sets the feature gates to
// what they were in that version. Admission plugins and webhooks are not asked.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
)

var strategies = map[string]rest.RESTCreateStrategy{
	"CronJob":                 cronjob.Strategy,
	"DaemonSet":               daemonset.Strategy,
	"Deployment":              deployment.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"Job":                     job.Strategy,
	"LimitRange":              limitrange.Strategy,
	"PersistentVolume":        persistentvolume.Strategy,
	"PersistentVolumeClaim":   persistentvolumeclaim.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"PodTemplate":             podtemplate.Strategy,
	"PriorityClass":           priorityclass.Strategy,
	"ReplicaSet":              replicaset.Strategy,
	"ReplicationController":   replicationcontroller.Strategy,
	"ResourceQuota":           resourcequota.Strategy,
	"RuntimeClass":            runtimeclass.Strategy,
	"StatefulSet":             statefulset.Strategy,
	"StorageClass":            storageclass.Strategy,
}

// answer is what the API server says of one object.
type answer struct {
	Refused []string `json:"refused"`
}

// judged asks for one object. What cannot be decoded is refused, too.
func judged(raw []byte) answer {
	written, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return answer{[]string{err.Error()}}
	}
	legacyscheme.Scheme.Default(written)
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	object, err := legacyscheme.Scheme.ConvertToVersion(written, internal)
	if err != nil {
		return answer{[]string{err.Error()}}
	}
	if pod, ok := object.(*core.Pod); ok {
		return answer{ofPod(pod)}
	}
	return answer{ofOthers(object, *kind)}
}

// ofPod asks what the strategy of Pods asks, whose package would bring the client of kubelets along.
func ofPod(pod *core.Pod) []string {
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.Name == "" && pod.GenerateName != "" {
		pod.Name = names.SimpleNameGenerator.GenerateName(pod.GenerateName)
	}
	pod.Status = core.PodStatus{}
	options := podapi.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	options.ResourceIsPod = true
	refused := []string{}
	for _, problem := range validation.ValidatePodCreate(pod, options) {
		refused = append(refused, problem.Error())
	}
	return refused
}

func ofOthers(object runtime.Object, kind schema.GroupVersionKind) []string {
	strategy, ok := strategies[kind.Kind]
	if !ok {
		log.Fatalf("no strategy of kind %s is compiled in", kind.Kind)
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return []string{err.Error()}
	}
	namespace := ""
	if strategy.NamespaceScoped() {
		if namespace = metadata.GetNamespace(); namespace == "" {
			namespace = "default"
		}
	}
	metadata.SetResourceVersion("")
	rest.FillObjectMetaSystemFields(metadata)
	if metadata.GetName() == "" && metadata.GetGenerateName() != "" {
		metadata.SetName(strategy.GenerateName(metadata.GetGenerateName())) // as the store does before it asks
	}
	asked := &request.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
	ctx := request.WithRequestInfo(request.WithNamespace(request.NewContext(), namespace), asked)
	err = rest.BeforeCreate(strategy, ctx, object)
	if err == nil {
		return []string{}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	refused := []string{}
	for _, cause := range status.Status().Details.Causes {
		refused = append(refused, fmt.Sprintf("%s: %s", cause.Field, cause.Message))
	}
	return refused
}

func main() {
	emulated := flag.String("emulate", "", "feature gates of an earlier minor version")
	flag.Parse()
	if *emulated != "" {
		parsed, err := version.ParseGeneric(*emulated)
		if err == nil {
			err = utilfeature.DefaultMutableFeatureGate.SetEmulationVersion(parsed)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	capabilities.Setup(true, 0) // every cluster of EKS allows privileged containers
	objects, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var raw json.RawMessage
		if err := objects.Decode(&raw); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(judged(raw)); err != nil {
			log.Fatal(err)
		}
	}
}
