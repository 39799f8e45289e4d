# gpuplan in a container, from the tarball that scripts/bundle.sh leaves in build/:
#   scripts/bundle.sh && docker build -t gpuplan . && docker run --rm gpuplan models
FROM debian:bookworm-slim
# For models of the Hugging Face Hub; everything else works without.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcurl4 && rm -rf /var/lib/apt/lists/*
ADD build/gpuplan-*-linux-x86_64.tar.gz /opt/
RUN ln -s /opt/gpuplan-*/bin/gpuplan /usr/local/bin/gpuplan
WORKDIR /work
ENTRYPOINT ["gpuplan"]
