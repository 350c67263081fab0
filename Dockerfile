# The bridge alone, for `bridge run` and `bridge check` against an existing Pulsar.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY requirements requirements
RUN python -m venv /opt/bridge \
 && /opt/bridge/bin/pip install --no-cache-dir --require-hashes -r requirements/run.lock -r requirements/build.lock
COPY pyproject.toml README.md ./
COPY bridge bridge
RUN /opt/bridge/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation . \
 && /opt/bridge/bin/pip uninstall --yes setuptools

FROM python:3.12-slim-bookworm
COPY --from=build /opt/bridge /opt/bridge
COPY config/bridge.toml /etc/bridge/bridge.toml
# a number, so that Kubernetes can see that it is not root
USER 10001:10001
ENV PYTHONUNBUFFERED=1
EXPOSE 9092 9308
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/bridge/bin/bridge"]
CMD ["run", "--config", "/etc/bridge/bridge.toml"]
