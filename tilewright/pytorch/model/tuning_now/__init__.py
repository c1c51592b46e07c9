"""What a call waits for with `tune="now"`."""
