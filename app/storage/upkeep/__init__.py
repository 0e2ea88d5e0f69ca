"""Upkeep: retention, pruning, audit and backup."""
