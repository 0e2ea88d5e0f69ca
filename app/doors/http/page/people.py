"""People, keys and events: sign-in and passwords, as pages and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.lists import expiry_of
from app.access.rights import MAX_NAME, MEANINGS, ROLES, Right
from app.doors.documents.access import (
    CreatedKeyOut,
    EventsOut,
    KeyIn,
    KeyOut,
    KeysOut,
    PasswordIn,
    PasswordResetIn,
    PeopleOut,
    PersonIn,
    PersonOut,
)
from app.doors.http.body import JsonOf, at_most
from app.doors.http.errors import described
from app.doors.http.guard import Guarded, asking, principal_of
from app.doors.http.page import (
    begin_session,
    link,
    pages,
    render,
    see_other,
    set_cookie,
)
from app.doors.http.page.forms import Form, read_form, unsent_page
from app.doors.http.routes import App, Who, problems, takes
from app.doors.serving.request import COOKIE
from app.doors.serving.threads import in_database, in_thread
from app.errors import (
    InvalidInput,
    NotFound,
    SignInUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from app.services.access import MAX_EVENTS, list_events, list_keys, made_key
from app.services.clock import now
from app.services.sessions import ELSEWHERE, list_people

if TYPE_CHECKING:
    from app.errors import PostbayesError
    from app.services.application import Application
    from app.services.openid import OpenIDProvider


async def require_whole(who: Who) -> None:
    """Raise if the client may use only some profiles.

    Raises
    ------
    Forbidden
        If it may use only some.
    """
    who.require_all("the keys, people and events, which all profiles share")


WHOLE: Final = (Depends(require_whole),)
"""The dependency of routes for objects shared by all profiles."""
managed = APIRouter(
    route_class=asking(Right.MANAGE), dependencies=WHOLE, tags=["access"]
)
# Hashing a password takes 64 MiB and 60 ms of a core.
PASSWORDS: Final = CapacityLimiter(2)
Name = Annotated[str, Path(max_length=MAX_NAME)]
# Allowed to every role.
router = APIRouter(route_class=asking(Right.READ), tags=["access"])
page = pages(asking(None, Guarded))
own = pages(asking(Right.READ))
managing = pages(asking(Right.MANAGE), WHOLE)
# Threads that wait for a provider.
PROVIDERS: Final = CapacityLimiter(4)
ELSEWHERE_COOKIE: Final = "postbayes_sign_in"
"""The cookie of a browser during sign-in at a provider."""
FIRST: Final = "/ui/overview"
_DONE: Final = {
    "added": "They can sign in now.",
    "removed": "They can no longer sign in.",
    "changed": "The new password is set, and their sessions have ended.",
}
Field = Annotated[str, Query(max_length=64)]
Next = Annotated[str, Query(max_length=2000)]


@managed.get("/keys", responses=problems(422, 503))
async def keys(app: App) -> KeysOut:
    """List the keys, including revoked ones, without their secrets."""
    return KeysOut.describing(keys=await in_database(list_keys, app.engine))


@managed.post(
    "/keys", **takes(KeyIn, {"name": "mx1", "rights": ["classify", "teach"]}, 409, 503)
)
async def create_key(who: Who, document: JsonOf[KeyIn], app: App) -> CreatedKeyOut:
    """Create a key, and return its text, which is shown only once.

    It works at once in the worker that answers, and within a second in the others.
    A client can only give rights that it has itself.
    """
    who.require_rights(document.rights)
    text, key = made_key(**document.model_dump())
    await in_database(app.add_key, key, actor=who.name)
    return CreatedKeyOut.describing(key, key=text)


@managed.delete("/keys/{name}", responses=problems(404, 422, 503))
async def revoke_key(who: Who, name: Name, app: App) -> KeyOut:
    """Revoke a key.

    The worker that answers refuses it at once, the others within two seconds.
    """
    return KeyOut.describing(await in_database(app.revoke_key, name, actor=who.name))


@managed.get("/people", responses=problems(422, 503))
async def people(app: App) -> PeopleOut:
    """List the people who can sign in, without their passwords."""
    return PeopleOut.describing(people=await in_database(list_people, app.engine))


@managed.post(
    "/people", **takes(PersonIn, {"name": "anna", "role": "reader"}, 409, 503)
)
async def add_person(who: Who, document: JsonOf[PersonIn], app: App) -> PersonOut:
    """Add a person who can sign in.

    They can sign in at once in the worker that answers, and within a second in the
    others. A client can only give roles whose rights it has itself.
    """
    who.require_rights(ROLES.get(document.role, ()))
    given = document.model_dump()
    await in_thread(PASSWORDS, app.add_person, **given, actor=who.name)
    return PersonOut.describing(app.keys.people[document.name])


@managed.put(
    "/people/{name}/password",
    **takes(PasswordResetIn, {"password": "a long sentence"}, 404, 503),
)
async def set_password(
    who: Who, name: Name, document: JsonOf[PasswordResetIn], app: App
) -> PersonOut:
    """Set the password of a person, and end their sessions.

    It takes effect at once in the worker that answers, and within two seconds in the
    others. A client needs the rights of the person's role.
    """
    return PersonOut.describing(
        await in_thread(
            PASSWORDS, app.set_password, name, document.password, principal=who
        )
    )


@managed.delete("/people/{name}", responses=problems(404, 422, 503))
async def remove_person(who: Who, name: Name, app: App) -> PeopleOut:
    """Remove a person, end their sessions, and list the people who are left.

    It takes effect at once in the worker that answers, and within two seconds in the
    others.
    """
    await in_database(app.remove_person, name, actor=who.name)
    return await people(app)


@managed.get("/events", responses=problems(422, 503))
async def events(
    app: App,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    limit: Annotated[int, at_most(MAX_EVENTS)] = 100,
) -> EventsOut:
    """List administrative events, newest first.

    Keys created and revoked, people added and removed, sign-ins, policies and lists
    changed, correspondents forgotten, undos, and profiles created and deleted. Wrong
    keys and passwords are metrics, not events.

    Parameters
    ----------
    before
        Only events with smaller numbers.
    limit
        Maximum number of events.
    """
    found = await in_database(list_events, app.engine, before=before, limit=limit + 1)
    return EventsOut.of(found, limit)


def safe(there: str) -> str:
    r"""Return a path if it is one of these pages, and the first page otherwise.

    Examples
    --------
    >>> safe("/ui/history?search=a"), safe("//example.net/ui/"), safe("/ui/\\n")
    ('/ui/history?search=a', '/ui/overview', '/ui/overview')
    """
    if there.startswith("/ui/") and there.isprintable() and "\\" not in there:
        return there
    return FIRST


@page.get("/sign-in")
async def sign_in_page(
    request: Request,
    next: Next = FIRST,  # noqa: A002
) -> Response:
    """Show the form."""
    provider = request.app.state.application.provider
    return render(
        request,
        "sign_in.html",
        here="",
        next=safe(next),
        provider=None if provider is None else provider.host,
    )


@page.post("/sign-in")
async def sign_in(request: Request, app: App, form: Form) -> Response:
    """Begin a session, and go on to the requested page, or to a form that was kept."""
    name, password, host = form["name"], form["password"], _host(request)
    cookie = await in_thread(PASSWORDS, app.sessions.sign_in, name, password, host=host)
    found = app.sessions.find(cookie)
    if found is not None and "to" in form and form["to"] == safe(form["to"]):
        request.scope["state"]["principal"] = found[0]
        response = unsent_page(request, form)
    else:
        response = see_other(safe(form["next"]))
    begin_session(request, response, cookie)
    return response


@page.get("/sign-in/oidc")
async def sign_in_elsewhere(
    request: Request,
    app: App,
    next: Next = FIRST,  # noqa: A002
) -> Response:
    """Send a person to the provider."""
    begin = _provider(app).begin
    try:
        address, cookie = await in_thread(PROVIDERS, begin, _back(request), safe(next))
    except SignInUnavailable as error:
        return await _not_signed_in(request, error, next)
    response = see_other(address)
    set_cookie(request, response, ELSEWHERE_COOKIE, cookie, seconds=ELSEWHERE)
    return response


@page.get("/sign-in/oidc/callback")
async def sign_in_from_elsewhere(request: Request, app: App) -> Response:
    """Begin a session after sign-in at the provider."""
    response: Response
    try:
        cookie, there = await in_thread(
            PROVIDERS,
            _provider(app).finish,
            request.cookies.get(ELSEWHERE_COOKIE),
            dict(request.query_params),
            _back(request),
            host=_host(request),
        )
    except (Unauthenticated, TooManyRequests, SignInUnavailable) as error:
        response = await _not_signed_in(request, error, FIRST)
    else:
        response = see_other(safe(there))
        begin_session(request, response, cookie)
    response.delete_cookie(ELSEWHERE_COOKIE, path="/")
    return response


async def _not_signed_in(
    request: Request, error: PostbayesError, there: str
) -> Response:
    """Return the page to sign in, with the reason why the provider was no help."""
    request.scope["state"]["refusal"] = described(error, principal_of(request))
    return await sign_in_page(request, there)


def _host(request: Request) -> str | None:
    """Return the address of the client; None for a Unix socket."""
    client = request.scope["client"]
    return None if client is None else client[0]


def _provider(app: Application) -> OpenIDProvider:
    if app.provider is None:
        msg = "this service has no sign-in provider; POSTBAYES_OIDC_ISSUER sets one"
        raise NotFound(msg)
    return app.provider


def _back(request: Request) -> str:
    """Return the address to which the provider sends people back."""
    # The name is one of POSTBAYES_HOST_NAMES, and the scheme may come from a trusted
    # proxy.
    return f"{request.url.scheme}://{request.url.netloc}/ui/sign-in/oidc/callback"


@page.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session of this browser."""
    await read_form(request)
    response = see_other("/ui/sign-in")
    response.delete_cookie(COOKIE, path="/")
    return response


