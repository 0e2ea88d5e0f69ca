"""Corpora: labelled mail in mailboxes, folders and indexes."""
