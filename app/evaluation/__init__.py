"""Evaluation: a filter on streams of labelled mail, without a database."""
