"""What a run came to: lines, JSON and one page."""
