"""The table: records, leases, counters and what EC2 refused lately."""
