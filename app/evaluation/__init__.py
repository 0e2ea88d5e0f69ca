"""Streams of labelled mail, and figures of merit. No database."""
