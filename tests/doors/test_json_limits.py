"""A JSON document of more parts than a request needs is refused before it is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.documents.message import MAX_MESSAGES, TextIn
from app.doors.http.body import MOST_PARTS, require_few_parts
from app.errors import MalformedRequest

texts = st.text(st.sampled_from('a\\"{}[],: \né')) | st.text()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


def parts(value):
    """Return how many strings, commas and brackets a value has as JSON."""
    if isinstance(value, str):
        return 1
    if not isinstance(value, list | dict):
        return 0
    inside = [*value, *value.values()] if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(parts, inside))


def refused(body, most):
    """Tell whether a document is refused."""
    try:
        require_few_parts(body, most=most)
    except MalformedRequest:
        return True
    return False


@given(values, st.booleans())
def test_exactly_what_is_not_in_strings_is_counted(value, readable):
    """However strings are escaped."""
    body = json.dumps(value, ensure_ascii=readable).encode()
    there = parts(value)

    assert not refused(body, there)
    assert refused(body, there - 1)


def test_the_largest_batch_is_taken():
    """As many messages as there may be, with every field that there is."""
    fields = [field.alias or name for name, field in TextIn.model_fields.items()]
    message = dict.fromkeys(fields, "text, and more")
    body = json.dumps({"messages": [message] * MAX_MESSAGES}).encode()

    require_few_parts(body)


def test_the_sentence_says_what_to_do():
    """A message is one string, whatever it is about."""
    with pytest.raises(MalformedRequest, match=r"32,768 .* raw as message/rfc822"):
        require_few_parts(b"[" + b"{}," * MOST_PARTS + b"{}]")
