"""Lessons from one store, or a trusted file, into another: through the gate's write path."""
