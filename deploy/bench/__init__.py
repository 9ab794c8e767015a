"""Figures, each with the command that takes it: `make bench`, `make bench-load`."""
