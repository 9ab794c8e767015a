"""`lessons report`: growth, outcomes and decay as one page."""
