"""Answers of the spamd door: verdicts and learning, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from app.doors.mta.headers import end_of_head, marks, ours, with_headers
from app.doors.mta.points import Scale, Symbol, printable, symbols
from app.doors.spamd.codec import success

if TYPE_CHECKING:
    from app.classifier.verdict import Action
    from app.doors.spamd.session import Request
    from app.services.classify import Classified
    from app.services.delivery import Delivered

# SpamAssassin's required_score, which the configuration of clients expects.
REQUIRED: Final = 5.0
# rspamd's points for `reject`, which are those of POSTBAYES_REJECT_FROM here.
REJECT: Final = 15.0
# Before it, an answer had no Content-length unless it held a message.
WITH_LENGTH: Final = (1, 3)
# SpamAssassin's X-Spam-Level has one star per point, 50 at most.
STARS: Final = 50
COLUMNS: Final = 66
# Probability below which a message gets SpamAssassin's rule of that name
# (rules/23_bayes.cf), so that filters on BAYES_99 keep their meaning.
_BAYES: Final = (
    (0.01, "BAYES_00"),
    (0.05, "BAYES_05"),
    (0.20, "BAYES_20"),
    (0.40, "BAYES_40"),
    (0.60, "BAYES_50"),
    (0.80, "BAYES_60"),
    (0.95, "BAYES_80"),
    (0.99, "BAYES_95"),
    (2.00, "BAYES_99"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpamdVerdict:
    """A verdict in points.

    Parameters
    ----------
    classified : Classified
        The answer of the service.
    score : float
        Its points, `REQUIRED` or more if it is spam.
    symbols : tuple of Symbol
        The symbols that sum to the points.
    action : Action
        The action for the message.
    flag : tuple of (str, str) or None
        The header that marks spam.
    """

    classified: Classified
    score: float
    symbols: tuple[Symbol, ...]
    action: Action
    flag: tuple[str, str] | None

    @classmethod
    def of(cls, delivered: Delivered, flag: tuple[str, str] | None) -> SpamdVerdict:
        """Return an answer of the service in points."""
        classified, action = delivered.classified, delivered.action
        verdict = classified.verdict
        scale = Scale.of(classified.specification, spam=REQUIRED, digits=1)
        score = scale.score(verdict.log_odds, verdict.decision, action)
        return cls(
            classified=classified,
            score=score,
            symbols=symbols(classified, scale, score),
            action=action,
            flag=flag,
        )

    @property
    def spam(self) -> bool:
        """Whether the decision is spam."""
        return self.classified.verdict.decision == "spam"

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the symbols, as SpamAssassin lists its rules."""
        probability = self.classified.verdict.probability
        bayes = next(name for below, name in _BAYES if probability < below)
        return (
            *([bayes] if self.classified.verdict.decision != "unsure" else []),
            *(symbol.name for symbol in self.symbols),
        )

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of a message that is given back.

        Those of Postbayes, and of SpamAssassin's the two that are sorted by.
        """
        yes = "Yes" if self.spam else "No"
        points = f"score={self.score:.1f} required={REQUIRED:.1f}"
        names = wrap(", ".join(self.tests), COLUMNS)
        tests = "\n\t".join(line.replace(", ", ",") for line in names)
        return (
            ("X-Spam-Level", "*" * max(0, min(STARS, int(self.score)))),
            ("X-Spam-Status", f"{yes}, {points}\n\ttests={tests}"),
            *marks(self.classified, self.action, self.flag),
        )

    def report(self) -> str:
        """Return the points and their reasons, for a person.

        Without empty lines: Exim and others put it into a header, and a line of
        blanks alone is no folding (RFC 5322 section 3.2.2).
        """
        verdict = self.classified.verdict
        lines = [
            f"Postbayes decides: {verdict.decision}, with a probability of spam of "
            f"{100 * verdict.probability:.2f} %.",
            f"Profile {printable(self.classified.profile)}, message "
            f"{self.classified.observation.id}.",
            f"Content analysis details:   ({self.score:.1f} points, "
            f"{REQUIRED:.1f} required)",
            " pts rule name              description",
            "---- ---------------------- " + "-" * 50,
        ]
        for symbol in self.symbols:
            words = " ".join(symbol.options)
            text = f"{symbol.description}: {words}" if words else symbol.description
            lines.append(f"{symbol.score:4.1f} {symbol.name:<22s} {text}")
        return "\n".join([*lines, ""])


def scanned(request: Request, answer: SpamdVerdict) -> bytes:
    """Return the answer to a request for a verdict."""
    word = "True" if answer.spam else "False"
    if request.kind == "REPORT_IFSPAM":
        word = "Yes" if answer.spam else "No"
    spam = ("Spam", f"{word} ; {answer.score:.1f} / {REQUIRED:.1f}")
    with_length = request.version >= WITH_LENGTH
    if request.kind == "CHECK RSPAMC":
        return _metric(answer)
    if request.kind == "CHECK":
        return success([spam])
    if request.kind in {"PROCESS", "HEADERS"}:
        raw = request.message
        if request.kind == "HEADERS":
            raw = raw[: end_of_head(raw)]
        body = with_headers(raw, answer.headers(), ours(answer.flag))
        length = ("Content-length", str(len(body)))
        return success([length, spam] if with_length else [length], body)
    body = _text(request, answer).encode("ascii", "replace")
    if not with_length:
        return success([spam], body)
    return success([("Content-length", str(len(body))), spam], body)


def _metric(answer: SpamdVerdict) -> bytes:
    """Return the verdict in the lines that Exim reads as rspamd's.

    It takes the words of the second line, and the action of the third (Exim 4.96,
    spam.c); what follows is for people.
    """
    word = "True" if answer.spam else "False"
    action = "no action" if answer.action == "none" else answer.action
    lines = [
        "RSPAMD/1.3 0 EX_OK",
        f"Metric: default; {word}; {answer.score:.2f} / {REQUIRED:.2f} / {REJECT:.2f}",
        f"Action: {action}",
        *(f"Symbol: {each.name}({each.score:.2f})" for each in answer.symbols),
        f"Profile: {printable(answer.classified.profile)}",
        f"Id: {answer.classified.observation.id}",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii")


def _text(request: Request, answer: SpamdVerdict) -> str:
    if request.kind == "SYMBOLS":
        # With a line's end up to version 1.2, and without from then on.
        end = "" if request.version >= WITH_LENGTH else "\r\n"
        return ",".join(answer.tests) + end
    if request.kind == "REPORT_IFSPAM" and not answer.spam:
        return ""
    return answer.report()


def tell_result(*, learned: bool, forgotten: bool) -> bytes:
    r"""Return the answer to TELL: the changes, and nothing where nothing changed.

    Examples
    --------
    >>> tell_result(learned=True, forgotten=False)
    b'SPAMD/1.1 0 EX_OK\r\nDidSet: local\r\n\r\n'
    """
    did = []
    if learned:
        did.append(("DidSet", "local"))
    if forgotten:
        did.append(("DidRemove", "local"))
    return success(did)
