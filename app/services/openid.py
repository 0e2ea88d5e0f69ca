"""OpenID Connect: people who sign in at a provider of the site.

Contract of this file: this is the authorization code flow with PKCE, begun and ended in
one browser.  Claims count only after the signature, issuer, audience, times and nonce
of the ID token are verified, and only people added by `postbayes people` get in. A
provider that is unavailable, slow or sends without end blocks one thread of a few for a
bounded time; these functions must not run in the event loop.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from importlib.util import find_spec
from secrets import compare_digest, token_urlsafe
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlsplit

from app.access.networks import network
from app.errors import (
    InvalidSetting,
    SignInUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from app.mail.encoding import shown
from app.services.client import NoAnswer, ask
from app.services.clock import Buckets, Failures
from app.services.log import SparingLog
from app.settings import is_web_address, read_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from joserfc.jws import JWSRegistry
    from joserfc.jwt import Token

    from app.services.sessions import Sessions
    from app.settings import Settings

log = logging.getLogger(__name__)
TIMEOUT: Final = 5.0
"""Longest silence of a provider, and longest time for an answer.  Unit: seconds."""
MOST_BYTES: Final = 256 * 1024
"""Most bytes of an answer.  Precedent: Microsoft's keys have 11 kB, metadata 2 kB."""
KEPT: Final = 3600.0
"""How long a provider's addresses (not its keys) are cached.  Unit: seconds."""
LEEWAY: Final = 60
"""Largest error of a provider's clock.  Unit: seconds."""
SCOPE: Final = "openid profile email"
# Errors about the client, not about the code (RFC 6749 section 5.2).
_OF_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})
# Signatures with a key that only the provider has: not `none`, and not with the
# client's secret (RFC 8725 section 3.1).
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
_ADDRESSES: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_BEGIN_AGAIN: Final = (
    "this sign-in was started in another browser, before another one in this browser, "
    "or too long ago; start again"
)


