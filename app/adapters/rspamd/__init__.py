"""The rspamd door: what asks rspamd over HTTP asks us."""
