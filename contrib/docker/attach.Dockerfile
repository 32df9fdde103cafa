# A client of a volume's socket: a file system by nbdfuse and a loop device, for kernels without nbd.
ARG BASE=debian:bookworm-slim
FROM $BASE
RUN apt-get update && apt-get install -y --no-install-recommends libnbd-bin fuse3 e2fsprogs mount util-linux \
    && rm -rf /var/lib/apt/lists/*
COPY attach.sh /usr/local/bin/attach.sh
ENTRYPOINT ["/bin/sh", "/usr/local/bin/attach.sh"]
