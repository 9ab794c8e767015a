"""From a verdict or a person's word to a change, and the one way it is written."""
