"""Messages written for the tests: a few of each kind, and as many as one wants."""

from __future__ import annotations

HAM = (
    b"From: Ann <ann@example.org>\nTo: bob@example.org\nSubject: Lunch on Friday\n"
    b"Date: Fri, 6 Nov 2026 09:00:00 +0000\n\n"
    b"Shall we meet at noon in the usual place? The agenda is attached.\n",
    b"From: Carl <carl@example.net>\nSubject: Minutes of the meeting\n\n"
    b"Please find the minutes below. We agreed to move the release to Monday.\n",
    b"From: Dora <dora@example.org>\nSubject: Re: garden\n\n"
    b"The roses arrived and the soil is ready. See you on Sunday, Dora\n",
)

SPAM = (
    b"From: Winner <win@prizes.example>\nSubject: You are a WINNER\n\n"
    b"Claim your free prize money now! Click http://prizes.example/claim today.\n",
    b"From: Pills <sales@pills.example>\nSubject: cheap pills\n\n"
    b"Buy cheap pills online, free shipping, money back. http://pills.example/buy\n",
    b"From: Bank <alert@bank.example>\nSubject: urgent: your account\n\n"
    b"Your account is suspended. Verify your password now at http://bank.example/x\n",
)


def ham(number: int) -> bytes:
    """Return a wanted message; different numbers give different messages."""
    return HAM[number % 3] + b"Reference meeting %d, agenda %d.\n" % (number, number)


def spam(number: int) -> bytes:
    """Return an unwanted message; different numbers give different messages."""
    return SPAM[number % 3] + b"Offer number %d, order %d now!\n" % (number, number)
