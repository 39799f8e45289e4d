# gpuplan in a container, from the tarball that scripts/bundle.sh leaves in build/:
#   scripts/bundle.sh && docker build -t gpuplan . && docker run --rm gpuplan models
FROM debian:bookworm-slim
ADD build/gpuplan-*-linux-x86_64.tar.gz /opt/
RUN ln -s /opt/gpuplan-*/bin/gpuplan /usr/local/bin/gpuplan
WORKDIR /work
ENTRYPOINT ["gpuplan"]
