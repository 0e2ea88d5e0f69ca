"""The count tables."""
