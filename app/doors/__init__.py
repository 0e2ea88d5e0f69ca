"""Doors: protocols and commands, with one use case behind each."""
