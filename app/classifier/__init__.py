"""Classifier: specification, snapshot, score, verdict and explanation. Pure."""
