"""Naive Bayes on a table: fitted, shown and tried, for teaching and checking."""
