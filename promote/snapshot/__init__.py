"""Everything a domain's gate knows, kept before each run that writes, and put back."""
