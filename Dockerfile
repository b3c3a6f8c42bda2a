# syntax=docker/dockerfile:1
# Two stages: the first installs exactly what uv.lock names, the second holds Python, that and nothing else.
FROM python:3.11-slim AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/netgang UV_PYTHON_DOWNLOADS=never
RUN pip install --no-cache-dir --disable-pip-version-check uv==0.13.8
WORKDIR /src
# Dependencies first: they change less often than the code, and stay in the cache.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-dev --no-install-project
COPY README.md LICENSE ./
COPY netgang netgang
COPY scoring scoring
COPY extender extender
COPY simulator simulator
COPY testbed testbed
COPY bench bench
RUN uv sync --frozen --no-dev --no-editable

FROM python:3.11-slim
LABEL org.opencontainers.image.title="netgang" \
      org.opencontainers.image.description="kube-scheduler extender: whole gangs, one zone, best measured network" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/netgang /opt/netgang
ENV PATH=/opt/netgang/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Replies of 5,000 nodes are hundreds of kB: given back to the system after each one, they cost a page fault per page.
ENV MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=67108864 MALLOC_TOP_PAD_=16777216
# A number, so that runAsNonRoot can be checked without reading /etc/passwd.
USER 65532:65532
EXPOSE 8888
ENTRYPOINT ["netgang"]
CMD ["serve"]
