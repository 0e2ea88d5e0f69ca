"""Dumps of other filters, read into counts of features."""
