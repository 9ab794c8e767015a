"""What a domain consists of and where it is weak: `lessons audit`."""
