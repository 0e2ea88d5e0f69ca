"""Dovecot's configuration in the tests, as the version that is installed reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

# What Sieve does: file spam, or learn from moves and from marks as well, or learn from
# moves and file mail of further labels.
Sieve = Literal["filing", "learning", "labels"]

DEPLOY = Path(__file__).parents[2] / "deploy" / "dovecot"
INSTALLED = "/usr/local/lib/postbayes"

_COMMON = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
listen = 127.0.0.1
ssl = yes
first_valid_uid = 1
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp}
  }}
}}
service auth {{
  unix_listener {folder}/auth {{
    mode = 0666
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Junk {{
    auto = create
  }}
  mailbox Unerwünscht {{
    special_use = \\Junk
    auto = create
  }}
  mailbox Trash {{
    special_use = \\Trash
    auto = create
  }}
  mailbox Papierkorb {{
    special_use = \\Trash
    auto = create
  }}
  mailbox Archive {{
    special_use = \\Archive
    auto = create
  }}
}}
"""

_2_3 = """\
protocols = imap lmtp
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_username_format = %Lu
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={folder}/mail/%u allow_all_users=yes
}}
mail_location = maildir:~/Maildir
"""

_2_4 = """\
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
protocols = imap lmtp
ssl_server_cert_file = {folder}/cert.pem
ssl_server_key_file = {folder}/key.pem
auth_allow_cleartext = yes
auth_username_format = %{{user | lower}}
passdb static {{
  password = {password}
}}
userdb static {{
  fields {{
    allow_all_users = yes
    uid = nobody
    gid = nogroup
    home = {folder}/mail/%{{user}}
  }}
}}
mail_driver = maildir
mail_path = ~/Maildir
"""

_FILING_2_3 = f"""\
protocol lmtp {{
  mail_plugins = $mail_plugins sieve
}}
plugin {{
  sieve_before = {INSTALLED}/spam-to-junk.sieve
}}
"""

_FILING_2_4 = f"""\
protocol lmtp {{
  mail_plugins {{
    sieve = yes
  }}
}}
sieve_script postbayes {{
  type = before
  path = {INSTALLED}/spam-to-junk.sieve
}}
"""


def configuration(names: Mapping[str, object], *, sieve: Sieve, installed: Path) -> str:
    """Return a whole configuration file.

    Parameters
    ----------
    names : mapping
        Folder, ports and password.
    sieve : Sieve
        What is done with mail.
    installed : Path
        Where the files of deploy/dovecot are.
    """
    new = version() >= (2, 4)
    if sieve == "filing":
        ours = _FILING_2_4 if new else _FILING_2_3
    else:
        suffix = "-2.4.conf" if new else ".conf"
        # Either of the further files works without the other.
        further = "labels" if sieve == "labels" else "flags"
        files = [f"postbayes{suffix}", f"postbayes-{further}{suffix}"]
        ours = "".join((DEPLOY / name).read_text() for name in files)
    # Dovecot 2.4 wants its version in the first line.
    site = (_2_4 if new else _2_3) + _COMMON
    return site.format(**names) + ours.replace(INSTALLED, str(installed))


def version() -> tuple[int, int]:
    """Return the version that is installed."""
    printed = subprocess.run(
        ["/usr/sbin/dovecot", "--version"], capture_output=True, text=True, check=True
    )
    major, minor, *_ = printed.stdout.split(".")
    return int(major), int(minor)
