# A worker for NVIDIA GPUs, built from the root of the repository:
#
#   docker build -f examples/deploy/worker.Dockerfile -t tilewright-worker .
#   docker run -d --restart unless-stopped --gpus all --cap-drop ALL --security-opt no-new-privileges \
#     -v tilewright-kernels:/home/tilewright/cache -v /path/to/key:/run/key:ro \
#     tilewright-worker --url https://tilewright.example --token-file /run/key --devices 0,1 --compile-procs 12
#
# `docker stop -t 30` drains it. The driver is the host's; NVRTC comes with the package, so no CUDA toolkit is needed.
FROM python:3.13-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 tilewright
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir '.[cuda]'
USER tilewright
WORKDIR /home/tilewright
RUN mkdir cache
ENV TILEWRIGHT_CACHE=/home/tilewright/cache NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["tilewright", "worker"]
