"""The doors: bytes and arguments in, use cases called, answers out."""
