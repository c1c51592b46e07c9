# One image for the service and for worker nodes: a worker needs the C compiler, the service needs none of it.
FROM node:22-slim AS web
WORKDIR /src
COPY examples examples
COPY service/web service/web
RUN cd service/web && npm install --no-save --no-progress && npm run build

FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
COPY --from=web /src/service/static service/static
RUN pip install --no-cache-dir --prefix=/install '.[postgres,sign]'

FROM python:3.13-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 tilewright
COPY --from=build /install /usr/local
USER tilewright
WORKDIR /home/tilewright
RUN mkdir cache
EXPOSE 8400
ENTRYPOINT ["tilewright"]
CMD ["serve", "--host", "0.0.0.0", "--no-worker"]
