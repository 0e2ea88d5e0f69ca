"""The format of an export."""
