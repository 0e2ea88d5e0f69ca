"""Traces: a span for each request, with those of its verdict or feedback in it."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.errors import InvalidSetting
from app.services import application as applications
from app.services import metrics
from app.services.metrics import STAGES, Tally, tally_of
from app.settings import Settings
from tests.support.application import client_of
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import served

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def exporter():
    """The spans that have ended."""
    return InMemorySpanExporter()


@pytest.fixture
def client(tmp_path, exporter, monkeypatch):
    """A client of a service that traces into memory."""
    monkeypatch.setattr(
        applications, "tally_of", lambda _: Tally(SimpleSpanProcessor(exporter))
    )
    with client_of(sqlite_url(tmp_path)) as client:
        yield client


@pytest.fixture
def collector():
    """The address of a collector, and the paths that were asked for."""
    paths = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            """Take what is sent."""
            paths.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Collector)) as server:
        yield f"http://127.0.0.1:{server.server_port}", paths


def tree(exporter):
    """Return name and attributes of each span, below the name of its parent."""
    spans = exporter.get_finished_spans()
    names = {each.context.span_id: each.name for each in spans}
    found = {}
    for each in sorted(spans, key=lambda span: span.start_time):
        above = None if each.parent is None else names.get(each.parent.span_id, "away")
        found.setdefault(above, []).append((each.name, dict(each.attributes)))
    return found


def test_a_verdict_is_a_span_with_its_stages(client, exporter):
    """The stages are in order, and hold no data of the message."""
    client.post("/classify", content=spam(7), headers=RAW)

    found = tree(exporter)
    request = {
        "http.request.method": "POST",
        "http.route": "/classify",
        "http.response.status_code": 200,
    }
    assert [("POST /classify", request)] == found[None]
    assert [("verdict", {"door": "http"})] == found["POST /classify"]
    assert [(stage, {}) for stage in STAGES] == found["verdict"]


def test_a_feedback_is_a_span_with_its_commit(client, exporter):
    """Another thread commits."""
    client.post("/feedback?label=ham", content=ham(7), headers=RAW)

    assert [("commit", {"outcome": "learned"})] == tree(exporter)["POST /feedback"]


def test_a_large_message_is_traced_in_its_thread(client, exporter):
    """The stages belong to the same verdict as in the event loop."""
    client.post("/classify", content=ham(1) + 20_000 * b"word ", headers=RAW)

    assert ["verdict"] == [name for name, _ in tree(exporter)["POST /classify"]]


def test_the_trace_of_a_client_goes_on(client, exporter):
    """The header is `traceparent`; an unknown path is in no span."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    client.get("/ann", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})

    [span] = exporter.get_finished_spans()
    assert trace == f"{span.context.trace_id:032x}"
    assert "GET" == span.name
    assert 404 == span.attributes["http.response.status_code"]
    assert "http.route" not in span.attributes


def test_spans_are_sent_at_the_end(client, exporter):
    """No span is sent after the service has stopped."""
    client.app.state.application.tally.close()
    client.post("/classify", content=spam(7), headers=RAW)

    assert not exporter.get_finished_spans()


def test_a_collector_that_hangs_does_not_keep_a_service(monkeypatch):
    """It stops after a moment, whatever the sender of the spans still tries."""
    monkeypatch.setattr(metrics, "LAST", 0.01)
    released, ended = Event(), Event()

    class Hanging(SpanProcessor):
        def shutdown(self):
            """Wait for the collector."""
            released.wait(30)
            ended.set()

    Tally(Hanging()).close()
    before = ended.is_set()
    released.set()

    assert ended.wait(30)
    assert not before


def test_spans_go_to_the_collector(collector):
    """By OTLP over HTTP, at the path that its specification names."""
    address, paths = collector
    tally = tally_of(Settings(traces=f"{address}/"))
    with tally.delivering("milter"):
        pass
    tally.close()

    assert ["/v1/traces"] == paths


def test_an_address_is_asked_for():
    """A host name without a scheme is refused."""
    settings = Settings(traces="collector:4318")

    with pytest.raises(InvalidSetting, match="such as http://127"):
        tally_of(settings)


def test_a_service_without_opentelemetry_says_what_to_install(monkeypatch):
    """The start fails with a sentence."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    settings = Settings(traces="http://127.0.0.1:4318")

    with pytest.raises(InvalidSetting, match=r"pip install '\.\[tracing\]'"):
        tally_of(settings)