@router.post(
    "/password",
    **takes(
        PasswordIn,
        {"password": "the present one", "new_password": "a new sentence"},
        503,
    ),
)
async def change_password(
    request: Request,
    response: Response,
    who: Who,
    document: JsonOf[PasswordIn],
    app: App,
) -> PersonOut:
    """Change your own password.

    All your sessions end, in this worker at once and in the others within two seconds.
    The answer has the cookie of a new session.
    """
    cookie = await in_thread(
        PASSWORDS,
        app.sessions.change_password,
        who,
        document.password,
        document.new_password,
        host=_host(request),
    )
    begin_session(request, response, cookie)
    return PersonOut.describing(app.keys.people[who.name.partition(":")[2]])


@own.get("/password")
async def password_page(request: Request) -> Response:
    """Show the form that changes a password."""
    return render(request, "password.html", here="", changed=False)


@own.post("/password")
async def change_password_page(
    request: Request, who: Who, app: App, form: Form
) -> Response:
    """Change the password of the person who is signed in."""
    if form["new"] != form["again"]:
        raise InvalidInput("the two new passwords differ; try again")
    document = PasswordIn(password=form["password"], new_password=form["new"])
    changed = Response()
    await change_password(request, changed, who, document, app)
    # Not by a redirect, because another worker that still knows the old sessions may
    # answer it.
    response = render(request, "password.html", here="", changed=True)
    response.headers.append("Set-Cookie", changed.headers["Set-Cookie"])
    return response


