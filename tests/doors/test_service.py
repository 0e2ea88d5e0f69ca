"""Service: the application that is served, and the doors beside it."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from app.doors import service
from app.errors import DatabaseUnavailable, InvalidSetting
from app.settings import Settings
from tests.support.databases import sqlite_url
from tests.support.messages import ham


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of the application of an environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", sqlite_url(tmp_path, "p.db"))
    with TestClient(service.create(), client=("127.0.0.1", 50000)) as client:
        yield client


def test_what_is_there_at_the_start_is_not_walked_again(client):
    """The collector looks at what came since, and that is little."""
    for n in range(9):
        client.post(
            "/feedback?label=ham",
            content=ham(n),
            headers={"content-type": "message/rfc822"},
        )
    gc.collect()

    assert len(gc.get_objects()) < gc.get_freeze_count() / 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_cannot_start_says_so_in_a_sentence(
    tmp_path, monkeypatch, caplog, workers
):
    """Where it is one of several: another is started, which would say it again."""
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", f"sqlite:///{tmp_path}")
    monkeypatch.setenv("POSTBAYES_WORKERS", f"{workers}")
    raised = DatabaseUnavailable if workers == 1 else SystemExit
    with pytest.raises(raised) as end:
        service.create()

    told = [(each.getMessage(), each.exc_info) for each in caplog.records]
    if workers == 1:
        assert [] == told
    else:
        [(sentence, traceback)] = told
        assert sentence.startswith(f"this worker cannot start: {tmp_path} cannot be op")
        assert (1, None) == (end.value.code, traceback)


def test_a_header_that_is_none_is_told_before_anything_opens():
    """Before the service runs, and not by each door for itself."""
    settings = Settings(spam_header="bad header")

    with pytest.raises(InvalidSetting, match="POSTBAYES_SPAM_HEADER is 'bad header'"):
        service.listen(settings)


def test_results_under_the_name_of_the_milter_cannot_be_believed():
    """The milter removes these headers before they are read."""
    same = {"milter_authserv_id": "MX.example.org", "authserv_id": ["mx.example.org"]}
    settings = Settings(**same)

    with pytest.raises(InvalidSetting, match="give the milter a different name"):
        service.listen(settings)


def test_a_network_of_teachers_that_is_none_is_told_before_anything_opens():
    """Whether a door is open that anybody teaches by, or not."""
    settings = Settings(keyless_from=["everybody"])

    with pytest.raises(InvalidSetting, match="POSTBAYES_KEYLESS_FROM: 'everybody'"):
        service.listen(settings)


def test_a_header_that_no_proxy_may_send_is_told_before_anything_opens():
    """Nobody could sign in by it, and no page would say why."""
    settings = Settings(sign_in_header="Remote-User")

    with pytest.raises(InvalidSetting, match="HEADER needs POSTBAYES_PROXIES"):
        service.listen(settings)


@pytest.mark.parametrize(
    ("doors", "both"),
    [
        ({"spamd": "127.0.0.1:8025"}, "POSTBAYES_SPAMD and POSTBAYES_PORT"),
        (
            {"milter": "127.0.0.1:1783", "spamd": "127.0.0.1:1783"},
            "POSTBAYES_SPAMD and POSTBAYES_MILTER",
        ),
        (
            {"milter": "unix:/tmp/one", "rspamd": "unix:/tmp/one"},
            "POSTBAYES_RSPAMD and POSTBAYES_MILTER",
        ),
    ],
)
def test_two_doors_with_one_address_are_told_before_anything_opens(doors, both):
    """No other service has it, which the error of the system would suggest."""
    settings = Settings(**doors)

    with pytest.raises(InvalidSetting, match=f"{both} have one address"):
        service.listen(settings)


def test_what_could_be_opened_is_not():
    """Who asks whether it could be lets the address go."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = Settings(workers=2, spamd=f"127.0.0.1:{port}")
        with (
            pytest.raises(InvalidSetting, match="another service listens on"),
            service.reserved(settings),
        ):
            pass
    with service.reserved(settings):
        pass
    service.listen(settings)["spamd"].close()


def test_code_that_misspells_a_setting_is_refused():
    """It would be taken for the default."""
    with pytest.raises(ValidationError, match="worker"):
        Settings(worker=2)


def test_no_door_is_open_unless_it_is_set():
    """HTTP alone is what ships."""
    assert {} == service.listen(Settings())


def test_an_address_that_is_none_names_its_setting():
    """One of the doors cannot be opened: none is, and the sentence says which."""
    settings = Settings(spamd="127.0.0.1:0", milter="nowhere")

    with pytest.raises(InvalidSetting, match="POSTBAYES_MILTER is 'nowhere'"):
        service.listen(settings)


WORKERS = """
from multiprocessing import get_context
from app.doors.service import _is_first
def tell():
    print(_is_first(), flush=True)
def start():
    tell()
    for _ in range(3):
        process = get_context("fork").Process(target=tell)
        process.start()
        process.join()
start()
process = get_context("fork").Process(target=start)
process.start()
process.join()
"""


def test_one_of_several_workers_is_the_first():
    """Not one that replaces another; and also where a process starts the service."""
    ran = subprocess.run(
        [sys.executable, "-c", WORKERS], capture_output=True, check=True, text=True
    )

    assert "True True False False False True False False" == " ".join(
        ran.stdout.split()
    )


def test_a_process_that_may_execute_no_new_memory_says_so_in_a_sentence(tmp_path):
    """As under ``MemoryDenyWriteExecute=yes``; before the database is made."""
    program = """if True:
        from llvmlite import binding
        def refused(): raise PermissionError(13, "cannot allocate executable memory")
        binding.check_jit_execution = refused
        from app.doors.cli.main import main
        main(["serve"])
    """
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False
    )

    assert 78 == done.returncode
    assert done.stderr.startswith(b"postbayes: this process may not execute memory")
    assert [] == [*tmp_path.iterdir()]
