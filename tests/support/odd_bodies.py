"""Bodies of every shape a hook may be given."""

from __future__ import annotations

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system"]) | JSON,
        "content": JSON,
        "output": JSON,
        "id": JSON,
        "finish_reason": JSON,
        "tool_calls": JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(MESSAGE | JSON) | JSON,
        "chat_id": JSON,
        "id": JSON,
        "model": JSON,
    },
)
