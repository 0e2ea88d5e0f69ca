"""The OpenAPI description: requests that Schemathesis makes of it are answered by it."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings

from app.doors.http.app import ROUTERS
from scripts.reference import errors as error_pages
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service

# They take nothing, so that nothing can be sent which does not fit.
WITHOUT_INPUT: Final = {
    *("GET /healthz", "GET /readyz", "GET /metrics"),
    *("GET /keys", "GET /people", "GET /settings"),
}
REQUESTS: Final = sorted(
    (method, route.path_format, mode)
    for router in ROUTERS
    for route in router.routes
    if route.include_in_schema
    for method in route.methods
    for mode in ("positive", "negative")
    if mode == "positive" or f"{method} {route.path_format}" not in WITHOUT_INPUT
)
# What a schema of JSON cannot say, by operation: requests that fit it, and are refused
# all the same, with these problems.
UNSAID: Final = {
    # Either the message or the fields of a form; and not a blank one.
    "POST /classify": {"malformed-request", "empty-message"},
    "POST /message": {"malformed-request", "empty-message"},
    # A label of the profile; the place where an answer before ended.
    "GET /ledger": {"unknown-label", "malformed-request"},
    "GET /history": {"malformed-request"},
    # Those, either the message or its id, and one label for all of them, which the
    # profile has; a source without letters that cannot be printed, nor one of ours.
    "POST /feedback": {
        *("malformed-request", "empty-message", "missing-label"),
        *("unknown-label", "invalid-input"),
    },
    "DELETE /feedback/{id}": {"invalid-input"},
    # Something has to be selected, and a time has to begin before it ends.
    "POST /feedback/undo": {"invalid-selection", "invalid-input", "malformed-request"},
    # A name of letters that names have, once; labels that go together.
    "POST /profiles": {"invalid-setting", "invalid-input", "profile-exists"},
    # A name of letters that names have, once; a known role; a password long enough;
    # profiles whose names have such letters.
    "POST /keys": {"invalid-input", "name-taken", "invalid-setting"},
    "POST /people": {"invalid-input", "name-taken"},
    # A password long enough.
    "PUT /people/{name}/password": {"invalid-input"},
    # A sender that can be told; nats other than 0; an expiry that is to come.
    "POST /profiles/{name}/lists": {"invalid-input"},
    "GET /profiles/{name}/lists": {"invalid-input"},
    "DELETE /profiles/{name}/lists": {"invalid-input"},
    # An address that is one.
    "GET /profiles/{name}/correspondents": {"invalid-input"},
    "DELETE /profiles/{name}/correspondents": {"invalid-input"},
    # A threshold is said in one of two ways; those of a policy depend on one another.
    "PATCH /profiles/{name}": {"malformed-request", "invalid-policy"},
}
# A message of a batch that cannot be used changes nothing for the others: the batch is
# answered, with a problem in its place.
IN_PARTS: Final = {"POST /classify/batch"}


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """The description of a service that has learned ten messages."""
    # Here, because every process collects this file, and one or two of them ask.
    import schemathesis  # noqa: PLC0415

    @schemathesis.serializer("message/rfc822")
    def message(_, value):
        """Return the bytes of a message, which the description calls a text."""
        return value if isinstance(value, bytes) else str(value).encode()

    folder = tmp_path_factory.mktemp("described")
    service = Service(sqlite_url(folder), folder)
    service.environment["POSTBAYES_LOG_LEVEL"] = "error"
    try:
        service.start()
        for n in range(5):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield schemathesis.openapi.from_url(
            f"http://127.0.0.1:{service.port}/openapi.json", timeout=PATIENCE
        )
        assert "ERROR" not in (folder / "log").read_text()
    finally:
        service.client.close()
        service.kill()


def problem(response):
    """Return the last word of the type of a problem; an empty text for none."""
    if "problem+json" not in response.headers["content-type"][0]:
        return ""
    return json.loads(response.content)["type"].rpartition(":")[2]


@pytest.mark.parametrize(("method", "path", "mode"), REQUESTS)
def test_answers_are_those_of_the_description(described, method, path, mode):
    """Status, type and document are as declared, whatever the request."""
    from schemathesis import GenerationMode  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    label = f"{method} {path}"
    documented = [
        error_pages.short(cls)
        for cls in error_pages.raised()
        if error_pages.statuses(cls, label)
    ]
    cases = described[path][method].as_strategy(generation_mode=GenerationMode(mode))

    @settings(
        max_examples=settings.default.max_examples // 5,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def ask(case):
        response = case.call()
        unsaid = []
        if problem(response) in UNSAID.get(label, ()):
            unsaid.append(checks.positive_data_acceptance)
        if label in IN_PARTS and 200 == response.status_code:
            unsaid.append(checks.negative_data_rejection)
        case.validate_response(response, excluded_checks=unsaid)
        assert problem(response) in {"", *documented}

    ask()


def test_generated_clients_tell_a_number_from_the_one_text(described):
    """Openapi-python-client reads a union with a `const` as that constant."""
    policy = described.raw_schema["components"]["schemas"]["ProfileOut"]["properties"]

    assert "const" not in json.dumps(policy["policy"])


def test_generated_clients_read_integers_of_any_size(described):
    """OpenAPI Generator makes 32 bits of one that does not ask for 64."""
    schemas = described.raw_schema["components"]["schemas"]
    limit = described.raw_schema["paths"]["/history"]["get"]["parameters"][-2]
    before = described.raw_schema["paths"]["/ledger"]["get"]["parameters"][-3]

    assert "int64" == schemas["SettingsOut"]["properties"]["memory_bytes"]["format"]
    assert ("before", "int64") == (
        before["name"],
        before["schema"]["anyOf"][0]["format"],
    )
    assert "limit" == limit["name"]
    assert "format" not in limit["schema"]


def test_every_operation_has_a_described_tag(described):
    """And the document names its license and its server, as linters ask for."""
    document = described.raw_schema
    used = {
        tag
        for path in document["paths"].values()
        for operation in path.values()
        for tag in operation["tags"]
    }

    assert used == {each["name"] for each in document["tags"] if each["description"]}
    assert "Apache-2.0" == document["info"]["license"]["identifier"]
    assert ["/"] == [each["url"] for each in document["servers"]]
