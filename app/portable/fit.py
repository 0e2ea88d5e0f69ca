"""Does a profile fit what an export holds?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import OtherProfile

if TYPE_CHECKING:
    from app.portable.header import Header
    from app.storage.profiles import ProfileRow


def require_feature_set(header: Header, feature_set: int) -> None:
    """Raise if an export counts other features than are made here.

    Raises
    ------
    OtherProfile
        With the two numbers.
    """
    if header.feature_set != feature_set:
        msg = (
            f"this export is of feature set {header.feature_set}, and feature set "
            f"{feature_set} is made here: its counts are of other features. Learn the "
            "mail again, or use a Postbayes of that feature set"
        )
        raise OtherProfile(msg)


def require_labels(header: Header, profile: ProfileRow) -> None:
    """Raise if a profile lacks a label of an export, or means it otherwise.

    Raises
    ------
    OtherProfile
        With the labels of both, and how to make a profile that fits.
    """
    strange = [
        label
        for label in header.labels
        if label not in profile.labels
        or (label in profile.spam_labels) != (label in header.spam_labels)
    ]
    if strange:
        msg = (
            f"this export has the labels {_listed(header)}, and the profile "
            f"{profile.name!r} has {_listed(profile)}. Import it into a profile of its "
            "own with --profile NEWNAME, or into this one with --replace"
        )
        raise OtherProfile(msg)


def same_labels(header: Header, profile: ProfileRow) -> bool:
    """Return whether a profile has the labels of an export, in their order."""
    return (header.labels, header.spam_labels) == (profile.labels, profile.spam_labels)


def policy_of(header: Header, profile: ProfileRow) -> object:
    """Return the policy of an export; of an older one, that of the profile."""
    return profile.policy if header.policy is None else header.policy.document()


def _listed(of: Header | ProfileRow) -> str:
    """Return labels as a person reads them."""
    return ", ".join(
        f"{label} (spam)" if label in of.spam_labels else label for label in of.labels
    )