@managing.get("/keys")
async def keys_page(request: Request, app: App, revoked: Field = "") -> Response:
    """Show the keys, and the form that makes one."""
    return await _keys(request, app, revoked=revoked)


async def _keys(
    request: Request,
    app: Application,
    *,
    revoked: str = "",
    made: CreatedKeyOut | None = None,
) -> Response:
    listed = (await keys(app)).keys
    return render(
        request,
        "keys.html",
        keys=listed,
        rights=MEANINGS,
        # The pages do not repeat names that come only from a link.
        revoked=next((each.name for each in listed if each.name == revoked), None),
        made=made,
    )


@managing.post("/keys")
async def make_key(request: Request, who: Who, app: App, form: Form) -> Response:
    """Create a key, and show it only once."""
    days = form["days"]
    # Not checked as a document: the use case has sentences for people.
    document = KeyIn.model_construct(
        name=form["name"],
        rights=[right for right in Right if f"right-{right}" in form],
        profiles=_listed(form["profiles"]),
        labels=_listed(form["labels"]),
        networks=_listed(form["networks"]),
        names_sources="names_sources" in form,
        expires_at=expiry_of(days, now()) if days else None,
    )
    made = await create_key(who, document, app)
    # Not by a redirect, whose address would contain the key.
    return await _keys(request, app, made=made)


@managing.post("/keys/revoke")
async def revoke_key_page(who: Who, app: App, form: Form) -> Response:
    """Revoke a key."""
    await revoke_key(who, form["name"], app)
    return see_other(link("/ui/keys", revoked=form["name"]))


@managing.get("/people")
async def people_page(request: Request, app: App, done: Field = "") -> Response:
    """Show the people who can sign in."""
    return render(
        request,
        "people.html",
        here="keys",
        people=sorted(app.keys.people.values(), key=lambda each: each.name),
        roles=ROLES,
        done=_DONE.get(done),
    )


@managing.post("/people")
async def add_person_page(who: Who, app: App, form: Form) -> Response:
    """Add a person."""
    document = PersonIn.model_construct(
        name=form["name"],
        role=form["role"],
        password=form["password"],
        profile=form["profile"] or None,
    )
    await add_person(who, document, app)
    return see_other("/ui/people?done=added")


@managing.post("/people/password")
async def set_password_page(who: Who, app: App, form: Form) -> Response:
    """Set the password of a person."""
    document = PasswordResetIn(password=form["password"])
    await set_password(who, form["name"], document, app)
    return see_other("/ui/people?done=changed")


@managing.post("/people/remove")
async def remove_person_page(who: Who, app: App, form: Form) -> Response:
    """Remove a person."""
    await remove_person(who, form["name"], app)
    return see_other("/ui/people?done=removed")


@managing.get("/events")
async def events_page(
    request: Request, found: Annotated[EventsOut, Depends(events)]
) -> Response:
    """Show the administrative events."""
    return render(request, "events.html", here="keys", found=found)


def _listed(text: str) -> list[str]:
    """Return the values in a comma-separated list."""
    return [each.strip() for each in text.split(",") if each.strip()]
