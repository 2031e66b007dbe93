"""The imperative shell: functions that observe, let the core decide, and act."""