@dataclass(eq=False)
class OpenIDProvider:
    """A provider of OpenID Connect, where people sign in.

    Parameters
    ----------
    issuer : str
        Its address, exactly as in its tokens.
    client : str
        Client id of this service at the provider.
    secret : str
        Client secret of this service at the provider.
    claim : str
        The claim with the name of a person: `email` or `preferred_username`.
    sessions : Sessions
        The sessions of the people who sign in; a refusal is counted as one of them,
        for the reason `provider` or `rate`.
    """

    issuer: str
    client: str
    secret: str
    _: KW_ONLY
    claim: str
    sessions: Sessions

    def __post_init__(self) -> None:
        """Begin without the addresses of the provider."""
        self.host = urlsplit(self.issuer).hostname or self.issuer
        self._failures = Failures()
        self._log = SparingLog(log)
        # Guessing is impossible here; this bounds the requests that others can make
        # this service send to the provider.
        self._turns = Buckets(1 / 3, 30)
        self._found: tuple[float, Mapping[str, Any]] | None = None

    def begin(self, back: str, there: str) -> tuple[str, str]:
        """Return the address of the provider's own page, and a cookie for the browser.

        Parameters
        ----------
        back : str
            The address that the provider sends the browser back to.
        there : str
            The page that the person wants to see.

        Raises
        ------
        SignInUnavailable
            If the provider does not answer, or answers wrongly.
        """
        from authlib.oauth2.rfc6749.parameters import (  # noqa: PLC0415
            prepare_grant_uri,
        )
        from authlib.oauth2.rfc7636 import create_s256_code_challenge  # noqa: PLC0415

        found = self._discover()
        state, nonce, verifier = (token_urlsafe(32) for _ in range(3))
        address: str = prepare_grant_uri(
            found["authorization_endpoint"],
            client_id=self.client,
            response_type="code",
            redirect_uri=back,
            scope=SCOPE,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "there": there}
        return address, self.sessions.seal(kept)

    def finish(
        self,
        cookie: str | None,
        answer: Mapping[str, str],
        back: str,
        *,
        host: str | None,
    ) -> tuple[str, str]:
        """Return the cookie of a new session, and the page that the person wanted.

        Parameters
        ----------
        cookie : str or None
            The cookie from `begin`.
        answer : mapping of str to str
            The parameters that the provider sent back.
        back : str
            As for `begin`.
        host : str or None
            The address of the browser.

        Raises
        ------
        Unauthenticated
            If the provider has signed nobody in, or a person who is unknown here, or
            its answer cannot be trusted.
        TooManyRequests
            If too many sign-ins were finished from this address.
        SignInUnavailable
            As for `begin`.
        """
        wait = self._turns.take(network(host or ""))
        if wait:
            self.sessions.refused("rate")
            what = "too many sign-ins came from this address"
            raise TooManyRequests.until(what, wait)
        try:
            begun = self._begun(cookie, answer)
            name = self._identify(answer["code"], begun, back)
            return self.sessions.sign_in_as(name), begun["there"]
        except Unauthenticated as error:
            self.sessions.refused("provider")
            # Any browser can repeat a refusal, and can name an error of its own.
            more = self._log.passes("" if "error" in answer else str(error))
            if more is not None:
                why = shown(": ".join((str(error), *getattr(error, "__notes__", ()))))
                log.warning("a sign-in at %s was refused: %s%s", self.host, why, more)
            if error.confidential:
                raise Unauthenticated(
                    f"the answer of {self.host} cannot be trusted; sign in again. The "
                    "log of Postbayes has the reason"
                ) from error
            raise

    def _begun(self, cookie: str | None, answer: Mapping[str, str]) -> dict[str, str]:
        """Return the state from the browser's cookie, if the answer belongs to it."""
        begun = None if cookie is None else self.sessions.unseal(cookie)
        state = answer.get("state", "")
        if begun is None or not compare_digest(state.encode(), begun["state"].encode()):
            raise Unauthenticated(_BEGIN_AGAIN)
        # The answer is from another provider (RFC 9207 section 2.4).
        if answer.get("iss", self.issuer) != self.issuer:
            msg = "the answer came from another provider"
            raise Unauthenticated(msg, confidential=True)
        if "code" not in answer:
            why = answer.get("error", "the answer has no code")
            msg = f"{self.host} has not signed you in: {shown(why, 100)}"
            raise _described(Unauthenticated(msg), answer)
        return begun

    def _identify(self, code: str, begun: Mapping[str, str], back: str) -> str:
        """Return the name of the person whom the provider has signed in."""
        found = self._discover()
        tokens = self._redeem(found, code, begun["verifier"], back)
        claims = self._checked(found, tokens.get("id_token"), begun["nonce"])
        name = self._named(claims)
        if name is None and "userinfo_endpoint" in found:
            bearer = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
            more = self._ask("GET", found["userinfo_endpoint"], headers=bearer)
            # OpenID Connect Core section 5.3.2: it may be about somebody else.
            if more.get("sub") == claims["sub"]:
                name = self._named(more)
        if name is None:
            what = "verified e-mail address" if self.claim == "email" else self.claim
            raise Unauthenticated(
                f"{self.host} did not send your {what}, which identifies people here; "
                "an administrator can change that at the provider, or set "
                "POSTBAYES_OIDC_CLAIM"
            )
        return name

    def _named(self, claims: Mapping[str, Any]) -> str | None:
        """Return the name of a person from the claims about them."""
        name = claims.get(self.claim)
        if not isinstance(name, str) or not name:
            return None
        if self.claim != "email":
            return name
        # Some providers write booleans as text. An unverified address may be anybody's.
        verified = claims.get("email_verified") in (True, "true")
        # The Kelvin sign is a small k in lower case: only ASCII has no such twins, and
        # no name here has anything else.
        return (name.lower() if name.isascii() else name) if verified else None

    def _discover(self) -> Mapping[str, Any]:
        """Return the metadata of a provider (OpenID Connect Discovery 1.0)."""
        if self._found is not None and time.monotonic() < self._found[0]:
            return self._found[1]
        from authlib.oidc.discovery import get_well_known_url  # noqa: PLC0415

        found = self._ask("GET", get_well_known_url(self.issuer, external=True))
        if found.get("issuer") != self.issuer:
            named = str(found.get("issuer"))[:200]
            raise self._unusable(
                f"the issuer is {named!r}, and POSTBAYES_OIDC_ISSUER must be exactly "
                "the same"
            )
        names = [*_ADDRESSES, *({"userinfo_endpoint"} & found.keys())]
        for name in names:
            if not _is_safe(found.get(name)):
                raise self._unusable(f"its {name} is not an https address")
        self._found = time.monotonic() + KEPT, found
        return found

    def _redeem(
        self, found: Mapping[str, Any], code: str, verifier: str, back: str
    ) -> Mapping[str, Any]:
        """Return the tokens for a code (RFC 6749 section 4.1.3, RFC 7636)."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
        }
        basic = "client_secret_basic"
        if basic in found.get("token_endpoint_auth_methods_supported", [basic]):
            # RFC 6749 section 2.3.1.
            auth = quote_plus(self.client), quote_plus(self.secret)
            return self._ask("POST", found["token_endpoint"], data=form, auth=auth)
        form |= {"client_id": self.client, "client_secret": self.secret}
        return self._ask("POST", found["token_endpoint"], data=form)

    def _checked(
        self, found: Mapping[str, Any], token: object, nonce: str
    ) -> Mapping[str, Any]:
        """Return the claims of an ID token (OpenID Connect Core section 3.1.3.7)."""
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jws import JWSRegistry  # noqa: PLC0415

        # Fetched each time, because a provider may change its keys at any time.
        keys: Any = self._ask("GET", found["jwks_uri"])
        registry = JWSRegistry(
            algorithms=[*ALGORITHMS],
            # Non-standard header fields are harmless; critical ones are refused.
            strict_check_header=False,
        )
        # Some put the chain of their certificates there (RFC 7515 section 4.1.6).
        registry.max_header_length = MOST_BYTES
        try:
            read = _verified(str(token), keys["keys"], registry)
            claims = CodeIDToken(
                read.claims,
                read.header,
                {
                    "iss": {"essential": True, "value": self.issuer},
                    "aud": {"essential": True, "values": [self.client]},
                },
                {"nonce": nonce, "client_id": self.client},
            )
            claims.validate(now=int(time.time()), leeway=LEEWAY)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise Unauthenticated(str(error), confidential=True) from error
        payload: Mapping[str, Any] = claims
        return payload

    def _ask(self, method: str, url: str, **given: Any) -> dict[str, Any]:
        """Return the document in a provider's answer."""
        # Do not wait again for a provider that others have just waited for in vain.
        if self._failures.pausing(self.issuer):
            raise SignInUnavailable(self._away)
        place = urlsplit(url).path
        try:
            status, _, body = ask(
                method,
                url,
                headers={"Accept": "application/json", **given.pop("headers", {})},
                most_bytes=MOST_BYTES,
                silent=TIMEOUT,
                within=TIMEOUT,
                **given,
            )
        except NoAnswer as error:
            raise self._unusable(f"{place}: {error}") from error
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if method == "POST" and (
            HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            known = document if isinstance(document, dict) else {"error": status}
            why = f"{place} answered {str(known.get('error'))[:100]!r}"
            if str(known.get("error")) in _OF_CLIENT:
                said = shown(str(known.get("error_description", "")), 500)
                raise self._unusable(
                    f"{why} {said}: check POSTBAYES_OIDC_CLIENT_ID, the secret in "
                    "POSTBAYES_OIDC_CLIENT_SECRET_FILE and, at the provider, how this "
                    "client authenticates"
                )
            # A code that anybody may have made up must not keep others from signing in.
            raise _described(Unauthenticated(why, confidential=True), known)
        if status != HTTPStatus.OK:
            raise self._unusable(f"{place} answered {status}")
        if not isinstance(document, dict):
            raise self._unusable(f"{place} did not answer with a JSON object")
        if self._failures.resolve(self.issuer):
            log.info("signing in at %s works again", self.host)
        return document

    def _unusable(self, why: str) -> SignInUnavailable:
        """Return the error for a provider that is unavailable or answers wrongly."""
        if self._failures.report(self.issuer, why):
            log.warning("nobody can sign in at %s: %s", self.host, why)
        return SignInUnavailable(self._away)

    @property
    def _away(self) -> str:
        return (
            f"nobody can sign in at {self.host} at the moment; try again in a minute. "
            "The log of Postbayes has the reason"
        )


def _verified(token: str, keys: Iterable[Any], registry: JWSRegistry) -> Token:
    """Return a token that was signed with one of the keys.

    Several may fit: of different kinds with the same name (RFC 7517 section 4.5), or an
    old and a new one where the provider names none.

    Raises
    ------
    JoseError, ValueError
        If it was signed with none of them, or is no token.
    """
    from joserfc import jws, jwt  # noqa: PLC0415
    from joserfc.errors import JoseError  # noqa: PLC0415
    from joserfc.jwk import import_key  # noqa: PLC0415

    headers = jws.extract_compact(token.encode(), registry=registry).headers()
    named = headers.get("kid")
    why = ValueError(f"no key of the provider has the id {named!r}")
    for each in keys:
        # One that is not understood is ignored (RFC 7517 section 5).
        with suppress(JoseError, ValueError, TypeError, KeyError):
            key = import_key(each)
            if named is None or key.kid in (named, None):
                try:
                    return jwt.decode(token, key, registry=registry)
                except JoseError as error:
                    why = ValueError(str(error))
    raise why


def _described(error: Unauthenticated, answer: Mapping[str, Any]) -> Unauthenticated:
    """Return an error with what a provider says about it (RFC 6749 section 5.2)."""
    if "error_description" in answer:
        error.add_note(str(answer["error_description"])[:500])
    return error


def _is_safe(address: object) -> bool:
    """Return whether data sent to an address can be read only by its owner.

    Examples
    --------
    >>> [_is_safe(f"{each}.example/") for each in ("https://a", "http://a")]
    [True, False]
    >>> _is_safe("http://127.0.0.1:9000/realms/a")
    True
    """
    if not isinstance(address, str) or not is_web_address(address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in _HERE


def provider_of(settings: Settings, sessions: Sessions) -> OpenIDProvider | None:
    """Return the provider of the settings; None without one.

    Raises
    ------
    InvalidSetting
        As `oidc_secret`.
    """
    secret = oidc_secret(settings)
    issuer, client = settings.oidc_issuer, settings.oidc_client_id
    if issuer is None or client is None or secret is None:
        return None
    claim = settings.oidc_claim
    return OpenIDProvider(issuer, client, secret, claim=claim, sessions=sessions)


def oidc_secret(settings: Settings) -> str | None:
    """Return the client secret for the provider; None without a provider.

    Raises
    ------
    InvalidSetting
        If the settings of the provider are invalid, or the extra `oidc` is not
        installed.
    """
    if settings.oidc_issuer is None:
        return None
    if not _is_safe(settings.oidc_issuer):
        raise InvalidSetting(
            "POSTBAYES_OIDC_ISSUER must be the https address of a provider, such as "
            f"https://id.example.org/realms/staff; got {settings.oidc_issuer[:200]!r}"
        )
    if settings.oidc_client_id is None:
        raise InvalidSetting(
            "POSTBAYES_OIDC_ISSUER needs POSTBAYES_OIDC_CLIENT_ID, the name of this "
            "service at the provider"
        )
    if find_spec("authlib") is None or find_spec("joserfc") is None:
        raise InvalidSetting(
            "POSTBAYES_OIDC_ISSUER needs Authlib, which is not installed: run pip "
            "install '.[oidc]' in the folder of the source, or leave the setting out"
        )
    secret = read_secret(
        settings.oidc_client_secret_file,
        "POSTBAYES_OIDC_CLIENT_SECRET_FILE",
        purpose="POSTBAYES_OIDC_ISSUER needs the secret that the provider gave to this "
        "service",
        given=True,
    )
    try:
        return secret.decode()
    except UnicodeDecodeError as error:
        msg = "POSTBAYES_OIDC_CLIENT_SECRET_FILE names a file that is not text"
        raise InvalidSetting(msg) from error
