"""Where lessons live: folders or a server, their rows, locks, crashes and schema."""
