"""Programs that measure, on mail of your own."""
