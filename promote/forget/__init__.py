"""What leaves a store for good: a user's or a chat's traces, old archived lessons."""
