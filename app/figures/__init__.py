"""Figures of merit of a classifier. Pure."""
