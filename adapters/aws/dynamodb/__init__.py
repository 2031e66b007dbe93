"""The DynamoDB table: records, leases, counters and recent launch refusals."""
