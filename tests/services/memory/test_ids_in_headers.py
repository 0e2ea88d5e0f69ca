"""Mail that was scored is taught as it was scored, by the id in its headers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.features.extract import extract
from app.mail.parse import parse
from app.services.recent import is_same_message, marked_ids
from tests.support.messages import SPAM, ham, spam

ID = "0123456789abcdef" * 2


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def marked(raw, id_):
    """Return a message as a mail server marked it."""
    return b"X-Postbayes: spam\r\nX-Postbayes-Id: %b\r\n" % id_.encode() + raw


def changed(raw):
    """Return a message as a gateway passes it on: a tag, and a footer."""
    raw = raw.replace(b"Subject: ", b"Subject: [EXTERNAL] ", 1)
    return raw + b"\n--\nChecked by the gateway of Example Ltd.\n"


def taught(app, raw, label="spam"):
    """Teach a message, and return the id that it was taught under."""
    answer = app.feedback.teach("default", raw, label=label, source="test")
    return answer.outcome.digest.hex(), answer.outcome.kind


@pytest.mark.parametrize(
    ("headers", "ids"),
    [
        (f"X-Postbayes-Id: {ID}\n", [ID]),
        (f"a: b\r\nx-postbayes-id:\t{ID} \r\nc: d\r\n", [ID]),
        (f"X-Postbayes-Id: {ID}\nX-Postbayes-Id: {ID}\n", [ID]),
        (f"X-Postbayes-Id: {ID}0\n", []),
        ("X-Postbayes-Id: none\n", []),
        (f"a: b\n\nX-Postbayes-Id: {ID}\n", []),
        (f"Not-X-Postbayes-Id: {ID}\n", []),
        ("".join(f"X-Postbayes-Id: {n:032x}\n" for n in range(9)), None),
    ],
)
def test_ids_are_read_in_the_headers_alone(headers, ids):
    """Only whole header lines of that name count, and only a few of them."""
    found = [each.hex() for each in marked_ids(headers.encode())]

    assert (ids if ids is not None else [f"{n:032x}" for n in range(2)]) == found


def test_a_message_that_was_changed_on_the_way_is_the_one_that_was_scored(app):
    """Tag and footer make another digest; the header leads back to the first."""
    raw = SPAM[0] + b"Many more words follow here about the prize that you have won.\n"
    scored = app.classify("default", raw, strongest=0).observation
    assert extract(parse(changed(raw))).digest != scored.digest

    learned = taught(app, marked(changed(raw), scored.id))
    again = taught(app, marked(raw, scored.id))

    assert (scored.id, "learned") == learned
    assert (scored.id, "unchanged") == again


def test_a_forged_id_does_not_teach_another_message(app):
    """A message with the id of somebody else's mail is learned itself."""
    victim = app.classify("default", ham(1), strongest=0).observation.id

    own, kind = taught(app, marked(spam(1), victim))

    assert (extract(parse(spam(1))).digest.hex(), "learned") == (own, kind)
    assert victim != own


def test_an_id_that_is_not_known_is_passed_over(app):
    """The message itself is learned."""
    assert extract(parse(spam(2))).digest.hex() == taught(app, marked(spam(2), ID))[0]


def test_a_label_is_moved_by_the_header_too(app):
    """Into Junk and out again, with a gateway between: one message, one label."""
    raw = SPAM[1] + b"Order today and get another box of pills for half of the money.\n"
    id_ = app.classify("default", raw, strongest=0).observation.id

    kinds = [
        taught(app, marked(changed(raw), id_), label)[1] for label in ("spam", "ham")
    ]

    assert ["learned", "relabelled"] == kinds


def test_a_message_is_forgotten_by_the_header_too(app):
    """A copy from a mailbox is enough to forget a message."""
    raw = SPAM[1] + b"Order today and get another box of pills for half of the money.\n"
    id_ = app.classify("default", raw, strongest=0).observation.id
    arrived = marked(changed(raw), id_)
    taught(app, arrived)

    digest = app.feedback.identify("default", arrived)

    assert id_ == digest.hex()
    assert "forgotten" == (
        app.feedback.forget("default", digest, source="test").outcome.kind
    )


def test_features_of_another_rule_book_are_not_compared():
    """An observation of an older feature set stands for its own digest only."""
    one = extract(parse(spam(1)))
    other = extract(parse(changed(spam(1))))
    other = replace(other, feature_set=one.feature_set + 1)

    assert not is_same_message(other, one)
    assert is_same_message(one, one)
