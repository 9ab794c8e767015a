"""Embedders outside Open WebUI, and the vectors a store is made with."""
