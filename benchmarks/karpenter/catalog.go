package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

type catalogType struct {
	Name         string              `json:"name"`
	Requirements map[string][]string `json:"requirements"`
	Capacity     map[string]string   `json:"capacity"`
	Overhead     map[string]string   `json:"overhead"`
	Offerings    []struct {
		Zone, CapacityType string
		Price              float64
		Available          bool
	} `json:"offerings"`
}

// provider offers one fixed catalogue to every NodePool.
type provider struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (p *provider) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.types, nil
}
func (p *provider) IsDrifted(context.Context, *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}
func (p *provider) Name() string { return "benchmark" }
func (p *provider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}
func (p *provider) RepairPolicies() []cloudprovider.RepairPolicy { return nil }

func readCatalog(path string) ([]*cloudprovider.InstanceType, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	var c struct {
		InstanceTypes []catalogType `json:"instanceTypes"`
	}
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, t := range c.InstanceTypes {
		for k := range t.Requirements {
			keys[k] = true
		}
	}
	for k := range keys {
		v1.WellKnownLabels.Insert(k) // as Karpenter's AWS provider registers its own labels
	}
	var out []*cloudprovider.InstanceType
	for _, t := range c.InstanceTypes {
		reqs := scheduling.NewRequirements(scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name))
		for _, k := range sortedKeys(keys) {
			if vs, ok := t.Requirements[k]; ok {
				reqs.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpIn, vs...))
			} else {
				reqs.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpDoesNotExist))
			}
		}
		var offerings cloudprovider.Offerings
		zones, capacityTypes := map[string]bool{}, map[string]bool{}
		for _, o := range t.Offerings {
			offerings = append(offerings, &cloudprovider.Offering{Available: o.Available, Price: o.Price,
				Requirements: scheduling.NewLabelRequirements(map[string]string{v1.CapacityTypeLabelKey: o.CapacityType, corev1.LabelTopologyZone: o.Zone})})
			if o.Available {
				zones[o.Zone], capacityTypes[o.CapacityType] = true, true
			}
		}
		reqs.Add(scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, sortedKeys(zones)...))
		reqs.Add(scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, sortedKeys(capacityTypes)...))
		out = append(out, &cloudprovider.InstanceType{Name: t.Name, Requirements: reqs, Offerings: offerings, Capacity: resources(t.Capacity),
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: resources(t.Overhead)}})
	}
	return out, nil
}

func resources(m map[string]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range m {
		out[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}
