"""Which doors are open: what the settings say, or one sentence that says why not."""

from __future__ import annotations

import pytest

from app import doors
from app.errors import InvalidSetting
from app.settings import Settings


def test_a_header_that_is_none_is_told_before_anything_opens():
    """Before the service runs, and not by each door for itself."""
    settings = Settings(_env_file=None, spam_header="bad header")

    with pytest.raises(InvalidSetting, match="POSTBAYES_SPAM_HEADER is 'bad header'"):
        doors.listen(settings)


def test_no_door_is_open_unless_it_is_set():
    """HTTP alone is what ships."""
    assert {} == doors.listen(Settings(_env_file=None))


def test_an_address_that_is_none_names_its_setting():
    """One of the doors cannot be opened: none is, and the sentence says which."""
    settings = Settings(_env_file=None, spamd="127.0.0.1:0", milter="nowhere")

    with pytest.raises(InvalidSetting, match="POSTBAYES_MILTER is 'nowhere'"):
        doors.listen(settings)
