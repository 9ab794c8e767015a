"""Evaluation: does recalling lessons help, and by how much."""
