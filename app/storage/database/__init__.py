"""The database itself: the only place that knows a dialect."""
