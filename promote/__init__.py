"""The gate: only reader of candidates and events, only writer of curated lessons."""
