"""The page at /docs: all of the interface, and nothing from elsewhere."""

from __future__ import annotations

import re

import pytest

from app.doors.http.app import reference_page
from tests.support.application import served


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a new service, which only reads."""
    folder = tmp_path_factory.mktemp("reference")
    with served(folder, host_names=("mail.example.org",)) as client:
        yield client


def test_every_operation_is_on_the_page(client):
    """With its parameters and the fields of its answer."""
    text = client.get("/docs").text
    paths = client.get("/openapi.json").json()["paths"]

    assert len(paths) > 5
    for path, methods in paths.items():
        assert f"<code>{path}</code>" in text
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in text
    assert "<code>views.*.event_model</code>" in text


def test_clients_can_be_generated(client):
    """By names of operations and documents, of which generators refuse duplicates."""
    api = client.get("/openapi.json").json()
    operations = [each for path in api["paths"].values() for each in path.values()]
    names = {each["operationId"] for each in operations}
    schemas = [
        content["schema"]
        for each in operations
        for body in (each.get("requestBody", {}), *each["responses"].values())
        for kind, content in body.get("content", {}).items()
        if kind.endswith("json")
    ]

    assert {"classify", "classify_batch", "create_profile"} < names
    assert len(names) == len(operations)
    # In Go, `NewKeyOut` is the function that makes a `KeyOut`.
    documents = api["components"]["schemas"].keys()
    assert not {f"New{name}" for name in documents} & documents
    assert not [each for each in schemas if "properties" in each]
    assert {each["$ref"].rpartition("/")[2] for each in schemas if "$ref" in each} <= {
        *api["components"]["schemas"]
    }


def test_no_field_of_a_request_is_optional_and_required(client):
    """A default that is null says nothing, and openapi-typescript takes it for one."""
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    fields = [
        field
        for each in schemas.values()
        for field in each.get("properties", {}).values()
    ]

    assert [] == [each for each in fields if each.get("default", "") is None]


def test_generated_clients_send_json_as_json(client):
    """Openapi-generator takes the first type of a body, but declares it as JSON."""
    paths = client.get("/openapi.json").json()["paths"]
    bodies = [
        list(operation["requestBody"]["content"])
        for path in paths.values()
        for operation in path.values()
        if "requestBody" in operation
    ]

    assert ["application/json", "message/rfc822"] in bodies
    assert {"application/json"} == {types[0] for types in bodies}


def test_every_list_has_a_type_of_its_entries(client):
    """Generators that do not know `prefixItems` give them none."""
    document = client.get("/openapi.json").text

    assert "prefixItems" not in document


def test_answers_that_are_no_json_have_a_type(client):
    """Otherwise a generated client drops the body."""
    paths = client.get("/openapi.json").json()["paths"]
    page = paths["/profiles/{name}/ledger"]["get"]["responses"]["200"]
    text = paths["/metrics"]["get"]["responses"]["200"]["content"]["text/plain"]

    assert {"schema": {"type": "string"}} == text
    assert "binary" == page["content"]["application/octet-stream"]["schema"]["format"]
    assert {"Postbayes-Cursor", "Postbayes-Left"} == page["headers"].keys()


def test_an_operation_has_its_sentence_once(client):
    """The summary is the first of its docstring, and the description has the rest."""
    operation = client.get("/openapi.json").json()["paths"]["/classify"]["post"]

    assert "Score one message without learning it." == operation["summary"]
    assert operation["description"].startswith("Send the message itself")


def test_the_document_says_where_a_key_goes(client):
    """So that a generated client sends it, except to paths for everybody."""
    api = client.get("/openapi.json").json()
    paths = api["paths"]

    assert {"key": {"type": "http", "scheme": "bearer"}} == api["components"][
        "securitySchemes"
    ]
    assert [{}, {"key": []}] == paths["/classify"]["post"]["security"]
    assert [] == paths["/healthz"]["get"]["security"]


def test_the_page_says_which_key_an_operation_needs(client):
    """Where a key goes, and its right; what everybody may ask names none."""
    text = client.get("/docs").text
    sections = dict(re.findall(r'<h2 id="(.*?)">(.*?)(?=<h2|</body)', text, re.DOTALL))

    assert "Authorization: Bearer" in text
    assert (
        "needs the right <code>lists</code>" in sections["post-profiles--name--lists"]
    )
    assert "needs the right" not in sections["get-healthz"]


def test_nothing_is_loaded_from_elsewhere(client):
    """No script, and no address but those of links in the page and the service."""
    answer = client.get("/docs")

    assert (
        "default-src 'none'; img-src 'self'"
        in answer.headers["content-security-policy"]
    )
    assert "<script" not in answer.text
    targets = re.findall(r'(?:src|href)="([^"]*)"', answer.text)
    assert targets
    # A browser that is told of no icon asks for one, which the policy would refuse.
    others = {at for at in targets if not at.startswith("#")}
    assert {"openapi.json", "ui", "ui/static/icon.svg"} == others


def test_code_is_set_as_code(client):
    """In tables as well: no backtick or asterisk of a description is left."""
    text = client.get("/docs").text

    assert "`" not in text
    assert not re.search(r"\*\w[^*<]*\*", text)


def test_links_lead_to_sections(client):
    """Each operation of the index has its section."""
    text = client.get("/docs").text

    links = set(re.findall(r'href="#([^"]*)"', text))
    assert links == set(re.findall(r'id="([^"]*)"', text))


def test_texts_are_no_markup():
    """What a description holds is shown, not run."""
    api = {
        "info": {"title": "<b>", "version": "1", "description": "`<i>` & more"},
        "paths": {
            "/x": {"get": {"description": "<script>alert(1)</script>", "responses": {}}}
        },
    }

    text = reference_page(api, "http://127.0.0.1")

    assert "<script" not in text
    assert "<code>&lt;i&gt;</code> &amp; more" in text


def test_the_documents_are_made_once(client, monkeypatch):
    """Later requests get the same bytes, without delaying others."""
    first = [client.get(path) for path in ("/openapi.json", "/docs")]

    def refuse():
        pytest.fail("made again")

    monkeypatch.setattr(client.app, "openapi", refuse)
    again = [client.get(path) for path in ("/openapi.json", "/docs")]

    assert [200, 200] == [each.status_code for each in again]
    assert [each.content for each in first] == [each.content for each in again]


@pytest.mark.parametrize("host", ["mail.example.org:8025", "<b>", "\ufffc"])
def test_the_page_names_the_service_as_it_was_asked_for(client, host):
    """In its commands, and nowhere else."""
    client.get("/docs", headers={"host": "other"})
    page = client.get("/docs", headers={"host": host.encode()}).text

    assert "<b>" not in page
    assert "http://other" not in page
    assert ("http://mail.example.org:8025/classify" in page) == host.startswith("mail")
