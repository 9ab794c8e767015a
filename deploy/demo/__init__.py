"""The demo: real data behind a real tool, and a scripted practice model."""
