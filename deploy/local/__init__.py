"""A whole local installation: `lessons up` and `lessons demo`."""
