"""Background threads of a service."""
