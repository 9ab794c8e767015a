"""Whether a new lesson repeats, extends or contradicts a curated one: by words, or a model."""
