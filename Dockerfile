# Two stages: the tools of the installation stay in the first one.  The base is not
# pinned to a patch release, so that a build with --pull gets its security updates.
FROM python:3.13-slim AS build

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# Dependencies first: they change less often than the code, and their layer is
# reused until they do.
RUN python -m venv /opt/postbayes
COPY requirements/run.txt requirements/run.txt
RUN /opt/postbayes/bin/pip install --require-hashes -r requirements/run.txt

COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY migrations migrations
RUN /opt/postbayes/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/postbayes/bin/pip install --no-deps dist/*.whl \
 && /opt/postbayes/bin/pip uninstall --yes hatchling editables pip \
 # The tests of numpy and scipy are a sixth of the rest.
 && find /opt/postbayes -name tests -type d -prune -exec rm -rf {} + \
 && /opt/postbayes/bin/postbayes --help >/dev/null

# Bytecode of all that anything imports, and the kernels, compiled once for all
# processors of the architecture; and what the environment holds (CycloneDX).
COPY deploy/compile scripts/sbom share/
RUN /opt/postbayes/bin/python -I share/compile \
 && mkdir --parents /opt/postbayes/share \
 && /opt/postbayes/bin/python -I share/sbom >/opt/postbayes/share/sbom.cdx.json


FROM python:3.13-slim

# `make image` says which version and commit it is.
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Postbayes" \
      org.opencontainers.image.description="A self-hosted spam filter that learns online" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/python:3.13-slim"

# A fixed number, so that the owner of a mounted folder can be set from outside.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/postbayes \
        --shell /usr/sbin/nologin postbayes \
 && install --directory --owner postbayes --group postbayes --mode 0700 /var/lib/postbayes

COPY --from=build /opt/postbayes /opt/postbayes

ENV PATH=/opt/postbayes/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    POSTBAYES_HOST=0.0.0.0 \
    POSTBAYES_PORT=8025 \
    POSTBAYES_DATABASE_URL=sqlite:////var/lib/postbayes/postbayes.db \
    POSTBAYES_KEY_FILE=/var/lib/postbayes/postbayes.key

USER 10001:10001
WORKDIR /var/lib/postbayes
VOLUME /var/lib/postbayes
EXPOSE 8025

# No curl in a slim image; the interpreter is there anyway.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['POSTBAYES_PORT'] + '/healthz', timeout=4)"]

# In this form the service is process 1 and gets SIGTERM itself: it answers
# the requests in progress, completes its fold step, and stops.
CMD ["postbayes", "serve"]
