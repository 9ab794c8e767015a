"""One warning per trouble, not one per message."""

from __future__ import annotations

import logging

lessons_log = logging.getLogger("lessons_loop")


class Alerts:
    """Remembers which troubles were reported; a cleared one may be reported again."""

    def __init__(self) -> None:
        self.active: dict[str, str] = {}

    def warn(self, trouble: str, message: str) -> None:
        """Log a warning unless the same trouble was already reported."""
        if trouble not in self.active:
            lessons_log.warning("%s", message)
        self.active[trouble] = message

    def clear(self, trouble: str) -> None:
        """Note that the trouble is over."""
        if self.active.pop(trouble, None) is not None:
            lessons_log.info("%s works again", trouble)
