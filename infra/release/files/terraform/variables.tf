variable "cluster_name" {
  description = "The name of the EKS cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z-]{0,51}$", var.cluster_name)) && !endswith(var.cluster_name, "-state")
    error_message = "At most 52 letters, digits and -, and not -state at the end."
  }
}

variable "node_role" {
  description = "The IAM role of nodes, with its path if it has one."
  type        = string
}

variable "region" {
  description = "The region of the cluster and of the bucket."
  type        = string
}

variable "code_bucket" {
  description = "A bucket in that region with the release's templates and zips."
  type        = string
}

variable "code_prefix" {
  description = "Their folder in the bucket, with a slash at its end."
  type        = string
  default     = "fleetwright/@VERSION@/"
}

variable "variant" {
  description = "The template: fleetwright acts, the others wait for approval, serve a private API server, or only observe."
  type        = string
  default     = "fleetwright"

  validation {
    condition     = contains([@VARIANTS@], var.variant)
    error_message = "One of @VARIANT_NAMES@."
  }
}

variable "settings" {
  description = "Other parameters of the template, such as { PollSeconds = \"5\" }."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack and of what it creates."
  type        = map(string)
  default     = {}
}

variable "dns_suffix" {
  description = "The suffix of S3's names in the partition."
  type        = string
  default     = "amazonaws.com"
}
