"""The spamd door: what asks SpamAssassin's daemon asks us."""
