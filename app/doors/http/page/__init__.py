"""Pages: what a browser shows of a service, rendered by the service."""
