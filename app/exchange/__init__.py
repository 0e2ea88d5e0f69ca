"""Profiles as files, and the dumps of other filters."""
