"""The door for clients of rspamd."""
