"""Profiles: state, policy, figures and words as JSON; the page of the site."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.rights import Right
from app.classifier.policy import DEFAULT, SAYS, value_of
from app.classifier.specification import check_name
from app.doors.documents.figures import FiguresOut, WordOut
from app.doors.documents.message import CorrespondentsOut
from app.doors.documents.profile import (
    ListedOut,
    PolicyIn,
    ProfileIn,
    ProfileOut,
    ProfilesOut,
    SettingsOut,
)
from app.doors.http.body import JsonOf, at_most
from app.doors.http.guard import asking
from app.doors.http.page import LARGE, link, pages, render, see_other
from app.doors.http.page.forms import Form  # noqa: TC001  read at run time
from app.doors.http.routes import App, Named, Queried, Who, problems, takes
from app.doors.serving.threads import computing, in_database
from app.errors import Forbidden, InvalidInput
from app.services.correspondents import forget_correspondent, list_correspondents
from app.services.follow import CURSOR, LEFT, offered_page
from app.services.profiles import learned
from app.services.recipients import MAX_ADDRESS

router = APIRouter(route_class=asking(Right.READ), tags=["profiles"])
managed = APIRouter(route_class=asking(Right.MANAGE), tags=["profiles"])
replicated = APIRouter(route_class=asking(Right.REPLICATE), tags=["profiles"])
operation = APIRouter(route_class=asking(Right.READ), tags=["operation"])
page = pages(asking(Right.READ))
changing = pages(asking(Right.MANAGE))
# A site with a profile for each user has thousands.
MAX_LISTED: Final = 1000


@router.get("/profiles", responses=problems(422))
def profiles(
    who: Who,
    app: App,
    after: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, at_most(MAX_LISTED)] = 100,
) -> ProfilesOut:
    """List the profiles that the client may use, in the order of their names.

    A profile that was created within the last second may be missing.

    Parameters
    ----------
    after
        Only names after this one.
    limit
        Maximum number of profiles.
    """
    live = {each.row.name: each for each in app.live}
    rest = sorted(name for name in live if name > after and who.may_use(name))
    listed = [
        ListedOut(name=name, revision=live[name].revision, messages=learned(live[name]))
        for name in rest[:limit]
    ]
    more = len(rest) > limit
    return ProfilesOut(profiles=listed, next=listed[-1].name if more else None)


@router.get("/profiles/{name}", responses=problems(404, 422, 503))
def profile(name: Named, app: App) -> ProfileOut:
    """Return the specification and the counts of a profile."""
    return ProfileOut.of(app, name)


@managed.post(
    "/profiles",
    **takes(ProfileIn, {"name": "ann@example.org", "kind": "mail"}, 409, 503),
)
async def create_profile(who: Who, document: JsonOf[ProfileIn], app: App) -> ProfileOut:
    """Create a profile, and return it; a profile with these labels is kept.

    It works at once in this worker, and within a second in the others.
    """
    of_site = app.settings
    labels, spam_labels = document.of_labels(of_site.labels, of_site.spam_labels)
    await in_database(
        app.create_profile,
        who.require(document.name),
        labels=labels,
        spam_labels=spam_labels,
        actor=who.name,
    )
    return await computing(partial(ProfileOut.of, app, document.name), 0)


@managed.patch(
    "/profiles/{name}",
    **takes(PolicyIn, {"reject_from": "99.999%"}, 404, 503),
)
async def change_policy(
    who: Who, name: Named, document: JsonOf[PolicyIn], app: App
) -> ProfileOut:
    """Change the policy of a profile, and return the profile.

    Fields that are not in the JSON do not change, and null resets a field to the
    settings of the service. The worker that answers applies the policy from its next
    message on, all others within a second; earlier verdicts do not change.
    """
    # It waits for the database.
    await in_database(app.change_policy, name, document.changes(), actor=who.name)
    return await computing(partial(ProfileOut.of, app, name), 0)


# 5,000 messages determine an error rate of 1 % to within 0.3 points.
WINDOW: Final = 5_000
# The interval for 100,000 takes 0.6 s, and no more memory than for 5,000.
MAX_WINDOW: Final = 100_000
# More than the length of two features (`app.features.tokens` cuts them).
MAX_WORD: Final = 512


@router.get("/profiles/{name}/figures", responses=problems(404, 422, 503))
def figures(
    name: Named,
    app: App,
    window: Annotated[int, at_most(MAX_WINDOW)] = WINDOW,
) -> FiguresOut:
    """Return the accuracy of the filter on labelled mail.

    Each of these messages was scored before it was learned, so these are error
    rates on mail that the filter had not seen. A corrected label counts as corrected.

    Parameters
    ----------
    window
        Maximum number of latest labelled messages.
    """
    return FiguresOut.of_figures(app.figures(name, window=window))


Correspondent = Annotated[str, Query(max_length=MAX_ADDRESS)]


@router.get("/profiles/{name}/correspondents", responses=problems(404, 422, 503))
def correspondents(
    name: Named, app: App, address: Correspondent = ""
) -> CorrespondentsOut:
    """Count the correspondents of the users of a profile.

    The database has only digests of addresses. Messages of the last minute may be
    missing.

    Parameters
    ----------
    address
        Only this address.
    """
    found = list_correspondents(
        app.engine, app.settings, address=address or None, profile=name
    )
    if not found:
        return CorrespondentsOut(addresses=0, messages=0, last=None)
    return CorrespondentsOut.model_validate(found[0][1])


@managed.delete("/profiles/{name}/correspondents", responses=problems(404, 422, 503))
def forget_correspondents(
    who: Who, name: Named, app: App, address: Correspondent
) -> CorrespondentsOut:
    """Forget that the users of a profile have written to an address.

    The answer counts the remaining ones. Other workers forget within a minute.

    Parameters
    ----------
    address
        Only this address.
    """
    # Waiting messages would be counted afterwards.
    app.correspondents.flush()
    forget_correspondent(
        app.engine, app.settings, address, profile=name, actor=who.name
    )
    app.correspondents.follow()
    return correspondents(name, app)


# A path, because words such as `://` and `subject:/` have a slash, even if encoded.
@router.get("/words/{word:path}", responses=problems(404, 422, 503))
def word(
    word: Annotated[str, Path(min_length=1, max_length=MAX_WORD)],
    app: App,
    name: Queried,
) -> WordOut:
    """Return how often a word was learned, month by month, and its evidence.

    A word that was never learned has no views.

    Parameters
    ----------
    word
        The word as in explanations: `money`, `subject:money`, or two words with a
        blank.
    """
    return WordOut.model_validate(app.words(name, word))


PAGE: Final = "application/octet-stream"


@replicated.get(
    "/profiles/{name}/ledger",
    response_class=Response,
    responses={
        200: {
            "content": {PAGE: {"schema": {"type": "string", "format": "binary"}}},
            "headers": {
                name: {"schema": {"type": kind}, "required": True}
                for name, kind in ((CURSOR, "string"), (LEFT, "integer"))
            },
        },
        **problems(404, 409, 422, 503),
    },
)
async def offered(
    name: Named, app: App, after: Annotated[str, Query(max_length=80)] = ""
) -> Response:
    """Return the next page of what a profile offers to other sites.

    The page is a small export with the labels that people gave, without the text of
    words and without the names of teachers. The header `Postbayes-Cursor` is the cursor
    of the next page, and `Postbayes-Left` the number of rows behind it.

    Parameters
    ----------
    after
        The cursor of the page before; empty for the first. 409 if it is of another
        ledger.
    """
    if name not in app.settings.offer:
        raise Forbidden(
            f"the profile {name!r} is not offered to other sites; POSTBAYES_OFFER "
            "names those that are"
        )
    content, headers = await in_database(offered_page, app.engine, name, after=after)
    return Response(content, media_type=PAGE, headers=headers)


FIELDS: Final = {
    "ham_cost": ("Ham cost", "missed spam messages that one lost ham is worth"),
    "ham_threshold": ("Ham ends", "the decision is ham from here down"),
    "quarantine_from": ("Quarantine from", "mail servers hold spam from here up"),
    "reject_from": ("Reject from", "mail servers reject spam from here up"),
}
"""The fields of a policy, with their names on the page."""


@operation.get("/settings", responses=problems(422))
async def settings_in_force(who: Who, app: App) -> SettingsOut:
    """Return the settings in force, and facts about the service.

    Passwords and other secrets are hidden; the names of files with secrets are not.
    Clients that may use only some profiles are refused.
    """
    who.require_all("the settings, which are of all profiles")
    return SettingsOut.of(app)


@page.get("/site")
async def site_page(
    request: Request,
    who: Who,
    app: App,
    listed: Annotated[ProfilesOut, Depends(profiles)],
    name: Queried,
    changed: Annotated[str | None, Query(max_length=1)] = None,
    made: Annotated[str | None, Query(max_length=1)] = None,
) -> Response:
    """Show the profiles, the policy of one of them, and the settings."""
    return await computing(
        lambda: render(
            request,
            "site.html",
            listed=listed,
            one=ProfileOut.of(app, name),
            # Settings are shared, so only clients that may use all profiles see them.
            site=SettingsOut.of(app) if who.profiles is None else None,
            made=made,
            fields=FIELDS,
            says=SAYS,
            changed=changed,
        ),
        LARGE,
    )


@changing.post("/site/profiles")
async def create_profile_page(who: Who, app: App, form: Form) -> Response:
    """Create a profile, and show it."""
    name, kind = form["name"], form["kind"]
    check_name(name)
    if kind not in {"", "mail"}:
        raise InvalidInput(
            "the labels must be `mail`, or empty for those of the settings; got "
            f"{kind[:40]!r}"
        )
    existed = name in app.live
    document = ProfileIn(name=name, kind="mail" if kind == "mail" else None)
    await create_profile(who, document, app)
    made = "0" if existed else "1"
    return see_other(link("/ui/site", profile=name, made=made) + "#policy")


@changing.post("/site/policy")
async def change_policy_page(
    request: Request, who: Who, app: App, name: Queried, form: Form
) -> Response:
    """Change the policy of a profile; an empty field leaves it to the settings."""
    changes = {
        field: value_of(field, form[field] or DEFAULT, named=title)
        for field, (title, _) in FIELDS.items()
        if field in form
    }
    await in_database(app.change_policy, name, changes, actor=who.name)
    return see_other(link("/ui/site", request.query_params, changed="1") + "#policy")
