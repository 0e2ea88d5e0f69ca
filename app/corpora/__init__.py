"""Labelled mail in files: Maildir, mbox and indexes."""
