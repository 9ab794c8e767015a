"""One run of the gate, its report and register; previews, pauses, notices."""
