"""Seed lessons per domain, offered through the gate's write path."""
