"""scikit-learn and River: naive Bayes and a linear model, as their users write it."""

from __future__ import annotations

import re
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from importlib import import_module
from typing import Any

from benchmarks.peers.peer import Said

_TAG = re.compile(r"<[^>]*>")


def text_of(raw: bytes) -> str:
    """Return the subject and all text of a message, HTML without its tags."""
    message = message_from_bytes(raw)
    found = []
    for subject in message.get_all("subject", []):
        try:
            found.append(str(make_header(decode_header(str(subject)))))
        except (MessageError, LookupError, ValueError):
            found.append(str(subject))
    for part in message.walk():
        if part.get_content_maintype() != "text":
            continue
        payload = part.get_payload(decode=True)
        content = payload if isinstance(payload, bytes) else b""
        try:
            text = content.decode(part.get_content_charset() or "utf-8", "replace")
        except (LookupError, ValueError):
            text = content.decode("latin-1")
        html = part.get_content_subtype() == "html"
        found.append(_TAG.sub(" ", text) if html else text)
    return "\n".join(found)


class ScikitLearn:
    """A `partial_fit` for each message, over hashed words.

    Parameters
    ----------
    model : str
        `MultinomialNB`, or `SGDClassifier` for logistic regression.
    """

    def __init__(self, model: str) -> None:
        text = import_module("sklearn.feature_extraction.text")
        self._linear = model == "SGDClassifier"
        # Its classes are dense: 2**18 columns cost a tenth of a second less a
        # hundred messages than the 2**20 that it hashes into by default.
        self._words: Any = text.HashingVectorizer(
            n_features=2**18,
            alternate_sign=False,
            norm="l2" if self._linear else None,
        )
        self._model: Any
        if self._linear:
            linear = import_module("sklearn.linear_model")
            self._model = linear.SGDClassifier(loss="log_loss", random_state=0)
        else:
            self._model = import_module("sklearn.naive_bayes").MultinomialNB()
        self._fitted = False

    def score(self, raw: bytes, /) -> Said:
        """Return the log-odds."""
        if not self._fitted:
            return Said.by_log_odds(0.0)
        x = self._words.transform([text_of(raw)])
        if self._linear:
            odds = float(self._model.decision_function(x)[0])
        else:
            ham, spam = self._model.predict_joint_log_proba(x)[0]
            odds = float(spam - ham)
        return Said.by_log_odds(odds)

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Fit one message."""
        x = self._words.transform([text_of(raw)])
        self._model.partial_fit(x, [int(spam)], classes=[0, 1])
        self._fitted = True

    def close(self) -> None:
        """Do nothing."""


class River:
    """`BagOfWords` and `MultinomialNB`, a message at a time."""

    def __init__(self) -> None:
        self._words: Any = import_module("river.feature_extraction").BagOfWords(
            lowercase=True
        )
        self._model: Any = import_module("river.naive_bayes").MultinomialNB()

    def score(self, raw: bytes, /) -> Said:
        """Return the log-odds."""
        if len(self._model.class_counts) < 2:
            return Said.by_log_odds(0.0)
        joint = self._model.joint_log_likelihood(
            self._words.transform_one(text_of(raw))
        )
        odds = float(joint[True] - joint[False])
        return Said.by_log_odds(odds)

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Learn one message."""
        self._model.learn_one(self._words.transform_one(text_of(raw)), spam)

    def close(self) -> None:
        """Do nothing."""
