"""Which doors are open: what the settings say, or one sentence that says why not."""

from __future__ import annotations

import socket

import pytest

from app import main
from app.errors import InvalidSetting
from app.settings import Settings


def test_a_header_that_is_none_is_told_before_anything_opens():
    """Before the service runs, and not by each door for itself."""
    settings = Settings(_env_file=None, spam_header="bad header")

    with pytest.raises(InvalidSetting, match="POSTBAYES_SPAM_HEADER is 'bad header'"):
        main.listen(settings)


def test_a_network_of_teachers_that_is_none_is_told_before_anything_opens():
    """Whether a door is open that anybody teaches by, or not."""
    settings = Settings(_env_file=None, teach_from=["everybody"])

    with pytest.raises(InvalidSetting, match="POSTBAYES_TEACH_FROM: 'everybody'"):
        main.listen(settings)


def test_what_could_be_opened_is_not():
    """Who asks whether it could be lets the address go."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = Settings(_env_file=None, workers=2, spamd=f"127.0.0.1:{port}")
        with pytest.raises(InvalidSetting, match="Address already in use"):
            main.require(settings)
    main.require(settings)
    main.listen(settings)["spamd"].close()


def test_no_door_is_open_unless_it_is_set():
    """HTTP alone is what ships."""
    assert {} == main.listen(Settings(_env_file=None))


def test_an_address_that_is_none_names_its_setting():
    """One of the doors cannot be opened: none is, and the sentence says which."""
    settings = Settings(_env_file=None, spamd="127.0.0.1:0", milter="nowhere")

    with pytest.raises(InvalidSetting, match="POSTBAYES_MILTER is 'nowhere'"):
        main.listen(settings)
