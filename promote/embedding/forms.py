"""What LESSONS_EMBEDDING may be, as help and messages say it; loads nothing."""

from __future__ import annotations

SETTING = "LESSONS_EMBEDDING"
FORMS = "openai:MODEL@URL, minilm: or sentence-transformers:NAME_OR_FOLDER"
FORMS_OR_NONE = "openai:MODEL@URL, minilm:, sentence-transformers:NAME_OR_FOLDER or none"
USUAL = "openai:MODEL@URL or minilm:"
"""The two that need no torch: an endpoint's model, a packaged one."""
NO_EMBEDDER = f"no embedder: set {SETTING} to {USUAL}"
HOW_TO_SET = (
    f"either export {SETTING}=openai:MODEL@URL or, without an endpoint, export {SETTING}=minilm:"
)
