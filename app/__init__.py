"""Postbayes: a self-hosted spam filter that learns online with naive Bayes."""

__version__ = "0.1.0"
