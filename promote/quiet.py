"""Keep the embedding library's reports and bars out of what a person reads."""

from __future__ import annotations

import os

QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}


def quiet_libraries() -> None:
    """Set it for this program, before anything heavy is imported; what is set stays."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
