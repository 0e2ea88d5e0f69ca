"""From raw bytes to a Message: never raises, always bounded."""
