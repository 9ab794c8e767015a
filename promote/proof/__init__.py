"""Measured on held-out questions before it is written: a batch, or one lesson."""
