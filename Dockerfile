# syntax=docker/dockerfile:1

# Build stage. Dependencies are cached in mounts, so a change recompiles only the crates that it affects.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential pkg-config \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# The build needs the manifests of all workspace members, but only the service is compiled.
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY benches benches
COPY python/Cargo.toml python/Cargo.toml
COPY python/src python/src
COPY src src
COPY ui ui
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked -p guarantor \
 && cp target/release/guarantor /guarantor

# Runtime stage: the binary, an unprivileged user and a data directory.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 guarantor \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin guarantor \
 && install -d -o guarantor -g guarantor /var/lib/guarantor
COPY --from=build /guarantor /usr/local/bin/guarantor
USER 10001
ENV GUARANTOR_LISTEN=0.0.0.0:8080 \
    GUARANTOR_DATA_DIR=/var/lib/guarantor \
    GUARANTOR_LOG_FORMAT=json
VOLUME /var/lib/guarantor
EXPOSE 8080
# Without API keys the server refuses to listen on 0.0.0.0; see docker/compose.yaml.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["curl", "-fsS", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["guarantor"]
CMD ["serve"]
