"""Who decides where rules leave it open: a person at a terminal, or a model."""
