# Wraps the release's CloudFormation stack: CloudFormation moves the functions' aliases step by step, which has no counterpart among
# the resources of the AWS provider. The table and the bucket stay if the stack is deleted.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

resource "aws_cloudformation_stack" "fleetwright" {
  name         = "fleetwright-${var.cluster_name}"
  template_url = "https://${var.code_bucket}.s3.${var.region}.${var.dns_suffix}/${var.code_prefix}${local.template}"
  capabilities = ["CAPABILITY_IAM"]
  tags         = var.tags

  parameters = merge(var.settings, {
    ClusterName = var.cluster_name
    NodeRole    = var.node_role
    CodeBucket  = var.code_bucket
    CodePrefix  = var.code_prefix
  })

  timeouts {
    # CanaryMinutes may be 120; the provider would give up after 30 minutes, while the stack goes on.
    update = "3h"
  }
}

locals {
  template = "${var.variant}.template.json"
}
