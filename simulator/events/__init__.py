"""What wakes a function: schedules, rules, the audit log and queues, in the form in which AWS delivers their events."""
