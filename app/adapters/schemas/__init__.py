"""The JSON documents of the HTTP door and of `--json`, one noun per file."""
