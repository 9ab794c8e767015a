"""Every decision as one line, chained by hashes; the journal; verifying both."""
