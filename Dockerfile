# The program, for fleets and machines without Rust. Not built by CI.
#   docker build -t det_post .                                     CPU
#   docker build -t det_post --build-arg BASE=nvidia/cuda:13.0.0-devel-ubuntu24.04 .      with kernels
#   docker run --rm -v "$PWD:/data" det_post replay /data/drive --config /data/my.param.yaml --out /data/out
ARG BASE=ubuntu:24.04

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The distribution's versions belong together.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates curl \
    && rm -rf /var/lib/apt/lists/*
RUN curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none
ENV PATH=/root/.cargo/bin:$PATH
WORKDIR /src
COPY . .
RUN cargo install --path . --locked --root /opt/det_post

FROM ubuntu:24.04
# The driver comes with the container runtime; networks on a GPU need onnxruntime-gpu and cuDNN beside.
COPY --from=build /opt/det_post/bin/det_post /usr/local/bin/det_post
COPY config /usr/share/det_post/config
COPY models /usr/share/det_post/models
WORKDIR /data
ENTRYPOINT ["det_post"]
