"""Undo in the database."""
