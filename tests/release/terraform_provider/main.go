// A provider for tests that knows one resource of the AWS provider, aws_cloudformation_stack, by its documented arguments.
// Terraform validates, plans and tests the module with it where no registry can be reached. It creates nothing.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type aws struct{}

func (aws) Metadata(_ context.Context, _ provider.MetadataRequest, answer *provider.MetadataResponse) {
	answer.TypeName = "aws"
}

func (aws) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (aws) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (aws) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (aws) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return stack{} }}
}

type stack struct{}

func (stack) Metadata(_ context.Context, _ resource.MetadataRequest, answer *resource.MetadataResponse) {
	answer.TypeName = "aws_cloudformation_stack"
}

func (stack) Schema(_ context.Context, _ resource.SchemaRequest, answer *resource.SchemaResponse) {
	answer.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id":           schema.StringAttribute{Computed: true},
		"name":         schema.StringAttribute{Required: true},
		"template_url": schema.StringAttribute{Optional: true},
		"capabilities": schema.SetAttribute{Optional: true, ElementType: types.StringType},
		"parameters":   schema.MapAttribute{Optional: true, Computed: true, ElementType: types.StringType},
		"tags":         schema.MapAttribute{Optional: true, ElementType: types.StringType},
		"outputs":      schema.MapAttribute{Computed: true, ElementType: types.StringType},
	}, Blocks: map[string]schema.Block{
		"timeouts": schema.SingleNestedBlock{Attributes: map[string]schema.Attribute{
			"create": schema.StringAttribute{Optional: true},
			"update": schema.StringAttribute{Optional: true},
			"delete": schema.StringAttribute{Optional: true},
		}},
	}}
}

func (stack) Create(context.Context, resource.CreateRequest, *resource.CreateResponse) {}

func (stack) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (stack) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}

func (stack) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

func main() {
	address := providerserver.ServeOpts{Address: "registry.terraform.io/hashicorp/aws"}
	if err := providerserver.Serve(context.Background(), func() provider.Provider { return aws{} }, address); err != nil {
		log.Fatal(err)
	}
}
