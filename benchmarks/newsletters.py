"""Newsletters: a stream of HTML mail as senders of today write it.

    python -m benchmarks.newsletters FOLDER [--messages N]

Writes the messages and a file named ``index`` into a new folder, for the programs that
read streams.  Public corpora are twenty years old, and most of their mail is plain
text; a newsletter is a multipart of 20 to 95 kB, with tables within tables, a style for
each cell, links that count clicks, and a hidden line for the list of messages.  The
words are those of `benchmarks.growth`, so each run writes the same mail.
"""

from __future__ import annotations

import argparse
from email.message import EmailMessage
from email.policy import SMTP
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.growth import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

STORIES: Final = (6, 40)
"""Least and most stories of a newsletter."""
RULES: Final = 40
PAGE: Final = """\
<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title>
<style type="text/css">.line {{display:none}}
{rules}</style></head>
<body style="margin:0;padding:0;background-color:#f4f4f4;">
<div class="line" style="font-size:1px;color:#f4f4f4;max-height:0;">{line}</div>
<table border="0" cellpadding="0" cellspacing="0" width="100%" bgcolor="#ffffff">
{stories}</table>
<img src="https://click.{sender}/open/{id}.gif" width="1" height="1" alt="">
</body></html>
"""
RULE: Final = (
    ".c{0} {{color:#333333;padding:{0}px;}}\n"
    "@media (max-width:480px) {{.m{0} {{width:100% !important;}}}}\n"
)
STORY: Final = """\
<tr><td align="center" valign="top" style="padding:10px 20px 0 20px;font-family:Arial;">
<table border="0" cellpadding="0" cellspacing="0" width="600" class="m{number}"
style="max-width:600px;">
<tr><td style="padding:0 0 10px 0;"><a href="{url}" style="color:#1a73e8;"><img
src="https://img.{sender}/{id}.png" alt="{title}" width="560" height="240"
style="display:block;border:0;max-width:560px;"></a></td></tr>
<tr><td style="font-size:20px;line-height:26px;color:#222222;font-weight:bold;"><a
href="{url}" style="color:#222222;text-decoration:none;"><span
style="color:#222222;">{title}</span></a></td></tr>
<tr><td style="font-size:14px;line-height:20px;color:#555555;padding:8px 0;"><p
class="c{number}" style="margin:0 0 10px 0;">{text}</p></td></tr>
<tr><td><table cellpadding="0" cellspacing="0"><tr><td bgcolor="#1a73e8"
style="border-radius:4px;background-color:#1a73e8;"><a href="{url}"
style="display:inline-block;padding:10px 18px;color:#ffffff;">{line}</a></td></tr>
</table></td></tr></table></td></tr>
"""


def newsletter(number: int) -> bytes:
    """Return a message; those with odd numbers have the words of spam."""
    random = np.random.default_rng(number)

    def words(n: int) -> str:
        return " ".join(words_of(random, number % 2, n))

    sender = f"news{number % 7}.example"
    stories = []
    for story in range(int(random.integers(*STORIES, endpoint=True))):
        names = {"title": words(8), "line": words(2), "sender": sender}
        name = blake2b(f"{number}/{story}".encode(), digest_size=16).hexdigest()
        url = f"https://click.{sender}/track/{name}?utm_source=news&amp;id={story}"
        stories.append(
            STORY.format(
                url=url, id=name, number=story % RULES, text=words(40), **names
            )
        )
    message = EmailMessage(SMTP)
    message["Received"] = (
        f"from mta.{sender} (mta.{sender} [192.0.2.{number % 250}]) by mx.example.org "
        f"with ESMTPS id {number:x}; Mon, 2 Mar 2026 10:00:00 +0000"
    )
    message["From"] = f"News <news@{sender}>"
    message["To"] = "bob@example.org"
    message["Subject"] = words(6)
    message["Date"] = "Mon, 2 Mar 2026 10:00:00 +0000"
    message["Message-ID"] = f"<{number:x}@{sender}>"
    message["List-Unsubscribe"] = f"<https://click.{sender}/u/{number:x}>"
    message.set_content(words(40 * len(stories)))
    page = PAGE.format(
        title=words(5),
        line=words(15),
        rules="".join(map(RULE.format, range(RULES))),
        stories="".join(stories),
        sender=sender,
        id=number,
    )
    message.add_alternative(page, subtype="html", cte="quoted-printable")
    message.set_boundary(f"{number:032x}")
    return message.as_bytes()


def write(folder: Path, messages: int) -> Iterator[str]:
    """Write messages, and yield their lines in the index."""
    for number in range(messages):
        (folder / f"{number:06}").write_bytes(newsletter(number))
        yield f"{('ham', 'spam')[number % 2]} {number:06}\n"


def main() -> None:
    """Write the stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=1000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    index = given.folder / "index"
    index.write_text("".join(write(given.folder, given.messages)))
    print(f"{given.messages} messages in {index}")


if __name__ == "__main__":
    main()
