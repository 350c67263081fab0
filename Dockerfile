# The bridge alone, for `bridge run` and `bridge check` against an existing Pulsar.
# The native codec: one wheel for every CPython from 3.11 on, so Debian's own may build it.
FROM rust:1.95-slim-bookworm AS wheel
# Debian removes versions that it has fixed, so a pinned one would end this build; nothing of this stage is in the image.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements/build.lock requirements/build.lock
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.lock
COPY pyproject.toml setup.cfg MANIFEST.in README.md LICENSE NOTICE ./
COPY .cargo .cargo
COPY native native
COPY bridge bridge
RUN /opt/build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheel .

FROM python:3.12-slim-bookworm AS build
# native: the build fails without the native codec. `--build-arg BRIDGE_CODEC=auto` builds without access to crates.
ARG BRIDGE_CODEC=native
WORKDIR /source
COPY requirements/run.lock requirements/run.lock
RUN python -m venv /opt/bridge && /opt/bridge/bin/pip install --no-cache-dir --require-hashes -r requirements/run.lock
COPY --from=wheel /wheel /wheel
RUN /opt/bridge/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
 && BRIDGE_CODEC=$BRIDGE_CODEC /opt/bridge/bin/bridge --version

FROM python:3.12-slim-bookworm
# This image comes without the standard library's bytecode (docker-library/python#615), and a user who is not root cannot
# write it: each start would compile it again.
RUN python -m compileall -q -x '/(idlelib|lib2to3|site-packages|tkinter|turtledemo)/' /usr/local/lib/python3.12
COPY --from=build /opt/bridge /opt/bridge
COPY config/bridge.toml /etc/bridge/bridge.toml
# a number, so that Kubernetes can see that it is not root
USER 10001:10001
ENV PATH=/opt/bridge/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 9092 7092
STOPSIGNAL SIGTERM
# Nothing is written, so the root file system may be read-only: `docker run --read-only --cap-drop ALL`.
HEALTHCHECK --interval=10s --timeout=10s --start-period=10s \
  CMD ["/opt/bridge/bin/bridge", "ready", "--config", "/etc/bridge/bridge.toml"]
ENTRYPOINT ["/opt/bridge/bin/bridge"]
CMD ["run", "--config", "/etc/bridge/bridge.toml"]
