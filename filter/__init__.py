"""The Open WebUI filter: recalls curated lessons, stages candidates; knows nothing of the gate."""
