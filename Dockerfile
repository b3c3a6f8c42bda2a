# syntax=docker/dockerfile:1
# Two stages: the first installs exactly what uv.lock names, the second holds Python, that and nothing else.
# BASE has Python 3.11, pip and apt-get; `make image-test` and `make release` make one of Debian's packages.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/netgang UV_PYTHON_DOWNLOADS=never
# For throughput of the probe: iperf3 and two libraries, 230 kB; its libcrypto is also Python's.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends iperf3=3.* \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir -p /opt/iperf3/lib \
 && cp -L /usr/lib/*/libiperf.so.0 /usr/lib/*/libsctp.so.1 /opt/iperf3/lib/
RUN pip install --no-cache-dir --disable-pip-version-check uv==0.13.8
WORKDIR /src
# Dependencies first: they change less often than the code, and stay in the cache.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-dev --no-install-project
COPY README.md LICENSE ./
COPY scoring scoring
COPY extender extender
COPY client client
COPY cli cli
COPY probe probe
RUN uv sync --frozen --no-dev --no-editable

FROM ${BASE}
LABEL org.opencontainers.image.title="netgang" \
      org.opencontainers.image.description="kube-scheduler extender: whole gangs, one zone, best measured network" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /usr/bin/iperf3 /usr/bin/iperf3
COPY --from=build /opt/iperf3/lib/ /usr/lib/
COPY --from=build /opt/netgang /opt/netgang
ENV PATH=/opt/netgang/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Label `commit` of netgang_build_info: docker build --build-arg SOURCE_COMMIT=$(git rev-parse HEAD)
ARG SOURCE_COMMIT=""
ENV SOURCE_COMMIT=$SOURCE_COMMIT
# A number, so that runAsNonRoot can be checked without reading /etc/passwd.
USER 65532:65532
EXPOSE 8888
ENTRYPOINT ["netgang"]
CMD ["serve"]
