"""A message without some of its rows."""

from __future__ import annotations

import pytest

from app.ledger.undo import Assignment, MessageRow, RowHistory


def steps(*rows):
    """Return the rows of a message; a star marks one that an undo wrote."""
    found = []
    before = None
    for revision, text in enumerate(rows, 1):
        label = None if text.strip("*-!") == "" else text.strip("*!")
        found.append(
            MessageRow(
                revision=revision,
                label_before=before,
                label=label,
                epoch=202603,
                taught="*" not in text,
                kept="!" not in text,
                decision=None,
            )
        )
        before = label
    return found


def target(history, *taken_back):
    """Return what a message shall be: label and chain, or None if nothing changes."""
    found = RowHistory(history, set(taken_back)).transition()
    if found is None:
        return "as it is"
    return found.after and (found.after.label, found.after.chain)


@pytest.mark.parametrize(
    ("rows", "taken_back", "expected"),
    [
        (("spam",), (1,), None),
        (("spam",), (), "as it is"),
        (("spam", "ham"), (2,), ("spam", 1)),
        (("spam", "ham"), (1,), "as it is"),
        (("spam", "ham"), (1, 2), None),
        (("spam", "ham", "spam"), (2,), "as it is"),
        (("spam", "ham", "spam"), (3,), ("ham", 1)),
        (("spam", "-"), (2,), "as it is"),
        (("spam", "-", "ham"), (2,), "as it is"),
        (("spam", "-", "ham"), (1,), "as it is"),
        (("spam", "-", "ham"), (1, 3), None),
        (("spam", "-*"), (), ("spam", 1)),
        (("spam", "-*"), (1,), "as it is"),
        (("spam", "-*", "ham"), (1,), "as it is"),
        (("spam", "-*", "ham"), (), ("ham", 1)),
        (("spam", "ham", "spam*"), (2,), "as it is"),
    ],
)
def test_a_message_is_what_the_rest_of_its_rows_say(rows, taken_back, expected):
    """As if the rows that are taken back had never been written."""
    assert expected == target(steps(*rows), *taken_back)


def test_a_vector_is_found_wherever_the_chain_still_has_it():
    """A newer row of the same learning has the same vector."""
    history = steps("spam!", "ham")
    found = RowHistory(history, {2}).transition()

    assert (Assignment("ham", 1), Assignment("spam", 1)) == (found.before, found.after)
    assert (2, 2) == (found.before.kept, found.after.kept)
    assert found.possible


def test_what_has_no_vector_cannot_be_put_right():
    """Neither taken back nor learned again."""
    assert not RowHistory(steps("spam!"), {1}).transition().possible
