output "stack_id" {
  description = "The stack's ARN."
  value       = aws_cloudformation_stack.fleetwright.id
}

output "roles" {
  description = "Output of the stack (RoleOf and the function's name) to the ARN of that function's role."
  value       = aws_cloudformation_stack.fleetwright.outputs
}
