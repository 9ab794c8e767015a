"""Attacks on the loop itself, through the real filter and gate."""
