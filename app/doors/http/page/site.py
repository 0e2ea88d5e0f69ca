"""Site: pages of profiles, policies and settings in force, and their JSON twins."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from app.access.rights import Right
from app.classifier.policy import DEFAULT, SAYS, value_of
from app.classifier.specification import check_name
from app.doors.documents.profile import ProfileIn, ProfileOut, ProfilesOut, SettingsOut
from app.doors.http.body import ProfileName  # noqa: TC001  read at run time
from app.doors.http.guard import asking, principal_of
from app.doors.http.page.environment import LARGE, pages, render, see_other
from app.doors.http.page.forms import read_form
from app.doors.http.profiles import create, profiles
from app.doors.http.routes import ApplicationDep, problems
from app.doors.serving.process import computing, in_database
from app.errors import InvalidInput

router = APIRouter(route_class=asking(Right.READ))
page = pages(asking(Right.READ))
changing = pages(asking(Right.MANAGE))
FIELDS: Final = {
    "ham_cost": ("Ham cost", "missed spam messages that one lost ham is worth"),
    "ham_threshold": ("Ham ends", "the decision is ham from here down"),
    "quarantine_from": ("Quarantine from", "mail servers hold spam from here up"),
    "reject_from": ("Reject from", "mail servers reject spam from here up"),
}
"""The fields of a policy, with their names on the page."""


@router.get("/settings", tags=["operation"], responses=problems(422))
async def settings_in_force(request: Request, app: ApplicationDep) -> SettingsOut:
    """Return the settings in force, and facts about the service.

    Passwords and other secrets are hidden; the names of files with secrets are not.
    Clients that may use only some profiles are refused.
    """
    principal_of(request).require_all("the settings, which are of all profiles")
    return SettingsOut.of(app)


@page.get("/site")
async def site_page(
    request: Request,
    app: ApplicationDep,
    listed: Annotated[ProfilesOut, Depends(profiles)],
    profile: ProfileName = None,
    changed: Annotated[str | None, Query(max_length=1)] = None,
    made: Annotated[str | None, Query(max_length=1)] = None,
) -> Response:
    """Show the profiles, the policy of one of them, and the settings."""
    name, who = profile or app.settings.profile, principal_of(request)
    return await computing(
        lambda: render(
            request,
            "site.html",
            here="site",
            profile=profile,
            listed=listed,
            one=ProfileOut.of(app, name),
            # Settings are shared, so only clients that may use all profiles see them.
            site=SettingsOut.of(app) if who.profiles is None else None,
            may_manage=who.may(Right.MANAGE),
            made=made,
            fields=FIELDS,
            says=SAYS,
            changed=changed,
        ),
        LARGE,
    )


@changing.post("/site/profiles")
async def create_profile_page(request: Request, app: ApplicationDep) -> Response:
    """Create a profile, and show it."""
    form = await read_form(request)
    name, kind = form.get("name", "").strip(), form.get("kind", "")
    check_name(name)
    if kind not in {"", "mail"}:
        msg = (
            "the labels must be `mail`, or empty for those of the settings; got "
            f"{kind[:40]!r}"
        )
        raise InvalidInput(msg)
    existed = name in app.live
    asked = ProfileIn(name=name, kind="mail" if kind == "mail" else None)
    await create(request, app, asked)
    return see_other(
        "/ui/site", profile=name, made="0" if existed else "1", fragment="policy"
    )


@changing.post("/site/policy")
async def change_policy_page(
    request: Request, app: ApplicationDep, profile: ProfileName = None
) -> Response:
    """Change the policy of a profile; an empty field leaves it to the settings."""
    form = await read_form(request)
    name = profile or app.settings.profile
    changes = {
        field: value_of(field, form[field].strip() or DEFAULT, named=title)
        for field, (title, _) in FIELDS.items()
        if field in form
    }
    await in_database(app.change_policy, name, changes, who=principal_of(request).name)
    return see_other("/ui/site", profile=profile, changed="1", fragment="policy")
