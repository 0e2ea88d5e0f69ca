"""Lab: naive Bayes on a table, for teaching and for checking."""
