"""The shell: functions that wake, look, ask the core, and act."""
