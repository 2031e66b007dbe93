// Beside the provider's program: placement groups and reservations of its account, which its own file leaves out.
// tests/oracle/requests.py copies this file beside it, and calls knowReservations before the first launch.

package main

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
)

const freePlaces = 5

// DescribePlacementGroups finds every group that is asked for. One whose name begins with "partitioned" has seven partitions.
func (a *account) DescribePlacementGroups(_ context.Context, in *ec2.DescribePlacementGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error) {
	out := &ec2.DescribePlacementGroupsOutput{}
	for _, id := range in.GroupIds {
		out.PlacementGroups = append(out.PlacementGroups, group(id, "by-id"))
	}
	for _, name := range in.GroupNames {
		out.PlacementGroups = append(out.PlacementGroups, group("pg-of-"+name, name))
	}
	return out, nil
}

func group(id, name string) ec2types.PlacementGroup {
	g := ec2types.PlacementGroup{GroupId: aws.String(id), GroupName: aws.String(name), Strategy: ec2types.PlacementStrategyCluster}
	if strings.HasPrefix(name, "partitioned") {
		g.Strategy, g.PartitionCount = ec2types.PlacementStrategyPartition, aws.Int32(7)
	}
	return g
}

// DescribeCapacityReservations says of each reservation that is asked for, by its id or as the tag "reservation", that some places are free.
func (a *account) DescribeCapacityReservations(_ context.Context, in *ec2.DescribeCapacityReservationsInput, _ ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	out := &ec2.DescribeCapacityReservationsOutput{}
	ids := in.CapacityReservationIds
	for _, filter := range in.Filters {
		if aws.ToString(filter.Name) == "tag:reservation" {
			ids = append(ids, filter.Values...)
		}
	}
	for _, id := range ids {
		out.CapacityReservations = append(out.CapacityReservations, ec2types.CapacityReservation{CapacityReservationId: aws.String(id), AvailableInstanceCount: aws.Int32(freePlaces)})
	}
	return out, nil
}

// knowReservations lets the provider count free places: it knows only reservations that it has listed.
func knowReservations(ctx context.Context, provider *capacityreservation.DefaultProvider, classes []*v1.EC2NodeClass) {
	for _, class := range classes {
		if len(class.Spec.CapacityReservationSelectorTerms) > 0 {
			_, err := provider.List(ctx, class.Spec.CapacityReservationSelectorTerms...)
			check(err)
		}
	}
}
