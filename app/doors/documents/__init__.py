"""JSON documents of the HTTP door and of `--json`."""
