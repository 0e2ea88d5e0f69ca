"""Who may teach which profiles through the spamd door, and the answers."""

from __future__ import annotations

import pytest

from app.doors.spamd.server import spamd
from app.errors import Forbidden, InvalidSetting, TooManyRequests
from tests.support.spamd import answer, request
from tests.support.standin import Application


def test_learning_moving_and_forgetting_are_told():
    """DidSet and DidRemove say what was changed, and nothing where all was so."""
    app = Application()
    spam = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local", "User: ann")
    ham = request("TELL SPAMC/1.5", "Message-class: ham", "Set: local")
    forget = request("TELL SPAMC/1.5", "Remove: local")

    told = [answer(each, application=app) for each in (spam, spam, ham, forget, forget)]

    did = [
        b"DidSet: local\r\n",
        b"",
        b"DidSet: local\r\n",
        b"DidRemove: local\r\n",
        b"",
    ]
    assert [b"SPAMD/1.1 0 EX_OK\r\n" + each + b"\r\n" for each in did] == told
    assert ["spamd:ann", "spamd:ann", "spamd", "spamd"] == app.feedback.sources
    assert {"spamd"} == set(app.feedback.doors)


def test_a_message_is_known_again_with_the_headers_that_it_was_given():
    """A message marked by PROCESS is recognised when it is forgotten."""
    app = Application()
    answer(
        request("TELL SPAMC/1.5", "Message-class: spam", "Set: local"), application=app
    )
    given = answer(request("PROCESS SPAMC/1.5"), application=app)
    marked = given.partition(b"\r\n\r\n")[2]

    told = answer(
        request("TELL SPAMC/1.5", "Remove: local", message=marked), application=app
    )

    assert b"DidRemove: local" in told


@pytest.mark.parametrize(
    ("word", "label"), [("spam", "junk"), ("ham", "note"), ("junk", "junk")]
)
def test_spam_and_ham_are_the_labels_of_their_side(word, label):
    """A profile with other labels is taught by clients that know but two words."""
    app = Application()
    sent = request(
        "TELL SPAMC/1.5",
        f"Message-class: {word}",
        "Set: local",
        "User: desk@example.org",
    )
    answer(sent, application=app)

    assert [label] == list(app.feedback.learned.values())


@pytest.mark.parametrize(
    ("host", "may"), [("127.0.0.1", True), (None, True), ("192.0.2.1", False)]
)
def test_who_may_ask_is_a_matter_of_where_he_is(host, may):
    """The protocol has no place for a key; only a ping is for everybody."""
    sent = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local")
    check = request("CHECK SPAMC/1.5")

    assert [may, may] == [
        answer(each, host=host).startswith(b"SPAMD/1.1 0") for each in (sent, check)
    ]
    assert [not may, not may] == [
        answer(each, host=host).startswith(b"SPAMD/1.0 69 Service Unav")
        for each in (sent, check)
    ]
    assert b"PONG" in answer(request("PING SPAMC/1.5"), host=host)


def test_learning_while_the_database_is_away_is_to_be_tried_again():
    """The code is EX_TEMPFAIL, and nothing is learned."""
    app = Application()
    app.feedback.away = True
    sent = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local")

    assert b"SPAMD/1.0 75 the database does not answer\r\n" == answer(
        sent, application=app
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(TooManyRequests("as many as may be taught", 60.0), 75), (Forbidden("no"), 69)],
)
def test_a_teacher_who_is_refused_is_told_why(error, code):
    """It is not for the network, which may teach, that nothing is learned."""

    def teach(*_, **__):
        raise error

    app = Application()
    app.feedback.teach = teach
    sent = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local")

    assert f"SPAMD/1.0 {code} {error}\r\n".encode() == answer(sent, application=app)


def test_a_network_that_is_none_stops_the_start():
    """The sentence has the variable and the value."""
    with pytest.raises(InvalidSetting, match="POSTBAYES_KEYLESS_FROM: 'nowhere'"):
        spamd(Application(keyless_from=("nowhere",)))
