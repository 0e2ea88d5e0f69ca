"""In-memory state of a process."""
