"""The collapse test: a loop with a deliberately bad distiller."""
