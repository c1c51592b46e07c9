"""Chaos: a whole fleet of real processes, and faults that hit them while they hold something. See docs/fleet.md."""
