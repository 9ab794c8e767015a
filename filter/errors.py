"""Errors raised by the lessons loop.

LessonsError
├── InvalidLesson
├── EmbedError
├── RerankError
├── ModelError
│   └── UnreadableReply
└── StoreError
    ├── StoreUnreachable
    ├── StoreMissing
    ├── AnswerTooLarge
    ├── StoreLocked
    ├── StoreDamaged
    ├── StoreNewer
    └── EmbeddingMismatch
"""

from __future__ import annotations


class LessonsError(Exception):
    """Base class: caught at the edges only; its text is one line a user can act on."""


class InvalidLesson(LessonsError):
    """A lesson, candidate or event breaks the rules of the data model."""


class EmbedError(LessonsError):
    """The embedding engine could not be asked, or answered nonsense."""


class RerankError(LessonsError):
    """The reranking model could not be asked, or answered nonsense."""


class ModelError(LessonsError):
    """The language model could not be asked."""


class UnreadableReply(ModelError):
    """The language model answered, but not in the agreed form."""


class StoreError(LessonsError):
    """The lesson store could not be read or written."""


class StoreUnreachable(StoreError):
    """The store's server gives no usable answer now; asking again later may help."""


class StoreMissing(StoreError):
    """The server answers, but has no such tenant, database or collection."""


class AnswerTooLarge(StoreError):
    """The store's server answers with more than is taken at once; asking for less may help."""


class StoreLocked(StoreError):
    """Somebody else holds the store; nothing was read or written."""


class StoreDamaged(StoreError):
    """The store's files cannot be trusted; nothing was written."""


class StoreNewer(StoreError):
    """The store was written by a later release; nothing of it was changed."""


class EmbeddingMismatch(StoreError):
    """Vectors of two different embedding models would have been compared."""
