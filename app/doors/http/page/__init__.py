"""Pages of a service for a browser, rendered by the service."""
