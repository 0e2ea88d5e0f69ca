"""The door for clients of SpamAssassin's daemon."""
