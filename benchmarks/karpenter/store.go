package main

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store is a read-only client.Client over objects held in memory: as fast as the informer cache that Karpenter reads from,
// unlike controller-runtime's fake, which goes through JSON. Writes are dropped: only decisions are asked for.
type store struct {
	client.Client
	lists  map[reflect.Type][]client.Object
	byName map[reflect.Type]map[types.NamespacedName]client.Object
	onNode map[string][]client.Object // pods by spec.nodeName
}

func newStore(objects []client.Object) *store {
	s := &store{Client: fakecr.NewFakeClient(), lists: map[reflect.Type][]client.Object{}, byName: map[reflect.Type]map[types.NamespacedName]client.Object{}, onNode: map[string][]client.Object{}}
	for _, o := range objects {
		t := reflect.TypeOf(o).Elem()
		s.lists[t] = append(s.lists[t], o)
		if s.byName[t] == nil {
			s.byName[t] = map[types.NamespacedName]client.Object{}
		}
		s.byName[t][client.ObjectKeyFromObject(o)] = o
		if p, ok := o.(*corev1.Pod); ok {
			s.onNode[p.Spec.NodeName] = append(s.onNode[p.Spec.NodeName], p)
		}
	}
	return s
}

func (s *store) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	t := reflect.TypeOf(out).Elem()
	o, ok := s.byName[t][key]
	if !ok { // Karpenter asks for some cluster-scoped objects with a namespace; an API server does not mind
		o, ok = s.byName[t][types.NamespacedName{Name: key.Name}]
	}
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: t.Name()}, key.Name)
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
	return nil
}

func (s *store) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	element := items.Type().Elem()
	pointers := element.Kind() == reflect.Pointer
	if pointers {
		element = element.Elem()
	}
	candidates := s.lists[element]
	if o.FieldSelector != nil && element == reflect.TypeOf(corev1.Pod{}) {
		if name, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName"); ok {
			candidates = s.onNode[name]
		}
	}
	found := reflect.MakeSlice(items.Type(), 0, len(candidates))
	for _, c := range candidates {
		if o.Namespace != "" && c.GetNamespace() != o.Namespace {
			continue
		}
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labelSet(c.GetLabels())) {
			continue
		}
		if o.FieldSelector != nil && !o.FieldSelector.Empty() && !o.FieldSelector.Matches(fieldsOf(c)) {
			continue
		}
		v := reflect.ValueOf(c.DeepCopyObject())
		if !pointers {
			v = v.Elem()
		}
		found = reflect.Append(found, v)
	}
	items.Set(found)
	return nil
}

func (s *store) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }
func (s *store) Update(context.Context, client.Object, ...client.UpdateOption) error { return nil }
func (s *store) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}
func (s *store) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

type labelSet map[string]string

func (l labelSet) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string            { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

func fieldsOf(o client.Object) fields.Set {
	out := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch x := o.(type) {
	case *corev1.Pod:
		out["spec.nodeName"] = x.Spec.NodeName
	case *corev1.Node:
		out["spec.providerID"] = x.Spec.ProviderID
	case *storagev1.VolumeAttachment:
		out["spec.nodeName"] = x.Spec.NodeName
	case *v1.NodeClaim:
		out["status.providerID"] = x.Status.ProviderID
		if r := x.Spec.NodeClassRef; r != nil {
			out["spec.nodeClassRef.group"], out["spec.nodeClassRef.kind"], out["spec.nodeClassRef.name"] = r.Group, r.Kind, r.Name
		}
	case *v1.NodePool:
		r := x.Spec.Template.Spec.NodeClassRef
		out["spec.template.spec.nodeClassRef.group"], out["spec.template.spec.nodeClassRef.kind"], out["spec.template.spec.nodeClassRef.name"] = r.Group, r.Kind, r.Name
	}
	return out
}
