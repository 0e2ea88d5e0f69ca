"""Which filters are compared? The settings as they are, and each trial's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.bootstrap import specification
from app.errors import InvalidSetting
from app.evaluation.configuration import Configuration
from app.evaluation.training import Training
from app.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAIN: Final = "train"
"""What is learned: no setting, since who serves learns all that it is told."""

AS_SET: Final = "as set"
"""What the settings as they are go by."""


def configurations(
    settings: Settings, trials: Sequence[str]
) -> dict[str, Configuration]:
    """Return what is compared, by name; first what is set, which learns everything.

    Parameters
    ----------
    settings : Settings
        What the operator set.
    trials : sequence of str
        Settings to try, as ``name=value`` with blanks between; ``train`` is what
        is learned (`app.evaluation.training.Training.parse`).

    Raises
    ------
    InvalidSetting
        If a trial is not of settings, or makes no other filter.
    """
    found = {AS_SET: Configuration(specification(settings))}
    for trial in trials:
        name = " ".join(trial.split())
        values = _parsed(name)
        training = Training.parse(values.pop(TRAIN, "everything"))
        tried = Configuration(specification(load_settings(**values)), training)
        same = [other for other, known in found.items() if known == tried]
        if same:
            msg = (
                f"--try {name!r} makes the same filter as {same[0]!r}; try settings "
                "that a verdict depends on, such as text_views or ham_cost, or train"
            )
            raise InvalidSetting(msg)
        found[name] = tried
    return found


def _parsed(trial: str) -> dict[str, str]:
    """Return the settings of a trial by name."""
    values = {}
    for part in trial.split():
        name, equals, value = part.partition("=")
        name = name.lower().removeprefix("postbayes_")
        if not equals or name not in (TRAIN, *Settings.model_fields):
            msg = (
                f"--try takes settings, such as text_views=words,headers, got {part!r}"
            )
            raise InvalidSetting(msg)
        values[name] = value
    if not values:
        msg = "--try takes settings, such as text_views=words,headers, got nothing"
        raise InvalidSetting(msg)
    return values
