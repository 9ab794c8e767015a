"""Grade answers: deterministic checks, a judge, a person."""
