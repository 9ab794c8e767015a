"""Which lessons stopped helping: events folded into the use register, and what follows."""
