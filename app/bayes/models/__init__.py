"""The event models of the naive Bayes family."""
