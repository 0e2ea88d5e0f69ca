"""rspamd's Bayes: the daemon as Debian ships it, its modules but Bayes turned off."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Final

from benchmarks.peers.peer import Said

if TYPE_CHECKING:
    from pathlib import Path

# All of them but statistics: what is compared is Bayes, and nothing is looked up.
_MODULES: Final = """
    antivirus arc asn aws_s3 bimi chartable clickhouse dcc dkim dkim_signing dmarc
    elastic emails external_relay external_services force_actions forged_recipients
    fuzzy_check greylist hfilter history_redis http_headers maillist metadata_exporter
    metric_exporter mid milter_headers mime_types multimap mx_check neural once_received
    p0f phishing ratelimit rbl regexp replies reputation rspamd_update spamassassin
    spamtrap spf surbl trie url_redirector whitelist
"""

_READY: Final = 300.0
"""How long a server may take to listen.  Unit: seconds."""


class Rspamd:
    """A rspamd and a Redis of its own, on loopback.

    Parameters
    ----------
    folder : Path
        Where both keep what they have.

    Attributes
    ----------
    check, control : int
        The ports where it scores, and where it learns.
    """

    def __init__(self, folder: Path) -> None:
        # Each of the two cores may run one: ports by process.
        redis = 20_000 + os.getpid() % 10_000 * 3
        self.check, self.control = redis + 1, redis + 2
        _configure(folder, redis=redis, check=self.check, control=self.control)
        self._processes = [
            _started(
                [
                    *("/usr/bin/redis-server", "--port", str(redis)),
                    *("--bind", "127.0.0.1", "--save", "", "--dir", str(folder)),
                ],
                redis,
            )
        ]
        places = {
            "LOCAL_CONFDIR": folder / "etc",
            "DBDIR": folder / "db",
            "RUNDIR": folder / "run",
            "LOGDIR": folder / "log",
        }
        self._processes.append(
            _started(
                [
                    *("/usr/bin/rspamd", "--insecure", "--no-fork"),
                    *("--config", "/etc/rspamd/rspamd.conf"),
                    *(f"--var={name}={path}" for name, path in places.items()),
                ],
                self.control,
            )
        )
        _listening(self.check)

    def score(self, raw: bytes, /) -> Said:
        """Return the probability that stands in its symbol, in half per cents.

        The symbol's score is a finer function of it, and breaks ties.
        """
        answer = json.loads(self._post(self.check, "/checkv2", raw))
        for symbol, sign in (("BAYES_SPAM", 1), ("BAYES_HAM", -1)):
            if found := answer["symbols"].get(symbol):
                sure = float(found["options"][0].rstrip("%")) / 200
                return Said.by_probability(
                    0.5 + sign * sure, found["score"], spam=sign > 0
                )
        return Said.by_probability(0.5, 0.0, spam=False)

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Learn a message; one that it finds too short to learn is left out."""
        self._post(self.control, "/learnspam" if spam else "/learnham", raw)

    def close(self) -> None:
        """Stop both."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def _post(self, port: int, path: str, raw: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        # Bulk: otherwise it refuses messages that it would already decide so.
        connection.request("POST", path, raw, {"Learn-Type": "bulk"})
        answer = connection.getresponse().read()
        connection.close()
        return answer


def _configure(folder: Path, *, redis: int, check: int, control: int) -> None:
    """Write what differs from the configuration that ships."""
    for name in ("etc/local.d", "etc/override.d", "db", "run", "log"):
        (folder / name).mkdir(parents=True)
    files = {
        f"local.d/{module}.conf": "enabled = false;" for module in _MODULES.split()
    }
    files |= {
        "override.d/options.inc": 'filters = ""; disable_hyperscan = true; '
        'dns { nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; }',
        "override.d/logging.inc": 'level = "error";',
        "override.d/worker-normal.inc": f'bind_socket = "127.0.0.1:{check}"; '
        "count = 1;",
        "override.d/worker-controller.inc": f'bind_socket = "127.0.0.1:{control}"; '
        'count = 1; secure_ip = "127.0.0.1";',
        "override.d/worker-proxy.inc": "enabled = false; count = 0;",
        # It ships with a minimum of 200 of each; the others have none.
        "override.d/classifier-bayes.conf": f'servers = "127.0.0.1:{redis}"; '
        "min_learns = 1; autolearn = false;",
        "override.d/redis.conf": f'servers = "127.0.0.1:{redis}";',
    }
    for name, text in files.items():
        (folder / "etc" / name).write_text(text + "\n")


def _started(command: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _listening(port)
    except TimeoutError:
        process.kill()
        raise
    return process


def _listening(port: int) -> None:
    """Wait until somebody listens."""
    begun = time.monotonic()
    while time.monotonic() - begun < _READY:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port} after {_READY:.0f} s")
