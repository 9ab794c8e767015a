"""Command line, local run, demo, bundler."""
