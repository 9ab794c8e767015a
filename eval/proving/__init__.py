"""Proofs for the gate: a batch, or one lesson, on held-out questions."""
