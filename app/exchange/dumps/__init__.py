"""Readers of the dumps of other filters."""
